"""Writes what a finished study leaves: tables, summary, figures and report; prints the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cluster.output.event_log import EventLog
from cluster.output.failure_summary import failure_summary, show
from cluster.output.manifest import CONFIG, read_config
from cluster.output.methods import (
    METHOD,
    column_of,
    diverged,
    factors,
    stopped_runs,
    with_factors,
    with_methods,
)
from cluster.output.storage import Storage
from cluster.output.tables import RunRows, read_table, required_scan, required_table, scan_table, write_table
from cluster.reports import across, contrasts, partial_judgements, power, spread, surface, zero_shot
from cluster.reports.canvas import png
from cluster.reports.comparison import named_baseline
from cluster.reports.convergence import convergence, with_converged
from cluster.reports.decisions import decisions, outlook, rule_of, said, section
from cluster.reports.page import Markup
from cluster.reports.sequential import Rule
from cluster.reports.summary import summarise
from ranking.errors import BadInput


def own_baseline(trials: pl.DataFrame, design: Mapping[str, Any] | None) -> str | None:
    """The baseline that an experiment names, if it is among a study's methods: the user may have left it out."""
    named: str | None = (design or {}).get("baseline")
    if named is None:
        return None
    try:
        named_baseline(with_methods(trials).select("method", *METHOD, *map(column_of, factors(trials))), named)
    except BadInput:
        return None
    return named


def renew(
    storage: Storage, tables: Mapping[str, pl.DataFrame | RunRows], config: Mapping[str, Any], waiting: int
) -> None:
    """Write report.html of a study that still runs, from the tables of what is done.

    Args:
        storage: the study's folder.
        tables: of `tables_of`.
        config: of the study, as `config.yaml` has it.
        waiting: runs that have no result yet.
    """
    from cluster.reports.study_report import render

    own = config.get("study", {})
    whole = {name: table for name, table in tables.items() if isinstance(table, pl.DataFrame)}
    by_run = {name: table.lazy() for name, table in tables.items() if isinstance(table, RunRows)}
    trials = with_factors(whole["trials"], own.get("factors"))
    named = {"baseline": own["baseline"]} if own.get("baseline") else config.get("design")
    summary = summarise(trials, own_baseline(trials, named))
    written = (storage.read(CONFIG) or b"").decode()
    sections = analyses(trials, own, own.get("baseline")).sections
    sections += zero_shot.section(trials, whole.get("zero_shot"))
    page = render(
        trials, by_run["queries"], summary, written, config.get("command", ""), config, by_run["steps"],
        whole.get("embeddings"), failure_summary(EventLog.read(storage)), waiting, sections,
    )  # fmt: skip
    storage.write("report.html", page.html.encode())


@dataclass(frozen=True)
class Analyses:
    """What is told of a study's runs besides the summary.

    Args:
        frames: tables by name.
        figures: by name.
        sections: parts of the report.
    """

    frames: dict[str, pl.DataFrame]
    figures: dict[str, Figure]
    sections: list[Markup]


def analyses(trials: pl.DataFrame, options: Mapping[str, Any], baseline: str | None) -> Analyses:
    """Decisions, where seeds were given until there were some; spread; places; and how many seeds it takes.

    Args:
        trials: the frame of `trials.parquet`.
        options: of the study.
        baseline: a method that others are compared with.
    """
    rule = rule_of(options) if "equal_within" in options else None
    frames: dict[str, pl.DataFrame] = {}
    sections: list[Markup] = []
    if rule and options.get("stop") == "decided":
        frames["decisions"] = decisions(trials, rule, baseline)
        if len(frames["decisions"]):
            sections.append(section(frames["decisions"], rule))
    frames["spread"] = spread.spread(trials, options.get("never_below"))
    frames["across"] = across.across(trials)
    frames["power"] = power.power(trials, rule)
    frames["surface"], frames["defaults"] = surface.surface(trials)
    drawn = {
        "spread": spread.draw(frames["spread"]),
        "across": across.draw(frames["across"]),
        "power": power.curve(frames["power"]),
        "surface": surface.draw(trials, frames["surface"]),
    }
    for part in (spread, across, power):
        name = part.__name__.rpartition(".")[2]
        sections.append(part.section(frames[name], drawn[name]))
    sections.append(surface.section(frames["surface"], frames["defaults"], drawn["surface"]))
    frames["partial_judgements"] = partial_judgements.partial_judgements(trials)
    frames["profits"] = partial_judgements.profits(trials)
    drawn["partial_judgements"] = partial_judgements.draw(frames["partial_judgements"])
    sections.append(
        partial_judgements.section(frames["partial_judgements"], frames["profits"], drawn["partial_judgements"])
    )
    kept = {name: frame for name, frame in frames.items() if len(frame)}
    return Analyses(kept, {name: figure for name, figure in drawn.items() if figure is not None}, sections)


