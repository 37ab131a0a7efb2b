"""Lays out the verdict of a study: a table per ranker and origin of candidates, and a sentence."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any

import polars as pl
from rich.markup import escape

from pyrite.analysis.counted import counted
from pyrite.analysis.methods import (
    AGENTS,
    MOST_VALUES,
    TRAINER,
    UNTRAINED,
    factors,
    leading_evaluations,
    swept,
    with_methods,
)
from pyrite.analysis.reports import columns
from pyrite.analysis.reports import study_words as words
from pyrite.analysis.reports.labels import (
    Letters,
    by_family,
    count,
    distinct_names,
    duration,
    known,
    letter_key,
    p_value,
    signed,
    signed_interval,
    title_of,
    value,
    with_cut,
)
from pyrite.analysis.reports.report import Cell, Part, Section, Table, TerminalLine, applying, verbatim
from pyrite.analysis.reports.result_sections import origin_name
from pyrite.analysis.reports.verdict_words import depends, sentence, training, verdict_table
from pyrite.analysis.statistics.best_settings import best_settings
from pyrite.analysis.statistics.summary import baseline_of, budget_of
from pyrite.analysis.statistics.training_length import training_length
from pyrite.analysis.statistics.verdict import Conclusion, Verdict, all_queries
from pyrite.ranking.errors import BadInput

MOST = 20
"""The number of methods in a table of the terminal; the page has all of them."""


@dataclass(frozen=True)
class Commands:
    """Functions that write the commands to continue with, and read those of runs.

    Args:
        mine: returns the command that mines negatives as a run with these overrides draws them, None if nothing is to
            be mined; raises `BadInput` if mining can't draw such.
        compare: returns the command that compares methods with their best settings from a first seed on.
        test_limit: returns the most test queries that a run with these overrides may take; None for all.
    """

    mine: Callable[[Sequence[str]], str | None]
    compare: Callable[[pl.DataFrame, int], str]
    test_limit: Callable[[str], int | None]


NO_COMMANDS = Commands(mine=lambda overrides: None, compare=lambda methods, seed: "", test_limit=all_queries)
"""No command is shown."""


def verdict_section(
    conclusion: Conclusion,
    summary: pl.DataFrame,
    trials: pl.DataFrame,
    letters: Letters,
    commands: Commands = NO_COMMANDS,
    out: str = "OUT",
) -> Section:
    """Return the verdicts, for the top of the page and the end of the terminal.

    Args:
        trials: the runs, whose epochs and next command are named; left out for several studies, which have none in
            common.
        out: the study's folder, as commands name it.
    """
    verdicts = conclusion.verdicts
    several = len({verdict.place["collection"] for verdict in verdicts}) > 1
    sections = [_of_verdict(verdict, summary, trials, letters, several, out) for verdict in verdicts]
    sections.append(Section("", [], (), {"verdict.csv": verdict_table(conclusion)}))
    sections += [*_mining(conclusion, trials, commands), *_settings(trials, commands)]
    queries = "other queries" if any(map(attrgetter("known_queries"), verdicts)) else "these queries"
    corrections = dict.fromkeys(words.CORRECTIONS[verdict.is_over_all_pairs] for verdict in verdicts if verdict.tests)
    tests = [test for verdict in verdicts for test in verdict.tests.values()]
    notes = {
        words.NOTE.format(" and ".join(corrections), queries): bool(tests),
        words.STAR_AND_ZERO: any(test.differs and test.with_zero for test in tests),
        words.BUDGET_NOTE: bool(budget_of(summary)),
    }
    last = [*depends(conclusion), *applying(notes)]
    bold = applying({words.BOLD: any(map(attrgetter("take"), verdicts))})
    parts, terminal = (chain(*(getattr(section, name) for section in sections)) for name in ("parts", "terminal"))
    frames = dict(chain(*(section.frames.items() for section in sections)))
    return Section("", [*parts, *last, *bold], [*terminal, *last], frames, last=True)


def _of_verdict(
    verdict: Verdict, summary: pl.DataFrame, trials: pl.DataFrame, letters: Letters, several: bool, out: str
) -> Section:
    """One verdict: a sentence and its table."""
    place = verdict.place
    names = distinct_names(row["method"] for row in verdict.rows)
    family = summary.filter(**place)
    title = with_cut(title_of(place["ranker"], place["collection"], several), family)
    caption = f"{title}: {place['measure']}, {origin_name(place['candidates'])}"
    untrained = family.filter(pl.lit(verdict.baseline != UNTRAINED), method=UNTRAINED)
    alone = pl.concat([untrained, summary.filter(**{**place, "ranker": "bm25"})]).rows(named=True)
    first, *more_said = filter(
        None, [sentence(verdict, names), training(verdict, names), *_remarks(verdict, summary, trials, alone, out)]
    )
    verdict_said = " ".join([first, *more_said])
    brief = letters.of(names)
    shown = [row["method"] for at, row in enumerate(verdict.rows) if at < MOST or row["method"] == verdict.take]
    more = len(names) - len(shown)
    left_out = [words.MORE_METHODS.format(counted(more, "more method"))] if more else []
    key = letter_key(brief, {method: names[method] for method in shown})
    rest = [" ".join(more_said)] if more_said else []
    parts: list[Any] = [Cell(f"{caption}. {first}", best=True), *rest, _table(verdict, names, alone, WIDE, names)]
    return Section("", parts, [*key, _table(verdict, brief, alone, BRIEF, shown, caption), *left_out, verdict_said, ""])


def _settings(trials: pl.DataFrame, commands: Commands) -> list[Section]:
    """The best settings of each method, below the verdict; none if no method ran with several."""
    found = best_settings(trials)
    if found.is_empty() or commands is NO_COMMANDS:
        return []
    leading = leading_evaluations(trials)
    origins = [columns.measure(origin) for origin, _ in leading]
    by_dev = [columns.text("best settings", "settings"), columns.measure("dev", "validation"), *origins, TRIED]
    tables = [
        columns.table(
            part, [columns.named("method", distinct_names(part["method"])), *by_dev], 2,
            words.BEST_SETTINGS.format(title, leading[0][1]),
        )
        for title, part in by_family(found)
    ]  # fmt: skip
    leader = found.sort("validation", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
    family = found.filter(collection=leader["collection"], ranker=leader["ranker"])
    command = commands.compare(family, 1 + max(trials["seed"].to_list()))
    line = TerminalLine(words.NEW_SEEDS.format(escape(command)))
    page: list[Part] = [*tables, words.CHOSEN_BY_DEV, verbatim(command)]
    return [Section("", page, [*tables, line, ""], {"best_settings.parquet": found})]


def _mining(conclusion: Conclusion, trials: pl.DataFrame, commands: Commands) -> list[Section]:
    """The command that mines the negatives of the first recommended method."""
    verdict = next((verdict for verdict in conclusion.verdicts if verdict.take is not None), None)
    if verdict is None:
        return []
    runs = trials.join(_methods_of(verdict, trials).filter(method=verdict.take).head(1), on="run", how="semi")
    try:
        command = commands.mine(shlex.split(runs[0, "overrides"])) if len(runs) else ""
    except BadInput as error:
        refused = words.NOT_MINED.format(error.what)
        return [Section("", [refused], [TerminalLine(escape(refused)), ""])]
    if not command:
        return []
    line = TerminalLine(f"{words.TO_MINE} {escape(command)}")  # on one line, to be copied
    return [Section("", [words.TO_MINE, verbatim(command)], [line, ""])]


def _methods_of(verdict: Verdict, trials: pl.DataFrame) -> pl.DataFrame:
    """Return the methods of the runs of a verdict's ranker (`with_methods`)."""
    return with_methods(trials).filter(collection=verdict.place["collection"], ranker=verdict.place["ranker"])


