"""Makes the report of a study: its sections in order, from tables in memory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from rich.markup import escape

from pyrite.analysis.counted import counted
from pyrite.analysis.methods import (
    EMBEDDINGS,
    METHOD_KEYS,
    TRAINER,
    evaluations,
    leading_evaluations,
    method_columns,
    with_factors,
    with_methods,
)
from pyrite.analysis.reports import analysis_sections, columns, result_sections
from pyrite.analysis.reports import study_words as words
from pyrite.analysis.reports.comparison_figures import differences_figure, quality_figure
from pyrite.analysis.reports.labels import Letters, duration, value
from pyrite.analysis.reports.report import (
    Cell,
    Drawing,
    Fold,
    Part,
    Report,
    Section,
    Table,
    TerminalLine,
    applying,
    definitions,
    items,
    lost_section,
    verbatim,
)
from pyrite.analysis.reports.result_sections import measures_of
from pyrite.analysis.reports.shown_negatives import (
    empty_places_section,
    examples_section,
    hardness_section,
    suspects_section,
)
from pyrite.analysis.reports.verdict_section import NO_COMMANDS, Commands, verdict_section
from pyrite.analysis.statistics.comparison import named_baseline
from pyrite.analysis.statistics.crossed import deviation
from pyrite.analysis.statistics.named_methods import check_contrasts
from pyrite.analysis.statistics.sequential import SequentialRule
from pyrite.analysis.statistics.summary import baseline_of
from pyrite.analysis.statistics.verdict import Conclusion
from pyrite.analysis.study_comparison import Comparison
from pyrite.ranking.errors import BadInput

REPLACED = {"experiment", "methods", "out", "resume", "baseline", "contrasts"}
REPLACED |= {"function", "policy", "selector", "negatives", "guard"}
"""Options that the command of another experiment does not take over."""


@dataclass(frozen=True)
class StudyResults:
    """The results of a study: its tables by the names of their files, its configuration and losses."""

    trials: pl.DataFrame
    queries: pl.DataFrame | pl.LazyFrame
    steps: pl.DataFrame | pl.LazyFrame | None = None
    zero_shot: pl.DataFrame | None = None
    examples: pl.DataFrame | None = None
    samplers: pl.DataFrame | pl.LazyFrame | None = None
    config: Mapping[str, Any] = field(default_factory=dict)  # the content of `config.yaml`
    written: str = ""  # its text
    lost: Sequence[str] = ()  # a sentence for each thing that was lost and repeated
    waiting: int = 0  # the number of runs without a result, if the study is still running
    repeated: Sequence[tuple[str, str, float]] = ()  # run, column and difference of runs repeated with their seed
    commands: Commands = NO_COMMANDS  # what writes commands to continue with
    out: str = "OUT"  # its folder, as commands name it

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the study."""
        return self.config.get("study", {})

    @property
    def design(self) -> Mapping[str, Any]:
        """The experiment that the study runs, if it runs one."""
        return self.config.get("design") or {}


def study_report(
    results: StudyResults,
    baseline: str | None = None,
    factors: Sequence[str] | None = None,
    contrasts: Sequence[str] | None = None,
) -> Report:
    """Make the report of a study; its figures show the leading measure, that of the first column. A baseline, factor or
    contrast that names nothing in the study is refused, and so is a damaged experiment.
    """
    options = results.options
    comparison, summary = compared(results, baseline, factors)
    trials = comparison.trials
    collections = ", ".join(trials["collection"].drop_nulls().unique().sort())
    title = words.TITLE.format(collections) if collections else words.UNTITLED
    facts = Section("", [definitions(_facts(trials, results)), verbatim(results.config.get("command", ""))])
    if not summary["runs"].sum():
        return Report(title, [facts, Section("", [words.NO_RUN]), *_runs(trials, results)])
    measure = measures_of(summary)[0]
    rule = SequentialRule.of_options(options) if "equal_within" in options else None
    letters = Letters()  # the same in all tables
    conclusion = _conclude(results, comparison, summary)
    sections = [
        verdict_section(conclusion, summary, trials, letters, results.commands, results.out),
        *_repeated(comparison, results, leading_evaluations(trials)[0]),
        *empty_places_section(results.trials, results.samplers),
        *suspects_section(results.trials, results.samplers, results.out),
        *_next(results),
        *_comparison(conclusion),
        facts,
        *result_sections.results(summary),
        *examples_section(results.trials, results.examples),
        *_contrasts(results, comparison, contrasts, letters),
        *analysis_sections.analyses(comparison, options, baseline_of(summary), rule),
        *analysis_sections.zero_shot(trials, results.zero_shot),
        *analysis_sections.convergence_rates(trials, measure),
        *result_sections.figures(trials, measure),
        *analysis_sections.steadiness(trials),
        *([] if results.steps is None else hardness_section(trials, results.steps)),
        *result_sections.by_query(comparison, summary, measure),
        *_runs(trials, results),
    ]
    return Report(title, sections)


