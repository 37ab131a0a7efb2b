"""Lays out the verdict of a study: a table per ranker and origin of candidates, and a sentence."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from rich.markup import escape

from pyrite.analysis.counted import counted
from pyrite.analysis.methods import (
    AGENTS,
    MOST_VALUES,
    UNTRAINED,
    factors,
    leading_evaluations,
    swept,
    with_methods,
)
from pyrite.analysis.reports.labels import (
    Letters,
    by_family,
    count,
    distinct_names,
    duration,
    letter_key,
    p_value,
    signed,
    signed_interval,
    title_of,
    value,
    with_cut,
)
from pyrite.analysis.reports.report import Cell, Part, Section, Table, TerminalLine, verbatim
from pyrite.analysis.reports.result_sections import origin_name
from pyrite.analysis.reports.verdict_words import depends, sentence, verdict_table
from pyrite.analysis.statistics.best_settings import best_settings
from pyrite.analysis.statistics.verdict import Conclusion, Verdict

MOST = 20
"""The number of methods in a table of the terminal; the page has all of them."""
NOTE = (
    "The intervals hold together in 95% of studies, p is corrected for all of them (Holm); both are for other seeds "
    "and {}; * p < .05. Time is that of training a run, documents are those that the ranker read, memory is the peak "
    "of the process."
)
CHOSEN_BY_DEV = (
    "The settings of each method that validated best. Test values of the runs that chose them tend to be too high."
)


@dataclass(frozen=True)
class Commands:
    """Functions that write the commands to continue with, and read those of runs.

    Args:
        mine: returns the command that mines negatives as a run with these overrides draws them; None if there is none.
        compare: returns the command that compares methods with their best settings from a first seed on.
        test_limit: returns the most test queries that a run with these overrides may take; None for all.
    """

    mine: Callable[[Sequence[str]], str | None]
    compare: Callable[[pl.DataFrame, int], str]
    test_limit: Callable[[str], int | None]


def verdict_section(
    conclusion: Conclusion,
    summary: pl.DataFrame,
    trials: pl.DataFrame | None = None,
    letters: Letters | None = None,
    commands: Commands | None = None,
) -> Section:
    """The verdicts, for the top of the page and the end of the terminal."""
    several = len({verdict.place["collection"] for verdict in conclusion.verdicts}) > 1
    parts: list[Part] = []
    terminal: list[str | Table] = []
    letters = letters or Letters()
    for verdict in conclusion.verdicts:
        place = verdict.place
        names = distinct_names(row["method"] for row in verdict.rows)
        family = summary.filter(**place)
        title = with_cut(title_of(place["ranker"], place["collection"], several), family)
        caption = f"{title}: {place['measure']}, {origin_name(place['candidates'])}"
        alone = summary.filter(**{**place, "ranker": "bm25"}).rows(named=True)
        if verdict.baseline != UNTRAINED:
            alone = [*family.filter(method=UNTRAINED).rows(named=True), *alone]
        words = " ".join([sentence(verdict, names), *_remarks(verdict, summary, trials, alone)])
        parts += [Cell(f"{caption}. {words}", best=True), _table(verdict, names, alone)]
        brief = letters.of(names)
        shown = [row["method"] for at, row in enumerate(verdict.rows) if at < MOST or row["method"] == verdict.take]
        terminal += letter_key(brief, {method: names[method] for method in shown})
        terminal.append(_table(verdict, brief, alone, caption, shown))
        if len(shown) < len(names):
            terminal.append(f"{counted(len(names) - len(shown), 'more method')}: report.html and summary.csv.")
        terminal += [words, ""]
    frames = {"verdict.csv": verdict_table(conclusion)}
    if trials is not None:
        for section in (*_mining(conclusion, trials, commands), *_settings(trials, commands)):
            parts += section.parts
            terminal += section.terminal
            frames |= section.frames
    tests = [test for verdict in conclusion.verdicts for test in verdict.tests.values()]
    over_queries = any(verdict.known_queries for verdict in conclusion.verdicts)
    note = [NOTE.format("other queries" if over_queries else "these queries")] if tests else []
    last = [*depends(conclusion), *note]
    taken = any(verdict.take is not None for verdict in conclusion.verdicts)
    bold = ["Bold is the mean of the recommended method, which need not be the highest."] if taken else []
    return Section("", [*parts, *last, *bold], [*terminal, *last], frames, last=True)


def _settings(trials: pl.DataFrame, commands: Commands | None) -> list[Section]:
    """The best settings of each method, below the verdict; none if no method ran with several."""
    found = best_settings(trials)
    if found.is_empty() or commands is None:
        return []
    leading = leading_evaluations(trials)
    origins = [origin for origin, _ in leading]
    tables: list[Table] = []
    for title, part in by_family(found):
        names = distinct_names(part["method"])
        rows = [
            [
                names[row["method"]],
                row["settings"],
                *(value(row[name]) for name in ("validation", *origins)),
                row["tried"],
            ]
            for row in part.iter_rows(named=True)
        ]
        head = ["method", "best settings", "dev", *origins, "of"]
        tables.append(Table(head, rows, words=2, caption=f"{title}: best settings by dev queries, {leading[0][1]}"))
    leader = found.sort("validation", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    family = found.filter(collection=leader["collection"], ranker=leader["ranker"])
    command = commands.compare(family, 1 + max(trials["seed"].to_list()))
    line = TerminalLine(f"With new seeds: {escape(command)}")
    page: list[Part] = [*tables, CHOSEN_BY_DEV, verbatim(command)]
    return [Section("", page, [*tables, line, ""], {"best_settings.parquet": found})]


def _mining(conclusion: Conclusion, trials: pl.DataFrame, commands: Commands | None) -> list[Section]:
    """The command that mines the negatives of the first recommended method."""
    verdict = next((verdict for verdict in conclusion.verdicts if verdict.take is not None), None)
    if verdict is None or commands is None:
        return []
    place = {name: verdict.place[name] for name in ("collection", "ranker")}
    runs = trials.join(with_methods(trials).filter(**place, method=verdict.take).head(1), on="run", how="semi")
    command = commands.mine(shlex.split(runs[0, "overrides"])) if len(runs) else ""
    if not command:
        return []
    line = TerminalLine(f"To mine such negatives: {escape(command)}")  # on one line, to be copied
    return [Section("", ["To mine such negatives:", verbatim(command)], [line, ""])]


def _remarks(
    verdict: Verdict, summary: pl.DataFrame, trials: pl.DataFrame | None, alone: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Say what is pooled if that leaves one method, what is missing, and whether the first stage alone is better."""
    lines = []
    if len(verdict.rows) < 2 and trials is not None and "factors" not in trials.columns:
        values = swept(trials).group_by("key").agg(pl.col("value").n_unique()).filter(pl.col("value") > MOST_VALUES)
        drawn = {*trials["drawn"].explode().drop_nulls(), *AGENTS, *factors(trials)}
        keys = sorted(key for key in values["key"] if key not in drawn and not key.startswith("collection"))
        if keys:
            command = f"pyrite report OUT 'factors=[{','.join(keys)}]'"
            lines.append(f"All values of {' and '.join(keys)} are pooled; to compare them: {command}.")
    failed = summary.filter(pl.col("failed") > 0, **verdict.place)
    none = failed.filter(runs=0)["method"].to_list()
    lines += [f"{', '.join(none)}: no run finished."] if none else []
    if len(failed) > len(none):
        lines.append("Differences are over the seeds that both methods finished.")
    best = max((row["mean"] for row in verdict.rows), default=math.inf)
    asked = {UNTRAINED: "does a lower optimizer.lr keep it?"}
    return lines + [
        f"{row['method'][0].upper()}{row['method'][1:]} has {value(row['mean'])}, more than any method here: "
        f"{asked.get(row['method'], 'is this ranker trained long enough?')}"
        for row in alone
        if row["mean"] > best
    ]


