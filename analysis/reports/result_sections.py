"""Lays out the results of a study: methods by origins of candidates, every figure of the summary, query by query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import polars as pl

from pyrite.analysis.methods import EMBEDDINGS, first_stage_of
from pyrite.analysis.reports import columns
from pyrite.analysis.reports.labels import by_family, title_of, value
from pyrite.analysis.reports.report import Cell, Drawing, Fold, Part, Rows, Section, Table
from pyrite.analysis.reports.run_figures import curves, hyperparameters
from pyrite.analysis.statistics.oscillation import dev_losses
from pyrite.analysis.statistics.summary import MEASURED, budget_of, marks
from pyrite.analysis.study_comparison import Comparison

Row = dict[str, Any]
READING = "* differs from {}, p < .05 (for other seeds and queries, Holm); ‡ by Student's t-test; † by KS"
HOW_TO_READ = (
    "Each figure is the mean over a method's runs ± their sample standard deviation. A method is a policy, a "
    "retrieval function and a selector, and any other setting swept over names or a few numbers; its runs differ by "
    "their seed and by numbers that were drawn or have many values. Bold is the best mean of a ranker.",
    "*, ‡ and † mark methods that differ from the best baseline with p < .05. The best baseline is the highest mean "
    "among the other methods that are not learned, of the same ranker and over the same candidates; the best baseline "
    "itself is compared with the runner-up. A mark means different, not better: the means show which way.",
    "* is the test that leads. Runs of the same seed are paired, because a seed sets the first weights and the order "
    "of the examples of all methods alike, and so are the values of the same query. Seeds and queries are both taken "
    "as a sample (a model of random effects with Satterthwaite's degrees of freedom), so the test is about other "
    "seeds and other queries. The paired t-test over seeds, in summary.csv, is about other seeds and these very "
    "queries: its p is smaller, and says less. ‡ is Student's two-tailed t-test and † the two-sample "
    "Kolmogorov-Smirnov test, which take all runs as independent. If a method has several learned agents, the agent "
    "is the unit: its runs share its luck, so its mean over seeds counts as one value. Two seeds carry no mark.",
    "p values are adjusted by Holm's method for all comparisons of one ranker, origin and measure. Three runs per "
    "method cannot reach p < .05 by the Kolmogorov-Smirnov test at all, and four only without any overlap and before "
    "the adjustment; a missing mark is then no evidence that methods are alike. The same holds for the sign test, "
    "in summary.csv, up to five runs.",
    "A run that diverged (its loss was no longer a number) is measured with its best weights from before and counted "
    "in the mean; summary.csv also has the mean without such runs, and the mean in which failed runs count as 0.",
    "“ranker + BM25” combines the ranker's score and BM25's, each scaled to [0, 1] by query: the weight, in steps "
    "of a tenth, is the best on dev queries and is listed in trials.parquet.",
    "Intervals are 95% percentile bootstrap intervals of the mean. “BM25 alone” is the ranking that BM25 gives the "
    "same candidates of the same queries; candidates of a run file have the order of the run instead.",
)  # fmt: skip


def origin_name(origin: str) -> str:
    """The name of an origin of candidates, for people."""
    names = {"full": "all passages", "bm25": "BM25's top passages", "random": "random passages"}
    return names.get(origin, origin if origin == EMBEDDINGS else f"{origin} candidates")


def measures_of(summary: pl.DataFrame) -> list[str]:
    """The measures of a summary in their order, the leading one first."""
    return summary["measure"].unique(maintain_order=True).to_list()


def results(summary: pl.DataFrame) -> list[Section]:
    """The methods by origins of candidates, for each measure; folded, as the verdict has the leading means."""
    folds = [Fold(measure, [side_by_side(summary, measure)]) for measure in measures_of(summary)]
    parts: list[Part] = [*folds, Fold("How to read this", HOW_TO_READ)]
    spent = [*MEASURED, *budget_of(summary)]
    costs = summary.select("collection", "ranker", "method", "measure", "candidates", *spent)
    return [Section("Results", parts, (), {"summary.csv": summary.drop(spent), "costs.csv": costs})]


def side_by_side(summary: pl.DataFrame, measure: str) -> Table:
    """A measure with origins of candidates side by side, a section per ranker, BM25 alone last."""
    rows = summary.filter(measure=measure).sort("collection", pl.col("ranker") == "bm25", maintain_order=True)
    named = rows["baseline"].drop_nulls().unique(maintain_order=True).to_list() if "baseline" in rows.columns else []
    rows = rows.with_columns(marks=marks("baseline_")) if named else rows
    origins = rows["candidates"].unique(maintain_order=True).to_list()
    mixed = rows.drop_nulls("interpolated_mean")["candidates"].to_list()[:1]
    lines: Rows = []
    for title, family in by_family(rows):
        alone = family[0, "ranker"] == "bm25"
        best = {} if alone else dict(family.group_by("candidates").agg(pl.col("mean").max()).iter_rows())
        lines += [] if alone else [title]
        lines += [
            [method, *_cells(part, origins, mixed, best), _runs(part)]
            for (method,), part in family.partition_by("method", as_dict=True, maintain_order=True).items()
        ]
    head = ["method", *chain(*([origin_name(origin), *_mixed_name(origin, mixed)] for origin in origins)), "runs"]
    opponent = f"{' or '.join(named)} (your baseline)" if named else "the best baseline"
    tested = rows.select(pl.col("paired_p", "t_p", "ks_p").count()).sum_horizontal().sum()
    note = READING.format(opponent) if tested else ""
    return Table(head, lines, caption=f"{measure}, by what is ranked", note=note)


def _cells(
    part: pl.DataFrame, origins: Sequence[str], mixed: Sequence[str], best: Mapping[str, float]
) -> Iterator[object]:
    """Yield the cells of a method: a mean per origin, with the mean of both scores after the one that has it."""
    of = {row["candidates"]: row for row in part.iter_rows(named=True)}
    for origin in origins:
        yield cell(of.get(origin), best.get(origin))
        if origin in mixed:
            yield value(of.get(origin, {}).get("interpolated_mean"))


def _mixed_name(origin: str, mixed: Sequence[str]) -> list[str]:
    return [f"ranker + {first_stage_of(origin)}"] if origin in mixed else []


def cell(row: Row | None, best: float | None) -> Cell:
    """A mean with its deviation and marks, bold if it is the best."""
    if row is None or row["mean"] is None:
        return Cell(None)
    spread = f"± {value(row['std'])}" if row["std"] is not None else ""
    return Cell(value(row["mean"]), spread, row["marks"], row["mean"] == best)


def _runs(part: pl.DataFrame) -> str:
    mishaps: dict[str, Any] = {name: part[name].max() for name in ("failed", "diverged")}
    named = ", ".join(f"{count} {name}" for name, count in mishaps.items() if count)
    runs = "/".join(part["runs"].unique().sort().cast(pl.String))
    return f"{runs} ({named})" if named else runs


def figures(trials: pl.DataFrame, measure: str) -> list[Section]:
    """Validation by epoch, and the measure against a swept number."""
    parts = [] if len(dev_losses(trials)) else [Drawing("curves", curves(trials), CURVES)]
    if (drawn := hyperparameters(trials, measure)) is not None:
        swept = "what was swept. Lines join the means of a method; boxes, for names, span all methods."
        parts.append(Drawing("hyperparameters", drawn, f"{measure} against {swept}"))
    return [Section("Figures", parts)] if parts else []


CURVES = (
    "Validation and losses by epoch: mean and one standard deviation over a method's runs. A run that "
    "stopped early keeps its last value; lines are thin if fewer than half of the runs were still training."
)


def by_query(comparison: Comparison, summary: pl.DataFrame, measure: str) -> list[Section]:
    """The two best methods of each ranker and origin, query by query."""
    compared = comparison.by_query(summary, measure)
    if compared.is_empty():
        return []
    several = compared["collection"].n_unique() > 1
    ranker = columns.Column("ranker", lambda row: title_of(row["ranker"], row["collection"], several))
    note = (
        f"{measure} per query, averaged over runs first; paired t-test over queries. The same queries chose the two "
        "methods, as the highest means: another study would show less of a difference, and p is too small."
    )
    table = columns.table(compared.drop_nulls("difference"), [ranker, *BY_QUERY], words=3, note=note)
    return [Section("Query by query", [table])]


BY_QUERY = (
    columns.text("candidates"),
    columns.Column("the two best", lambda row: Cell(row["first"], below=f"over {row['second']}")),
    columns.number("difference", "+.4f"),
    columns.shown("wins / ties / losses", "{} / {} / {}".format, "wins", "ties", "losses"),
    columns.p("p", "p"),
    columns.p("p (Holm)", "p_holm"),
)
