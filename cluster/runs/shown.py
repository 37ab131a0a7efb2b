"""Writes which negatives the runs of a study were shown, for `pyrite audit`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from cluster.output.storage import Storage
from cluster.output.tables import write_table
from cluster.plan.sweep import Planned
from cluster.runs.artifacts import Artifacts
from cluster.runs.outcome import read_outcome

SHOWN = "shown"


def write_shown(storage: Storage, runs: Iterable[Planned], artifacts: Artifacts) -> None:
    """Write shown.parquet, where runs have recorded it (`sampling.recorded`): a row a run, fold, query, document and
    function: times, margin (mean of the ranker's score less the positive's), score (the function's own, or null).

    Args:
        storage: the output folder.
        runs: those that have ended, and others.
        artifacts: gives the collections.
    """
    tables = []
    for planned in runs:
        outcome = read_outcome(storage, planned.name) if planned.config["sampling"]["recorded"] else None
        if outcome is None:
            continue
        collection, functions = artifacts.collection(planned.config), list(planned.config["function"])
        for fold, shown in enumerate(outcome.shown):
            tables.append(
                pl.DataFrame({
                    "run": [planned.name] * len(shown["query"]),
                    "fold": np.full(len(shown["query"]), fold, np.int32),
                    "query": collection.queries["id"].gather(shown["query"].astype(np.uint32)),
                    "document": collection.gather("id", shown["document"]),
                    "function": pl.Series(functions, dtype=pl.String).gather(shown["function"].astype(np.uint32)),
                    "times": shown["times"],
                    "margin": shown["margin"] / np.maximum(shown["times"], 1),
                    "score": pl.Series(shown["score"], dtype=pl.Float32).fill_nan(None),
                }, schema_overrides={"run": pl.String})
            )  # fmt: skip
    if tables:
        write_table(storage, SHOWN, pl.concat(tables))
