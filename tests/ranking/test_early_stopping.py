"""Tests of `ranking.early_stopping`."""

import math

import torch

from ranking.checkpoint import from_bytes, to_bytes
from ranking.early_stopping import EarlyStopping


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
