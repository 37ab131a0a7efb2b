import numpy as np
import pytest

from ranking.errors import BadInput
from ranking.sources import Sources
from sampling.policies.by_query import ByQuery
from sampling.sampler import Sampler
from sampling.selection.uniform import Uniform
from tests.sampling.test_contracts import random_and_bm25, training_of


def sampler_of(sources: Sources, count: int = 2, **options: object) -> Sampler:
    return Sampler(ByQuery(**options), random_and_bm25(sources), Uniform(), count, np.random.default_rng(0))


def test_each_half_gets_its_action(tiny_sources):
    """Windows of one function that differ between the queries of one batch."""
    training, sampler = training_of(tiny_sources), sampler_of(tiny_sources, 2, actions=["bm25:1-2", "bm25:3-4"])
    bm25, batch = sampler.functions["bm25"], training.examples
    negatives = sampler.negatives(batch, training)
    gap = bm25.lists.features["score_gap"]
    below = sampler.policy.split.below(batch, training)
    assert gap[batch.queries[below]].min() > gap[batch.queries[~below]].max()  # all ranks are 1
    top = bm25.top(batch, 4, np.random.default_rng(0)).documents
    for row, low in enumerate(below.tolist()):
        assert set(negatives[row]) == set(top[row, :2] if low else top[row, 2:])


def test_each_supplies_its_function_to_one_half(tiny_sources):
    training = training_of(tiny_sources)
    sampler = sampler_of(tiny_sources, 5, each=1, actions=["bm25*2", "random"], feature="score_gap", quantile=0.4)
    sampler.negatives(training.examples, training)
    below = sampler.policy.split.below(training.examples, training)
    assert 0 < below.sum() < len(below)
    assert (sampler.assigned[below] == [0, 0, 0, 1, 1]).all()
    assert (sampler.assigned[~below] == [0, 0, 0, -1, -1]).all()


def test_the_shares_of_an_epoch_are_its_decision(tiny_sources):
    training, sampler = training_of(tiny_sources), sampler_of(tiny_sources, actions=["bm25@simans", "random"])
    training.fit(sampler)
    taken = sampler.policy.taken
    assert len(taken) == training.epoch
    assert [decision["step"] // training.steps_per_epoch for decision in taken] == list(range(training.epoch))
    below = sampler.policy.split.below(training.examples, training)
    share = float(below.mean())
    for decision in taken:
        assert decision["values"] == pytest.approx({"bm25@simans": share, "random": 1 - share})


def test_bad_actions_are_bad_input(tiny_sources):
    for actions in (["bm25"], ["bm25", "random", "bm25@simans"]):
        with pytest.raises(BadInput, match="two kinds of queries"):
            ByQuery(actions=actions)
    with pytest.raises(BadInput, match="no function 'dense'"):
        sampler_of(tiny_sources, actions=["dense", "bm25"])
    with pytest.raises(BadInput, match="quantile"):
        ByQuery(quantile=1.0)
    with pytest.raises(BadInput, match="positive_rank, score_gap"):
        ByQuery(feature="length")
