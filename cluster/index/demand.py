"""Tells which functions of a run are served by index actors, and what their encoders take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrite.cluster.config.trainer_option import trains_elsewhere
from pyrite.cluster.runs.part_options import bm25_in_shards
from pyrite.ranking.errors import refuse

LIVE_MODES = ("async", "lagged")
"""Modes of `pyrite.sampling.retrieval.dense.Refresh` whose index is built while the ranker trains."""


def live_functions(config: Mapping[str, Any]) -> list[str]:
    """Return the names of a configuration's functions whose index is on Ray actors."""
    if trains_elsewhere(config):  # a training of the user builds its index in a process next to it
        return []
    functions = config["function"].items()
    return [name for name, node in functions if (node.get("refresh") or {}).get("mode") in LIVE_MODES]


def served_functions(config: Mapping[str, Any]) -> list[str]:
    """Return the names of all functions that actors serve: `live_functions`, and BM25 in shards."""
    return live_functions(config) + bm25_in_shards(config)


def demand(config: Mapping[str, Any]) -> dict[str, float]:
    """Return the CPUs and GPUs of all encoders of a run."""
    options, indexes = config["index"], len(live_functions(config))
    per_encoder = {"CPU": float(options["cpu"]), "GPU": float(options["gpu"])}
    return {name: share * options["encoders"] * indexes for name, share in per_encoder.items()}


def reserved(config: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the resource bundles that a trial reserves for its encoders, one per encoder.

    Serving actors reserve no core, since they work while the trainer waits for them. The encoders of a run with several
    workers, which reserve their resources separately, use what is free.
    """
    return [] if config["resources"]["workers"] > 1 else encoder_bundles(config)


def encoder_bundles(config: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the resource bundle of each encoder of a run."""
    options = config["index"]
    bundle = {"CPU": float(options["cpu"])} | ({"GPU": float(options["gpu"])} if options["gpu"] else {})
    return [dict(bundle) for _ in range(options["encoders"] * len(live_functions(config)))]


def check_room(config: Mapping[str, Any], available: Mapping[str, float]) -> None:
    """Raise if a local Ray, which never grows, has too few resources for a run and its encoders together."""
    for name, for_encoders in demand(config).items():
        resources = config["resources"]
        wanted, has = resources[name.lower()] * resources["workers"] + for_encoders, available.get(name, 0)
        refuse(
            for_encoders and wanted > has,
            f"a run and the encoders of its index ask for {wanted:g} {name}s and this machine has {has:g}",
            f"index.{name.lower()}",
            "choose less of it, fewer index.encoders, or refresh.mode=sync",
        )
