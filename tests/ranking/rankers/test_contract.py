"""What every ranker promises, whichever there are: each file in `conf/ranker` is found by itself."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import group_options, option
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.part import options_of
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import score_candidates

Make = Callable[[int], Ranker]
QUERIES = np.arange(4)
LISTS = np.array([[0, 1, 2, -1], [4, 5, 6, 7], [8, 9, 10, 11], [3, 0, 9, 5]], np.int32)


@pytest.fixture(params=sorted(group_options()["ranker"]))
def made(request, made_up, read_as, tiny_encoded, tiny_vectors) -> tuple[Make, EncodedCollection]:
    """The ranker of a file, drawn by a seed, and the texts as it reads them."""
    content = option("ranker", request.param)
    given = ["ranker.preset=tiny"] if "preset" in content else []
    if content.get("checkpoint") == "???":
        folder = made_up("bert")
        given += [f"ranker.checkpoint={folder}", "ranker.max_document=12"]
    config = compose([f"ranker={request.param}", *given])["ranker"]
    plain: Ranker = build(config, "ranker", trust="composed")
    assert next(plain.parameters(), None) is None, "it reads weights before a run starts"
    tokenization = plain.tokenization(**options_of(plain))
    encoded = tiny_encoded if tokenization is None else read_as(tokenization)

    def make(seed: int) -> Ranker:
        vectors = tiny_vectors.filled(np.random.default_rng(seed))
        inputs = RankerInputs(torch.Generator().manual_seed(seed), vectors, encoded.idf)
        ranker: Ranker = build(config, "ranker", trust="composed").start(inputs)
        return ranker.eval()

    return make, encoded


def scores(ranker: Ranker, encoded: EncodedCollection, lists: np.ndarray = LISTS) -> np.ndarray:
    return score_candidates(ranker, encoded, QUERIES, lists)


@pytest.mark.by_day(2)
def test_scores_are_numbers_and_the_same_again_under_the_same_seed(made):
    make, encoded = made
    before = torch.random.get_rng_state()
    found = scores(make(1), encoded)
    assert torch.equal(torch.random.get_rng_state(), before), "it draws from torch's global generator"
    assert found.dtype == np.float32
    assert found.shape == LISTS.shape
    assert np.isfinite(found[LISTS >= 0]).all()
    assert np.isneginf(found[LISTS < 0]).all()
    assert found[1].std() > 0
    np.testing.assert_array_equal(scores(make(1), encoded), found)


@pytest.mark.by_day(2)
def test_a_state_is_all_that_there_is_of_it(made):
    make, encoded = made
    one, other = make(1), make(2)
    other.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(scores(other, encoded), scores(one, encoded))


@pytest.mark.by_day(4)
def test_equal_texts_have_equal_scores(made):
    make, encoded = made  # the last two documents are alike
    found = scores(make(1), encoded)
    assert found[2, 2] == found[2, 3]


@pytest.mark.by_day(4)
def test_a_loss_reaches_its_weights(made):
    make, encoded = made
    ranker, places = make(1), LISTS[1:]
    found = ranker(encoded.queries.take(QUERIES[1:]), encoded.documents.take(places.ravel()))
    assert found.shape == places.shape
    found.square().sum().backward()
    moved = [each for each in ranker.parameters() if each.grad is not None and bool(each.grad.abs().sum() > 0)]
    assert moved
    assert all(each.requires_grad for each in ranker.top_parameters(1))


@pytest.mark.gpu
def test_a_gpu_scores_as_a_cpu(made, cuda):
    make, encoded = made
    np.testing.assert_allclose(scores(make(1).to(cuda), encoded), scores(make(1), encoded), rtol=1e-3, atol=1e-4)
