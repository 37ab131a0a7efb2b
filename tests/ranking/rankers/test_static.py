"""Static vectors: hand-worked scores, gradients, and a ranker that learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ranking.errors import BadInput
from ranking.rankers.static import Static
from ranking.texts import Texts

VECTORS = np.array([[0, 0], [0, 0], [1, 0], [0, 1], [3, 4]], np.float32)


def made(**options: object) -> Static:
    return Static(VECTORS, torch.Generator().manual_seed(0), **{"further": 0, **options})


def test_a_score_is_the_scaled_cosine_of_weighted_means() -> None:
    idf = np.array([1, 1, 1, 3, 1], np.float32)
    ranker = made(idf=idf, scale=10.0)
    queries, documents = Texts.of([[2, 3]]), Texts.of([[3], [4]])
    mean = np.array([1, 3]) / 4  # of weights 1 and 3
    cosines = [mean @ [0, 1] / np.linalg.norm(mean), mean @ [0.6, 0.8] / np.linalg.norm(mean)]
    scores = ranker(queries, documents).detach().numpy()
    np.testing.assert_allclose(scores, [[10 * each for each in cosines]], rtol=1e-6)


def test_padded_texts_score_the_same() -> None:
    ranker = made(further=5)
    whole = ranker(Texts.of([[2, 3], [4, 4]]), Texts.of([[3], [4, 2], [2], [3, 3]]))
    queries = torch.tensor([[2, 3], [4, 4]])
    documents = torch.tensor([[[3, 0], [4, 2]], [[2, 0], [3, 3]]])
    torch.testing.assert_close(ranker.score_padded(queries, documents), whole)


def test_further_dimensions_are_drawn_from_the_generator_and_leave_padding_alone() -> None:
    one, again = made(further=3), made(further=3)
    assert one.dimension == 5
    assert torch.equal(one.vectors, again.vectors)
    assert not one.vectors[0].any()
    assert one.vectors[1, 2:].any()
    assert made(further=None, preset="tiny").dimension == 16


def test_it_learns_what_goes_together() -> None:
    ranker = made(further=4)
    queries, documents = Texts.of([[2], [3]]), Texts.of([[3], [2], [2], [3]])  # the first of each is the right one
    optimizer = torch.optim.Adam(ranker.parameters(), lr=0.05)
    first = None
    for _ in range(60):
        scores = ranker(queries, documents)
        loss = torch.nn.functional.cross_entropy(scores, torch.zeros(2, dtype=torch.long))
        first = loss.item() if first is None else first
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert first is not None
    assert loss.item() < 0.5 * first


@pytest.mark.parametrize("options", [{"scale": 0.0}, {"further": -1}, {"preset": "huge"}])
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        made(**options)
