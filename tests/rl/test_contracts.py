"""What every reward and every agent promises: they are found by their files in `conf` and by their classes."""

import inspect
import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from benchmarks.toys import EarlyLate, maker
from pyrite import rl
from pyrite.cluster.commands.learn import compose_learning
from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import group_options, option
from pyrite.cluster.rollouts.environments import gamma_of
from pyrite.ranking.training import UpdateResult
from pyrite.rl.agents.agent import Agent
from pyrite.rl.networks import described
from pyrite.rl.rewards import DecisionOutcome, Reward
from pyrite.rl.state import StateOptions
from tests.classes import classes_in
from tests.ranking.trained import equal

BASES = {"reward": Reward, "agent": Agent, "state": StateOptions}
"""What a part of each kind may be."""


def signature(kind: type) -> Mapping[str, inspect.Parameter]:
    """The options of a class."""
    return inspect.signature(kind).parameters


def outcome_of(seed: int = 0, queries: int = 3, done: bool = False) -> DecisionOutcome:
    rng = np.random.default_rng(seed)
    before, after, first_stage = rng.uniform(0, 0.6, (3, queries))
    update = UpdateResult(0.5, 1.0, rng.normal(size=(2, 3)).astype(np.float32))
    return DecisionOutcome(before, after, first_stage, np.ones(queries), [update], 0.9, done)


@pytest.mark.parametrize("group", BASES)
def test_every_class_has_a_file_and_every_file_a_class(group):
    named = {option(group, name)["_target_"] for name in group_options()[group]}
    # A base without defaults is given its options by its subclasses.
    kinds = {
        kind
        for kind in classes_in(rl, BASES[group])
        if all(each.default is not each.empty for each in signature(kind).values())
    }
    assert named == {f"{kind.__module__}.{kind.__name__}" for kind in kinds}


@pytest.mark.by_day(5)
@pytest.mark.parametrize(("group", "name"), [(group, name) for group in BASES for name in group_options()[group]])
def test_a_file_shows_every_option_with_its_default(group, name):
    node = option(group, name)
    part = build(node, trust="composed")
    assert isinstance(part, BASES[group])
    parameters = signature(type(part))
    options = set(node) - {"_target_"}
    assert options <= set(parameters)
    assert options == set(parameters)
    if group != "state":
        assert {key: node[key] for key in options} == {key: each.default for key, each in parameters.items()}


@pytest.mark.parametrize("name", group_options()["reward"])
@pytest.mark.parametrize("done", [False, True])
def test_a_reward_is_a_number_that_depends_on_the_outcome_alone(name, done):
    reward, outcome = build(option("reward", name), trust="composed"), outcome_of(done=done)
    arrays = [outcome.before, outcome.after, outcome.first_stage, outcome.ideal, outcome.updates[0].scores]
    before = [array.copy() for array in arrays]
    value = reward(outcome)
    assert isinstance(value, float)
    assert math.isfinite(value)
    assert reward(outcome) == value
    assert equal(arrays, before)
    assert reward(outcome_of(seed=1, done=done)) != value
    assert build(option("reward", name) | {"scale": 2 * reward.scale}, trust="composed")(outcome) == pytest.approx(
        2 * value
    )
    assert 0 < type(reward).gamma <= 1


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", group_options()["agent"])
def test_an_agent_is_updated_and_leaves_a_policy(name, ray_session):
    node = option("agent", name)
    small = {key: value for key, value in {"hidden": 8, "fragment": 5, "episodes": 1}.items() if node.get(key)}
    toy, threads = EarlyLate(), torch.get_num_threads()
    trainer = build(node | small, trust="composed").build(
        maker(0), toy.observation_space, toy.action_space, copies=2, cpus=0.5
    )
    try:
        while not trainer.counters["episodes"]:
            trainer.train()
        assert {row["decisions"] for row in trainer.ended} == {20}
        assert trainer.counters["decisions"] >= 20
        assert described(trainer.network, trainer.policy_weights())({"model": torch.zeros(1, 3)}).shape == (1, 2)
    finally:
        trainer.stop()
        torch.set_num_threads(threads)


class Weighted(Reward):
    """What was gained, each query weighted by how far the first stage is from the best order of its candidates.

    Args:
        scale: every reward is multiplied by it.
        floor: weight of a query that the first stage has in the best order.
    """

    gamma = 1.0

    def __init__(self, scale: float = 1.0, floor: float = 0.1) -> None:
        super().__init__(scale)
        self.floor = floor

    def of(self, outcome: DecisionOutcome) -> float:
        weights = np.maximum(outcome.ideal - outcome.first_stage, self.floor)
        return float(np.average(outcome.after - outcome.before, weights=weights))


def test_a_reward_from_elsewhere_is_named_by_its_class():
    overrides = ["reward._target_=tests.rl.test_contracts.Weighted", "reward.scale=10", "+reward.floor=0.2"]
    config = compose_learning([*overrides, "scale=tiny"])
    assert gamma_of(config) == 1
    before, after = np.array([0.1, 0.5, 0.3]), np.array([0.3, 0.4, 0.3])
    first_stage, ideal = np.array([0.0, 0.9, 0.5]), np.array([0.8, 1.0, 0.5])
    outcome = DecisionOutcome(before, after, first_stage, ideal, [], 1.0, False)
    # Weights .8, .2 (the floor) and .2: 10 · (.8 · .2 − .2 · .1 + 0) / 1.2.
    assert build(config["reward"], trust="composed")(outcome) == pytest.approx(10 * 0.14 / 1.2)
