"""Lays out the verdict of a study: a table per ranker and origin of candidates, and a sentence."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.markup import escape

from cluster.config.mine_command import mine_command
from cluster.output.methods import AGENTS, MOST_VALUES, factors, leading_evaluations, swept, with_methods
from cluster.output.terminal import counted
from cluster.reports.labels import (
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
)
from cluster.reports.report import Cell, Part, Section, Table, TerminalLine, Verbatim
from cluster.reports.result_sections import origin_name
from cluster.statistics.best_settings import best_settings, comparison_command
from cluster.statistics.verdict import Conclusion, MethodTest, Verdict

MOST = 20
"""The number of methods in a table of the terminal; the page has all of them."""
NOTE = (
    "The 95% interval is that of one difference, p is corrected for all of them (Holm); both are for other seeds and "
    "{}; * p < .05. Time is that of training a run, documents are those that the ranker read, memory is the peak of "
    "the process."
)
CHOSEN_BY_DEV = (
    "The settings of each method that validated best. Test values of the runs that chose them tend to be too high."
)


def verdict_section(
    conclusion: Conclusion, summary: pl.DataFrame, trials: pl.DataFrame | None = None, letters: Letters | None = None
) -> Section:
    """The verdicts, for the top of the page and the end of the terminal."""
    several = len({verdict.place["collection"] for verdict in conclusion.verdicts}) > 1
    parts: list[Part] = []
    terminal: list[Part] = []
    letters = letters or Letters()
    for verdict in conclusion.verdicts:
        place = verdict.place
        names = distinct_names(row["method"] for row in verdict.rows)
        title = title_of(place["ranker"], place["collection"], several)
        caption = f"{title}: {place['measure']}, {origin_name(place['candidates'])}"
        alone = summary.filter(
            *(pl.col(name) == place[name] for name in ("collection", "candidates", "measure")), ranker="bm25"
        ).rows(named=True)
        sentences = [verdict.sentence(names), *_pooled(verdict, trials), *_missing(verdict, summary)]
        sentence = " ".join([*sentences, *_behind(verdict, alone)])
        parts += [Cell(f"{caption}. {sentence}", best=True), _table(verdict, names, alone, caption, wide=True)]
        brief = letters.of(names)
        shown = [row["method"] for at, row in enumerate(verdict.rows) if at < MOST or row["method"] == verdict.take]
        terminal += letter_key(brief, {method: names[method] for method in shown})
        terminal.append(_table(verdict, brief, alone, caption, wide=False, shown=shown))
        if len(shown) < len(names):
            terminal.append(f"{counted(len(names) - len(shown), 'more method')}: report.html and summary.csv.")
        terminal += [sentence, ""]
    command = None if trials is None else _mining(conclusion, trials)
    if command:
        parts += ["To mine such negatives:", Verbatim(command)]
        terminal += [TerminalLine(f"To mine such negatives: {escape(command)}"), ""]  # on one line, to be copied
    settings = None if trials is None else _settings(trials)
    if settings is not None:
        parts += settings.parts
        terminal += settings.terminal
    parts += conclusion.depends
    terminal += conclusion.depends
    tests = [test for verdict in conclusion.verdicts for test in verdict.tests.values()]
    over_queries = any(test.queries for test in tests)
    note = [NOTE.format("other queries" if over_queries else "these queries")] if tests else []
    frames = {"verdict.csv": conclusion.table(), **(settings.frames if settings else {})}
    return Section("", [*parts, *note], [*terminal, *note], frames, last=True)


def _settings(trials: pl.DataFrame) -> Section | None:
    """The best settings of each method, below the verdict; None if no method ran with several."""
    found = best_settings(trials)
    if found.is_empty():
        return None
    leading = leading_evaluations(trials)
    origins = [origin for origin, _ in leading]
    parts: list[Part] = []
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
        parts.append(Table(head, rows, words=2, caption=f"{title}: best settings by dev queries, {leading[0][1]}"))
    leader = found.sort("validation", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    family = found.filter(collection=leader["collection"], ranker=leader["ranker"])
    command = comparison_command(family, 1 + max(trials["seed"].to_list()))
    page: list[Part] = [*parts, CHOSEN_BY_DEV, Verbatim(command)]
    line = TerminalLine(f"With new seeds: {escape(command)}")
    return Section("", page, [*parts, line, ""], {"best_settings.parquet": found})


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


def _pooled(verdict: Verdict, trials: pl.DataFrame | None) -> list[str]:
    """Return a sentence on what was swept over too many values to be compared, if that leaves one method."""
    if len(verdict.rows) > 1 or trials is None or "factors" in trials.columns:
        return []
    values = swept(trials).group_by("key").agg(pl.col("value").n_unique()).filter(pl.col("value") > MOST_VALUES)
    drawn = {*trials["drawn"].explode().drop_nulls(), *AGENTS, *factors(trials)}
    keys = sorted(key for key in values["key"] if key not in drawn and not key.startswith("collection"))
    if not keys:
        return []
    command = f"pyrite report OUT 'factors=[{','.join(keys)}]'"
    return [f"All values of {' and '.join(keys)} are pooled; to compare them: {command}."]


def _missing(verdict: Verdict, summary: pl.DataFrame) -> list[str]:
    """Name the methods without a finished run, and what is compared of those with failed ones."""
    place = summary.filter(*(pl.col(key) == text for key, text in verdict.place.items()))
    failed = place.filter(pl.col("failed") > 0)
    none = failed.filter(runs=0)["method"].to_list()
    lines = [f"{', '.join(none)}: no run finished."] if none else []
    if len(failed) > len(none):
        lines.append("Differences are over the seeds that both methods finished.")
    return lines


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
        compared = [_difference(test), p_value(None if test is None else test.p)] if verdict.tests else []
        rows.append([
            name, Cell(value(row["mean"]), spread, best=row["method"] == verdict.take), *compared,
            duration(row["seconds"]), ratio, count(row["documents_read"]), memory, *([row["runs"]] if wide else []),
        ])  # fmt: skip
    head = [
        "method", "mean" if not wide else verdict.place["measure"], *([against, "p"] if verdict.tests else []), "time",
        "", "docs" if not wide else "documents read", "memory", *(["runs"] if wide else []),
    ]  # fmt: skip
    rows += [[row["method"], value(row["mean"]), *[""] * (len(head) - 2)] for row in alone]
    return Table(head, rows, caption="" if wide else caption)


def _difference(test: MethodTest | None) -> Cell:
    if test is None:
        return Cell(None)
    interval = signed_interval(test.low, test.high)
    return Cell(signed(test.difference), f"({interval})" if interval else "", "*" if test.differs else "")
