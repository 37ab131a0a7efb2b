"""What the agent is rewarded for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.errors import BadInput
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.origins import Bm25Candidates, FullCollection
from ranking.sources import Sources
from rl.rewards import Ceil, Diff, Potential, Raw, ValidationSample, ValidationSampleOptions
from tests.rl.trainings import environment_of, starts

values = st.lists(st.floats(0, 1), min_size=2, max_size=12)


def test_the_four_rewards_by_hand() -> None:
    assert Raw()(0.2, 0.5, 0.8, 0.9) == 0.5
    assert Ceil()(0.2, 0.5, 0.8, 0.9) == pytest.approx(-0.3)
    assert Diff()(0.2, 0.5, 0.8, 0.9) == pytest.approx(0.3)
    assert Potential()(0.2, 0.5, 0.8, 0.9) == pytest.approx(0.25)
    assert Diff(scale=100)(0.2, 0.5, 0.8, 0.9) == pytest.approx(30)


@given(values)
def test_differences_telescope(maps: list[float]) -> None:  # equation 7
    rewards = [Diff()(before, after, 1.0, 1.0) for before, after in pairwise(maps)]
    assert sum(rewards) == pytest.approx(maps[-1] - maps[0], abs=1e-9)


@given(values, st.floats(0.1, 1))
def test_potentials_telescope_for_any_gamma(maps: list[float], gamma: float) -> None:
    pairs = pairwise(maps)
    returned = sum(gamma**t * Potential()(before, after, 1.0, gamma) for t, (before, after) in enumerate(pairs))
    assert returned == pytest.approx(gamma ** (len(maps) - 1) * maps[-1] - maps[0], abs=1e-9)


@pytest.mark.parametrize("kind", [Raw, Ceil, Diff, Potential])
def test_scales_are_above_zero(kind: type) -> None:
    with pytest.raises(BadInput, match="scale"):
        kind(scale=0)


@pytest.mark.parametrize("options", [{"size": 0}, {"every": 0}, {"depth": 0}])
def test_panels_are_of_something(options: dict) -> None:
    with pytest.raises(BadInput, match="validation_sample"):
        ValidationSampleOptions(**options)


def test_the_panel_is_the_validation_of_some_queries(tiny_sources: Sources) -> None:
    training, _ = starts(tiny_sources)(np.random.SeedSequence(0))
    whole = next(iter(training.validation(training.ranker).values()))
    assert ValidationSample(training, 50)(training) == pytest.approx(whole.mean(), abs=0)
    assert ValidationSample(training, 1)(training) == whole[0]


def test_a_diverged_ranker_is_worth_nothing(tiny_sources: Sources) -> None:
    training, _ = starts(tiny_sources)(np.random.SeedSequence(0))
    sample = ValidationSample(training, 2)
    next(training.ranker.parameters()).data.fill_(np.nan)
    assert sample(training) == 0
    training.diverged = True
    assert sample(training) == 0


def test_the_ceiling_is_the_ideal_order_of_the_candidates(tiny_sources: Sources) -> None:
    queries = np.array([4, 6])  # q5: d30 and d31, q7: d5 and d31
    candidates = Bm25Candidates(12).candidates(tiny_sources, queries)
    found = np.isin(candidates.documents, np.flatnonzero(tiny_sources.encoded.document_key >= 0))
    assert found.any()
    ideal = Evaluation(tiny_sources.encoded, candidates, ["AP@12"]).of_ideal()["AP@12"]
    for row, query in enumerate(queries):
        relevant = tiny_sources.encoded.judgements.relevant().of(query)[0]
        there = np.isin(relevant, candidates.documents[row]).sum()
        assert ideal[row] == pytest.approx(there / len(relevant))
    one = Bm25Candidates(1).candidates(tiny_sources, queries)
    assert Evaluation(tiny_sources.encoded, one, ["AP@1"]).of_ideal()["AP@1"][0] == pytest.approx(0.5)
    whole = FullCollection(12).candidates(tiny_sources, queries)
    assert Evaluation(tiny_sources.encoded, whole, ["AP@12"]).of_ideal()["AP@12"].tolist() == [1, 1]


def test_candidates_can_be_cut(tiny_sources: Sources) -> None:
    candidates = Bm25Candidates(12).candidates(tiny_sources, np.array([4, 6]))
    assert candidates.head(None) is candidates
    assert candidates.head(3).documents.shape == (2, 3)
    np.testing.assert_array_equal(candidates.head(3).documents, candidates.documents[:, :3])


@pytest.mark.parametrize("every", [1, 2, 4])
def test_an_episodes_differences_add_up_to_the_rankers_gain(tiny_sources: Sources, every: int) -> None:
    environment = environment_of(tiny_sources, every=every)
    environment.reset()
    first, total, done = environment.value, 0.0, False
    while not done:
        _, reward, done, _, info = environment.step(1)
        total += reward
    assert total == pytest.approx(info["summary"]["validation_sample"] - first, abs=1e-12)
