"""Composes the configurations of learnings: of `pyrite learn`, and of the agents that a study needs first."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.agents import checkpoint_of, learner_of, needs_of_agent
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import without_choices
from pyrite.cluster.config.override import of_keys, root_of, without
from pyrite.cluster.config.quoting import override_of
from pyrite.cluster.config.validate import check_agent, check_learning
from pyrite.cluster.config.word_vectors import word_vectors
from pyrite.cluster.output.manifest import CONFIG, read_config, write_config
from pyrite.cluster.output.provenance import code, differences
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import Planned, identity, refuse_sweeps
from pyrite.cluster.rollouts.checkpoints import built_from
from pyrite.cluster.runs.agent_file import agent_of, read_agent
from pyrite.ranking.digest import checkpoints_of, digest
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from pyrite.ranking.collections.collection import Collection

MAY_CHANGE = ("workers", "save_every", "address", "dashboard", "track")
"""Options that may change when a learning is resumed, because its result does not depend on them."""
NOT_OF_THE_RESULT = (*MAY_CHANGE, "out", "resume")
"""Keys of a learning on which its result does not depend, besides those of a run (`sweep.identity`)."""
SET_BY_STUDY = {"seed": "give {part}.agent={value}"} | dict.fromkeys(
    ("out", "resume", "workers", "dashboard", "address", "track"), "leave it out: the study has its own"
)
"""Options that can't be in `policy.learn`, and what to do instead."""
OF_SELECTOR = "give policy=fixed function=tfidf selector=learned, whose agent picks documents"
"""What to do instead of `actions=documents` in `policy.learn`."""
CODE = ("ranking", "sampling", "rl", "cluster/runs", "cluster/training", "cluster/rollouts")
"""Folders of the code on which the result depends."""
AGENTS = "agents"
"""Subfolder of a study's folder for the agents that it learns."""


@dataclass(frozen=True)
class LearnRequest:
    """The learning that a user requested."""

    config: dict[str, Any]
    arguments: list[str]
    storage: Storage

    @property
    def options(self) -> dict[str, Any]:
        """The options of its command; RLlib needs Ray."""
        return self.config | {"local": False}

    def store(self, keys: Mapping[str, str]) -> ResultStore:
        """Return the store of the learning's state."""
        checkpoints = checkpoints_of(self.config["ranker"])
        ranker = {"ranker": digest(checkpoints)} if checkpoints else {}
        return ResultStore(self.storage, "trainings", {**keys, **ranker, **code(*CODE)})

    def content(self) -> dict[str, Any]:
        """Return the entries of `config.yaml` that only a learning has."""
        return without_choices(self.config)

    def changed(self, keys: Mapping[str, str]) -> list[str] | None:
        """Return what has changed since the agent was learned; None if there is none, or it is damaged."""
        try:
            return differences(read_agent(self.storage.place).built_from, built_from(self.store(keys)))
        except BadInput:
            return None

    def record(self, collection: Collection) -> None:
        """Write the manifest of an agent that a study learns."""
        self.check(collection)
        if self.storage.read(CONFIG) is None:
            command = shlex.join(["pyrite", "learn", *self.arguments])
            manifest = {"verb": "learn", "command": command, **self.content(), "overrides": self.arguments}
            write_config(self.storage, manifest | {"collections": {collection.fingerprint: collection.name}})

    def check(self, collection: Collection) -> None:
        """Refuse to continue over another collection."""
        if self.storage.read(CONFIG) is None:
            return
        known = read_config(self.storage).get("collections") or {}
        what = f"the collection {collection.name} has changed since this learning began"
        refuse(collection.fingerprint not in known, what, self.storage.place, "start another")


