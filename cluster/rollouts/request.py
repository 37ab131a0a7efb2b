"""Composes the configuration of a learning, and records it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.config.build import build
from cluster.config.compose import compose
from cluster.config.groups import CHOICES
from cluster.config.override import key_of, root_of
from cluster.config.validate import check_learning
from cluster.output.manifest import CONFIG, read_config, write_config
from cluster.output.provenance import checkpoints_of, code
from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage
from cluster.plan.sweep import refuse_sweeps
from cluster.runs.agent_file import agent_of
from ranking.digest import digest
from ranking.errors import BadInput

MAY_CHANGE = ("workers", "hosts", "save_every", "address", "dashboard", "track")
"""Options that may change when a learning is resumed, because its result does not depend on them."""
NOT_OF_THE_RESULT = (*MAY_CHANGE, CHOICES, "out", "cache", "weights", "run_time", "run_memory")
"""Keys of a configuration on which the result does not depend."""
CODE = ("ranking", "sampling", "rl", "cluster/runs", "cluster/training", "cluster/rollouts")
"""Folders of the code on which the result depends."""
OF_EPISODES = ("reward", "gamma", "copies", "validation_sample", "random_baseline")
"""Options that a search does not read: it compares whole trainings, by their best validation."""


@dataclass(frozen=True)
class LearnRequest:
    """The learning that a user requested."""

    config: dict[str, Any]
    overrides: list[str]
    storage: Storage

    def store(self, keys: Mapping[str, str]) -> ResultStore:
        """Return the store of the learning's trainings and state."""
        checkpoints = checkpoints_of(self.config["ranker"])
        ranker = {"ranker": digest(checkpoints)} if checkpoints else {}
        return ResultStore(self.storage, "trainings", {**keys, **ranker, **code(*CODE)})

    def manifest(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the content of `config.yaml`, with facts about the collection."""
        return {
            "command": shlex.join(["pyrite", "learn", *self.overrides]),
            "learn": self.overrides,
            "facts": facts,
            **{key: value for key, value in self.config.items() if key != CHOICES},
        }

    def check_unchanged(self, before: dict[str, Any], facts: dict[str, Any]) -> None:
        """Refuse to continue if the collection is not that of the manifest."""
        if before.get("facts") != facts:
            what = "the collection has changed since this learning began"
            raise BadInput(what, self.storage.place, "start another")

    def record(self, facts: dict[str, Any]) -> None:
        """Write the manifest, or compare it with the existing one."""
        if self.storage.read(CONFIG) is None:
            write_config(self.storage, self.manifest(facts))
        else:
            self.check_unchanged(read_config(self.storage), facts)


def compose_learning(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a learning, after checking it and building each part once."""
    refuse_sweeps(overrides, "learn", "learn one agent at a time, or several in a `pyrite study`")
    config = compose(overrides, "learn")
    check_learning(config, agent_of(config))
    _check_kinds(config, overrides)
    return config


def _check_kinds(config: dict[str, Any], overrides: Sequence[str]) -> None:
    """Check that actions, state and agent fit together: searches need shares of functions, other agents refuse them."""
    from rl.agents.search import PolicySearch
    from rl.progress import ProgressOptions

    agent, mixes = build(config["agent"]), config["actions"]["mixture"] is not None
    chosen = config[CHOICES]
    if isinstance(agent, PolicySearch) != mixes:
        if mixes:
            what = f"agent={chosen['agent']} chooses one function at a time, and actions=mixture are shares of them"
            raise BadInput(what, "agent", "choose evolution, schedule or bandit, or actions=functions")
        raise BadInput(f"agent={chosen['agent']} searches shares of functions", "actions", "give actions=mixture")
    if mixes != isinstance(build(config["state"]), ProgressOptions):
        wanted = "progress" if mixes else "batch"
        raise BadInput(f"actions={chosen['actions']} does not see state={chosen['state']}", "state", f"give {wanted}")
    if not mixes:
        if config.get("until") is not None and (first := build(config["until"]).first) > config["episodes"]:
            what = f"until=converged compares episodes after {first}, and learning ends after {config['episodes']}"
            raise BadInput(what, "episodes", f"give {first} or more, or lower until.after and until.window")
        return
    if unread := next((text for text in overrides if root_of(text) in OF_EPISODES), None):
        what = f"agent={chosen['agent']} compares whole trainings by their best validation, and does not read {unread}"
        raise BadInput(
            what, key_of(unread), "leave it out, or choose an agent that learns within episodes, as agent=ppo"
        )
    if config.get("until") is not None:
        what = f"agent={chosen['agent']} spends a budget of trainings, and until={chosen['until']} ends one early"
        raise BadInput(what, "until", "give episodes alone")
    if build(config["actions"]["mixture"]).scores and chosen["agent"] == "bandit":
        raise BadInput("its grid has no choice by scores", "agent=bandit", "choose evolution or schedule")
    from cluster.rollouts.search import generations_of  # with RLlib, which studies without agents go without

    generations_of(config, agent)
    if agent.rule == "schedule" and "spent" not in config["state"]["features"]:
        raise BadInput("a schedule depends on the time that is spent", "state.features", "add spent")
    if config["decision_every"] == "epoch" or config["hosts"]:
        raise BadInput(
            "a mixture is decided every given number of batches, without hosts", "decision_every", "give a number"
        )
