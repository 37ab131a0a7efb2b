"""Holds agents to a planted effect in the environment itself: the positive control of benchmarks/agents_trial.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.planted import Changing, Made, make, planted_training
from benchmarks.unit_files import Result, Unit
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.training import RankerTraining
from pyrite.ranking.vectors import WordVectors
from pyrite.ranking.whole_file import replace_file
from pyrite.rl.agents.actor_critic import ActorCritic
from pyrite.rl.agents.agent import Agent
from pyrite.rl.agents.ppo import PPO
from pyrite.rl.agents.reinforce import Reinforce
from pyrite.rl.compression import compress
from pyrite.rl.environment import FunctionActions, SamplingEnvironment
from pyrite.rl.rewards import Diff, ValidationSampleOptions
from pyrite.rl.state import FEATURES, StateOptions, StateTables
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.sampler import Sampler

KEEP = 20
"""Episodes between two states of an agent that learns."""


@dataclass(frozen=True)
class Control:
    """A setting of the control: hidden positives head BM25's lists from the start or, `late`, from a random batch.

    Args:
        features: what the agent sees of the ranker and its training (`pyrite.rl.state.StateOptions`).
    """

    topics: int
    epochs: int
    late: bool
    features: tuple[str, ...] = FEATURES[:4]

    def start(
        self, made: Made, policy: SamplingPolicy, sequence: np.random.SeedSequence
    ) -> tuple[RankerTraining, Sampler]:
        """Return the training of an episode."""
        rng = np.random.default_rng(sequence)
        training = planted_training(made, int(rng.integers(2**31)), self.epochs)
        steps = training[0].steps_per_epoch * self.epochs
        changes = rng.random() < 0.5
        at = (float(rng.uniform(0.1, 0.6) * steps) if changes else np.inf) if self.late else 0.0
        return training[0], training[1](policy, at)

    def environments(self, seed: int, numbers: Sequence[int]) -> list[SamplingEnvironment]:
        """Return the copies of the environment that have these numbers."""
        made = make(self.topics)
        table = np.random.default_rng(1).normal(size=(len(made.encoded.idf), 16)).astype(np.float32)
        table[0] = 0
        compressed = compress(made.encoded, WordVectors(table, np.ones(len(table), bool)), "tf")
        unknown = np.zeros((len(made.encoded.queries), 4), np.float32)  # no lists to describe: they change
        tables = StateTables(StateOptions(self.features), compressed, {"random": unknown, "bm25": unknown}, 16)
        actions = FunctionActions(["random", "bm25"])
        options = ValidationSampleOptions(size=self.topics, every=2)

        def begin(sequence: np.random.SeedSequence) -> tuple[RankerTraining, Sampler]:
            return self.start(made, actions.policy(), sequence)

        return [SamplingEnvironment(begin, tables, actions, Diff(), options, seed, copy) for copy in numbers]


Choice = Callable[[SamplingEnvironment, np.random.Generator], int]


def _oracle(environment: SamplingEnvironment, rng: np.random.Generator) -> int:
    changing = environment.sampler.functions["bm25"]
    assert isinstance(changing, Changing)
    return int(environment.training.step < changing.at)


FIXED: dict[str, Choice] = {
    "coin": lambda environment, rng: int(rng.integers(2)),
    "BM25": lambda environment, rng: 1,
    "random": lambda environment, rng: 0,
    "oracle": _oracle,
}


def fixed(control: Control, choice: str, episodes: int, facts: Result, out: Path) -> Result:
    """Return what a policy that does not learn reaches at the end of each episode."""
    (environment,), rng, ends = control.environments(7, [0]), np.random.default_rng(11), []
    for _ in range(episodes):
        environment.reset()
        info: dict[str, Any] = {}
        while "summary" not in info:
            *_, info = environment.step(FIXED[choice](environment, rng))
        ends.append(info["summary"]["validation_sample"])
    return {"ends": ends, "arm": choice, **facts}


AGENTS: dict[str, Callable[[float], tuple[Agent, int]]] = {
    "printed": lambda rate: (
        ActorCritic(actor_lr=rate, critic_lr=rate, optimizer="sgd", normalize=False, entropy=0.0),
        1,
    ),
    "default": lambda rate: (ActorCritic(actor_lr=rate, critic_lr=rate), 8),
    "ppo": lambda rate: (PPO(lr=rate), 8),
    "reinforce": lambda rate: (Reinforce(actor_lr=rate, critic_lr=rate), 8),
    "reinforce, entropy .005": lambda rate: (Reinforce(actor_lr=rate, critic_lr=rate, entropy=0.005), 8),
    "default, clock alone": lambda rate: (ActorCritic(actor_lr=rate, critic_lr=rate), 8),
}
CLOCK = ("step", "epoch")
"""The features that an action does not change."""


def controlled(control: Control, arm: str, rate: float, number: int, episodes: int, facts: Result, out: Path) -> Result:
    """Let an agent learn in the control; return what each of its episodes ended with, and its share of BM25."""
    agent, copies = AGENTS[arm](rate)
    if "clock" in arm:
        control = replace(control, features=CLOCK)
    (toy,) = control.environments(number, [0])
    trainer = agent.build(
        partial(control.environments, number),
        toy.observation_space,
        toy.action_space,
        seed=number,
        gamma=1.0,
        copies=copies,
    )
    state, ends = out.with_name(f"{out.name}.safetensors"), list[dict[str, float]]()
    if state.exists():
        saved = from_bytes(state.read_bytes(), str(state))
        trainer.set_state(saved["trainer"])
        ends = list(saved["ends"])
    kept = len(ends)
    while len(ends) < episodes:
        trainer.train()
        ends += [{"end": each["validation_sample"], "bm25": each["share:bm25"]} for each in trainer.ended]
        if len(ends) - kept >= KEEP:
            kept = len(ends)
            with replace_file(state) as temporary:
                temporary.write_bytes(to_bytes({"trainer": trainer.get_state(), "ends": ends}))
    decisions = trainer.counters["decisions"]
    trainer.stop()
    columns = {"ends": [each["end"] for each in ends], "bm25": [each["bm25"] for each in ends]}
    return {**columns, "decisions": decisions, "arm": arm, "rate": rate, "number": number, **facts}


def controls(topics: int, epochs: int, agents: int, episodes: int) -> list[Unit]:
    """Step 1: policies that do not learn, then every agent with every rate, a seed at a time."""
    settings = {name: Control(topics, epochs, name == "late") for name in ("start", "late")}
    units = [
        Unit(f"{name}-{choice}", partial(fixed, control, choice, max(episodes // 3, 2), {"setting": name}))
        for name, control in settings.items()
        for choice in FIXED
    ]
    grid = [
        (arm, rate)
        for rate in (0.001, 1.0, 0.01, 0.1, 0.0001, 10.0)
        for arm in AGENTS
        if rate <= 0.1 or arm == "printed"
    ]
    units += [
        Unit(
            f"{name}-{re.sub('[, ]+', '-', arm)}-{rate:g}-{number}",
            partial(controlled, control, arm, rate, number, episodes, {"setting": name}),
        )
        for number in range(agents)
        for arm, rate in grid
        for name, control in settings.items()
    ]
    return units
