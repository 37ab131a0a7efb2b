"""Lays out what rankers reach on collections that they have not learned from, side by side with their mean."""

from __future__ import annotations

from typing import Any

import polars as pl

from cluster.output.methods import with_methods
from cluster.reports.html_tables import cell
from cluster.reports.page import Markup, fold, rendered, table
from cluster.reports.terminal_table import figure
from cluster.runs.measured_on import MEAN


def summarise_zero_shot(trials: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """A row a method, collection, origin and measure: over runs, what they reach there, and BM25's own order.

    Args:
        trials: the frame of `trials.parquet`.
        found: the frame of `zero_shot.parquet`.

    Returns:
        learned_from (a collection), ranker, method, collection, origin, measure; mean and std over runs, bm25,
        queries and runs.
    """
    of_run = with_methods(trials).select("run", pl.col("collection").alias("learned_from"), "ranker", "method")
    keys = ["learned_from", "ranker", "method", "collection", "origin", "measure"]
    return (
        found.join(of_run, on="run", maintain_order="left")
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").std().alias("std"),
            pl.col("bm25").mean(),
            pl.col("queries").first(),
            pl.len().alias("runs"),
        )
    )


def section(trials: pl.DataFrame, found: pl.DataFrame | None) -> list[Markup]:
    """The part of a report: a table for each origin and measure, the first one open; nothing where `evaluate` is empty.

    Args:
        trials: the frame of `trials.parquet`.
        found: the frame of `zero_shot.parquet`; None where a study has none.
    """
    if found is None or found.is_empty():
        return []
    summary = summarise_zero_shot(trials, found)
    laid = [
        (f"{measure} over {origin} candidates", _collections(part))
        for (origin, measure), part in summary.group_by("origin", "measure", maintain_order=True)
    ]
    (title, first), *others = laid
    return [rendered("zero_shot.html", title=title, first=first, others=[fold(name, each) for name, each in others])]


def _collections(part: pl.DataFrame) -> Markup:
    """One measure over one origin: a column a collection, their mean last."""
    names = [name for name in part["collection"].unique(maintain_order=True) if name != MEAN]
    columns = [*names, MEAN]
    several = part["learned_from"].n_unique() > 1
    rows: list[list[object] | str] = []
    for (place, ranker), own in part.group_by("learned_from", "ranker", maintain_order=True):
        rows.append(f"{ranker}, trained on {place}" if several else str(ranker))
        best = dict(own.group_by("collection").agg(pl.col("mean").max()).iter_rows())
        order = own.filter(collection=MEAN).sort("mean", descending=True)["method"]
        for method in order:
            of = {row["collection"]: _marked(row) for row in own.filter(method=method).iter_rows(named=True)}
            shown = [cell(of[name], best[name]) for name in columns]
            rows.append([method, *shown, of[MEAN]["runs"]])
    bm25 = dict(part.group_by("collection").agg(pl.col("bm25").first()).iter_rows())
    queries = dict(part.group_by("collection").agg(pl.col("queries").first()).iter_rows())
    rows.append(["BM25's own order", *(figure(bm25[name]) for name in columns), ""])
    return table(["method", *(f"{name} ({queries[name]:,})" for name in columns), "runs"], rows)


def _marked(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"marks": ""}  # no test is made of collections that share their runs
