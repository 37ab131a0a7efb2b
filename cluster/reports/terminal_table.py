"""Prints the summary of a study as a table, candidate origins side by side (Cohen et al. 2019, table 1).

The winner depends on where the candidates come from, so no table shows one origin alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cluster.output.methods import first_stage_of
from cluster.reports.short_names import short_names

READING = "differs from the best baseline (p < .05, Holm): * t-test paired by seed, ‡ Student's, † KS"


def measures_of(summary: pl.DataFrame) -> list[str]:
    """The measures of a summary in their order, the leading one first."""
    return summary["measure"].unique(maintain_order=True).to_list()


def table(summary: pl.DataFrame, measure: str | None = None) -> Table:
    """Lay out one measure of a summary, a section a ranker, BM25's own order last.

    The best mean of each section and origin is bold; methods stand in the order of the first origin, beside which
    stands what the ranker's scores and BM25's reach together.

    Args:
        summary: the frame of `cluster.reports.summary.summarise`.
        measure: an ir-measures name; by default the first one.
    """
    measures = measures_of(summary)
    measure = measure or (measures[0] if measures else "")
    rows = summary.filter(pl.col("measure") == measure)
    origins = rows["candidates"].unique(maintain_order=True).to_list()
    several = rows["collection"].n_unique() > 1

    title = f"{measure} by origin of the candidates" if measures else "no runs"
    tested = any(rows[test].is_not_null().any() for test in ("paired_p", "t_p", "ks_p"))
    layout = Table(title=title, caption=READING if tested else None, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    layout.title_style, layout.caption_style, layout.caption_justify = "bold", "dim", "left"
    layout.add_column("method", overflow="fold")
    led = mixed_origins(rows)[:1]
    for origin in origins:
        layout.add_column(f"{origin} candidates", no_wrap=True)
        if origin in led:
            layout.add_column(f"with {first_stage_of(origin)}", no_wrap=True)
    layout.add_column("runs", justify="right", no_wrap=True)

    for (collection,), part in rows.partition_by("collection", as_dict=True, maintain_order=True).items():
        rankers = [name for name in part["ranker"].unique(maintain_order=True) if name != "bm25"]
        for ranker in [*rankers, *(["bm25"] if "bm25" in part["ranker"] else [])]:
            section = part.filter(pl.col("ranker") == ranker)
            short, shared = short_names(section["method"].unique(maintain_order=True))
            if ranker != "bm25":
                title = f"{ranker} on {collection}" if several else ranker
                layout.add_row(Text(f"{title}, {shared}" if shared else title, style="bold cyan"))
            best = dict(section.group_by("candidates").agg(pl.col("mean").max()).iter_rows())
            for name in section["method"].unique(maintain_order=True):
                cells = {
                    row["candidates"]: row for row in section.filter(pl.col("method") == name).iter_rows(named=True)
                }
                shown = []
                for origin in origins:
                    shown.append(_cell(cells.get(origin), best.get(origin)))
                    mixed = cells[origin]["interpolated_mean"] if origin in led and origin in cells else None
                    shown += [Text(figure(mixed) if mixed is not None else "")] if origin in led else []
                indent = 0 if ranker == "bm25" else 2
                layout.add_row(Padding(Text(short[name]), (0, 0, 0, indent)), *shown, _runs(cells))
            layout.add_section()
    return layout


def mixed_origins(rows: pl.DataFrame) -> list[str]:
    """The origins over which a ranker's scores and BM25's have been measured together."""
    return rows.drop_nulls("interpolated_mean")["candidates"].unique(maintain_order=True).to_list()


def figure(value: float | None) -> str:
    """A measure's value as tables print it: four places, no leading zero below one."""
    if value is None:
        return "–"
    text = f"{value:.4f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _cell(row: dict[str, Any] | None, best: float | None) -> Text:
    if row is None or row["mean"] is None:
        return Text("     –")
    style = "bold" if row["mean"] == best and row["ranker"] != "bm25" else ""
    spread = f" ± {figure(row['std'])}" if row["std"] is not None else " " * 8
    return Text.assemble((f"{figure(row['mean']):>6}", style), (spread, "dim"), f" {row['marks']}")


def _runs(cells: dict[str, dict[str, Any]]) -> str:
    runs = sorted({row["runs"] for row in cells.values()})
    return "/".join(map(str, runs)) + mishaps(cells.values())


def mishaps(rows: Iterable[dict[str, Any]]) -> str:
    """What went wrong with the runs of a method: " (1 failed, 2 diverged)", or nothing."""
    failed, diverged = (max(counts) for counts in zip(*((row["failed"], row["diverged"]) for row in rows), strict=True))
    told = ", ".join(f"{count} {name}" for count, name in ((failed, "failed"), (diverged, "diverged")) if count)
    return f" ({told})" if told else ""
