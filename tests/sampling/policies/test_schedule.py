from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ranking.errors import BadInput
from ranking.training import Batch
from sampling.policies.schedule import Schedule

BATCH = Batch(np.arange(6), np.arange(6, dtype=np.int32))


def chosen(policy: Schedule, names: list[str], steps: int, times: int = 1) -> np.ndarray:
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


def test_linear_by_hand():
    policy = Schedule(start=0.2, end=1.0, epochs=0.4)
    assert [policy.share(step, 10) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    down = Schedule(start=1.0, end=0.5, steps=2)
    assert [down.share(step, 10) for step in range(4)] == [1.0, 0.75, 0.5, 0.5]
    assert [Schedule(0.1, 0.9, steps=2, shape="switch").share(step, 10) for step in range(3)] == [0.1, 0.1, 0.9]


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
    policy = Schedule(start, end, epochs, shape=shape)
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


def test_a_schedule_has_one_length():
    with pytest.raises(BadInput, match=r"policy: epochs is 2 and steps 10, .*; leave one of them out"):
        Schedule(epochs=2.0, steps=10)
    assert [Schedule().share(step, 10) for step in (0, 10, 20)] == [0.0, 0.5, 1.0]  # two epochs by default
