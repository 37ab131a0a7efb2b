"""Renders the report of a study: one HTML page that opens offline, and its figures as files.

Nothing is read or written here, so that a report can go to any file system.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from cluster.output.methods import EMBEDDINGS, diverged, evaluations, with_methods
from cluster.reports.canvas import png, svg
from cluster.reports.convergence import agents, convergence
from cluster.reports.embedding_map import embedding_map, where_queries_lie
from cluster.reports.hardness import hardness, how_hard
from cluster.reports.html_tables import all_figures, convergence_rates, probability, side_by_side, winners
from cluster.reports.hyperparameters import hyperparameters
from cluster.reports.oscillation import has_dev_losses, steadiness
from cluster.reports.page import Markup, fold, losses, markup, page, table, tag
from cluster.reports.paper_table import beside, read_published
from cluster.reports.query_differences import differences, histogram
from cluster.reports.run_figures import curves, density, runs
from cluster.reports.terminal_table import figure as printed
from cluster.reports.terminal_table import measures_of
from cluster.runs.traces import SCHEMA


@dataclass(frozen=True)
class Report:
    """A rendered report.

    Args:
        html: the whole page.
        figures: PNG files by name, for the folder `figures/`.
    """

    html: str
    figures: dict[str, bytes]


def render(
    trials: pl.DataFrame,
    queries: pl.DataFrame,
    summary: pl.DataFrame,
    config: str,
    command: str = "",
    study: Mapping[str, Any] | None = None,
    steps: pl.DataFrame | None = None,
    embeddings: pl.DataFrame | None = None,
    lost: Sequence[str] = (),
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

    Raises:
        BadInput: where that is damaged.
    """
    collections = ", ".join(trials["collection"].drop_nulls().unique().sort())
    title = f"Negative sampling on {collections}" if collections else "Negative sampling"
    body = [tag("h1", title), *_what_was_run(trials, command)]
    files: dict[str, bytes] = {}
    if summary["runs"].sum():
        measures = measures_of(summary)
        compared = differences(trials, queries, summary, measures[0])
        steps = pl.DataFrame(schema=SCHEMA) if steps is None else steps
        figures = _figures(trials, summary, compared, measures[0], steps, embeddings)
        files = {f"{name}.png": png(figure) for name, (figure, _) in figures.items()}
        body += [*_results(summary, measures), *_how_to_read()]
        body += [*_paper(trials, summary, study or {}), *_convergence(trials, measures[0]), tag("h2", "Figures")]
        shown = {name: _shown(name, *drawn) for name, drawn in figures.items()}
        apart = {"queries", "negatives", "map"} | ({"curves"} if has_dev_losses(trials) else set())
        body += [figure for name, figure in shown.items() if name not in apart]
        body += steadiness(trials, shown["curves"])
        body += how_hard(trials, steps, shown.get("negatives", Markup("")))
        body += where_queries_lie(shown.get("map", Markup("")))
        body += _per_query(compared, measures[0], shown.get("queries", Markup("")))
    else:
        body.append(tag("p", "No run has ended well."))
    body += [*_failures(trials), *_diverged(trials), *losses(lost), *_commands(trials), tag("h2", "Configuration")]
    body.append(fold("config.yaml", tag("pre", config)))
    return Report(page(title, body), files)


def _what_was_run(trials: pl.DataFrame, command: str) -> Iterator[Markup]:
    done = trials.filter(pl.col("status") == "done")
    failed, lost = len(trials) - len(done), len(diverged(trials))
    known = trials.select("collection", "fingerprint").drop_nulls().unique().sort("collection", "fingerprint")
    methods, rankers = (with_methods(trials)[name].unique().sort() for name in ("method", "ranker"))
    origins = dict.fromkeys(origin for origin, _ in evaluations(trials))
    minutes = (done["seconds"].sum() or 0) / 60
    facts = {
        "collection": "; ".join(f"{name}, fingerprint {fingerprint}" for name, fingerprint in known.iter_rows()),
        "compared": f"{len(methods)} methods with {' and '.join(rankers)}, {trials['seed'].n_unique()} seeds",
        "runs": f"{len(done)} done" + (f", {failed} failed" if failed else "") + (f", {lost} diverged" if lost else ""),
        "training": f"{minutes / 60:.1f} hours" if minutes >= 60 else f"{minutes:.1f} minutes",
        "evaluated on": " and ".join(o for o in origins if o != EMBEDDINGS) + " candidates",
    }
    facts["training"] += f" over all runs, {done['steps'].sum() or 0:,} steps"
    yield tag("dl", *(tag(kind, text) for fact in facts.items() for kind, text in zip(("dt", "dd"), fact, strict=True)))
    if command:
        yield tag("pre", command)


def _results(summary: pl.DataFrame, measures: list[str]) -> Iterator[Markup]:
    yield tag("h2", "Results")
    yield tag("ul", *(tag("li", line) for line in winners(summary, measures[0])))
    for measure in measures:
        shown = side_by_side(summary, measure), fold(f"All figures of {measure}", all_figures(summary, measure))
        if measure == measures[0]:
            yield tag("h3", measure)
            yield from shown
        else:
            yield fold(measure, *shown)