def _remarks(
    verdict: Verdict, summary: pl.DataFrame, trials: pl.DataFrame, alone: Sequence[Mapping[str, Any]], out: str
) -> list[str]:
    """Say what is pooled if that leaves one method, what is missing, and whether the first stage alone is better."""
    pooled = [] if len(verdict.rows) > 1 else _pooled(trials, out)
    failed = summary.filter(pl.col("failed") > 0, **verdict.place)
    none = failed.filter(runs=0)["method"].to_list()
    missing = {
        words.NO_RUN_OF.format(", ".join(none)): len(none),
        words.SEEDS_OF_BOTH: len(failed) - len(none),
        words.SEVERAL_STARTS: baseline_of(summary.filter(**verdict.place)) == UNTRAINED != verdict.baseline,
    }
    best = max((row["mean"] for row in verdict.rows), default=math.inf)
    ahead = [row for row in alone if row["mean"] > best]
    return [
        *pooled,
        *applying(missing),
        *map(_is_better, ahead),
        *(_trained_long_enough(verdict, trials) if ahead else []),
    ]


def _is_better(row: Mapping[str, Any]) -> str:
    """Say that a ranking without training is better."""
    method = row["method"]
    said = words.ALONE_IS_BETTER.format(f"{method[0].upper()}{method[1:]}", value(row["mean"]))
    return said + ASKED.get(method, ".")


ASKED = {UNTRAINED: words.DOES_IT_KEEP}
"""The question that follows, by the ranking."""


def _pooled(trials: pl.DataFrame, out: str) -> list[str]:
    """Say which settings are pooled, unless the user named the factors."""
    values = swept(trials).group_by("key").agg(pl.col("value").n_unique()).filter(pl.col("value") > MOST_VALUES)
    others = {*trials["drawn"].explode().drop_nulls(), *AGENTS, *factors(trials)}
    keys = sorted(key for key in values["key"] if key not in others and not key.startswith("collection"))
    if not keys or "factors" in trials.columns:
        return []
    return [words.POOLED.format(" and ".join(keys), out, ",".join(keys))]


