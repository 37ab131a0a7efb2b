"""Negatives that are drawn while the ranker still learns from the batch before: the same to the last one."""

from typing import Any

import numpy as np

from ranking.checkpoint import from_bytes, to_bytes
from ranking.sources import Sources
from ranking.training import RankerTraining
from sampling.policies.fixed import Fixed
from sampling.policies.mixture import Mixture
from sampling.policies.schedule import Schedule
from sampling.retrieval.in_batch import InBatch
from sampling.retrieval.memory import Memory
from sampling.sampler import Sampler
from sampling.selection.dynamic import Dynamic
from sampling.selection.uniform import Uniform
from tests.sampling.test_contracts import random_and_bm25, ready, training_of


def source(sources: Sources, **parts: Any) -> Sampler:
    given = {"policy": Mixture(per="query"), "functions": random_and_bm25(sources), "selector": Uniform()} | parts
    return Sampler(**given, count=3, rng=np.random.default_rng(1))


def steps(sampler: Sampler, training: RankerTraining, count: int, ahead: bool) -> list[Any]:
    """What is shown, and the state behind each step."""
    seen: list[Any] = []
    for _ in range(count):
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        following = training.following_batch()
        if ahead and following is not None:
            sampler.prepare(following, training)
        sampler.observe(negatives, training.update(batch, negatives, sampler.source_scores))
        state = sampler.state_dict()
        seen.append((negatives.tolist(), state["rng"], state["stats"], state["given"]))
        if training.epoch_over:
            training.validate()
    return seen


def test_it_changes_neither_negatives_nor_states(tiny_sources):
    plain, ahead = source(tiny_sources), source(tiny_sources)
    assert ahead.foresees
    one, other = training_of(tiny_sources), training_of(tiny_sources)
    assert steps(plain, one, 7, ahead=False) == steps(ahead, other, 7, ahead=True)
    assert plain.report() == ahead.report()
    assert ahead._ahead is not None or other.following_batch() is None


def test_a_state_goes_on_before_what_was_drawn_ahead(tiny_sources):
    whole = steps(source(tiny_sources), training_of(tiny_sources), 6, ahead=False)
    sampler, training = source(tiny_sources), training_of(tiny_sources)
    steps(sampler, training, 4, ahead=True)  # the first batch of the second epoch; the next one's are under way
    assert sampler._ahead is not None
    kept = to_bytes({"sampler": sampler.state_dict(), "training": training.state_dict()})
    for again in (source(tiny_sources), sampler):
        state, fresh = from_bytes(kept), training_of(tiny_sources)
        again.load_state_dict(state["sampler"])
        fresh.load_state_dict(state["training"])
        assert steps(again, fresh, 2, ahead=True) == whole[4:]


def test_another_batch_than_was_expected_draws_what_it_would_have(tiny_sources):
    plain, ahead = source(tiny_sources), source(tiny_sources)
    training = training_of(tiny_sources)
    first, following = training.next_batch(), training.following_batch()
    for sampler in (plain, ahead):
        sampler.negatives(first, training)
    ahead.prepare(following, training)
    assert ahead.negatives(first, training).tolist() == plain.negatives(first, training).tolist()


def test_fit_draws_ahead_and_gives_the_same_weights(tiny_sources, monkeypatch):
    asked = []
    one, other = training_of(tiny_sources), training_of(tiny_sources)
    prepare = Sampler.prepare
    monkeypatch.setattr(Sampler, "prepare", lambda *given: (asked.append(1), prepare(*given)))
    one.fit(source(tiny_sources))
    assert asked
    monkeypatch.setattr(Sampler, "prepare", lambda *given: None)
    other.fit(source(tiny_sources))
    assert one.losses == other.losses


def test_what_follows_the_ranker_is_not_drawn_ahead(tiny_sources):
    class Mine(Uniform):
        """A selector of one's own, which may look at the ranker."""

    in_batch, memory = ready(InBatch(), tiny_sources), ready(Memory(), tiny_sources)
    assert source(tiny_sources, policy=Fixed(), functions={"in_batch": in_batch}).foresees
    for parts in (
        {"selector": Dynamic()},
        {"selector": Mine()},
        {"policy": Fixed(), "functions": {"memory": memory}},
        {"policy": Schedule()},
    ):
        sampler, training = source(tiny_sources, **parts), training_of(tiny_sources)
        assert not sampler.foresees
        sampler.negatives(training.next_batch(), training)
        sampler.prepare(training.next_batch(), training)
        assert sampler._ahead is None
