"""Tests of `ranking.early_stopping`, and of every schedule in `ranking.schedules`."""

import math

import pytest
import torch

from ranking.checkpoint import from_bytes, to_bytes
from ranking.early_stopping import EarlyStopping
from ranking.schedules import Constant, Cosine, Linear, Schedule


def stopped(values: list[tuple[float, float]], patience: int = 2) -> EarlyStopping:
    """Weights that are the number of their validation, from 1, by origins `near` and `far`."""
    model, stopping = torch.nn.Linear(1, 1, bias=False), EarlyStopping(["near", "far"], patience)
    for place, (near, far) in enumerate(values, 1):
        torch.nn.init.constant_(model.weight, place)
        stopping.note({"near": near, "far": far}, place, model)
    return stopping


def test_each_origin_has_best_weights_of_its_own():
    stopping = stopped([(0.5, 0.1), (0.4, 0.3), (0.3, 0.2)])
    assert float(stopping.best_weights("near")["weight"]) == 1
    assert float(stopping.best_weights("far")["weight"]) == 2
    assert stopping.best_weights() is stopping.best_weights("near") is stopping.best_weights("another")
    assert stopping.best_epochs == {"near": 1, "far": 2}


def test_it_waits_for_every_origin():
    assert not stopped([(0.5, 0.1), (0.4, 0.2), (0.3, 0.2)]).waited  # near has waited for two, far for one
    assert stopped([(0.5, 0.1), (0.4, 0.2), (0.3, 0.2), (0.3, 0.1)]).waited
    assert not stopped([]).waited


def test_an_equal_value_and_nan_are_no_better_ones():
    stopping = stopped([(0.5, 0.1), (0.5, math.nan)])
    assert stopping.best_epochs == {"near": 1, "far": 1}


def test_weights_that_are_best_by_several_origins_are_kept_once():
    stopping = stopped([(0.5, 0.1), (0.6, 0.2)])
    state = stopping.state_dict()
    assert len(state["weights"]) == 1
    again = EarlyStopping(["near", "far"], 2)
    again.load_state_dict(from_bytes(to_bytes(state)))
    assert float(again.best_weights("far")["weight"]) == 2
    assert (again.values, again.best_epochs, again.waited) == (stopping.values, stopping.best_epochs, False)


EVERY = [each for each in Schedule.__subclasses__() if each.__module__.startswith("ranking.")]


def test_by_hand():
    assert [Linear().factor(step, 4) for step in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    assert [Cosine().factor(step, 4) for step in (0, 2, 4)] == pytest.approx([1, 0.5, 0])
    assert Cosine().factor(1, 4) == pytest.approx((1 + 2**-0.5) / 2)
    assert [Linear(4).factor(step, 8) for step in range(9)] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 1, 0.75, 0.5, 0.25, 0]
    )
    assert [Constant(0.5).factor(step, 4) for step in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("warmup", [0, 3, 0.25, 100])
def test_every_schedule_rises_and_stays_a_share(kind, warmup):
    shares = [kind(warmup).factor(step, 20) for step in range(25)]
    assert all(0 <= share <= 1 for share in shares)
    rising = min(round(warmup * 20) if warmup < 1 else int(warmup), 24)
    assert shares[: rising + 1] == sorted(shares[: rising + 1])
    assert shares[0] > 0
    if rising < 20:
        assert shares[rising] == 1
