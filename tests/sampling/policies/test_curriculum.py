import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ranking.objectives.pairwise import PairwiseHinge, RankNet
from ranking.objectives.pointwise import PointwiseCrossEntropy
from ranking.objectives.softmax import SoftmaxLikelihood
from ranking.training import Batch, UpdateResult
from sampling.policies.curriculum import Curriculum

BATCH = Batch(np.zeros(2, np.int64), np.zeros(2, np.int32))
NOTHING = np.full((2, 1), -1, np.int32)
FREE: Any = SimpleNamespace(loss_now=lambda batch, negatives: 0.0)
"""A training that costs nothing after an update, so that a step's loss is its gain."""


def begun(functions: int = 2, **options: Any) -> Curriculum:
    policy = Curriculum(**options)
    policy.set_functions([str(name) for name in range(functions)])
    policy.start_run(dict.fromkeys(policy.functions), FREE)
    return policy


def gain(policy: Curriculum, value: float, rng: np.random.Generator) -> None:
    policy.observe(BATCH, NOTHING, UpdateResult(value, 0.0, np.zeros((2, 2), np.float32)), FREE, rng)


def test_two_updates_of_two_functions_by_hand():
    policy = begun(eta=0.1, epsilon=0.2)
    assert policy.probabilities().tolist() == [0.5, 0.5]
    policy.learn(1.0)  # weights 0.2 and 0, of which each gives half to the other
    assert policy.probabilities() == pytest.approx([0.5, 0.5])
    policy.chosen = 1
    policy.learn(0.5)  # weights 0 and 0.1, each gives a third
    one, other = 2 / 3 + math.exp(0.1) / 3, 2 / 3 * math.exp(0.1) + 1 / 3
    assert policy.weights[1] - policy.weights[0] == pytest.approx(math.log(other / one))
    assert policy.probabilities()[1] == pytest.approx(0.506661, abs=1e-6)
    assert policy.probabilities().sum() == pytest.approx(1)


def test_one_update_of_three_functions_with_beta_by_hand():
    policy = begun(3, eta=0.2, beta=0.5, epsilon=0.3)
    policy.chosen = 2
    policy.learn(-1.0)  # weights 0.3, 0.3 and -0.3; half of each goes to the two others
    assert policy.probabilities() == pytest.approx([0.343660, 0.343660, 0.312681], abs=2e-6)


def test_gains_are_rescaled_by_the_percentiles_of_those_before():
    policy = begun()
    assert policy.rescaled(3.0) == 0
    policy.gains = np.full(4, 2.0)
    assert [policy.rescaled(value) for value in (1.0, 2.0, 3.0)] == [-1, 0, 1]
    policy.gains = np.arange(11.0)  # 20th and 80th percentile 2 and 8
    values = {0.0: -1, 2.0: -1, 3.5: -0.5, 5.0: 0, 6.5: 0.5, 8.0: 1, 9.0: 1}
    assert [policy.rescaled(value) for value in values] == pytest.approx(list(values.values()))


def test_the_first_gain_counts_for_nothing_and_is_remembered():
    policy, rng = begun(), np.random.default_rng(0)
    gain(policy, 0.5, rng)
    assert (policy.gains.tolist(), policy.updates) == ([0.5], 1)
    assert policy.probabilities() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("objective", [SoftmaxLikelihood(), RankNet(), PairwiseHinge(), PointwiseCrossEntropy()])
def test_the_loss_after_the_update_is_the_objectives(objective, tiny_training):
    training = tiny_training()
    training.objective = objective
    batch = training.next_batch()
    negatives = np.array([[10, 11, -1], [-1, -1, -1]], np.int32)
    before = training.loss_now(batch, negatives)
    assert before == pytest.approx(training.update(batch, negatives).loss, rel=1e-5)
    assert training.loss_now(batch, negatives) < before


