"""Makes the tables that `pyrite train` prints of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from pyrite.analysis.methods import UNTRAINED
from pyrite.analysis.reports.report import Table
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.output.terminal import counted
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.cut_checkpoints import cut_of
from pyrite.cluster.runs.outcome import Outcome


def figures(planned: Planned, outcome: Outcome) -> Table:
    """Return the table of measures by origin: the ranker's after and before training, and those of BM25's order."""
    head, rows = ["measure"], [[measure] for measure in planned.config["measures"]]
    for origin, values in outcome.values.items():
        columns = {f"over {origin}": values, UNTRAINED: outcome.untrained.get(origin)}
        columns |= {"BM25's order": outcome.bm25[origin]}
        shown = {title: column for title, column in columns.items() if column is not None}
        head += shown
        for row in rows:
            row += [f"{float(column[row[0]].mean()):.4f}" for column in shown.values()]
    cut = cut_of(planned.config)
    ranker = planned.config[CHOICES]["ranker"] + (f" ({cut})" if cut else "")
    caption = f"{ranker} after {counted(outcome.best_epoch, 'epoch')}"
    return Table(head, rows, caption=caption)


def by_collection(rows: pl.DataFrame, caption: str) -> Table:
    """Return the table of the ranker's measures on several collections, each with BM25's on the line below.

    Four measures fit into a terminal of 80 columns.
    """
    lines: list[list[str]] = []
    for (name, origin), part in rows.group_by("collection", "origin", maintain_order=True):
        ranker, bm25 = (
            ["–" if value is None else f"{value:.4f}" for value in part[column]] for column in ("value", "bm25")
        )
        lines += [[str(name), str(origin), f"{part['queries'][0]:,}", *ranker], ["BM25's order", "", "", *bm25]]
    head = ["collection", "over", "queries", *rows["measure"].unique(maintain_order=True)]
    return Table(head, lines, words=2, caption=caption)


def sampling(outcome: Outcome) -> Table:
    """Return the table of the negatives that each function supplied, with their scores by the ranker when shown."""
    stage = ["stage"] if len({row["stage"] for row in outcome.sampler}) > 1 else []
    counts = ["batches", "negatives", "missing", "guarded"]
    if any(row["fallback"] for row in outcome.sampler):
        counts.append("fallback")
    rows = [
        [row["function"], *(str(row[key] + 1) for key in stage), *(f"{row[key]:,}" for key in counts), *_scores(row)]
        for row in outcome.sampler
    ]
    head = ["function", *stage, *counts, "score of positives", "of negatives"]
    return Table(head, rows, caption="negatives")


def _scores(row: Mapping[str, Any]) -> list[str]:
    """Return mean and deviation of the scores of positives and negatives, if there are negatives."""
    if not row["negatives"]:
        return ["–", "–"]
    return [f"{row[f'{kind}_mean']:.2f} ± {row[f'{kind}_std']:.2f}" for kind in ("positive", "negative")]
