"""Renders the report of a study: one HTML page that opens offline, and its figures as files.

Nothing is read or written here, so that a report can go to any file system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from cluster.output.methods import EMBEDDINGS, diverged, evaluations, stopped_runs, with_methods
from cluster.reports.canvas import png
from cluster.reports.convergence import agents, convergence
from cluster.reports.embedding_map import embedding_map, where_queries_lie
from cluster.reports.hardness import hardness, how_hard
from cluster.reports.html_tables import all_figures, convergence_rates, probability, side_by_side, winners
from cluster.reports.hyperparameters import hyperparameters
from cluster.reports.oscillation import has_dev_losses, steadiness
from cluster.reports.page import Markup, Report, drawn, losses, markup, page, rendered, table, tag
from cluster.reports.paper_table import beside, read_published
from cluster.reports.query_differences import differences, histogram
from cluster.reports.run_figures import curves, density, runs
from cluster.reports.terminal_table import figure as printed
from cluster.reports.terminal_table import measures_of
from cluster.runs.negative_tables import SCHEMA


def render(
    trials: pl.DataFrame,
    queries: pl.DataFrame | pl.LazyFrame,
    summary: pl.DataFrame,
    config: str,
    command: str = "",
    study: Mapping[str, Any] | None = None,
    steps: pl.DataFrame | pl.LazyFrame | None = None,
    embeddings: pl.DataFrame | None = None,
    lost: Sequence[str] = (),
    waiting: int = 0,
    sections: Sequence[Markup] = (),
) -> Report:
    """Render the report of a study; its figures are of the leading measure, that of the first column.

    Args:
        trials: the frame of `trials.parquet`.
        queries: the frame of `queries.parquet`.
        summary: the frame of `cluster.reports.summary.summarise`.
        config: the text of `config.yaml`.
        command: what was typed to run the study, if it is known.
        study: what `config.yaml` says, for the paper whose experiment it repeats.
        steps: the frame of `steps.parquet`, None where a study has none.
        embeddings: the frame of `embeddings.parquet`, None where a study has none.
        lost: what was lost and repeated, a sentence each.
        waiting: runs that have no result yet; their study still runs.
        sections: further parts of the page, which stand behind the table of results.

    Raises:
        BadInput: where that is damaged.
    """
    collections = ", ".join(trials["collection"].drop_nulls().unique().sort())
    title = f"Negative sampling on {collections}" if collections else "Negative sampling"
    values: dict[str, Any] = {
        "title": title,
        "facts": _what_was_run(trials, waiting),
        "command": command,
        "further": list(sections),
        "done": bool(summary["runs"].sum()),
        "failed": trials.filter(pl.col("status") == "failed").sort("run").rows(named=True),
        "diverged": _diverged(trials),
        "losses": losses(lost),
        "count": int((trials["status"] == "done").sum()),
        "commands": _commands(trials),
        "config": config,
    }
    files: dict[str, bytes] = {}
    if values["done"]:
        measures = measures_of(summary)
        compared = differences(trials, queries, summary, measures[0])
        steps = pl.DataFrame(schema=SCHEMA) if steps is None else steps
        figures = _figures(trials, summary, compared, measures[0], steps, embeddings)
        files = {f"{name}.png": png(figure) for name, (figure, _) in figures.items()}
        shown = {name: drawn(name, *figure) for name, figure in figures.items()}
        apart = {"queries", "negatives", "map"} | ({"curves"} if has_dev_losses(trials) else set())
        nothing = Markup("")
        values |= {
            "winners": list(winners(summary, measures[0])),
            "measures": [(name, side_by_side(summary, name), all_figures(summary, name)) for name in measures],
            "paper": _paper(trials, summary, study or {}),
            "convergence": _convergence(trials, measures[0]),
            "figures": [figure for name, figure in shown.items() if name not in apart],
            "sections": [
                steadiness(trials, shown["curves"]),
                how_hard(trials, steps, shown.get("negatives", nothing)),
                where_queries_lie(shown.get("map", nothing)),
            ],
            "per_query": None if compared.is_empty() else _per_query(compared, measures[0]),
            "histogram": shown.get("queries", nothing),
        }
    return Report(page(title, [rendered("study_report.html", **values)]), files)


def _what_was_run(trials: pl.DataFrame, waiting: int) -> dict[str, str]:
    done = trials.filter(pl.col("status") == "done")
    failed, lost = int((trials["status"] == "failed").sum()), len(diverged(trials))
    stopped, behind = (len(each) for each in stopped_runs(trials))
    known = trials.select("collection", "fingerprint").drop_nulls().unique().sort("collection", "fingerprint")
    methods, rankers = (with_methods(trials)[name].unique().sort() for name in ("method", "ranker"))
    origins = dict.fromkeys(origin for origin, _ in evaluations(trials))
    minutes = (done["seconds"].sum() or 0) / 60
    facts = {
        "collection": "; ".join(f"{name}, fingerprint {fingerprint}" for name, fingerprint in known.iter_rows()),
        "compared": f"{len(methods)} methods with {' and '.join(rankers)}, {trials['seed'].n_unique()} seeds",
        "runs": f"{len(done)} done"
        + (f", {failed} failed" if failed else "")
        + (f", {lost} diverged" if lost else "")
        + (f", {stopped} stopped before they began" if stopped else "")
        + (f", {behind} of a search stopped: no figure has them, nor compares methods fairly" if behind else "")
        + (f", {waiting} to come: the study still runs" if waiting else ""),
        "training": f"{minutes / 60:.1f} hours" if minutes >= 60 else f"{minutes:.1f} minutes",
        "evaluated on": " and ".join(o for o in origins if o != EMBEDDINGS) + " candidates",
    }
    facts["training"] += f" over all runs, {done['steps'].sum() or 0:,} steps"
    return facts


def _paper(trials: pl.DataFrame, summary: pl.DataFrame, study: Mapping[str, Any]) -> Markup:
    published = read_published(study.get("design"))
    if published is None:
        return Markup("")
    return beside(published, trials, summary, convergence(trials), study.get("overrides", ()))


def _convergence(trials: pl.DataFrame, measure: str) -> Markup:
    """Shown where agents can be compared: with one another, or with the random policy."""
    rates = convergence(trials).filter(measure=measure)
    if rates.is_empty() or not ((rates["agents"] > 1) | rates["rate"].is_not_null()).any():
        return Markup("")
    rows = [
        [
            *(row[name] for name in ("collection", "ranker", "method", "candidates", "agent")),
            {True: "yes", False: "no", None: None}[row["converged"]],
            row["runs"],
            *(printed(row[name]) for name in ("mean", "random_mean")),
        ]
        for row in agents(trials).filter(measure=measure).iter_rows(named=True)
    ]
    head = ["collection", "ranker", "method", "candidates", "agent", "converged", "runs", "mean", "random policy"]
    rates_table, each = convergence_rates(rates, measure), table(head, rows, left=4)
    return rendered("convergence.html", rates=rates_table, agents=each)


def _figures(
    trials: pl.DataFrame,
    summary: pl.DataFrame,
    compared: pl.DataFrame,
    measure: str,
    steps: pl.DataFrame | pl.LazyFrame,
    embeddings: pl.DataFrame | None,
) -> dict[str, tuple[Figure, str]]:
    figures: dict[str, tuple[Figure | None, str]] = {
        "runs": (
            runs(trials, summary, measure),
            f"Every run's {measure}; below it the mean and its 95% bootstrap interval. The best mean of a panel "
            "is a star. Methods stand in the order of the left panel: where another panel leans the other way, "
            "the winner depends on where the candidates come from.",
        ),
        "density": (
            density(trials, measure),
            f"Kernel density of the runs' {measure}, and each run as a tick. Two humps mean that some runs "
            "learned and others did not.",
        ),
        "curves": (
            curves(trials),
            "Validation and losses by epoch: mean and one standard deviation over a method's runs. A run that "
            "stopped early keeps its last value; lines thin out where fewer than half of the runs still trained.",
        ),
        "hyperparameters": (
            hyperparameters(trials, measure),
            f"{measure} against what was swept. Lines join the means of a method, boxes span all methods.",
        ),
        "negatives": (
            hardness(trials, steps),
            "What rankers were shown, by step: means over a method's runs and one standard deviation. A negative is "
            "misranked where it scores no lower than its positive. Where rankers are trained in turn, of the last.",
        ),
        "map": (
            None if embeddings is None else embedding_map(trials, embeddings),
            "Embeddings of queries in two dimensions; grey are queries of rarer categories, or of none.",
        ),
        "queries": (
            histogram(compared, measure),
            f"Difference of {measure} a query between the two best methods, averaged over runs first: blue where "
            "the better method wins, orange where it loses, grey ties; the mean is dashed.",
        ),
    }
    return {name: (figure, caption) for name, (figure, caption) in figures.items() if figure is not None}


def _per_query(compared: pl.DataFrame, measure: str) -> Markup:
    several = compared["collection"].n_unique() > 1
    rows = [
        [
            f"{row['ranker']} on {row['collection']}" if several else row["ranker"],
            row["candidates"],
            Markup(f"{markup(row['first'])}<br>{tag('span', 'over ' + row['second'], class_='soft')}"),
            *(f"{row['difference']:+.4f}", f"{row['wins']} / {row['ties']} / {row['losses']}"),
            *(probability(row["p"]), probability(row["p_holm"])),
        ]
        for row in compared.drop_nulls("difference").iter_rows(named=True)
    ]
    head = ["ranker", "candidates", "the two best", "difference", "wins / ties / losses", "p", "p (Holm)"]
    caption = (
        f"{measure} a query, averaged over runs; paired t-test over queries. The two were chosen after the fact, as "
        "the highest means of these same queries: another study would show less of a difference, and p is too small."
    )
    return table(head, rows, left=3, caption=caption)


def _diverged(trials: pl.DataFrame) -> Markup | None:
    rows = diverged(trials).select("run", "overrides", "best_epoch", "epochs").rows()
    lines = [[run, tag("code", f"pyrite train {overrides}"), *epochs] for run, overrides, *epochs in rows]
    return table(["run", "command", "best epoch", "diverged in epoch"], lines, left=2) if lines else None


def _commands(trials: pl.DataFrame) -> Markup:
    leading = evaluations(trials)[:1]
    columns = [f"{origin}:{measure}" for origin, measure in evaluations(trials) if measure == leading[0][1]]
    done = trials.filter(pl.col("status") == "done").join(with_methods(trials).select("run", "method"), on="run")
    rows = [
        [
            *(row["run"], row["ranker"], row["method"], tag("code", f"pyrite train {row['overrides']}")),
            *(row["seed"], row["best_epoch"], *(printed(row[column]) for column in columns)),
        ]
        for row in done.sort("ranker", "method", "seed", "run").iter_rows(named=True)
    ]
    head = ["run", "ranker", "method", "command", "seed", "best epoch", *columns]
    return table(head, rows, left=4)