def _trained_long_enough(verdict: Verdict, trials: pl.DataFrame) -> list[str]:
    """Say whether the ranker is trained long enough, by the validation of its runs, or what would show it."""
    runs = trials.join(_methods_of(verdict, trials), on="run", how="semi")
    length = training_length(runs)
    if length is None:
        done = runs.filter(pl.col("status") == "done", ~pl.col("overrides").str.contains(TRAINER))
        return applying({words.ONE_EPOCH: done["epochs"].unique().to_list() == [1]})
    answer = "yes" if length.is_enough else words.NOT_YET.format(2 * length.epochs)
    return [words.LONG_ENOUGH.format(best=length.best, epochs=length.epochs, answer=answer)]


def _table(
    verdict: Verdict,
    names: Mapping[str, str],
    alone: Sequence[columns.Row],
    layout: Layout,
    shown: Collection[str],
    caption: str = "",
) -> Table:
    """A row per method in `shown`: mean, difference from the reference, and cost."""
    reference = names.get(verdict.reference, verdict.reference)
    tests = [columns.Column(f"against {reference} (95%)", _difference), columns.Column("p", _p)]
    mean = columns.Column(layout.mean or verdict.place["measure"], layout.cell)
    budget = BUDGET * bool(budget_of(pl.DataFrame(verdict.rows, infer_schema_length=None)))
    declared = [layout.method, mean, *(tests if verdict.tests else []), *layout.costs, *budget]
    rows = columns.lines(_facts(verdict, names, shown), declared)
    for row in alone:
        rows.append([row["method"], layout.alone(row), *[""] * (len(declared) - 2)])
    return Table([column.head for column in declared], rows, caption=caption)


def _facts(verdict: Verdict, names: Mapping[str, str], shown: Collection[str]) -> Iterator[columns.Row]:
    """Yield what the table has of each method."""
    base = verdict.seconds.get(verdict.reference)
    for row in verdict.rows:
        method = row["method"]
        timed = base and row["seconds"] and method != verdict.reference
        if method in shown:
            yield {**row} | {
                "name": names[method],
                "baseline": " (baseline)" * (method == verdict.baseline),
                "taken": method == verdict.take,
                "test": verdict.tests.get(method),
                "ratio": f"{row['seconds'] / base:.1f}×" if timed else "",
            }


def _difference(row: columns.Row) -> Cell | None:
    test = row["test"]
    if test is None:
        return None
    interval = signed_interval(test.low, test.high)
    return Cell(signed(test.difference), f"({interval})" if interval else "", "*" if test.differs else "")


def _p(row: columns.Row) -> str | None:
    return None if row["test"] is None else p_value(row["test"].p)


def _mean(row: columns.Row) -> Cell:
    return Cell(value(row["mean"]), best=row.get("taken", False))


def _wide_mean(row: columns.Row) -> Cell:
    return replace(_mean(row), small=_deviation(row["std"]) or "")


def _wide_alone(row: columns.Row) -> Cell:
    return replace(_mean(row), small=_interval(row["ci_low"], row["ci_high"]) or "")


@known
def _deviation(std: float) -> str:
    return f"± {value(std)}"


@known
def _interval(low: float, high: float) -> str:
    return f"({value(low)} to {value(high)})"


@dataclass(frozen=True)
class Layout:
    """A layout of the table of methods, for the page or the terminal.

    Args:
        mean: the title of the means; empty for the measure.
        cell, alone: return what is shown of a method's mean, and of that of a row without runs.
    """

    method: columns.Column
    mean: str
    cell: Callable[[columns.Row], Cell]
    alone: Callable[[columns.Row], Cell]
    costs: Sequence[columns.Column]


TRIED = columns.text("of", "tried")
TIMES = (columns.shown("time", duration, "seconds"), columns.text("", "ratio"))
MEMORY = columns.shown("memory", "{:,.0f} MiB".format, "memory")
BUDGET = tuple(
    columns.shown(head, count, name)
    for head, name in {"steps": "steps", "scored": "scored_step", "pairs": "examples", "refreshes": "refreshes"}.items()
)
"""The columns of a training of the user's."""
WIDE = Layout(
    columns.shown("method", "{}{}".format, "name", "baseline"), "", _wide_mean, _wide_alone,
    (*TIMES, columns.shown("documents read", count, "documents_read"), MEMORY, columns.text("runs")),
)  # fmt: skip
BRIEF = Layout(
    columns.text("method", "name"), "mean", _mean, _mean,
    (*TIMES, columns.shown("docs", count, "documents_read"), MEMORY),
)  # fmt: skip
