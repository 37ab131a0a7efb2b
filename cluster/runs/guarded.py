"""Writes which candidates the guard dropped from the lists of runs, and why."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from cluster.output.storage import Storage
from cluster.output.tables import write_table
from cluster.plan.sweep import Planned
from cluster.runs.artifacts import Artifacts
from cluster.runs.outcome import read_outcome
from cluster.runs.parts import Lists
from ranking.collections.collection import Collection
from sampling.guarded_documents import REASONS, GuardedDocuments

GUARDED = "guarded"
MARGINS = ("absolute", "relative", "ceiling")


def write_guarded(storage: Storage, runs: Iterable[Planned], artifacts: Artifacts) -> None:
    """Write guarded.parquet, where a run has a guard: a row a query and dropped document.

    Lists that several runs share are written once, with the name of the first of them. Of a function that ranks while
    rankers train (`dense`), it is what was dropped when each query was last asked, for each run and fold.

    Args:
        storage: the output folder.
        runs: those that have ended, and others.
        artifacts: gives the lists.
    """
    seen, tables = set(), []
    for planned in runs:
        margins = {name: planned.config["sampling"]["guard"][name] for name in MARGINS}
        if all(margin is None for margin in margins.values()):
            continue
        outcome, collection = read_outcome(storage, planned.name), artifacts.collection(planned.config)
        if outcome is None:
            continue
        for name, key in artifacts.keys(planned.config).items():
            kind, _, function = name.partition(":")
            if kind == "function" and key not in seen:
                seen.add(key)
                lists = artifacts.part(planned.config, name)
                assert isinstance(lists, Lists)
                tables.append(_table(planned.name, function, margins, collection, lists.guarded))
        for row in outcome.guarded:
            record = GuardedDocuments(**{key: row[key] for key in row if key not in ("fold", "function")})
            tables.append(_table(planned.name, row["function"], margins, collection, record))
    if tables:
        write_table(storage, GUARDED, pl.concat(tables))


def _table(
    run: str, function: str, margins: dict[str, float | None], collection: Collection, record: GuardedDocuments
) -> pl.DataFrame:
    return pl.DataFrame({
        "query": collection.queries["id"].gather(record.queries.astype(np.uint32)),
        "document": collection.gather("id", record.documents),
        "reason": pl.Series(list(REASONS), dtype=pl.String).gather(record.reasons.astype(np.uint32)),
        "score": record.scores,
        "positive": record.positives,
    }).select(
        pl.lit(run).alias("run"), pl.lit(function).alias("function"),
        *(pl.lit(margins[name], pl.Float64).alias(name) for name in MARGINS),
        "query", "document", "reason", "score", "positive",
    )  # fmt: skip