def _table(
    verdict: Verdict,
    names: Mapping[str, str],
    alone: Sequence[Mapping[str, Any]],
    caption: str = "",
    shown: Sequence[str] | None = None,
) -> Table:
    """A row per method, or for a terminal per method in `shown`: mean, difference from the reference, and cost."""
    wide = shown is None
    reference = names.get(verdict.reference, verdict.reference)
    against = f"against {reference} (95%)"
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
        compared: list[object] = [None, None] if verdict.tests else []
        if test is not None:
            interval = signed_interval(test.low, test.high)
            marks = "*" if test.differs else ""
            compared = [Cell(signed(test.difference), f"({interval})" if interval else "", marks), p_value(test.p)]
        rows.append([
            name, Cell(value(row["mean"]), spread, best=row["method"] == verdict.take), *compared,
            duration(row["seconds"]), ratio, count(row["documents_read"]), memory, *([row["runs"]] if wide else []),
        ])  # fmt: skip
    head = [
        "method", "mean" if not wide else verdict.place["measure"], *([against, "p"] if verdict.tests else []), "time",
        "", "docs" if not wide else "documents read", "memory", *(["runs"] if wide else []),
    ]  # fmt: skip
    for row in alone:
        interval = f"({value(row['ci_low'])} to {value(row['ci_high'])})" if wide and row["ci_low"] is not None else ""
        rows.append([row["method"], Cell(value(row["mean"]), interval), *[""] * (len(head) - 2)])
    return Table(head, rows, caption=caption)
