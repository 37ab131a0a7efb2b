"""Writes the sections of a pooling report: what was found, how well it ranks the runs, when to stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from cluster.reports.page import Markup, fold, table, tag
from cluster.reports.pool_summary import ALPHA, efforts, estimate_errors, over_seeds
from cluster.reports.pool_terminal_table import contrast_cells, ranked
from pooling.effort import SHARES


def found(summary: pl.DataFrame, pools: Sequence[str], baseline: str | None) -> Iterator[Markup]:
    """What each method has found, by judgements."""
    yield tag(
        "p",
        "Means over topics and seeds, as in tables 2 and 3 of Losada et al. 2016. Bold is the most found. ",
        f"* differs from {baseline}: paired t-test over topics of the means over seeds, p < .05, by Holm's method for "
        "all methods of a column. A mark says different, not better. "
        if baseline in summary["method"]
        else "",
        "Below the mean the 95% bootstrap interval over topics and seeds: it is wide because topics differ, while the "
        "test compares the same topics.",
    )
    for pool in pools:
        part = summary.filter(pool=pool)
        columns = part["judgements"].unique(maintain_order=True).to_list()
        rows = []
        for method in ranked(part):
            cells = {row["judgements"]: row for row in part.filter(method=method).iter_rows(named=True)}
            rows.append([method, *(_cell(cells[column]) for column in columns)])
        yield table(["method", *columns], rows, caption=f"{pool}: relevant documents found a topic, by judgements")


def contrasts(frame: pl.DataFrame) -> Iterator[Markup]:
    """The contrasts that were named beforehand."""
    yield tag(
        "p",
        "How much more one method found than another, of the pairs that were named before anything was run: each a "
        "paired t-test over topics by itself, of the means over seeds; * p < .05.",
    )
    head = ["pool", "contrast", "judgements", "difference", "95% interval", "p"]
    rows = [
        [
            row["pool"],
            f"{row['method']} − {row['against']}",
            f"{row['judgements']:,}",
            f"{row['difference']:+.2f}",
            *contrast_cells(row),
        ]
        for row in frame.iter_rows(named=True)
    ]
    yield table(head, rows, left=2, caption="relevant documents found more, a topic")


def _cell(row: dict[str, Any]) -> Markup:
    mean = f"{row['found_mean']:.2f}"
    mark = "*" if row["p"] is not None and row["p"] < ALPHA else ""
    shown = tag("b", mean) if row["best"] else tag("span", mean)
    return Markup(shown + tag("sup", mark) + Markup("<br>") + tag("small", f"{row['low']:.1f}–{row['high']:.1f}"))


def effort(frame: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    """How early relevant documents come."""
    yield tag(
        "p",
        "The area is that under the curve of relevant documents found, as a share of what finding all at once would "
        "give. The other columns are the judgements a topic that find so many per cent of the pool's relevant "
        "documents. Means over seeds.",
    )
    means = efforts(frame)
    for pool in pools:
        part = means.filter(pool=pool).sort("area", descending=True, maintain_order=True)
        rows = [
            [row["method"], f"{row['area']:.4f}", *(f"{row[f'to_{share}']:,.0f}" for share in SHARES)]
            for row in part.iter_rows(named=True)
        ]
        yield table(["method", "area", *(f"to {share}%" for share in SHARES)], rows, caption=pool)


def ranking_quality(quality: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    """How well the judgements of each budget rank the runs."""
    yield tag(
        "p",
        "The runs are ranked by mean AP (and by mean infAP) with the judgements of a budget, and compared with their "
        "ranking by AP with all judgements: Kendall's τ, τ_AP, which minds the top more, and the most ranks that a run "
        "loses. infAP supposes a uniform sample of the pool, which only a random order gives; its bias is "
        "part of what is shown.",
    )
    means = over_seeds(quality, "budget")
    head = ["budget", "method", "judged", "recall", "τ", "τ_AP", "drop", "bias", "τ infAP", "τ_AP infAP", "drop infAP"]
    names = ("recall", "tau", "tau_ap", "drop", "bias", "inf_tau", "inf_tau_ap", "inf_drop")
    for pool in pools:
        part = means.filter(pool=pool).sort(
            "budget", "tau", descending=[False, True], nulls_last=True, maintain_order=True
        )
        rows = [
            [f"{row['budget']:,}", row["method"], f"{row['judged']:,.0f}", *(_figure(row[name]) for name in names)]
            for row in part.iter_rows(named=True)
        ]
        yield fold(f"{pool}: all figures", table(head, rows, left=2))


def stopping(frame: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    """Where each rule stops, and what that costs."""
    means = over_seeds(frame, "rule")
    head = ["rule", "method", "judged", "saved", "found", "recall", "lowest", "topics that reach it", "τ", "drop"]
    names = ("saved", "found", "recall", "lowest_recall", "reached", "tau", "drop")
    for pool in pools:
        rows = [
            [row["rule"], row["method"], f"{row['judged']:,.0f}", *(_figure(row[name]) for name in names)]
            for row in means.filter(pool=pool).sort("rule", "judged", maintain_order=True).iter_rows(named=True)
        ]
        yield fold(f"{pool}: all figures", table(head, rows, left=2, caption="judgements a topic; means over seeds"))


def estimates(frame: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    """How good the estimates of sampling orders are."""
    yield tag(
        "p",
        "What a sampling order's judgements say of the whole pool. Over the seeds: bias and root mean squared error of "
        "the relevant documents a topic, and how often the 95% interval holds the truth; then how often each topic's "
        "own does, and the same of the runs' MAP and P@10.",
    )
    head = ["budget", "method", "relevant", "true", "bias", "RMSE", "covered", "topics covered"]
    head += ["MAP bias", "MAP RMSE", "MAP covered", "P@10 bias", "P@10 covered", "τ"]
    names = ["relevant", "relevant_true", "bias", "rmse", "covered", "topics_covered", "map_bias", "map_rmse"]
    names += ["map_covered", "p10_bias", "p10_covered", "tau"]
    told = estimate_errors(frame)
    for pool in pools:
        rows = [
            [f"{row['budget']:,}", row["method"], *(_figure(row[name]) for name in names)]
            for row in told.filter(pool=pool).sort("budget", maintain_order=True).iter_rows(named=True)
        ]
        yield table(head, rows, left=2, caption=pool)


def fairness(frame: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    """How fairly judgements treat runs."""
    yield tag(
        "p",
        "Unique is the share of the relevant documents found that the runs of one team alone hold; depth, how many "
        "documents of a run are judged before the first that is not, mean over runs and of the run with the least; "
        "crowded, the share of topics of whose judged documents more than a third are relevant, so that many more must "
        "be expected unjudged (Voorhees 2018).",
    )
    means = over_seeds(frame, "budget")
    for pool in pools:
        rows = [
            [
                f"{row['budget']:,}",
                row["method"],
                *(_figure(row[name]) for name in ("unique", "depth", "depth_least", "crowded")),
            ]
            for row in means.filter(pool=pool).sort("budget", maintain_order=True).iter_rows(named=True)
        ]
        yield fold(
            f"{pool}: all figures",
            table(["budget", "method", "unique", "depth", "least depth", "crowded"], rows, left=2),
        )


def reuse(frame: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    """What judgements are worth to runs that took no part."""
    yield tag(
        "p",
        "Each team is left out in turn: the pool is made and judged without its runs, which are then evaluated with "
        "those judgements. Lost is AP, fallen are ranks, against the same budget spent on the whole pool (seed 0).",
    )
    means = frame.group_by("pool", "budget", "method", maintain_order=True).agg(
        pl.col("lost").mean(), pl.col("fallen").mean(), most=pl.col("fallen").max()
    )
    for pool in pools:
        rows = [
            [f"{row['budget']:,}", row["method"], f"{row['lost']:.4f}", f"{row['fallen']:.2f}", f"{row['most']:.0f}"]
            for row in means.filter(pool=pool).sort("budget", "fallen", maintain_order=True).iter_rows(named=True)
        ]
        yield fold(f"{pool}: all figures", table(["budget", "method", "lost", "fallen", "most"], rows, left=2))


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