def report(
    storage: Storage,
    console: Console,
    baseline: str | None = None,
    asked: Sequence[str] | None = None,
    against: Sequence[str] | None = None,
) -> None:
    """Make summary, figures and report.html from a study's tables, and print the table.

    Args:
        storage: the study's folder.
        console: shows the table.
        baseline: a method to test the others against besides the best one; None takes the study's.
        asked: the swept keys by which its methods differ; None takes the study's.
        against: its contrasts (`cluster.reports.contrasts`); None takes the study's.

    Raises:
        BadInput: where the folder holds no finished study, the baseline or a contrast is none of its methods, or a key
            not swept.
    """
    from cluster.reports.study_report import render
    from cluster.reports.terminal_table import table

    config = read_config(storage)
    trials, queries = required_table(storage, "trials"), required_scan(storage, "queries")
    if not (trials["status"] == "done").any():
        failures = trials["error"].drop_nulls().to_list()
        console.print(f"[red]no run came to its end[/]: {escape(failures[0] if failures else 'nothing ran')}")
        return
    own = config.get("study", {})
    trials = with_converged(with_factors(trials, own.get("factors") if asked is None else asked), storage)
    summary = summarise(trials, baseline or own.get("baseline") or own_baseline(trials, config.get("design")))
    storage.write("summary.csv", summary.write_csv().encode())
    written = (storage.read(CONFIG) or b"").decode()
    rates = convergence(trials)
    if not rates.is_empty():
        storage.write("convergence.csv", rates.write_csv().encode())
    steps, embeddings = scan_table(storage, "steps"), read_table(storage, "embeddings")
    lost = failure_summary(EventLog.read(storage))
    named = baseline or own.get("baseline") or own_baseline(trials, config.get("design"))
    told = analyses(trials, own, named)
    sections = told.sections + zero_shot.section(trials, read_table(storage, "zero_shot"))
    for name, frame in told.frames.items():
        write_table(storage, name, frame)
    tested = _contrasts(trials, queries, config, against)
    if tested is not None:
        write_table(storage, "contrasts", tested)
        sections.insert(0, contrasts.section(tested))
    command = config.get("command", "")
    page = render(trials, queries, summary, written, command, config, steps, embeddings, lost, sections=sections)
    for name, content in (page.figures | {f"{name}.png": png(figure) for name, figure in told.figures.items()}).items():
        storage.write(f"figures/{name}", content)
    storage.write("report.html", page.html.encode())
    console.print(table(summary))
    if tested is not None:
        console.print(contrasts.printed(tested))
    if "partial_judgements" in told.frames:
        gained = told.frames.get("profits", pl.DataFrame(schema=partial_judgements.PROFITS))
        for part in partial_judgements.shown(told.frames["partial_judgements"], gained):
            console.print(part, crop=False)
    if "decisions" in told.frames:
        _show_decisions(told.frames["decisions"], rule_of(own), console)
    failed = trials.filter(pl.col("status") == "failed")
    for name, error in failed.select("run", "error").rows():
        console.print(f"[red]failed[/] {escape(f'{name}: {error}')}")
    waiting, behind = (len(each) for each in stopped_runs(trials))
    if waiting:
        console.print(f"[yellow]stopped[/] before {waiting} runs began: go on with --resume, and another time_budget=")
    if behind:
        console.print(f"[yellow]stopped[/] {behind} runs of the search that were behind: all figures are of the others")
    for name, epochs in diverged(trials).select("run", "epochs").rows():
        console.print(
            f"[yellow]diverged[/] {escape(name)} in epoch {epochs}: measured with its best weights from before"
        )
    show(lost, console)
    where = storage.shown("report.html")
    console.print(f"report: {escape(where)}", soft_wrap=True)


def _contrasts(
    trials: pl.DataFrame, queries: pl.LazyFrame, config: Mapping[str, Any], asked: Sequence[str] | None
) -> pl.DataFrame | None:
    """The contrasts that are asked for, or else the study's, or else its experiment's; None where there are none.

    The experiment's stand for its own methods, of which the user may have left some out.
    """
    named = config.get("study", {}).get("contrasts") if asked is None else asked
    if named:
        return contrasts.contrasts(trials, queries, named)
    of_experiment = (config.get("design") or {}).get("contrasts")
    try:
        return contrasts.contrasts(trials, queries, of_experiment) if of_experiment else None
    except BadInput:
        return None


def _show_decisions(found: pl.DataFrame, rule: Rule, console: Console) -> None:
    """Print what was decided, a line a method."""
    for row in found.iter_rows(named=True):
        seeds = f"{row['seeds']} seeds" + ("" if row["more"] is None else f", {outlook(row, rule)}")
        line = f"{row['method']} is {said(row, rule)} beside {row['against']} ({row['difference']:+.4f}, {seeds})"
        console.print(escape(f"{row['ranker']}: {line}"), soft_wrap=True)


def show_power(storage: Storage, console: Console) -> None:
    """Print how many seeds it takes to see differences, by the spread of a study's runs, and write table and curve.

    Args:
        storage: of a pilot or an earlier study.
        console: shows the table.

    Raises:
        BadInput: where the folder holds no finished study, or too few seeds.
    """
    options = read_config(storage).get("study", {})
    trials = with_factors(required_table(storage, "trials"), options.get("factors"))
    found = power.power(trials, rule_of(options) if "equal_within" in options else None)
    figure = power.curve(found)
    if figure is None:
        raise BadInput("no two methods have three seeds in common", storage.place, "name a study with more seeds")
    write_table(storage, "power", found)
    storage.write("figures/power.png", png(figure))
    head = ["ranker", "method", "against", "spread", *(f"for {each:g}" for each in power.DIFFERENCES)]
    shown = Table(*head, title="seeds that a difference takes at 80% power: t-test / of many / sequential", box=None)
    for own in found.partition_by("ranker", "method", maintain_order=True):
        shown.add_row(own[0, "ranker"], own[0, "method"], own[0, "against"], *power.cells(own))
    console.print(shown)
    console.print(f"table and curve: {escape(storage.shown('power.parquet'))}, figures/power.png", soft_wrap=True)
