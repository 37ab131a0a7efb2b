"""Finds the agents that a study's policies need before it runs, each once for all runs that use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cluster.config.agents import checkpoint_of, learner_of
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned, key_of
from cluster.rollouts.request import NOT_OF_THE_RESULT, LearnRequest, compose_learning
from cluster.runs.agent_file import FILE
from ranking.digest import digest

FOLDER = "agents"


def missing(requests: Mapping[str, LearnRequest], runs: Iterable[Planned]) -> dict[str, LearnRequest]:
    """Return the learnings, by the agent's name, that these runs need and that have not ended."""
    wanted = {checkpoint_of(planned.config) for planned in runs}
    return {
        name: request
        for name, request in requests.items()
        if request.storage.place in wanted and FILE not in request.storage.names()
    }


def with_agents(
    runs: Sequence[Planned], storage: Storage, scaled: Sequence[str] = ()
) -> tuple[list[Planned], dict[str, LearnRequest]]:
    """Give each run whose learned policy has no agent the folder in which the study will have learned it.

    The agent is learned in the run's own configuration with `policy.learn` added, and `policy.agent` for its seed.

    Args:
        storage: the study's folder; agents are in `agents/NAME` of it.
        scaled: overrides of learning at the experiment's scale; `policy.learn` adds others.
    """
    requests: dict[str, LearnRequest] = {}
    composed: dict[tuple[str, ...], LearnRequest] = {}  # composing takes a tenth of a second, and seeds share one
    given = []
    for planned in runs:
        part = learner_of(planned.config)
        if part is None:
            given.append(planned)
            continue
        overrides = _overrides(planned, part, scaled)
        if overrides not in composed:
            composed[overrides] = _request(overrides, storage)
        request = composed[overrides]
        requests.setdefault(request.storage.place.rpartition("/")[2], request)
        node = planned.config[part] | {"checkpoint": request.storage.place}
        overrides = (*planned.overrides, f"{part}.checkpoint={request.storage.place}")
        given.append(replace(planned, overrides=overrides, config=planned.config | {part: node}))
    return given, requests


def _overrides(planned: Planned, part: str, scaled: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides of the learning that a run's policy or selector needs."""
    node = planned.config[part]
    left_out = ("seed", "policy", "selector") if part == "selector" else ("seed", "policy")
    own = [text for text in planned.overrides if key_of(text).split(".")[0] not in left_out]
    extra = ["actions=documents"] if part == "selector" else []
    return (*own, *extra, *scaled, *node["learn"], f"seed={node['agent']}", "workers=0", "dashboard=false")


def _request(overrides: Sequence[str], storage: Storage) -> LearnRequest:
    config = compose_learning(overrides)
    digested = {key: value for key, value in config.items() if key not in NOT_OF_THE_RESULT}
    digested["resources"] = {key: config["resources"][key] for key in ("cpu", "gpu")}  # as `sweep.identity`
    name = digest(digested)[:10]
    return LearnRequest(config, list(overrides), Storage(f"{storage.place}/{FOLDER}/{name}"))