def compose_learning(overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a learning, after checking it and building each part once."""
    refuse_sweeps(overrides, "learn", "learn one agent at a time, or several in a `pyrite study`")
    config = compose(overrides, "learn")
    check_learning(config, agent_of(config))
    return config


def missing(
    requests: Mapping[str, LearnRequest], runs: Iterable[Planned], keys_of: Callable[[dict[str, Any]], dict[str, str]]
) -> tuple[dict[str, LearnRequest], Counter[str]]:
    """Return the learnings that these runs need and that have not ended, or ended with other data or code.

    Args:
        requests: the learnings, by the agent's name.
        keys_of: returns the keys of the parts of a configuration.

    Returns:
        The learnings by the agent's name, and the number of outdated agents by what has changed.
    """
    wanted = {checkpoint_of(planned.config) for planned in runs}
    left, outdated = dict[str, LearnRequest](), Counter[str]()
    for name, request in requests.items():
        changed = request.changed(keys_of(request.config)) if request.storage.place in wanted else []
        if changed != []:
            left[name] = request
        if changed:
            outdated[", ".join(changed)] += 1
    return left, outdated


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
        _refuse_unused(planned.config)
        if part is None:
            given.append(planned)
            continue
        build(planned.config[part], part, trust="composed")  # refuses options of another type, as lists in policy.learn
        _check_options(planned.config[part]["learn"], part)
        overrides = _overrides(planned, part, scaled)
        if overrides not in composed:
            composed[overrides] = _request(overrides, storage)
            _check_fit(planned.config, part, composed[overrides].config)
        request = composed[overrides]
        requests.setdefault(request.storage.name, request)
        node = planned.config[part] | {"checkpoint": request.storage.place}
        overrides = (*planned.overrides, override_of(f"{part}.checkpoint", request.storage.place))
        given.append(replace(planned, overrides=overrides, config=planned.config | {part: node}))
    return given, requests


def _overrides(planned: Planned, part: str, scaled: Sequence[str]) -> tuple[str, ...]:
    """Return the overrides of the learning that a run's policy or selector needs."""
    node = planned.config[part]
    left_out = ("seed", "policy", "selector") if part == "selector" else ("seed", "policy")
    own = without(planned.overrides, left_out, root_of)
    extra = ["actions=documents"] if part == "selector" else []
    return (*own, *extra, *scaled, *node["learn"], f"seed={node['agent']}", "workers=0", "dashboard=false")


def _request(overrides: Sequence[str], storage: Storage) -> LearnRequest:
    config = compose_learning(overrides)
    name = identity({key: value for key, value in config.items() if key not in NOT_OF_THE_RESULT})[:10]
    return LearnRequest(config, list(overrides), storage.within(f"{AGENTS}/{name}"))


def _refuse_unused(config: Mapping[str, Any]) -> None:
    """Refuse options of a learning next to an agent that the user names: one agent would count as several."""
    for part in ("policy", "selector"):
        node = config[part]
        unused = [f"{part}.{key}" for key in ("agent", "learn") if node.get(key)]
        what = f"{' and '.join(unused)} choose how a study learns its agents, and this one is learned already"
        remedy = f"leave out {' and '.join(unused)}, or {part}.checkpoint"
        refuse(node.get("checkpoint") and unused, what, node.get("checkpoint"), remedy)


def _check_options(learn: Sequence[str], part: str) -> None:
    """Refuse overrides of a learning that the study sets itself, or that are of another kind of agent."""
    refused = SET_BY_STUDY | ({"actions": OF_SELECTOR} if part == "policy" else {})
    for text in of_keys(learn, refused, root_of):
        remedy = refused[root_of(text)].format(part=part, value=text.partition("=")[2])
        raise BadInput(f"{text} is no option of a {part} that a study learns", f"{part}.learn", remedy)


def _check_fit(config: dict[str, Any], part: str, learning: dict[str, Any]) -> None:
    """Refuse an agent that its runs could not use, before it is learned."""
    check_agent(config, needs_of_agent(learning))
    what = "the agent would read other word vectors than the runs"
    differ = word_vectors(learning) != word_vectors(config)
    refuse(differ, what, f"{part}.learn", "leave vectors out of it, and give the study vectors=")
