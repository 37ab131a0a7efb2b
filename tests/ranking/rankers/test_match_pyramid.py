import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.match_pyramid import MatchPyramid, pool
from pyrite.ranking.texts import Texts
from tests.examples import few

VECTORS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
VECTORS[0] = 0


def ranker(**options: object) -> MatchPyramid:
    return MatchPyramid(**{"preset": "tiny"} | options).start(RankerInputs(torch.Generator().manual_seed(1), VECTORS))


@few(8)
@given(
    st.lists(st.integers(0, 13), min_size=1, max_size=4), st.integers(1, 9), st.sampled_from([2, 3]), st.integers(0, 99)
)
def test_pool_is_the_naive_loop(lengths, cells, dim, seed):
    size = [len(lengths), 2, 3, 3]
    size[dim] = max(1, *lengths) + seed % 3  # some padding that no text needs
    image = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    pooled = pool(image, torch.tensor(lengths), cells, dim)
    size[dim] = cells
    assert list(pooled.shape) == size
    for row, length in enumerate(lengths):
        length = max(length, 1)
        for cell in range(cells):
            start, end = cell * length // cells, math.ceil((cell + 1) * length / cells)
            expected = image[row].narrow(dim - 1, start, end - start).amax(dim - 1)
            assert torch.equal(pooled[row].select(dim - 1, cell), expected)


@torch.no_grad()
def score(model: MatchPyramid, query: list[int], documents: list[list[int]]) -> Tensor:
    return model(Texts.of([query]), Texts.of(documents))[0]


@few(8)
@given(
    st.lists(st.lists(st.integers(1, 39), min_size=1, max_size=40), min_size=2, max_size=5),
    st.lists(st.integers(1, 39), min_size=1, max_size=12),
    st.lists(st.integers(1, 39), min_size=1, max_size=12),
)
def test_padding_never_leaks(documents, query, other):
    """A pair's score is the same whatever else is in the batch, longer or shorter."""
    model = ranker()
    alone = torch.stack([score(model, query, [document])[0] for document in documents])
    torch.testing.assert_close(score(model, query, documents), alone, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        both = model(Texts.of([query, other]), Texts.of(documents + documents[::-1]))
    torch.testing.assert_close(both[0], alone, rtol=1e-5, atol=1e-6)


def test_only_the_first_words_are_read():
    model, words = ranker(max_query=3, max_document=5), [1, 2, 3, 4, 5]
    whole = score(model, [7, 8, 9, 10], [[*words, 6]])
    torch.testing.assert_close(whole, score(model, [7, 8, 9], [words]))


def test_cosines_by_hand():
    queries, documents = torch.tensor([[[3, 5, 0]]]), torch.tensor([[[5, 3], [7, 0]]])
    cosines = ranker().cosines(queries, documents)
    assert cosines.shape == (1, 2, 3, 2)
    unit = VECTORS / np.maximum(np.linalg.norm(VECTORS, axis=1, keepdims=True), 1e-12)
    expected = [[[unit[q] @ unit[d] for d in document] for q in (3, 5, 0)] for document in ((5, 3), (7, 0))]
    np.testing.assert_allclose(cosines[0].detach().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("preset", ["paper", "small", "tiny"])
def test_presets_train(preset):
    model = ranker(preset=preset)
    scores = model(Texts.of([[1, 2], [3]]), Texts.of([[4, 5, 6], [7], [8, 9], [1, 2, 3, 4, 5, 6, 7, 8]]))
    assert scores.shape == (2, 2)
    scores.sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
    assert not model.vectors.grad[0].any()  # padding learns nothing


def test_the_papers_layers():
    shapes = [tuple(next(layer.parameters()).shape) for layer in ranker(preset="paper").layers()]
    assert shapes == [(8, 1, 5, 5), (16, 8, 3, 3), (128, 16 * 3 * 10), (1, 128)]


@pytest.mark.parametrize("grid", [(1, 4), (2, 5), (0, 2)])
def test_an_odd_grid_is_bad_input(grid):
    with pytest.raises(BadInput, match="grid"):
        ranker(grid=grid)
