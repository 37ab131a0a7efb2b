"""Lays out the verdict of a study: a table per ranker and origin of candidates, and a sentence."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from cluster.config.mine_command import mine_command
from cluster.output.methods import with_methods
from cluster.reports.labels import (
    count,
    distinct_names,
    duration,
    letter_key,
    lettered,
    p_value,
    signed,
    signed_interval,
    title_of,
    value,
)
from cluster.reports.report import Cell, Part, Section, Table, Verbatim
from cluster.reports.result_sections import origin_name
from cluster.statistics.verdict import Conclusion, MethodTest, Verdict

MOST = 20
"""The number of methods in a table of the terminal; the page has all of them."""
NOTE = (
    "The 95% interval is that of one difference, p is corrected for all of them (Holm); both are for other seeds and "
    "other queries; * p < .05. Time is that of training a run, documents are those that the ranker read, memory is the "
    "peak of the process."
)


def verdict_section(conclusion: Conclusion, summary: pl.DataFrame, trials: pl.DataFrame | None = None) -> Section:
    """The verdicts, for the top of the page and the end of the terminal."""
    several = len({verdict.place["collection"] for verdict in conclusion.verdicts}) > 1
    parts: list[Part] = []
    terminal: list[Part] = []
    for verdict in conclusion.verdicts:
        place = verdict.place
        names = distinct_names(row["method"] for row in verdict.rows)
        title = title_of(place["ranker"], place["collection"], several)
        caption = f"{title}: {place['measure']}, {origin_name(place['candidates'])}"
        alone = summary.filter(
            *(pl.col(name) == place[name] for name in ("collection", "candidates", "measure")), ranker="bm25"
        ).rows(named=True)
        sentence = " ".join([verdict.sentence(names), *_behind(verdict, alone)])
        parts += [Cell(f"{caption}. {sentence}", best=True), _table(verdict, names, alone, caption, wide=True)]
        letters = lettered(names)
        shown = [row["method"] for at, row in enumerate(verdict.rows) if at < MOST or row["method"] == verdict.take]
        terminal += letter_key(letters, {method: names[method] for method in shown})
        terminal.append(_table(verdict, letters, alone, caption, wide=False, shown=shown))
        if len(shown) < len(names):
            terminal.append(f"{len(names) - len(shown)} more methods are in report.html and summary.csv.")
        terminal += [sentence, ""]
    command = None if trials is None else _mining(conclusion, trials)
    if command:
        parts += ["To mine such negatives:", Verbatim(command)]
        terminal += [f"To mine such negatives: {command}", ""]
    parts += conclusion.depends
    terminal += conclusion.depends
    note = [NOTE] if any(verdict.tests for verdict in conclusion.verdicts) else []
    frames = {"verdict.csv": conclusion.table()}
    return Section("", [*parts, *note], [*terminal, *note], frames, last=True)


def _mining(conclusion: Conclusion, trials: pl.DataFrame) -> str | None:
    """Return the command that mines the negatives of the first recommended method."""
    for verdict in conclusion.verdicts:
        if verdict.take is not None:
            place = {name: verdict.place[name] for name in ("collection", "ranker")}
            runs = with_methods(trials).filter(
                *(pl.col(name) == value for name, value in place.items()), method=verdict.take
            )
            overrides = trials.filter(pl.col("run").is_in(runs["run"].head(1).to_list()))["overrides"].to_list()
            return mine_command(shlex.split(overrides[0])) if overrides else None
    return None


def _behind(verdict: Verdict, alone: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say so if the first stage alone has a higher mean than every method."""
    best = max((row["mean"] for row in verdict.rows), default=math.inf)
    return [
        f"{row['method']} has {value(row['mean'])}, more than any method here: is this ranker trained long enough?"
        for row in alone
        if row["mean"] > best
    ]


def _table(
    verdict: Verdict,
    names: Mapping[str, str],
    alone: Sequence[Mapping[str, Any]],
    caption: str,
    wide: bool,
    shown: Sequence[str] | None = None,
) -> Table:
    """A row per method, or per method in `shown`: its mean, its difference from the reference, and its cost."""
    reference = names.get(verdict.reference, verdict.reference)
    against = f"against {reference} (95%)" if verdict.tests else "difference"
    base = next((row["seconds"] for row in verdict.rows if row["method"] == verdict.reference), None)
    rows: list[list[object]] = []
    for row in verdict.rows:
        if shown is not None and row["method"] not in shown:
            continue
        test = verdict.tests.get(row["method"])
        name = names[row["method"]] + (" (baseline)" if wide and row["method"] == verdict.baseline else "")
        spread = f"± {value(row['std'])}" if wide and row["std"] is not None else ""
        timed = base and row["seconds"] and row["method"] != verdict.reference
        ratio = f"{row['seconds'] / base:.1f}×" if timed else ""
        memory = None if row["memory"] is None else f"{row['memory']:,.0f} MB"
        rows.append([
            name, Cell(value(row["mean"]), spread, best=row["method"] == verdict.take), _difference(test),
            p_value(None if test is None else test.p), duration(row["seconds"]), ratio, count(row["documents_read"]),
            memory, *([row["runs"]] if wide else []),
        ])  # fmt: skip
    dashes = [""] * (6 + wide)
    rows += [[row["method"], value(row["mean"]), *dashes] for row in alone]
    head = [
        "method", "mean" if not wide else verdict.place["measure"], against, "p", "time", "", "docs" if not wide else
        "documents read", "memory", *(["runs"] if wide else []),
    ]  # fmt: skip
    return Table(head, rows, caption="" if wide else caption)


def _difference(test: MethodTest | None) -> Cell:
    if test is None:
        return Cell(None)
    interval = signed_interval(test.low, test.high)
    return Cell(signed(test.difference), f"({interval})" if interval else "", "*" if test.differs else "")