def study_verdict(results: StudyResults) -> tuple[Conclusion, Section]:
    """Return the conclusion of a study with finished runs, and the section that shows it."""
    comparison, summary = compared(results)
    conclusion = _conclude(results, comparison, summary)
    return conclusion, verdict_section(conclusion, summary, comparison.trials, Letters(), results.commands, results.out)


def _conclude(results: StudyResults, comparison: Comparison, summary: pl.DataFrame) -> Conclusion:
    return comparison.verdict(summary, results.options.get("equal_within"), results.commands.test_limit)


def _next(results: StudyResults) -> list[Section]:
    """The command of the experiment that answers the next question, if the study's experiment names one."""
    then = results.design.get("then")
    if not then:
        return []
    typed = [text for text in results.config["typed"] if not REPLACED & {re.split("[.=]", text)[0]}]
    command = shlex.join(["pyrite", "study", f"experiment={then['experiment']}", *typed])
    line = TerminalLine(f"{then['question']} {escape(command)}")  # on one line, to be copied
    return [Section("", [then["question"], verbatim(command)], [line, ""], last=True)]


def _comparison(conclusion: Conclusion) -> list[Section]:
    """The differences with their intervals, and quality against cost."""
    drawn = {
        "differences": (differences_figure(conclusion.verdicts), words.DIFFERENCES_FIGURE),
        "quality": (quality_figure(conclusion.verdicts), words.QUALITY_FIGURE),
    }
    parts = [Drawing(name, figure, caption) for name, (figure, caption) in drawn.items() if figure is not None]
    return Section("", parts).if_any(parts)


def _repeated(comparison: Comparison, results: StudyResults, evaluation: tuple[str, str]) -> list[Section]:
    """Return the difference between two of the user's trainings with one seed, next to that between seeds."""
    origin, measure = evaluation
    column, lines = f"{origin}:{measure}", []
    done = comparison.trials.filter(status="done").select("run", column)
    done = done.join(with_methods(comparison.trials), on="run")
    for run, _, difference in (each for each in results.repeated if each[1] == column):
        same = done.join(done.filter(run=run), on=METHOD_KEYS, how="semi")
        seeds = value(deviation(same[column].drop_nulls().to_numpy()))
        line = words.REPEATED_ALONE if seeds is None else words.REPEATED
        lines.append(line.format(run=run, measure=measure, difference=value(abs(difference)), deviation=seeds))
    return Section("", [*lines], [*lines, ""], last=True).if_any(lines)


def compared(
    results: StudyResults, baseline: str | None = None, factors: Sequence[str] | None = None
) -> tuple[Comparison, pl.DataFrame]:
    """Return the comparison of the methods, by the factors in which they differ, and its summary."""
    options = results.options
    trials = with_factors(results.trials, options.get("factors") if factors is None else factors)
    comparison = Comparison(trials, results.queries)
    baseline = baseline or options.get("baseline") or design_baseline(trials, results.design)
    return comparison, comparison.summary(baseline, options.get("equal_within"))


def design_baseline(trials: pl.DataFrame, design: Mapping[str, Any]) -> str | None:
    """The baseline that an experiment names, unless the user left it out of the study."""
    named: str | None = design.get("baseline")
    if named is None:
        return None
    with suppress(BadInput):
        named_baseline(with_methods(trials).select(method_columns(trials)), named)
        return named
    return None


def _contrasts(
    results: StudyResults, comparison: Comparison, requested: Sequence[str] | None, letters: Letters
) -> list[Section]:
    """The contrasts that are requested, or else the study's, or else its experiment's.

    A line names those that can't be made: the study still runs, or all runs of a method failed. Those of an experiment
    are left out if the user left out one of its methods. Requested ones that can't be made are refused.
    """
    named = requested or results.options.get("contrasts")
    chosen = named or results.design.get("contrasts")
    if not chosen:
        return []
    try:
        check_contrasts(comparison.trials, chosen)
    except BadInput:
        if requested:
            raise
        if not named:
            return []
    tested, missing = comparison.contrasts(chosen, results.options.get("equal_within"))
    lines = [*map(words.NOT_MADE.format, missing)]
    sections = [] if tested.is_empty() else [analysis_sections.contrasts(tested, letters)]
    return [*sections, Section("", [items(lines)], lines)] if lines else sections


