"""Tests of `rl.fork_values`: the argmax of a regression on forks."""

import json

import numpy as np
import pytest

from ranking.errors import BadInput
from rl.fork_values import FEATURES, FromForks
from tests.rl.trainings import starts


def test_it_takes_the_best_action_by_the_clock(tmp_path, tiny_sources):
    """bm25 is worth −spent, its highest of 4 is worth spent: the one in the first half, the other in the second."""
    fitted = {"actions": ["bm25", "bm25@dynamic:4"], "clock": [[0, -1], [0, 1]], "length": 2}
    (tmp_path / "regression.json").write_text(json.dumps({**fitted, "state": np.zeros((2, 5)).tolist()}))
    policy = FromForks(str(tmp_path), "clock")
    assert policy.every == 2
    training, sampler = starts(tiny_sources, lambda: policy)(np.random.SeedSequence(7))
    taken: list[str] = []
    training.fit(sampler, on_step=lambda _: taken.append(str(policy.action)))
    assert taken[0] == "bm25"
    assert taken[-1] == "bm25@dynamic:4"
    assert taken == sorted(taken)
    assert len(FEATURES["state"]) == 5


def test_a_folder_without_a_regression_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="can't read a regression of forks"):
        FromForks(str(tmp_path))
    with pytest.raises(BadInput, match="by is"):
        FromForks(str(tmp_path), "weather")
