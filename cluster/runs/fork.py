"""Forks a run at a batch: continues it under another action for some batches, then under its policy again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from pyrite.cluster.config.build import build
from pyrite.cluster.config.counts import counts_of
from pyrite.cluster.config.groups import option
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.runs.assemble import assemble, equip
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.training import RankerTraining
from pyrite.rl.progress import STATE, ProgressOptions, TrainingProgress
from pyrite.sampling.policies.action import Action
from pyrite.sampling.policies.forked import ForkedPolicy
from pyrite.sampling.query_features import Feature, QuerySplit
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.sampler import Sampler

BASE = "base"
"""Name of the action of a fork that changes nothing."""


@dataclass(frozen=True)
class Fork:
    """One continuation of a run.

    Args:
        at: number of batches before the fork.
        action: the action; None changes nothing.
        replicate: 0 draws as the run did. Any other number gives other draws and another order of examples from there
            on, equal for all actions.
        by, side: if given, only queries on this side, `below` or `above`, of the median of this feature get the action
            (`pyrite.sampling.query_features`).
    """

    seed: int
    at: int
    replicate: int
    action: Action | None
    by: Feature | None = None
    side: str = ""

    @property
    def name(self) -> str:
        return BASE if self.action is None else str(self.action)

    @property
    def key(self) -> str:
        """The name of its result."""
        end = f"-{self.side}" if self.side else ""
        return f"s{self.seed}-{self.at}-{self.replicate}-{re.sub('[:@*]', '_', self.name)}{end}"

    @property
    def split(self) -> QuerySplit | None:
        return None if self.by is None else QuerySplit(self.by, 0.5)


def with_functions(config: Mapping[str, Any], actions: Sequence[Action]) -> dict[str, Any]:
    """Return the configuration of a run with all functions that actions name."""
    functions = dict(config["function"])
    for action in actions:
        if action.function not in functions:
            functions |= option("function", action.function)
    return {**config, "function": functions}


def _forked(
    config: dict[str, Any], parts: Mapping[str, Any], functions: Sequence[str], *fork: Any
) -> tuple[RankerTraining, Sampler]:
    """Return the training and sampler of a run with a `ForkedPolicy`, which receives `fork`."""
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    policy = build(config["policy"])
    if "agent" in parts:
        equip(policy, None, dict(parts))  # type: ignore[arg-type]
    forked = ForkedPolicy(policy, list(functions), *fork)
    others = {name: part for name, part in parts.items() if name != "agent"}
    training, sampler = assemble(config, others, 0, policy=forked)
    counts = counts_of(config, {name: sampler.functions[name] for name in functions}, policy)
    if counts is not None:  # of `fixed`; functions that only actions name supply nothing to it
        forked.set_counts(list(counts.values()))
        sampler.count = sum(counts.values())
    return training, sampler


def base_states(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    functions: Sequence[str],
    at: Sequence[int],
    batches: int,
    kept: Mapping[int, bytes] = MappingProxyType({}),
) -> tuple[dict[int, bytes], dict[int, Any]]:
    """Train a run unchanged, as far as forks need it: the body of a task.

    Args:
        config: its configuration with all functions (`with_functions`).
        at: number of batches before each fork.
        batches: number of batches under the action.
        kept: states of training and sampler that the run has kept (`keep_at`), by batch; training continues from them.

    Returns:
        By batch: the states of training and sampler, and the state of the sampler's generator `batches` later. A batch
        that the training never reaches is in neither.
    """
    training, sampler = _forked(config, parts, functions)
    states: dict[int, bytes] = {}
    later: dict[int, Any] = {}
    ends = {step + batches for step in at}

    def record() -> bool:
        """Keep the states of this batch, after skipping to a kept one; return whether later batches are needed."""
        wanted = sorted({*at, *ends})
        following = min((step for step in wanted if step >= training.step), default=0)
        begin = max((step for step in kept if training.step < step <= following), default=None)
        if begin is not None:
            _load(training, sampler, kept[begin])
        if training.done:
            return False
        if training.step in at:
            states[training.step] = to_bytes([training.state_dict(), sampler.state_dict()])
        if training.step in ends:
            later[training.step - batches] = sampler.state_dict()["rng"]
        return training.step < wanted[-1]

    if record():
        for _ in training.steps(sampler):
            if not record():
                break
    return states, later


def _load(training: RankerTraining, sampler: Sampler, state: bytes) -> None:
    training_state, sampler_state = from_bytes(state)
    training.load_state_dict(training_state)
    sampler.load_state_dict(sampler_state)


def continue_fork(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    functions: Sequence[str],
    state: bytes,
    back: Any,
    fork: Fork,
    batches: int,
) -> tuple[dict[str, Any], RankerTraining]:
    """Continue a saved state under an action, then under the run's policy, to the end of the training.

    Args:
        state, back: what `base_states` returns for the batch before the fork.

    Returns:
        The training, and `soon`, the validation measure right after the action; `final`, that of the best checkpoint;
        and `curve`. Of a fork that changes nothing also `state`, the features of `STATE` where it begins.
    """
    action, begin, replicate = fork.action, fork.at, fork.replicate
    state_there: list[float] = []

    def describe(own: dict[str, RetrievalFunction], training: RankerTraining) -> None:
        progress = TrainingProgress(ProgressOptions(STATE), own, training)
        state_there.extend(map(float, progress.observe(training, None)))

    def drawn(number: int) -> Any:
        return np.random.default_rng([replicate, number]).bit_generator.state

    on_begin, back = describe if action is None else None, drawn(2) if replicate else back
    training, sampler = _forked(config, parts, functions, action, begin, batches, back, on_begin, fork.split, fork.side)
    _load(training, sampler, state)
    if replicate:
        sampler.rng.bit_generator.state, training.rng.bit_generator.state = drawn(1), drawn(3)
    soon: list[float] = []

    def measure(training: RankerTraining) -> None:
        if not soon and training.step >= begin + batches:
            soon.append(float(next(iter(training.validation(training.ranker).values())).mean()))

    training.fit(sampler, measure, measure)
    result = {
        "soon": soon[0] if soon else float("nan"),
        "final": max((value for value in training.validations if value == value), default=0.0),
        "curve": list(training.validations),
        "diverged": training.diverged,
        "state": state_there,
    }
    return result, training


def train_fork(fork: Fork, store: ResultStore, **arguments: Any) -> str:
    """Continue one fork, write its result and return a line for the screen: the body of a task."""
    result, _ = continue_fork(fork=fork, **arguments)
    store.write(fork.key, result)
    return f"at {fork.at}: {fork.name} {fork.side} {result['final']:.4f}"
