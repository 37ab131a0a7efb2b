"""Computes a key for each part of a run from everything that the part depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.agents import checkpoint_of, learner_of
from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import option
from pyrite.cluster.output.provenance import checkpoints_of, code, files_of
from pyrite.cluster.runs.agent_file import agent_content, documents_of, has_agent, read_agent
from pyrite.cluster.runs.collections import Collections, collections_of
from pyrite.ranking.digest import digest
from pyrite.ranking.encoding import SPLITS

if TYPE_CHECKING:
    from pyrite.ranking.tokenization import Tokenization
    from pyrite.rl.state import StateOptions

FORMAT = 10
"""Number to increase whenever a part's content changes for the same configuration."""


def keys_of(config: dict[str, Any], collections: Collections) -> dict[str, str]:
    """Return the name and key of each part of a configuration. Only the collection is read."""
    from pyrite.ranking.objectives.objective import Objective

    fingerprint = collections.collection(config).fingerprint
    limits = {split: config["limits"][split] for split in SPLITS}
    options = [config["encoding"], config["vectors"], limits, config["folds"]]
    content = [FORMAT, fingerprint, *options, *files_of(config["vectors"])]
    if absent := build(config["vectors"], "vectors").stand_in():
        content.append(absent[1])  # so that a study is not resumed with other vectors once these are installed
    base = digest(content)
    keys = {"base": base}
    if tokenization := tokenization_of(config):
        keys["tokens"] = digest([FORMAT, fingerprint, tokenization.key()])
    if config["ranker"].get("categories"):
        keys["labels"] = digest([FORMAT, fingerprint, "labels"])
    for name, node in config["origin"].items():
        keys[f"origin:{name}"] = digest([base, "test", node, files_of(node)])
    for name, origin in validation_parts(config).items():
        validation = validation_origin(config, origin)
        keys[name] = digest([base, "dev", validation, files_of(validation)])
    if type(build(config["objective"])).rank is not Objective.rank:  # it ranks documents before the training
        keys["objective"] = digest([base, config["objective"], files_of(config["objective"])])
    guard, listed = config["sampling"]["guard"], bm25_in_shards(config, listed=True)
    for name, node in config["function"].items():
        content = [base, node, guard, files_of(node), *files_of(guard.get("ranker") or {})]
        # With shards, some runs have lists and others do not.
        keys[f"function:{name}"] = digest([*content, "listed"] if name in listed else content)
    if teacher := config.get("teacher"):
        lists = [keys[f"function:{name}"] for name in config["function"]]
        keys["teacher"] = digest([base, teacher, files_of(teacher), lists])
    keys |= _observed(config, keys)
    read = keys.get("tokens", base)
    for name in collections_of(config.get("evaluate", [])):
        other = collections.other_collection(config, name).fingerprint
        content = [FORMAT, other, read, config["encoding"], config["origin"], config["limits"]["test"]]
        keys[f"evaluate:{name}"] = digest(content)
    return keys


def provenance(config: dict[str, Any], collections: Collections) -> dict[str, str]:
    """Return what a run's result is built from next to its configuration: parts, the ranker's checkpoint, and code.

    It is empty if an agent has not been learned yet.
    """
    if learner_of(config) or ((agent := checkpoint_of(config)) and not has_agent(agent)):
        return {}
    checkpoints = checkpoints_of(config["ranker"])
    folders = ["ranking", "sampling", "cluster/runs", "cluster/training"]
    folders += ["cluster/index"] if any("refresh" in node for node in config["function"].values()) else []
    folders += ["rl"] if checkpoint_of(config) or "state" in config else []
    ranker = {"ranker": digest(checkpoints)} if checkpoints else {}
    return keys_of(config, collections) | ranker | code(*folders)


def _observed(config: dict[str, Any], keys: dict[str, str]) -> dict[str, str]:
    """Return the keys of the tables that an agent's states are looked up in, if there is an agent."""
    tables = {}
    if checkpoint := checkpoint_of(config):
        tables["agent"] = digest(hashlib.sha256(agent_content(checkpoint)).hexdigest())
    elif "state" not in config:
        return {}
    tables["compressed"] = digest([keys["base"], state_of(config).weighting])
    for name in config["function"]:
        tables[f"similarity:{name}"] = digest([keys[f"function:{name}"], "similarity"])
    if documents := documents_of(config):
        tables["candidates"] = digest([keys[nearest_part(config)], "candidates", documents])
    return tables


def state_of(config: dict[str, Any]) -> StateOptions:
    """Return the options of the agent's states."""
    if checkpoint := checkpoint_of(config):
        return read_agent(checkpoint).state
    return build(config["state"])


def validation_parts(config: dict[str, Any]) -> dict[str, str]:
    """Return the origins of the validation by the names of their parts. The first one selects the best epoch."""
    given = config["validation"]["origin"]
    leading, *others = [given] if isinstance(given, str) else given
    return {"validation": leading} | {f"validation:{origin}": origin for origin in others}


def validation_origin(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the options of an origin of the validation, which need not be one of the test."""
    return config["origin"].get(name) or option("origin", name)[name]


def tokenization_of(config: dict[str, Any]) -> Tokenization | None:
    """Return the tokenization of the configured ranker; None if it reads words."""
    ranker = build(config["ranker"])
    return ranker.func.tokenization(**ranker.keywords)


def nearest_part(config: dict[str, Any]) -> str:
    """Return the name of the part with the lists that an agent picks documents from."""
    (name,) = config["function"]
    return f"function:{name}"


BM25 = "pyrite.sampling.retrieval.bm25.Bm25Function"


def bm25_in_shards(config: Mapping[str, Any], listed: bool = False) -> list[str]:
    """Return the names of the functions in shards whose lists actors serve or, if `listed`, are made before that.

    They are made before the training if a guard, a teacher or an agent needs them: the shards are then searched one by
    one, in the process that makes the other parts.
    """
    functions = config["function"].items()
    sharded = [name for name, node in functions if node["_target_"] == BM25 and node.get("shards", 1) > 1]
    if not sharded:
        return []
    guard = config["sampling"]["guard"]
    guarded = any(guard.get(margin) is not None for margin in ("absolute", "relative", "ceiling"))
    learned = "state" in config or any("checkpoint" in config.get(part, {}) for part in ("policy", "selector"))
    return sharded if (guarded or learned or bool(config.get("teacher"))) == listed else []
