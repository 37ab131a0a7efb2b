"""Shows which actions policies took, epoch by epoch, for policies that compare actions."""

from __future__ import annotations

import polars as pl

from pyrite.cluster.output.methods import with_methods
from pyrite.cluster.reports.labels import distinct_names
from pyrite.cluster.reports.report import Rows, Section, Table


def actions_section(trials: pl.DataFrame, actions: pl.DataFrame | None) -> list[Section]:
    """A table per ranker: for each method, how often its policy took each action, by epoch.

    Args:
        actions: the frame of `actions.parquet`; None if no policy of the study compares actions.
    """
    if actions is None or actions.is_empty():
        return []
    named = actions.join(with_methods(trials).select("run", "method", "ranker", "collection"), on="run")
    names = distinct_names(named["method"].unique(maintain_order=True))
    tables: list[Table] = []
    for (ranker, collection), part in named.group_by("ranker", "collection", maintain_order=True):
        rows: Rows = []
        epochs = sorted(part["epoch"].unique())
        for (method,), own in part.group_by("method", maintain_order=True):
            rows += [names[str(method)], *_rows(own, epochs)]
        tables.append(
            Table(["action", *(f"epoch {epoch}" for epoch in epochs)], rows, caption=f"{ranker}, {collection}")
        )
    text = (
        "The percentage of decisions, over all runs, in which the policy took an action, by the epoch of the decision. "
        "What each action was worth to the policy is in actions.parquet."
    )
    return [Section("What the policies chose", [*tables, text])]


def actions_table(actions: pl.DataFrame) -> Table:
    """Return the table of one run's decisions: each action that was ever taken, by epoch."""
    epochs = sorted(actions["epoch"].unique())
    return Table(["action taken", *(f"epoch {epoch}" for epoch in epochs)], _rows(actions, epochs))


def _rows(actions: pl.DataFrame, epochs: list[int]) -> Rows:
    """Return a row per action that was taken, most often first: the percentage of the decisions of each epoch."""
    means = actions.group_by("action", "epoch").agg(pl.col("taken").mean() * 100)
    shares = {(action, epoch): f"{share:.0f}%" for action, epoch, share in means.iter_rows() if share}
    totals = actions.group_by("action").agg(pl.col("taken").sum()).filter(pl.col("taken") > 0)
    ordered = totals.sort("taken", "action", descending=[True, False])["action"]
    return [[action, *(shares.get((action, epoch), "") for epoch in epochs)] for action in ordered]
