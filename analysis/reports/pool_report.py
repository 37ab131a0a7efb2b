"""Makes the report of a pooling study: what each order of judging finds, how early, and what judgements are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.markup import escape

from pyrite.analysis.counted import counted
from pyrite.analysis.reports import columns
from pyrite.analysis.reports import pool_figures as draw
from pyrite.analysis.reports.report import (
    Cell,
    Drawing,
    Fold,
    Part,
    Report,
    Rows,
    Section,
    Table,
    TerminalLine,
    items,
    lost_section,
    verbatim,
)
from pyrite.analysis.statistics.pool_summary import (
    ALPHA,
    efforts,
    estimate_errors,
    over_seeds,
    pool_contrasts,
    pool_sentence,
    summarise_pools,
)
from pyrite.pooling.effort import SHARES
from pyrite.ranking.errors import refuse

Tables = Mapping[str, pl.DataFrame]


def pool_report(
    tables: Tables,
    config: Mapping[str, Any],
    written: str = "",
    lost: Sequence[str] = (),
    baseline: str | None = None,
    waiting: int = 0,
) -> Report:
    """Make the report of a pooling study.

    Args:
        tables: its tables by the names of their files.
        config: its configuration; `written` is the text of the file.
        lost: a sentence for each thing that was lost and repeated.
        baseline: the label of the method that others are compared with; None takes the study's.
        waiting: the number of methods without a result, if the study is still running.
    """
    trials, budgets = tables["trials"], tables["budgets"]
    methods = trials["method"].unique(maintain_order=True).to_list()
    refuse(
        baseline is not None and baseline not in methods,
        f"the baseline {baseline!r} is none of the methods",
        remedy=f"choose {', '.join(methods)}",
    )
    baseline = baseline or config["options"]["baseline"]
    summary = summarise_pools(budgets, methods, baseline)
    pools = summary["pool"].unique(maintain_order=True).to_list()
    of_effort = efforts(tables["effort"])
    sentences = [pool_sentence(pool, summary, of_effort, baseline) for pool in pools]
    warnings = list(config.get("warnings", {}).values())
    verdict: list[Part] = [*(Cell(text, best=True) for text in sentences), *(f"Warning: {text}." for text in warnings)]
    lines = [*sentences, *(TerminalLine(f"[yellow]warning[/]: {escape(text)}") for text in warnings)]
    details = {
        "ranking_quality": _ranking_quality, "stopping": _stopping, "estimates": _estimates, "fairness": _fairness,
        "reuse": _reuse,
    }  # fmt: skip
    rows = trials.select("method", "overrides").unique(maintain_order=True).rows()
    commands = Table(["method", "overrides"], [[name, Cell(text, code=True)] for name, text in rows], words=2)
    sections = [
        Section("", verdict, lines, last=True),
        Section("", _facts(config, trials, pools, waiting)),
        _found(summary, tables["totals"], baseline),
        *_contrasts(pool_contrasts(budgets, config["options"].get("contrasts") or [])),
        _effort(of_effort, pools),
        *(section(tables[name], pools) for name, section in details.items() if name in tables),
        *lost_section(lost),
        *failures(trials),
        Section("Methods", [commands]),
        Section("Configuration", [Fold("config.yaml", [verbatim(written)])]),
    ]
    return Report(f"In which order to judge: {', '.join(pools)}", sections)


def _facts(config: Mapping[str, Any], trials: pl.DataFrame, pools: Sequence[str], waiting: int) -> list[Part]:
    parts: list[Part] = []
    for pool in pools:
        parts.append(config["facts"].get(pool, pool))
        notes = config["notes"].get(pool, {})
        parts += [items([f"{name}: {count:,}" for name, count in notes.items()])] if notes else []
    seconds = trials.filter(status="done")["seconds"].sum() or 0
    parts.append(
        f"{counted(trials['method'].n_unique(), 'method')}, {counted(config['options']['seeds'], 'seed')} each; "
        f"simulated in {seconds:.1f} seconds of one core."
    )
    parts += [f"{waiting} more are to come: the study is still running."] if waiting else []
    return [*parts, verbatim(config["command"])]


def failures(trials: pl.DataFrame) -> list[Section]:
    """Return the section of the methods that failed; none if all finished."""
    failed = trials.filter(status="failed").select("pool", "method", "error").rows()
    lines = [TerminalLine(f"[red]failed[/] {escape(f'{method}: {error}')}") for _, method, error in failed]
    return [Section("Failed", [Table(["pool", "method", "error"], failed, words=3)], lines)] if failed else []


def _found_cell(row: columns.Row) -> Cell:
    mark = "*" if row["p"] is not None and row["p"] < ALPHA else ""
    return Cell(f"{row['found_mean']:.2f}", "", mark, row["best"], below=f"{row['low']:.1f}–{row['high']:.1f}")


def _found(summary: pl.DataFrame, totals: pl.DataFrame, baseline: str | None) -> Section:
    tested = summary["p"].count() > 0
    judgements = summary["judgements"].unique(maintain_order=True).to_list()
    several = summary["pool"].n_unique() > 1
    rows: Rows = []
    for (pool,), part in summary.partition_by("pool", as_dict=True, maintain_order=True).items():
        rows += [str(pool)] if several else []
        # Once a pool is judged whole, all methods have found the same: nothing is best.
        decided = pl.col("best").all().over("judgements")
        cells = part.with_columns(best=pl.col("best") & ~decided)
        first = part.filter(judgements=part[0, "judgements"])
        for method in first.sort("found_mean", descending=True, maintain_order=True)["method"]:
            of = {row["judgements"]: _found_cell(row) for row in cells.filter(method=method).iter_rows(named=True)}
            rows.append([method, *map(of.get, judgements)])
    note = f" * differs from {baseline}: t-test over topics, p < .05, Holm." if tested else ""
    caption = "Relevant documents found per topic, after N judgements"
    table = Table(["method", *judgements], rows, caption=caption, note=f"Bold: the most found.{note}")
    text = (
        "Means over topics and seeds, as in tables 2 and 3 of Losada et al. 2016. The test pairs topics, of means "
        "over seeds, and is adjusted by Holm's method for all methods of a column. A mark means different, not "
        "better. Below the mean is the 95% bootstrap interval over topics and seeds: it is wide because topics "
        "differ, while the test compares the same topics."
    )
    caption = (
        "Relevant documents found against judgements, means over topics and seeds. A small pool is judged whole "
        "before the budget of a large one is spent."
    )
    drawings = [Drawing("found", draw.found(totals), caption)]
    if baseline and (figure := draw.gained(totals, baseline)) is not None:
        caption = f"The same, as the difference to {baseline}; judgements on a log scale. A line may leave the panel."
        drawings.append(Drawing("gained", figure, caption))
    return Section("Relevant documents found", [table, text, *drawings], [table], {"summary.csv": summary})


def _p_with_mark(p: float) -> Cell:
    return Cell(f"{p:.4f}" if p >= 1e-4 else "<.0001", marks="*" if p < ALPHA else "")


CONTRASTS = (
    columns.text("pool"), columns.shown("contrast", "{} − {}".format, "method", "against"), columns.text("judgements"),
    columns.number("difference", "+.2f"), columns.shown("95% interval", "{:+.2f} to {:+.2f}".format, "low", "high"),
    columns.shown("p", _p_with_mark, "p"),
)  # fmt: skip


def _contrasts(frame: pl.DataFrame) -> list[Section]:
    if frame.is_empty():
        return []
    caption = "Contrasts named beforehand: how many more relevant documents per topic"
    note = "Paired t-test over topics, each contrast by itself; * p < .05."
    table = columns.table(frame, CONTRASTS, words=2, caption=caption, note=note)
    return [Section("Contrasts named beforehand", [table], [table], {"contrasts.csv": frame})]


EFFORT = (
    columns.text("method"), columns.number("area", ".4f"),
    *(columns.number(f"to {share}%", ",.0f", f"to_{share}") for share in SHARES),
)  # fmt: skip


def _effort(means: pl.DataFrame, pools: Sequence[str]) -> Section:
    text = (
        "The area is that under the curve of relevant documents found, as a share of what finding all at once would "
        "give. The other columns are the judgements per topic that find this share of the pool's relevant documents. "
        "Means over seeds."
    )
    ordered = means.sort("area", descending=True, maintain_order=True)
    tables = [columns.table(ordered.filter(pool=pool), EFFORT, caption=pool) for pool in pools]
    return Section("Effort", [text, *tables])


TITLES = {
    "tau": "τ", "tau_ap": "τ_AP", "inf_tau": "τ infAP", "inf_tau_ap": "τ_AP infAP", "inf_drop": "drop infAP",
    "lowest_recall": "lowest", "reached": "topics that reach it", "depth_least": "least depth",
    "relevant_true": "true", "rmse": "RMSE", "topics_covered": "topics covered", "map_bias": "MAP bias",
    "map_rmse": "MAP RMSE", "map_covered": "MAP covered", "p10_bias": "P@10 bias", "p10_covered": "P@10 covered",
}  # fmt: skip
"""Titles of columns that are not shown by their names."""


def _details(
    means: pl.DataFrame,
    pools: Sequence[str],
    names: Sequence[str],
    order: Sequence[str] = ("budget",),
    folded: bool = True,
) -> list[Fold | Table]:
    """A table per pool: the first column of `order` (budget or rule), the method, then the numbers of `names`."""
    key = columns.number("budget", ",") if order[0] == "budget" else columns.text(order[0])
    numbers = (columns.number(TITLES.get(name, name), FORMS.get(name, ".3f"), name) for name in names)
    declared, down = [key, columns.text("method"), *numbers], [name == "tau" for name in order]
    ordered = means.sort(*order, descending=down, nulls_last=True, maintain_order=True)
    tables = [columns.table(ordered.filter(pool=pool), declared, 2, "" if folded else pool) for pool in pools]
    if not folded:
        return [*tables]
    return [Fold(f"{pool}: all figures", [table]) for pool, table in zip(pools, tables, strict=True)]


FORMS = dict.fromkeys(("judged", "most"), ",.0f")
"""Forms of the numbers that are not between 0 and 1."""


def _ranking_quality(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    text = (
        "The runs are ranked by mean AP (and by mean infAP) with the judgements of a budget, and compared with their "
        "ranking by AP with all judgements: Kendall's τ, τ_AP, which gives the top more weight, and the most ranks "
        "that a run loses. infAP assumes a uniform sample of the pool, which only a random order gives; its bias is "
        "part of what is shown."
    )
    names = ("judged", "recall", "tau", "tau_ap", "drop", "bias", "inf_tau", "inf_tau_ap", "inf_drop")
    folds = _details(over_seeds(frame, "budget"), pools, names, ("budget", "tau"))
    caption = (
        "Correlation of the ranking of the runs by the judgements so far with their ranking by all judgements. The "
        "worst tenth of the lines may leave a panel."
    )
    drawing = Drawing("ranking_quality", draw.ranking_quality(frame), caption)
    return Section("How well the judgements rank the runs", [text, *folds, drawing])


def _stopping(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    names = ("judged", "saved", "found", "recall", "lowest_recall", "reached", "tau", "drop")
    folds = _details(over_seeds(frame, "rule"), pools, names, ("rule", "judged"))
    caption = "Where each rule would have stopped: a method is better the further right and up it is."
    drawing = Drawing("stopping", draw.stopping(frame), caption)
    text = (
        "Judgements per topic; means over seeds. Recall is the share found of all documents judged relevant, in the "
        "pool or not; whether a topic reaches the target depends on the relevant documents in the pool alone."
    )
    return Section("When to stop", [text, *folds, drawing])


def _estimates(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    text = (
        "Estimates of the whole pool from the judgements of a sampling order. Over the seeds: bias and root mean "
        "squared error of the relevant documents per topic, and how often the 95% interval holds the truth; then how "
        "often each topic's does, and the same for the runs' MAP and P@10. MAP from few judgements is biased (by −.016 "
        "to +.023 from 30 sampled ones, in simulations), and its interval then holds the truth less often than it says "
        "(88%)."
    )
    names = ["relevant", "relevant_true", "bias", "rmse", "covered", "topics_covered", "map_bias", "map_rmse"]
    names += ["map_covered", "p10_bias", "p10_covered", "tau"]
    tables = _details(estimate_errors(frame), pools, names, folded=False)
    caption = (
        "Relevant documents estimated from each budget's judgements, every seed, against those in the pool (the "
        "line); and the error of the runs' estimated MAP, and how often its 95% intervals hold the truth."
    )
    return Section("Estimates", [text, *tables, Drawing("estimates", draw.estimates(frame), caption)])


def _fairness(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    text = (
        "Unique is the share of the relevant documents found that only the runs of one team hold; depth is the number "
        "of documents of a run that are judged before the first that is not, mean over runs and of the run with the "
        "least; crowded is the share of topics with more than a third of their judged documents relevant, so that "
        "many more must be expected unjudged (Voorhees 2018)."
    )
    names = ("unique", "depth", "depth_least", "crowded")
    return Section("Fairness", [text, *_details(over_seeds(frame, "budget"), pools, names)])


def _reuse(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    text = (
        "Each team is left out in turn: the pool is made and judged without its runs, which are then evaluated with "
        "those judgements. Lost is AP, fallen are ranks, against the same budget spent on the whole pool (seed 0)."
    )
    means = frame.group_by("pool", "budget", "method", maintain_order=True).agg(
        pl.col("lost").mean(), pl.col("fallen").mean(), most=pl.col("fallen").max()
    )
    folds = _details(means, pools, ("lost", "fallen", "most"), ("budget", "fallen"))
    caption = "How far a run falls among all runs if the pool is made and judged without its team's runs."
    return Section("Runs that took no part", [text, *folds, Drawing("reuse", draw.reuse(frame), caption)])