def test_the_gain_of_a_batch_pays_the_function_that_was_chosen(tiny_training):
    training, rng = tiny_training(), np.random.default_rng(0)
    policy = begun()
    policy.gains = np.array([-2.0, -1.0])  # any gain above them is worth 1
    policy.updates = 2
    policy.chosen = 1
    batch, negatives = training.next_batch(), np.array([[10, 11], [10, 11]], np.int32)
    step = training.update(batch, negatives)
    policy.observe(batch, negatives, step, training, rng)
    assert policy.gains[-1] == step.loss - training.loss_now(batch, negatives) > 0
    by_hand = begun()
    by_hand.updates, by_hand.chosen = 2, 1
    by_hand.learn(1.0)
    assert policy.weights.tolist() == by_hand.weights.tolist()
    assert policy.probabilities()[1] > 0.5


def test_a_training_that_diverged_teaches_nothing():
    policy, rng = begun(), np.random.default_rng(0)
    for value in (math.nan, math.inf):
        gain(policy, value, rng)
    assert (policy.updates, len(policy.gains)) == (0, 0)


def shares(policy: Curriculum, rng: np.random.Generator, best: int, batches: int) -> np.ndarray:
    """The best function's probability at each batch of a stream in which it gains most, with noise."""
    seen = []
    for _ in range(batches):
        seen.append(policy.probabilities()[best])
        chosen = policy.choose(BATCH, FREE, rng)
        assert (chosen == policy.chosen).all()
        gain(policy, rng.normal(1.0 if chosen[0] == best else 0.0), rng)
    return np.array(seen)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", range(3))
def test_it_comes_to_prefer_the_function_of_the_higher_gain_and_follows_when_another_has_it(seed):
    policy, rng = begun(3), np.random.default_rng(seed)
    first = shares(policy, rng, 1, 1200)
    assert first[:10].mean() < 0.45
    assert first[-300:].mean() > 0.8
    then = shares(policy, rng, 2, 1500)
    assert then[:10].mean() < 0.15
    assert then[-300:].mean() > 0.7


def test_functions_of_equal_gain_stay_about_equal():
    rng, ends = np.random.default_rng(0), []
    for _ in range(20):
        policy = begun()
        for _ in range(100):
            policy.choose(BATCH, FREE, rng)
            gain(policy, rng.normal(), rng)
        ends.append(policy.probabilities()[0])
    assert np.mean(ends) == pytest.approx(0.5, abs=0.1)


def test_draws_follow_the_probabilities():
    policy, rng = begun(3), np.random.default_rng(0)
    policy.weights = np.log([0.5, 0.3, 0.2])
    counts = np.bincount([policy.choose(BATCH, FREE, rng)[0] for _ in range(8000)], minlength=3)
    expected = 0.95 * np.array([0.5, 0.3, 0.2]) + 0.05 / 3
    assert policy.probabilities() == pytest.approx(expected)
    assert chisquare(counts, expected * 8000).pvalue > 0.01


def test_the_sample_of_gains_is_uniform_over_all_of_them():
    rng, kept = np.random.default_rng(0), []
    for _ in range(60):
        policy = begun(history=20)
        for value in range(60):
            gain(policy, value, rng)
        assert len(set(policy.gains)) == 20
        kept.append(policy.gains)
    counts = np.bincount(np.concatenate(kept).astype(int) // 10, minlength=6)
    assert chisquare(counts).pvalue > 0.01


@given(st.lists(st.floats(-1e300, 1e300), max_size=40), st.floats(1e-6, 1e6), st.integers(2, 5))
def test_probabilities_stay_probabilities(gains, eta, functions):
    policy, rng = begun(functions, eta=eta), np.random.default_rng(0)
    for value in gains:
        assert 0 <= policy.choose(BATCH, FREE, rng)[0] < functions
        gain(policy, value, rng)
        assert policy.probabilities().sum() == pytest.approx(1)
        assert (policy.probabilities() >= policy.epsilon / functions - 1e-12).all()


def test_begin_starts_afresh():
    policy = begun()
    shares(policy, np.random.default_rng(0), 1, 50)
    policy.start_run(dict.fromkeys(policy.functions), FREE)
    assert (policy.weights.tolist(), len(policy.gains), policy.updates) == ([0, 0], 0, 0)
