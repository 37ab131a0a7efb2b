"""Makes the tables that `pyrite train` prints of a run."""

from __future__ import annotations

import polars as pl

from pyrite.analysis.methods import UNTRAINED
from pyrite.analysis.reports import columns
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
        sides = {f"over {origin}": values, UNTRAINED: outcome.untrained.get(origin)}
        sides |= {"BM25's order": outcome.bm25[origin]}
        shown = {title: column for title, column in sides.items() if column is not None}
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
    rows = [row | {"stage": row["stage"] + 1} for row in outcome.sampler]
    stage = [columns.text("stage")] if len({row["stage"] for row in rows}) > 1 else []
    fallback = [columns.number("fallback", ",")] if any(row["fallback"] for row in rows) else []
    declared = [columns.text("function"), *stage, *COUNTS, *fallback, *SCORES]
    return columns.table(rows, declared, caption="negatives")


def _score(head: str, kind: str) -> columns.Column:
    """Declare a column of the mean and deviation of scores; a dash if there are no negatives."""
    form = f"{{{kind}_mean:.2f}} ± {{{kind}_std:.2f}}"
    return columns.Column(head, lambda row: form.format(**row) if row["negatives"] else None)


COUNTS = [columns.number(name, ",") for name in ("batches", "negatives", "missing", "guarded")]
SCORES = _score("score of positives", "positive"), _score("of negatives", "negative")
