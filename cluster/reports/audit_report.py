"""Writes what an audit found: each policy's false negatives, what guards would have dropped, new judgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from cluster.output.storage import Storage
from cluster.output.tables import write_table
from cluster.reports.canvas import INK, grid, looks, name_axes, png
from pooling.false_negatives import rate
from ranking import trec_files

PAIR = ["query", "document"]
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)
"""Of the negatives that score highest beside their positive, which a guard would drop."""


def write_report(storage: Storage, shown: pl.DataFrame, judged: pl.DataFrame, console: Console) -> None:
    """Write rates.csv, guards.csv, qrels.txt, false_negatives.png and audit.parquet; print the rates.

    Args:
        storage: the audit's folder.
        shown: method, query, document, function, times, margin, score.
        judged: query, document, inclusion, drawn, grade, relevant (null where not judged).
        console: gets the table.
    """
    every = shown.join(judged.select(*PAIR, "inclusion", "grade", "relevant"), on=PAIR, how="left")
    rates, guards = rates_of(every), guards_of(every)
    write_table(storage, "audit", every)
    storage.write("rates.csv", rates.write_csv().encode())
    storage.write("guards.csv", guards.write_csv().encode())
    storage.write("false_negatives.png", png(figure(rates)))
    console.print(table_of(rates), crop=False)
    write_qrels(storage, judged.drop_nulls("grade"), console)


def write_qrels(storage: Storage, judged: pl.DataFrame, console: Console) -> None:
    """Write the judgements of negatives, for `pyrite study --relabel`: query, document, grade."""
    pairs = judged.select(*PAIR, "grade").unique(PAIR, keep="last").sort(PAIR)
    with storage.writing("qrels.txt") as stream:
        trec_files.write_qrels(stream, pairs, storage)
    place, found = storage.path("qrels.txt"), int((pairs["grade"] > 0).sum())
    console.print(f"{found:,} of {len(pairs):,} judged are relevant: {place}", soft_wrap=True, markup=False)
    console.print(f"run a study again with them: pyrite study --relabel {place} …", soft_wrap=True, markup=False)


def rates_of(every: pl.DataFrame) -> pl.DataFrame:
    """Share of relevant ones among the negatives shown, by method and by its functions: method, function ("all"),
    shown, judged, rate, low, high (95% interval)."""
    rows = []
    for (method,), own in every.partition_by("method", as_dict=True, maintain_order=True).items():
        parts = {"all": own} | {str(name): part for (name,), part in own.partition_by("function", as_dict=True).items()}
        for function, part in parts.items():
            if function == "all" or len(parts) > 2:
                rows.append({"method": method, "function": function, **_rated(part)})
    return pl.DataFrame(rows, schema_overrides={"rate": pl.Float64})


def guards_of(every: pl.DataFrame) -> pl.DataFrame:
    """What a guard on the ranker's own score would have dropped: method, share (of the negatives shown, those that
    score highest beside their positive), margin (score less the positive's, from which on they are dropped),
    relevant_dropped (share of all relevant ones shown), dropped_relevant (share of the dropped that is relevant), left
    (share of the rest that is relevant)."""
    rows = []
    for (method,), own in every.partition_by("method", as_dict=True, maintain_order=True).items():
        own = own.sort("margin", descending=True)
        upto = own["times"].cum_sum() / own["times"].sum()
        all_of_it = _rated(own)
        for share in SHARES:
            dropped = own.filter(upto <= share)
            kept = own.filter(upto > share)
            if not len(dropped) or not len(kept):
                continue
            of_dropped, of_kept = _rated(dropped), _rated(kept)
            relevant = (all_of_it["rate"] or 0) * all_of_it["shown"]
            rows.append({
                "method": method, "share": share, "margin": dropped["margin"].min(),
                "relevant_dropped": (of_dropped["rate"] or 0) * of_dropped["shown"] / relevant if relevant else None,
                "dropped_relevant": of_dropped["rate"], "left": of_kept["rate"],
            })  # fmt: skip
    return pl.DataFrame(rows)


def _rated(part: pl.DataFrame) -> dict[str, Any]:
    pairs = part.group_by(PAIR, maintain_order=True).agg(
        pl.col("times").sum(), pl.col("inclusion").first(), pl.col("relevant").first()
    )
    relevant = pairs["relevant"].fill_null(float("nan")).to_numpy()
    told = rate(pairs["times"].to_numpy().astype(np.float64), pairs["inclusion"].to_numpy(), relevant)
    return {
        "shown": int(pairs["times"].sum()),
        "judged": told.judged,
        "rate": told.rate,
        "low": told.low,
        "high": told.high,
    }


def table_of(rates: pl.DataFrame) -> Table:
    """The rates, for people."""
    layout = Table(title="negatives that are relevant", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("method", "function", "shown", "judged", "relevant", "95% interval"):
        layout.add_column(name, justify="left" if name in ("method", "function") else "right", no_wrap=True)
    for row in rates.iter_rows(named=True):
        rate = "–" if row["rate"] is None else f"{row['rate']:.1%}"
        counts = [f"{row['shown']:,}", f"{row['judged']:,}"]
        layout.add_row(row["method"], row["function"], *counts, rate, f"{row['low']:.1%} to {row['high']:.1%}")
    return layout


def figure(rates: pl.DataFrame, truth: Mapping[str, float] | None = None) -> Figure:
    """Draw each method's share of relevant negatives with its interval, and beside it the truth where that is known.

    Args:
        rates: of `rates_of`.
        truth: by method.
    """
    whole = rates.filter(pl.col("function") == "all").drop_nulls("rate")
    drawn, [ax] = grid([""], [""], 0.9 + 0.35 * len(whole))
    styles = looks(whole["method"])
    for place, row in enumerate(whole.iter_rows(named=True)):
        look = styles[row["method"]]
        ax.plot([100 * row["low"], 100 * row["high"]], [place, place], color=look.colour, lw=2)
        ax.plot(100 * row["rate"], place, "o", color=look.colour)
        if truth is not None:
            ax.plot(100 * truth[row["method"]], place, "|", color=INK, ms=14, mew=1.5)
    ax.set_yticks(range(len(whole)), whole["method"].to_list())
    ax.set_ylim(len(whole) - 0.5, -0.5)
    ax.set_xlim(0)
    told = "" if truth is None else "; upright: the truth"
    name_axes(ax, f"negatives shown that are relevant, per cent, with 95% interval{told}", "")
    return drawn
