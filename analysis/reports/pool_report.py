"""Makes the report of a pooling study: what each order of judging finds, how early, and what judgements are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from rich.markup import escape

from pyrite.analysis.counted import counted
from pyrite.analysis.reports import columns
from pyrite.analysis.reports import pool_figures as draw
from pyrite.analysis.reports import pool_words as words
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
    conclude_pool,
    efforts,
    estimate_errors,
    over_seeds,
    pool_contrasts,
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
    sentences = [words.pool_sentence(conclude_pool(pool, summary, of_effort, baseline)) for pool in pools]
    warnings = list(config.get("warnings", {}).values())
    verdict: list[Part] = [*(Cell(text, best=True) for text in sentences), *map(words.WARNING.format, warnings)]
    lines = [*sentences, *(TerminalLine(f"[yellow]warning[/]: {escape(text)}") for text in warnings)]
    details = {
        "ranking_quality": _ranking_quality, "stopping": _stopping, "estimates": _estimates, "fairness": _fairness,
        "reuse": _reuse,
    }  # fmt: skip
    commands = columns.table(trials.unique(["method", "overrides"], maintain_order=True), METHODS, words=2)
    sections = [
        Section("", verdict, lines, last=True),
        Section("", _facts(config, trials, pools, waiting)),
        _found(summary, tables["totals"], baseline),
        *_contrasts(pool_contrasts(budgets, config["options"].get("contrasts") or [])),
        _effort(of_effort, pools),
        *(section(tables[name], pools) for name, section in details.items() if name in tables),
        *lost_section(lost),
        *failures(trials),
        Section(words.METHODS, [commands]),
        Section(words.CONFIGURATION, [Fold("config.yaml", [verbatim(written)])]),
    ]
    return Report(words.TITLE.format(", ".join(pools)), sections)


def _facts(config: Mapping[str, Any], trials: pl.DataFrame, pools: Sequence[str], waiting: int) -> list[Part]:
    parts: list[Part] = []
    for pool in pools:
        parts.append(config["facts"].get(pool, pool))
        notes = config["notes"].get(pool, {})
        parts += [items([f"{name}: {count:,}" for name, count in notes.items()])] if notes else []
    seconds = trials.filter(status="done")["seconds"].cast(pl.Float64).sum()
    methods, seeds = counted(trials["method"].n_unique(), "method"), counted(config["options"]["seeds"], "seed")
    parts.append(words.SIMULATED.format(methods=methods, seeds=seeds, seconds=seconds))
    parts += [words.TO_COME.format(waiting)] if waiting else []
    return [*parts, verbatim(config["command"])]


def failures(trials: pl.DataFrame) -> list[Section]:
    """Return the section of the methods that failed; none if all finished."""
    failed = trials.filter(status="failed")
    lines = [
        TerminalLine(f"[red]failed[/] {escape(f'{method}: {error}')}")
        for method, error in failed.select("method", "error").iter_rows()
    ]
    return Section(words.FAILED, [columns.table(failed, FAILED, words=3)], lines).if_any(lines)


FAILED = (columns.text("pool"), columns.text("method"), columns.text("error"))
METHODS = (columns.text("method"), columns.shown("overrides", partial(Cell, code=True), "overrides"))


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
    note = words.BOLD + (words.MARK.format(baseline) if tested else "")
    table = Table(["method", *judgements], rows, caption=words.FOUND_TABLE, note=note)
    gained = draw.gained(totals, baseline) if baseline else None
    differences = [Drawing("gained", gained, words.GAINED_FIGURE.format(baseline))] if gained is not None else []
    drawings = [*differences, Drawing("found", draw.found(totals), words.FOUND_FIGURE)]
    parts: list[Part] = [table, *words.FOUND.explained(), *drawings]
    return Section(words.FOUND.title, parts, [table], {"summary.csv": summary})


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
    said = words.CONTRASTS
    note = " ".join(said.explained())
    table = columns.table(frame, CONTRASTS, words=2, caption=words.CONTRASTS_TABLE, note=note)
    return [Section(said.title, [table], [table], {"contrasts.csv": frame})]


EFFORT = (
    columns.text("method"), columns.number("area", ".4f"),
    *(columns.number(f"to {share}%", ",.0f", f"to_{share}") for share in SHARES),
)  # fmt: skip


def _effort(means: pl.DataFrame, pools: Sequence[str]) -> Section:
    ordered = means.sort("area", descending=True, maintain_order=True)
    tables = [columns.table(ordered.filter(pool=pool), EFFORT, caption=pool) for pool in pools]
    return Section(words.EFFORT.title, [*words.EFFORT.explained(), *tables])


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
    caption: str = "",
) -> list[Table]:
    """A table per pool: the first column of `order` (budget or rule), the method, then the numbers of `names`.

    Args:
        caption: a caption in which braces are filled in with the pool.
    """
    numbers = (columns.number(TITLES.get(name, name), FORMS.get(name, ".3f"), name) for name in names)
    declared, down = [KEYS[order[0]], columns.text("method"), *numbers], [name == "tau" for name in order]
    ordered = means.sort(*order, descending=down, nulls_last=True, maintain_order=True)
    return [columns.table(ordered.filter(pool=pool), declared, 2, caption.format(pool)) for pool in pools]


def _folded(
    means: pl.DataFrame, pools: Sequence[str], names: Sequence[str], order: Sequence[str] = ("budget",)
) -> list[Fold]:
    """The tables of `_details`, folded."""
    tables = zip(pools, _details(means, pools, names, order), strict=True)
    return [Fold(words.ALL_FIGURES.format(pool), [table]) for pool, table in tables]


KEYS = {"budget": columns.number("budget", ","), "rule": columns.text("rule")}
"""The first column of a table of details."""
FORMS = dict.fromkeys(("judged", "most"), ",.0f")
"""Forms of the numbers that are not between 0 and 1."""


def _ranking_quality(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    names = ("judged", "recall", "tau", "tau_ap", "drop", "bias", "inf_tau", "inf_tau_ap", "inf_drop")
    folds = _folded(over_seeds(frame, "budget"), pools, names, ("budget", "tau"))
    drawing = Drawing("ranking_quality", draw.ranking_quality(frame), words.RANKING_FIGURE)
    return Section(words.RANKING_QUALITY.title, [*words.RANKING_QUALITY.explained(), *folds, drawing])


def _stopping(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    names = ("judged", "saved", "found", "recall", "lowest_recall", "reached", "tau", "drop")
    folds = _folded(over_seeds(frame, "rule"), pools, names, ("rule", "judged"))
    drawing = Drawing("stopping", draw.stopping(frame), words.STOPPING_FIGURE)
    return Section(words.STOPPING.title, [*words.STOPPING.explained(), *folds, drawing])


def _estimates(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    names = ["relevant", "relevant_true", "bias", "rmse", "covered", "topics_covered", "map_bias", "map_rmse"]
    names += ["map_covered", "p10_bias", "p10_covered", "tau"]
    tables = _details(estimate_errors(frame), pools, names, caption="{}")
    drawing = Drawing("estimates", draw.estimates(frame), words.ESTIMATES_FIGURE)
    return Section(words.ESTIMATES.title, [*words.ESTIMATES.explained(), *tables, drawing])


def _fairness(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    names = ("unique", "depth", "depth_least", "crowded")
    tables = _folded(over_seeds(frame, "budget"), pools, names)
    return Section(words.FAIRNESS.title, [*words.FAIRNESS.explained(), *tables])


def _reuse(frame: pl.DataFrame, pools: Sequence[str]) -> Section:
    means = frame.group_by("pool", "budget", "method", maintain_order=True).agg(
        pl.col("lost").mean(), pl.col("fallen").mean(), most=pl.col("fallen").max()
    )
    folds = _folded(means, pools, ("lost", "fallen", "most"), ("budget", "fallen"))
    drawing = Drawing("reuse", draw.reuse(frame), words.REUSE_FIGURE)
    return Section(words.REUSE.title, [*words.REUSE.explained(), *folds, drawing])
