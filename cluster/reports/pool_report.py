"""Renders the report of a pooling study: one HTML page that opens offline, and its figures as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from cluster.reports import pool_figures
from cluster.reports.canvas import png
from cluster.reports.page import Markup, Report, fold, losses, page, table, tag
from cluster.reports.page import drawn as drawn_figure
from cluster.reports.pool_summary import ALPHA, efforts, estimate_errors, over_seeds
from cluster.reports.pool_terminal_table import contrast_cells, ranked
from pooling.effort import SHARES


def render(
    config: dict[str, Any],
    trials: pl.DataFrame,
    tables: dict[str, pl.DataFrame],
    summary: pl.DataFrame,
    contrasts: pl.DataFrame,
    written: str,
    lost: Sequence[str] = (),
    waiting: int = 0,
) -> Report:
    """Render the report.

    Args:
        config: what `config.yaml` holds.
        trials: the frame of `trials.parquet`.
        tables: the other frames, by name.
        summary: of `cluster.reports.pool_summary.summarise`.
        contrasts: of `cluster.reports.pool_summary.contrasts`.
        written: the text of `config.yaml`.
        lost: what was lost and repeated, a sentence each.
        waiting: methods that have no result yet; their study still runs.
    """
    pools = summary["pool"].unique(maintain_order=True).to_list()
    drawn = _figures(tables, config["options"]["baseline"])
    files = {f"{name}.png": png(figure) for name, (figure, _) in drawn.items()}
    shown = {name: drawn_figure(name, *made) for name, made in drawn.items()}
    title = f"In which order to judge: {', '.join(pools)}"
    body = [tag("h1", title), *_what_was_run(config, trials, pools, waiting), tag("h2", "Relevant documents found")]
    body += [*_found(summary, pools, config["options"]["baseline"]), *_show(shown, "found", "gained")]
    if len(contrasts):
        body += [tag("h2", "Contrasts named beforehand"), *_contrasts(contrasts)]
    body += [tag("h2", "Effort"), *_effort(tables["effort"], pools)]
    if "ranking_quality" in tables:
        body += [
            tag("h2", "How well the judgements rank the runs"),
            *_ranking_quality(tables["ranking_quality"], pools),
            *_show(shown, "ranking_quality"),
        ]
    if "stopping" in tables:
        body += [tag("h2", "When to stop"), *_stopping(tables["stopping"], pools), *_show(shown, "stopping")]
    if "estimates" in tables:
        body += [tag("h2", "Estimates"), *_estimates(tables["estimates"], pools), *_show(shown, "estimates")]
    if "fairness" in tables:
        body += [tag("h2", "Fairness"), *_fairness(tables["fairness"], pools)]
    if "reuse" in tables:
        body += [tag("h2", "Runs that took no part"), *_reuse(tables["reuse"], pools), *_show(shown, "reuse")]
    body += [
        losses(lost),
        *_commands(config, trials),
        tag("h2", "Configuration"),
        fold("config.yaml", tag("pre", written)),
    ]
    return Report(page(title, body), files)


def _figures(tables: dict[str, pl.DataFrame], baseline: str | None) -> dict[str, tuple[Figure, str]]:
    gained = pool_figures.gained(tables["totals"], baseline) if baseline else None
    made: dict[str, tuple[Figure | None, str]] = {
        "found": (
            pool_figures.found(tables["totals"]),
            "Relevant documents found against judgements, means over topics and seeds. A small pool is judged whole "
            "before the budget of a large one is spent.",
        ),
        "gained": (
            gained,
            f"The same, as the difference to {baseline}; judgements on a log scale. A line may leave the panel.",
        ),
    }
    if "ranking_quality" in tables:
        made["ranking_quality"] = (
            pool_figures.ranking_quality(tables["ranking_quality"]),
            "Correlation of the ranking of the runs by the judgements so far with their ranking by all judgements. The "
            "worst tenth of the lines may leave a panel.",
        )
    if "stopping" in tables:
        made["stopping"] = (
            pool_figures.stopping(tables["stopping"]),
            "Where each rule would have stopped: a method is better the further right and up it stands.",
        )
    if "estimates" in tables:
        made["estimates"] = (
            pool_figures.estimates(tables["estimates"]),
            "Relevant documents estimated from each budget's judgements, every seed, against what the pool holds (the "
            "line); and the error of the runs' estimated MAP, and how often its 95% intervals hold the truth.",
        )
    if "reuse" in tables:
        made["reuse"] = (
            pool_figures.reuse(tables["reuse"]),
            "How far a run falls among all runs when the pool is made and judged without its team's runs.",
        )
    return {name: (figure, caption) for name, (figure, caption) in made.items() if figure is not None}


def _show(shown: dict[str, Markup], *names: str) -> Iterator[Markup]:
    return (shown[name] for name in names if name in shown)


def _what_was_run(config: dict[str, Any], trials: pl.DataFrame, pools: Sequence[str], waiting: int) -> Iterator[Markup]:
    for pool in pools:
        yield tag("p", config["facts"].get(pool, pool))
        notes = config["notes"].get(pool, {})
        if notes:
            yield tag("ul", *(tag("li", f"{count:,} {said}") for said, count in notes.items()))
    done = trials.filter(status="done")
    yield tag(
        "p",
        f"{trials['method'].n_unique()} methods, {config['options']['seeds']} seeds each; simulated in "
        f"{done['seconds'].sum() or 0:.1f} seconds of one core.",
    )
    if waiting:
        yield tag("p", f"{waiting} more are to come: the study still runs.")
    yield tag("pre", config["command"])


def _found(summary: pl.DataFrame, pools: Sequence[str], baseline: str | None) -> Iterator[Markup]:
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


def _contrasts(contrasts: pl.DataFrame) -> Iterator[Markup]:
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
        for row in contrasts.iter_rows(named=True)
    ]
    yield table(head, rows, left=2, caption="relevant documents found more, a topic")


def _cell(row: dict[str, Any]) -> Markup:
    mean = f"{row['found_mean']:.2f}"
    mark = "*" if row["p"] is not None and row["p"] < ALPHA else ""
    shown = tag("b", mean) if row["best"] else tag("span", mean)
    return Markup(shown + tag("sup", mark) + Markup("<br>") + tag("small", f"{row['low']:.1f}–{row['high']:.1f}"))


def _effort(effort: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    yield tag(
        "p",
        "The area is that under the curve of relevant documents found, as a share of what finding all at once would "
        "give. The other columns are the judgements a topic that find so many per cent of the pool's relevant "
        "documents. Means over seeds.",
    )
    means = efforts(effort)
    for pool in pools:
        part = means.filter(pool=pool).sort("area", descending=True, maintain_order=True)
        rows = [
            [row["method"], f"{row['area']:.4f}", *(f"{row[f'to_{share}']:,.0f}" for share in SHARES)]
            for row in part.iter_rows(named=True)
        ]
        yield table(["method", "area", *(f"to {share}%" for share in SHARES)], rows, caption=pool)


def _ranking_quality(quality: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
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


def _stopping(stopping: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    means = over_seeds(stopping, "rule")
    head = ["rule", "method", "judged", "saved", "found", "recall", "lowest", "topics that reach it", "τ", "drop"]
    names = ("saved", "found", "recall", "lowest_recall", "reached", "tau", "drop")
    for pool in pools:
        rows = [
            [row["rule"], row["method"], f"{row['judged']:,.0f}", *(_figure(row[name]) for name in names)]
            for row in means.filter(pool=pool).sort("rule", "judged", maintain_order=True).iter_rows(named=True)
        ]
        yield fold(f"{pool}: all figures", table(head, rows, left=2, caption="judgements a topic; means over seeds"))


def _estimates(estimates: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
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
    told = estimate_errors(estimates)
    for pool in pools:
        rows = [
            [f"{row['budget']:,}", row["method"], *(_figure(row[name]) for name in names)]
            for row in told.filter(pool=pool).sort("budget", maintain_order=True).iter_rows(named=True)
        ]
        yield table(head, rows, left=2, caption=pool)


def _fairness(fairness: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    yield tag(
        "p",
        "Unique is the share of the relevant documents found that the runs of one team alone hold; depth, how many "
        "documents of a run are judged before the first that is not, mean over runs and of the run with the least; "
        "crowded, the share of topics of whose judged documents more than a third are relevant, so that many more must "
        "be expected unjudged (Voorhees 2018).",
    )
    means = over_seeds(fairness, "budget")
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


def _reuse(reuse: pl.DataFrame, pools: Sequence[str]) -> Iterator[Markup]:
    yield tag(
        "p",
        "Each team is left out in turn: the pool is made and judged without its runs, which are then evaluated with "
        "those judgements. Lost is AP, fallen are ranks, against the same budget spent on the whole pool (seed 0).",
    )
    means = reuse.group_by("pool", "budget", "method", maintain_order=True).agg(
        pl.col("lost").mean(), pl.col("fallen").mean(), most=pl.col("fallen").max()
    )
    for pool in pools:
        rows = [
            [f"{row['budget']:,}", row["method"], f"{row['lost']:.4f}", f"{row['fallen']:.2f}", f"{row['most']:.0f}"]
            for row in means.filter(pool=pool).sort("budget", "fallen", maintain_order=True).iter_rows(named=True)
        ]
        yield fold(f"{pool}: all figures", table(["budget", "method", "lost", "fallen", "most"], rows, left=2))


def _commands(config: dict[str, Any], trials: pl.DataFrame) -> Iterator[Markup]:
    failed = trials.filter(status="failed")
    if len(failed):
        yield tag("h2", "Failed")
        yield table(["pool", "method", "error"], failed.select("pool", "method", "error").rows(), left=3)
    yield tag("h2", "Methods")
    rows = trials.select("method", "overrides").unique(maintain_order=True).rows()
    yield table(["method", "overrides"], [[name, tag("code", text)] for name, text in rows], left=2)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
