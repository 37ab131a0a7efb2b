"""Renders the report of a pooling study: one HTML page that opens offline, and its figures as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from cluster.reports import pool_figures, pool_sections
from cluster.reports.canvas import png
from cluster.reports.page import Markup, Report, fold, losses, page, table, tag
from cluster.reports.page import drawn as drawn_figure


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
    body += [*pool_sections.found(summary, pools, config["options"]["baseline"]), *_show(shown, "found", "gained")]
    if len(contrasts):
        body += [tag("h2", "Contrasts named beforehand"), *pool_sections.contrasts(contrasts)]
    body += [tag("h2", "Effort"), *pool_sections.effort(tables["effort"], pools)]
    if "ranking_quality" in tables:
        body += [
            tag("h2", "How well the judgements rank the runs"),
            *pool_sections.ranking_quality(tables["ranking_quality"], pools),
            *_show(shown, "ranking_quality"),
        ]
    if "stopping" in tables:
        body += [
            tag("h2", "When to stop"),
            *pool_sections.stopping(tables["stopping"], pools),
            *_show(shown, "stopping"),
        ]
    if "estimates" in tables:
        body += [
            tag("h2", "Estimates"),
            *pool_sections.estimates(tables["estimates"], pools),
            *_show(shown, "estimates"),
        ]
    if "fairness" in tables:
        body += [tag("h2", "Fairness"), *pool_sections.fairness(tables["fairness"], pools)]
    if "reuse" in tables:
        body += [
            tag("h2", "Runs that took no part"),
            *pool_sections.reuse(tables["reuse"], pools),
            *_show(shown, "reuse"),
        ]
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


def _commands(config: dict[str, Any], trials: pl.DataFrame) -> Iterator[Markup]:
    failed = trials.filter(status="failed")
    if len(failed):
        yield tag("h2", "Failed")
        yield table(["pool", "method", "error"], failed.select("pool", "method", "error").rows(), left=3)
    yield tag("h2", "Methods")
    rows = trials.select("method", "overrides").unique(maintain_order=True).rows()
    yield table(["method", "overrides"], [[name, tag("code", text)] for name, text in rows], left=2)
