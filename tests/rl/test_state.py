"""Tests of `rl.state`: what an agent sees of a training."""

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ranking.errors import BadInput
from ranking.training import UpdateResult
from rl.networks import PolicyNetwork
from rl.state import State, StateOptions, StateTables
from tests.rl.trainings import state_tables_of


def step(loss: float, norm: float = 0.0) -> UpdateResult:
    return UpdateResult(loss, norm, np.zeros((2, 3), np.float32))


def test_the_models_features_are_the_papers(training, tiny_sources):
    state = State(state_tables_of(tiny_sources, beta=0.5))
    np.testing.assert_array_equal(state.observe(training.next_batch(), training)["model"], [1, 0, 0, 0])
    state.note(step(2.0, 4.0), first=True)
    state.note(step(1.0, 6.0), first=False)
    training.position, training.epoch = 2, 1
    # Half of the largest loss; .5·6 / (1 + .5·6); the third of five examples; after one epoch.
    np.testing.assert_allclose(
        state.observe(training.next_batch(), training)["model"], [0.5, 0.75, 0.4, 0.5], rtol=1e-6
    )


def test_the_last_validation_is_a_feature_where_asked_for(training, tiny_sources):
    state = State(state_tables_of(tiny_sources, features=["validation", "epoch"]))
    assert state.observe(training.next_batch(), training)["model"].tolist() == [0, 0]
    training.validations[:] = [0.25, 0.5]
    assert state.observe(training.next_batch(), training)["model"].tolist() == [0.5, 0]
    training.validations[:] = [math.nan]
    assert state.observe(training.next_batch(), training)["model"].tolist() == [0, 0]


@pytest.fixture
def tables(tiny_sources) -> StateTables:
    return state_tables_of(tiny_sources)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # neither changes
@given(
    loss=st.floats(allow_nan=True, allow_infinity=True),
    norm=st.floats(allow_nan=True, allow_infinity=True),
    second=st.floats(allow_nan=True, allow_infinity=True),
)
def test_nothing_unbounded_leaves_the_state(tables, training, loss, norm, second):
    state = State(tables)
    state.note(step(loss, norm), first=True)
    state.note(step(second, norm), first=False)
    assert tables.space.contains(state.observe(training.next_batch(), training))


def test_a_short_batch_is_padded(training, tiny_sources):
    tables = state_tables_of(tiny_sources, pairs=4)
    observation = State(tables).observe(training.next_batch(), training)
    assert observation["present"].tolist() == [1, 1, 0, 0]
    assert not observation["batch"][4:].any()
    assert not observation["similarity"][2:].any()
    assert observation["batch"][:4].any(axis=1).all()
    with pytest.raises(BadInput, match="reads 1"):
        State(state_tables_of(tiny_sources, pairs=1)).observe(training.next_batch(), training)


def test_the_matrix_of_the_batch_can_be_left_out(training, tiny_sources):
    tables = state_tables_of(tiny_sources, batch=False)
    observation = State(tables).observe(training.next_batch(), training)
    assert set(observation) == {"model", "present", "similarity"}
    assert tables.space.contains(observation)
    network = PolicyNetwork(tables.space, 2, torch.Generator())
    assert network({name: torch.tensor(part)[None] for name, part in observation.items()}).shape == (1, 2)


def test_numbers_that_are_none_are_replaced(training, tiny_sources):
    tables = state_tables_of(tiny_sources)
    tables.similarity["bm25"][:] = np.nan
    broken = StateTables(tables.options, tables.compressed, tables.similarity, tables.pairs)
    assert broken.space.contains(State(broken).observe(training.next_batch(), training))


@pytest.mark.parametrize("options", [{"features": ["mood"]}, {"features": []}, {"beta": 0}, {"weighting": "bm25"}])
def test_bad_options_are_refused(options):
    with pytest.raises(BadInput):
        StateOptions(**options)
