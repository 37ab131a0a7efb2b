"""Computes the keys of a run's shared parts, and what its result is built from."""

from __future__ import annotations

import hashlib
from typing import Any

from pyrite.cluster.config.agents import checkpoint_of, learner_of
from pyrite.cluster.config.trainer_option import files_of_trainer, trains_elsewhere
from pyrite.cluster.output.provenance import code
from pyrite.cluster.output.terminal import applying
from pyrite.cluster.runs import shared_parts  # noqa: F401  declares the parts
from pyrite.cluster.runs.agent_file import agent_content, holds_agent
from pyrite.cluster.runs.collections import Collections
from pyrite.cluster.runs.shared_part import part_names
from pyrite.ranking.digest import checkpoints_of, contents, digest


def keys_of(config: dict[str, Any], collections: Collections) -> dict[str, str]:
    """Return the name and key of each part of a configuration. Only the collection is read."""
    keys: dict[str, str] = {}
    for full_name, part, name in part_names(config):
        keys[full_name] = part.key(collections, config, name, keys)
    if checkpoint := checkpoint_of(config):
        keys["agent"] = digest(hashlib.sha256(agent_content(checkpoint)).hexdigest())
    return keys


ALWAYS = ("ranking", "sampling", "cluster/runs", "cluster/training")
"""Folders of code on which the result of every run depends."""


def provenance(config: dict[str, Any], collections: Collections) -> dict[str, str]:
    """Return what a run's result is built from next to its configuration: parts, the ranker's checkpoint, and code.

    It is empty if an agent has not been learned yet.
    """
    if learner_of(config) or ((agent := checkpoint_of(config)) and not holds_agent(agent)):
        return {}
    checkpoints = checkpoints_of(config["ranker"])
    ranker = {"ranker": digest(checkpoints)} if checkpoints else {}
    theirs = {"trainer": digest(contents(files))} if (files := files_of_trainer(config)) else {}
    folders = {
        **dict.fromkeys(ALWAYS, True),
        "cluster/index": any("refresh" in node for node in config["function"].values()),
        "rl": checkpoint_of(config) or "state" in config,
        "torch": trains_elsewhere(config),
    }
    return keys_of(config, collections) | ranker | theirs | code(*applying(folders))