def _how_to_read() -> Iterator[Markup]:
    yield tag("h3", "How to read this")
    for text in (
        "Each figure is the mean over a method's runs ± their sample standard deviation. A method is a policy, "
        "a retrieval function and a selector, and any other setting swept over names or a few numbers; its runs differ "
        "by their seed and by numbers that were drawn or have many values. The column “runs” says how many there are. "
        "Bold is the best mean of a ranker.",
        "*, ‡ and † say that a method differs from the best baseline with p < .05. The best baseline is the highest "
        "mean among the other methods that are not learned, of the same ranker and over the same candidates; the best "
        "baseline itself is compared with the runner-up. A mark says different, not better: the means say which way.",
        "* is the test to go by: a t-test of the differences between runs of the same seed, for a seed sets the first "
        "weights and the order of the examples of all methods alike. ‡ is Student's two-tailed t-test and † the "
        "two-sample Kolmogorov-Smirnov test, which take all runs as independent. Of a method with several learned "
        "agents the agent is the unit: its runs share its luck, so that its mean over seeds counts as one value.",
        "p values are adjusted by Holm's method for all comparisons of one ranker, origin and measure. Three runs "
        "a method cannot reach p < .05 by the Kolmogorov-Smirnov test at all, and four only without any overlap "
        "and before the adjustment; a missing mark is then no evidence of sameness. Of the sign test, which all "
        "figures show, the same holds up to five runs.",
        "A run that diverged, its loss no longer a number, is measured with its best weights from before and counted "
        "in the mean; all figures also have the mean without such runs, and the mean in which failed runs count as 0.",
        "“with BM25” is what the ranker's score and BM25's reach together, each scaled to [0, 1] by query: the weight, "
        "in steps of a tenth, is the best on dev queries and stands in trials.parquet.",
        "Intervals are 95% percentile bootstrap intervals of the mean. BM25's own order is the ranking that "
        "BM25 gives the same candidates of the same queries.",
    ):
        yield tag("p", text)


def _paper(trials: pl.DataFrame, summary: pl.DataFrame, study: Mapping[str, Any]) -> Iterator[Markup]:
    published = read_published(study.get("design"))
    if published is not None:
        yield from beside(published, trials, summary, convergence(trials), study.get("overrides", ()))


def _convergence(trials: pl.DataFrame, measure: str) -> Iterator[Markup]:
    """Shown where agents can be compared: with one another, or with the random policy."""
    rates = convergence(trials).filter(measure=measure)
    if rates.is_empty() or not ((rates["agents"] > 1) | rates["rate"].is_not_null()).any():
        return
    yield tag("h2", "How reliably it is learned")
    yield tag(
        "p",
        "The convergence rate is the share of agents whose rankers reach a higher mean than those of the random "
        "policy (Cohen et al. 2019, table 2). All agents meet the same seeds, so with few of them they stand above "
        "that mean or below it together, whether or not they learned anything. The agent is the unit of the tests: the "
        "paired one asks whether agents differ from the random policy's runs of the same seeds by more than from one "
        "another.",
    )
    yield convergence_rates(rates, measure)
    rows = [
        [
            *(row[name] for name in ("collection", "ranker", "method", "candidates", "agent", "runs")),
            *(printed(row[name]) for name in ("mean", "random_mean")),
        ]
        for row in agents(trials).filter(measure=measure).iter_rows(named=True)
    ]
    head = ["collection", "ranker", "method", "candidates", "agent", "runs", "mean", "random policy"]
    yield fold("Every agent", table(head, rows, left=4))


def _figures(
    trials: pl.DataFrame,
    summary: pl.DataFrame,
    compared: pl.DataFrame,
    measure: str,
    steps: pl.DataFrame,
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


def _shown(name: str, figure: Figure, caption: str) -> Markup:
    return tag("figure", Markup(svg(figure, name)), tag("figcaption", caption))


def _per_query(compared: pl.DataFrame, measure: str, figure: Markup) -> Iterator[Markup]:
    if compared.is_empty():
        return
    yield tag("h2", "Query by query")
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
    yield table(head, rows, left=3, caption=caption)
    yield figure


def _failures(trials: pl.DataFrame) -> Iterator[Markup]:
    failed = trials.filter(pl.col("status") != "done").sort("run")
    if len(failed):
        yield tag("h2", "Failed runs")
        for run, overrides, error in failed.select("run", "overrides", "error").iter_rows():
            yield tag("h3", run)
            yield tag("pre", f"pyrite train {overrides}")
            yield tag("pre", error or "no error was recorded")


def _diverged(trials: pl.DataFrame) -> Iterator[Markup]:
    rows = diverged(trials).select("run", "overrides", "best_epoch", "epochs").rows()
    if rows:
        yield tag("h2", "Runs that diverged")
        yield tag(
            "p", "Their loss or scores were no numbers any more; what is shown is of the best weights from before."
        )
        lines = [[run, tag("code", f"pyrite train {overrides}"), *epochs] for run, overrides, *epochs in rows]
        yield table(["run", "command", "best epoch", "diverged in epoch"], lines, left=2)


def _commands(trials: pl.DataFrame) -> Iterator[Markup]:
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
    yield tag("h2", "Every run and its command")
    yield tag("p", "Each command repeats its run alone and, on a CPU, to the last bit.")
    yield fold(f"{len(rows)} runs", table(head, rows, left=4))
