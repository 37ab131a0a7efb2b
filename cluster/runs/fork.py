"""Forks a run at a batch: continues it under another action for a while, then under its own policy again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from cluster.config.build import build
from cluster.config.groups import option
from cluster.runs.assemble import assemble, equip
from ranking.checkpoint import from_bytes, to_bytes
from ranking.training import RankerTraining
from sampling.policies.forked import ForkAction, ForkedPolicy
from sampling.sampler import Sampler

BASE = "base"
"""The action of a fork that changes nothing."""


def with_functions(config: Mapping[str, Any], actions: Sequence[ForkAction]) -> dict[str, Any]:
    """The configuration of a run with all functions that actions name.

    Raises:
        BadInput: where there is no such function.
    """
    functions = dict(config["function"])
    for action in actions:
        if action.function not in functions:
            functions |= option("function", action.function)
    return {**config, "function": functions}


def _forked(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    own: Sequence[str],
    action: ForkAction | None = None,
    begin: int = 0,
    batches: int = 0,
    back: Any = None,
) -> tuple[RankerTraining, Sampler, ForkedPolicy]:
    """A run with a forked policy."""
    torch.set_num_threads(max(1, int(config["resources"]["cpu"])))
    policy = build(config["policy"])
    if "agent" in parts:
        policy = equip(policy, None, dict(parts))
    forked = ForkedPolicy(policy, list(own), action, begin, batches, back)
    without = {name: part for name, part in parts.items() if name != "agent"}
    training, sampler = assemble(config, without, 0, policy=forked)
    return training, sampler, forked


def base_states(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    own: Sequence[str],
    at: Sequence[int],
    batches: int,
    kept: Mapping[int, bytes] = MappingProxyType({}),
) -> tuple[dict[int, bytes], dict[int, Any]]:
    """Train a run as it is, as far as forks need it.

    Args:
        config: with all functions (`with_functions`).
        parts: of the configuration.
        own: functions of the run itself.
        at: batches before each fork.
        batches: that an action lasts.
        kept: states of training and sampler that the run has kept, by batch (`keep_at`): it goes on from them.

    Returns:
        By batch: the states of training and sampler, and the state of the sampler's generator `batches` later. A batch
        that the training never reaches is in neither.
    """
    training, sampler, _ = _forked(config, parts, own)
    states: dict[int, bytes] = {}
    later: dict[int, Any] = {}
    ends = {each + batches for each in at}
    while not training.done and training.step <= max(ends):
        begin = _nearest(kept, training.step, [each for each in (*at, *ends) if each >= training.step])
        if begin is not None:
            of_training, of_sampler = from_bytes(kept[begin])
            training.load_state_dict(of_training)
            sampler.load_state_dict(of_sampler)
            continue
        if training.validation_due:
            training.validate()
            continue
        if training.step in at:
            states[training.step] = to_bytes([training.state_dict(), sampler.state_dict()])
        if training.step in ends:
            later[training.step - batches] = sampler.rng.bit_generator.state
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        sampler.observe(negatives, training.update(batch, negatives, sampler.source_scores))
    return states, later


def _nearest(kept: Mapping[int, bytes], step: int, wanted: Sequence[int]) -> int | None:
    """The latest kept batch behind this one and not behind the next that is wanted; None where there is none."""
    return max((each for each in kept if wanted and step < each <= min(wanted)), default=None)


def continue_fork(
    config: dict[str, Any],
    parts: Mapping[str, Any],
    own: Sequence[str],
    state: bytes,
    back: Any,
    action: ForkAction | None,
    begin: int,
    batches: int,
    replicate: int,
) -> tuple[dict[str, Any], RankerTraining]:
    """Continue a saved state under an action, then under the run's policy, to the end of the training.

    Args:
        config, parts, own: as of `base_states`.
        state: saved at `begin`.
        back: the generator's state behind the action, of the unchanged run.
        action: None changes nothing.
        begin, batches: when it is done.
        replicate: 0 draws as the run did; any other number stands for other draws and another order of examples from
            here on, the same for every action.

    Returns:
        `soon`, the validation measure right behind the action; `final`, the best checkpoint's; `curve`; and the
        training.
    """
    if replicate:
        back = np.random.default_rng([replicate, 2]).bit_generator.state
    training, sampler, _ = _forked(config, parts, own, action, begin, batches, back)
    of_training, of_sampler = from_bytes(state)
    training.load_state_dict(of_training)
    sampler.load_state_dict(of_sampler)
    if replicate:
        sampler.rng.bit_generator.state = np.random.default_rng([replicate, 1]).bit_generator.state
        training.rng.bit_generator.state = np.random.default_rng([replicate, 3]).bit_generator.state
    soon: list[float] = []

    def look(training: RankerTraining) -> None:
        if not soon and training.step >= begin + batches:
            soon.append(float(next(iter(training.validation(training.ranker).values())).mean()))

    training.fit(sampler, look, look)
    known = [value for value in training.validations if value == value]
    result = {
        "soon": soon[0] if soon else float("nan"),
        "final": max(known, default=0.0),
        "curve": list(training.validations),
        "diverged": training.diverged,
    }
    return result, training