def _facts(trials: pl.DataFrame, results: StudyResults) -> dict[str, str]:
    done = trials.filter(status="done")
    known = trials.select("collection", "fingerprint").drop_nulls().unique().sort("collection", "fingerprint")
    methods, rankers = (with_methods(trials)[name].unique().sort() for name in ("method", "ranker"))
    origins = dict.fromkeys(origin for origin, _ in evaluations(trials) if origin != EMBEDDINGS)
    seeds = trials["seed"].n_unique()
    ways, each = counted(len(methods), "way"), counted(seeds, "seed") + (" each" if seeds != 1 else "")
    read = [line for lines in results.config.get("read", {}).values() for line in lines]
    return {
        **({"read": "; ".join(read)} if read else {}),
        "collection": "; ".join(f"{name}, fingerprint {fingerprint}" for name, fingerprint in known.iter_rows()),
        "compared": words.COMPARED.format(ways=ways, rankers=" and ".join(rankers), each=each),
        "runs": _counts(trials, results.waiting),
        "training": words.TRAINING.format(time=duration(float(done["seconds"].sum())), steps=done["steps"].sum()),
        "evaluated on": " and ".join(map(result_sections.origin_name, origins)),
    }


def _counts(trials: pl.DataFrame, waiting: int) -> str:
    """Return how many runs have which fate."""
    done, (stopped, behind) = trials.filter(status="done"), _stopped(trials)
    counts = {
        "failed": len(trials.filter(status="failed")), "diverged": len(done.filter("diverged")),
        "not started": stopped, words.STOPPED_BY_SEARCH: behind,
        words.TO_FINISH: waiting,
    }  # fmt: skip
    return ", ".join([f"{len(done):,} done", *(f"{counts[name]:,} {name}" for name in applying(counts))])


def _stopped(trials: pl.DataFrame) -> tuple[int, int]:
    """Count the runs that did not start before the study's time was over, and those that a scheduler stopped."""
    epochs = trials.filter(status="stopped")["epochs"]
    return int((epochs == 0).sum()), int((epochs > 0).sum())


def _runs(trials: pl.DataFrame, results: StudyResults) -> list[Section]:
    """Whatever went wrong, every run with its command, and the configuration."""
    done, (stopped, behind) = trials.filter(status="done"), _stopped(trials)
    counts = {
        words.BEFORE_BEGINNING.format(counted(stopped, "run")): stopped,
        words.BEHIND.format(counted(behind, "run")): behind,
    }
    lines = [TerminalLine(f"[yellow]stopped[/] {line}") for line in applying(counts)]
    theirs = trials["overrides"].str.contains(TRAINER).any()
    explained = words.COMMANDS.explained(exactly=words.EXACTLY[not theirs])
    commands = Fold(counted(len(done), "run"), [_commands(trials)])
    return [
        *_failed(trials.filter(status="failed").sort("run")),
        *_diverged(done.filter("diverged")),
        Section("", [], lines),
        *lost_section(results.lost),
        Section(words.COMMANDS.title, [*explained, commands]),
        Section(words.CONFIGURATION, [Fold("config.yaml", [verbatim(results.written)])]),
    ]


def _failed(runs: pl.DataFrame) -> list[Section]:
    """The runs that failed, with their errors; no section without any."""
    known = runs.with_columns(error=pl.col("error").fill_null("").replace("", words.NO_ERROR))
    lines = [
        TerminalLine(f"[red]failed[/] {escape(f'{run}: {error}')}")
        for run, error in known.select("run", "error").iter_rows()
    ]
    return Section(words.FAILED, [columns.table(known, FAILED, words=3)], lines).if_any(lines)


def _diverged(runs: pl.DataFrame) -> list[Section]:
    """The runs that diverged; no section without any."""
    lines = [
        TerminalLine(f"[yellow]diverged[/] {escape(run)}{words.DIVERGED_IN[best > 0].format(epochs)}")
        for run, epochs, best in runs.select("run", "epochs", pl.col("best_epoch").fill_null(0)).iter_rows()
    ]
    parts: list[Part] = [*words.DIVERGED.explained(), columns.table(runs, DIVERGED, words=2)]
    return Section(words.DIVERGED.title, parts, lines).if_any(lines)


def _command(overrides: str) -> Cell:
    return Cell(f"pyrite train {overrides}", code=True)


def _commands(trials: pl.DataFrame) -> Table:
    measured = (columns.measure(f"{origin}:{measure}") for origin, measure in leading_evaluations(trials))
    done = trials.filter(status="done").join(with_methods(trials).select("run", "method"), on="run")
    return columns.table(done.sort("ranker", "method", "seed", "run"), [*RUNS, *measured], words=4)


RUNS = (
    columns.text("run"), columns.text("ranker"), columns.text("method"),
    columns.shown("command", _command, "overrides"), columns.text("seed"), columns.text("best epoch", "best_epoch"),
)  # fmt: skip
FAILED = (columns.text("run"), columns.shown("command", _command, "overrides"), columns.text("error"))
DIVERGED = (
    columns.text("run"), columns.shown("command", _command, "overrides"), columns.text("best epoch", "best_epoch"),
    columns.text("diverged in epoch", "epochs"),
)  # fmt: skip
