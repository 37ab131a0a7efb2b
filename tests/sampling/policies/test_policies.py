"""Policies whose functions are fixed, mixed, scheduled, or chosen as a curriculum."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from pyrite.ranking.errors import BadInput
from pyrite.ranking.objectives.pairwise import Hinge, RankNet
from pyrite.ranking.objectives.pointwise import PointwiseCrossEntropy
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.training import Batch, UpdateResult
from pyrite.sampling.policies.curriculum import Curriculum
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.policies.random import RandomPolicy
from pyrite.sampling.policies.schedule import Schedule


def test_fixed_takes_the_one_function_or_a_number_of_each():
    assert not chosen(Fixed(), ["bm25"], 3).any()
    policy = Fixed()
    policy.set_functions(["random", "bm25"])
    policy.set_counts([2, 1])
    assert policy.assign(BATCH, 3, None, np.random.default_rng(0)).tolist() == [[0, 0, 1]] * len(BATCH)
    for counts in ([1], [-1, 2], [0, 0]):
        with pytest.raises(BadInput, match="numbers of negatives"):
            policy.set_counts(counts)


@pytest.mark.parametrize("policy", [RandomPolicy(), Mixture(), Schedule(), Curriculum()])
def test_choosing_needs_several_functions(policy):
    with pytest.raises(BadInput, match="chooses between functions"):
        policy.set_functions(["bm25"])


@pytest.mark.parametrize("policy", [RandomPolicy(), Mixture()])
def test_every_function_is_as_probable_and_serves_the_whole_batch(policy):
    choices = chosen(policy, ["a", "b", "c"], 1, 6000)[0]
    assert choices.dtype == np.int64
    assert (choices == choices[:, :1]).all()
    assert chisquare(np.bincount(choices[:, 0], minlength=3)).pvalue > 0.01


@pytest.mark.parametrize(("per", "draws"), [("batch", 6000), ("query", 1000)])
def test_a_mixture_follows_its_weights(per, draws):
    choices = chosen(Mixture(weights=[2, 0, 3, 5], per=per), ["a", "b", "c", "d"], 1, draws)[0]
    assert choices.shape == (draws, 6)
    if per == "batch":
        assert (choices == choices[:, :1]).all()
        choices = choices[:, :1]
    else:
        assert (choices != choices[:, :1]).any()
    frequencies = np.bincount(choices.ravel(), minlength=4)
    assert frequencies[1] == 0
    assert chisquare(frequencies[[0, 2, 3]], np.array([0.2, 0.3, 0.5]) * choices.size).pvalue > 0.01


@pytest.mark.parametrize("weights", [[], [0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1]])
def test_wrong_weights_are_bad_input(weights):
    with pytest.raises(BadInput, match=r"policy\.weights|weights is \[nan, 1\]; choose a number"):
        Mixture(weights=weights)


def test_as_many_weights_as_functions_and_a_known_unit():
    with pytest.raises(BadInput, match="2 weights"):
        Mixture(weights=[1, 2]).set_functions(["a", "b", "c"])
    with pytest.raises(BadInput, match="'epoch'"):
        Mixture(per="epoch")


BATCH = Batch(np.arange(6), np.arange(6, dtype=np.int32))


def chosen(policy: SamplingPolicy, names: list[str], steps: int, times: int = 1) -> np.ndarray:
    """The choices at each step [steps, times, queries], of epochs of 10 batches."""
    policy.set_functions(names)
    rng = np.random.default_rng(0)
    trainings: list[Any] = [SimpleNamespace(step=step, steps_per_epoch=10) for step in range(steps)]
    return np.array([[policy.choose(BATCH, training, rng) for _ in range(times)] for training in trainings])


def test_switch_takes_the_first_function_for_two_epochs_and_then_the_last():
    choices = chosen(Schedule(shape="switch"), ["random", "bm25"], 25, 40)
    assert choices.dtype == np.int64
    assert not choices[:20].any()
    assert (choices[20:] == 1).all()


def test_linear_by_hand_and_of_one_length():
    policy = Schedule(start=0.2, end=1.0, epochs=0.4)
    assert [policy.share(step, 10) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    down = Schedule(start=1.0, end=0.5, steps=2)
    assert [down.share(step, 10) for step in range(4)] == [1.0, 0.75, 0.5, 0.5]
    assert [Schedule(start=0.1, end=0.9, steps=2, shape="switch").share(step, 10) for step in range(3)] == [
        0.1,
        0.1,
        0.9,
    ]
    assert [Schedule().share(step, 10) for step in (0, 10, 20)] == [0.0, 0.5, 1.0]  # two epochs by default
    with pytest.raises(BadInput, match=r"policy: epochs is 2 and steps 10, .*; leave one of them out"):
        Schedule(epochs=2.0, steps=10)


@pytest.mark.parametrize("policy", [Schedule(epochs=0), Schedule(steps=0), Schedule(epochs=0, shape="switch")])
def test_a_schedule_of_no_length_is_over_at_once(policy):
    assert policy.share(0, 10) == 1.0
    assert (chosen(policy, ["a", "b", "c"], 2, 20) == 2).all()


def test_what_the_last_function_leaves_the_others_share_equally():
    choices = chosen(Schedule(epochs=1, per="query"), ["a", "b", "c"], 10, 400)
    assert not (choices[0] == 2).any()
    for step in range(1, 10):
        share = step / 10
        counts = np.bincount(choices[step].ravel(), minlength=3)
        assert chisquare(counts, np.array([(1 - share) / 2, (1 - share) / 2, share]) * counts.sum()).pvalue > 0.001


def test_a_batch_is_drawn_as_one_or_query_by_query():
    whole = chosen(Schedule(steps=4), ["a", "b"], 4, 50)
    assert (whole == whole[..., :1]).all()
    mixed = chosen(Schedule(steps=4, per="query"), ["a", "b"], 4, 50)
    assert (mixed[2] != mixed[2, :, :1]).any()


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 5), st.sampled_from(["linear", "switch"]), st.integers(2, 5))
def test_shares_move_from_start_to_end_and_are_kept(start, end, epochs, shape, functions):
    policy = Schedule(start=start, end=end, epochs=epochs, shape=shape)
    shares = [policy.share(step, 7) for step in range(40)]
    low, high = min(start, end), max(start, end)
    assert all(low - 1e-12 <= share <= high + 1e-12 for share in shares)
    assert (np.diff(shares) * np.sign(end - start) >= -1e-12).all()
    assert shares[-1] == end
    assert set(chosen(policy, [str(name) for name in range(functions)], 3).ravel()) <= set(range(functions))


def test_the_negatives_of_a_query_move_with_the_schedule():
    policy = Schedule(epochs=1, per="negative")
    policy.set_functions(["a", "b", "c"])
    rng = np.random.default_rng(0)
    for step in range(12):
        training: Any = SimpleNamespace(step=step, steps_per_epoch=10)
        counts = np.array([np.bincount(row, minlength=3) for row in policy.assign(BATCH, 40, training, rng)])
        hard = min(step / 10, 1) * 40
        assert counts.tolist() == [[20 - hard / 2, 20 - hard / 2, hard]] * len(BATCH)


TWO = Batch(np.zeros(2, np.int64), np.zeros(2, np.int32))
NOTHING = np.full((2, 1), -1, np.int32)
FREE: Any = SimpleNamespace(loss_now=lambda: 0.0)
"""A training that costs nothing after an update, so that a step's loss is its gain."""


def begun(functions: int = 2, **options: Any) -> Curriculum:
    policy = Curriculum(**options)
    policy.set_functions([str(name) for name in range(functions)])
    policy.start_run(dict.fromkeys(policy.functions), FREE)
    return policy


def gain(policy: Curriculum, value: float, rng: np.random.Generator) -> None:
    policy.observe(TWO, NOTHING, UpdateResult(value, 0.0, np.zeros((2, 2), np.float32)), FREE, rng)


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


@pytest.mark.parametrize("objective", [Softmax(), RankNet(), Hinge(), PointwiseCrossEntropy()])
def test_the_loss_after_the_update_is_the_objectives(objective, tiny_training):
    training = tiny_training()
    training.objective = objective
    batch = training.next_batch()
    negatives = np.array([[10, 11, -1], [-1, -1, -1]], np.int32)
    before = float(training.loss_of(batch, negatives).detach())
    assert before == pytest.approx(training.update(batch, negatives).loss, rel=1e-5)
    assert training.loss_now() < before


def test_the_gain_of_a_batch_pays_the_function_that_was_chosen(tiny_training):
    training, rng = tiny_training(), np.random.default_rng(0)
    policy = begun()
    policy.gains = np.array([-2.0, -1.0])  # any gain above them is worth 1
    policy.updates = 2
    policy.chosen = 1
    batch, negatives = training.next_batch(), np.array([[10, 11], [10, 11]], np.int32)
    step = training.update(batch, negatives)
    policy.observe(batch, negatives, step, training, rng)
    assert policy.gains[-1] == step.loss - training.loss_now() > 0
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
        chosen = policy.choose(TWO, FREE, rng)
        assert (chosen == policy.chosen).all()
        gain(policy, rng.normal(1.0 if chosen[0] == best else 0.0), rng)
    return np.array(seen)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", range(3))
def test_a_curriculum_comes_to_prefer_the_function_of_the_higher_gain_and_follows_it(seed):
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
            policy.choose(TWO, FREE, rng)
            gain(policy, rng.normal(), rng)
        ends.append(policy.probabilities()[0])
    assert np.mean(ends) == pytest.approx(0.5, abs=0.1)


def test_draws_follow_the_probabilities():
    policy, rng = begun(3), np.random.default_rng(0)
    policy.weights = np.log([0.5, 0.3, 0.2])
    counts = np.bincount([policy.choose(TWO, FREE, rng)[0] for _ in range(8000)], minlength=3)
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
        assert 0 <= policy.choose(TWO, FREE, rng)[0] < functions
        gain(policy, value, rng)
        assert policy.probabilities().sum() == pytest.approx(1)
        assert (policy.probabilities() >= policy.epsilon / functions - 1e-12).all()


def test_a_curriculum_starts_afresh_and_remembers_the_first_gain_which_counts_for_nothing():
    policy, rng = begun(), np.random.default_rng(0)
    shares(policy, rng, 1, 50)
    policy.start_run(dict.fromkeys(policy.functions), FREE)
    assert (policy.weights.tolist(), len(policy.gains), policy.updates) == ([0, 0], 0, 0)
    gain(policy, 0.5, rng)
    assert (policy.gains.tolist(), policy.updates) == ([0.5], 1)
    assert policy.probabilities() == pytest.approx([0.5, 0.5])
