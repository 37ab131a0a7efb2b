"""Lays out the results of a study: methods by origins of candidates, every figure of the summary, query by query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import polars as pl

from pyrite.analysis.methods import first_stage_of
from pyrite.analysis.reports import columns
from pyrite.analysis.reports import study_words as words
from pyrite.analysis.reports.labels import by_family, title_of, value
from pyrite.analysis.reports.report import Cell, Drawing, Fold, Part, Rows, Section, Table, applying
from pyrite.analysis.reports.run_figures import curves, hyperparameters
from pyrite.analysis.statistics.oscillation import dev_losses
from pyrite.analysis.statistics.summary import MEASURED, budget_of, marks
from pyrite.analysis.study_comparison import Comparison

Row = dict[str, Any]


def origin_name(origin: str) -> str:
    """The name of an origin of candidates, for people."""
    return words.ORIGINS.get(origin, words.ORIGIN.format(origin))


def measures_of(summary: pl.DataFrame) -> list[str]:
    """The measures of a summary in their order, the leading one first."""
    return summary["measure"].unique(maintain_order=True).to_list()


def results(summary: pl.DataFrame) -> list[Section]:
    """The methods by origins of candidates, for each measure; folded, as the verdict has the leading means."""
    folds = [Fold(measure, [side_by_side(summary, measure)]) for measure in measures_of(summary)]
    parts: list[Part] = [*folds, Fold(words.HOW_TO_READ.title, words.HOW_TO_READ.paragraphs)]
    spent = [*MEASURED, *budget_of(summary)]
    costs = summary.select("collection", "ranker", "method", "measure", "candidates", *spent)
    return [Section(words.RESULTS, parts, (), {"summary.csv": summary.drop(spent), "costs.csv": costs})]


def side_by_side(summary: pl.DataFrame, measure: str) -> Table:
    """A measure with origins of candidates side by side, a section per ranker, BM25 alone last."""
    rows = summary.filter(measure=measure).sort("collection", pl.col("ranker") == "bm25", maintain_order=True)
    named = _named_baselines(rows)
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
    opponent = words.YOURS.format(" or ".join(named)) if named else words.BEST_BASELINE
    tested = rows.select(pl.col("paired_p", "t_p", "ks_p").count()).sum_horizontal().sum()
    notes = {words.READING.format(opponent): tested, words.SEEDS_OF_BOTH: tested and rows["failed"].sum()}
    return Table(head, lines, caption=words.BY_ORIGIN.format(measure), note=". ".join(applying(notes)))


def _named_baselines(rows: pl.DataFrame) -> list[str]:
    """Return the baselines that the user named, with their ranker if methods of other rankers are compared with it."""
    if "baseline" not in rows.columns:
        return []
    of_others = (pl.col("ranker") != pl.col("baseline_ranker")).any()
    label = pl.when(of_others).then(pl.format("{} ({})", "baseline", "baseline_ranker")).otherwise("baseline")
    return rows.drop_nulls("baseline").select(label.alias("label")).to_series().unique(maintain_order=True).to_list()


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
    return [words.MIXED.format(first_stage_of(origin))] if origin in mixed else []


def cell(row: Row | None, best: float | None) -> Cell:
    """A mean with its deviation and marks, bold if it is the best."""
    if row is None or row["mean"] is None:
        return Cell(None)
    spread = f"± {value(row['std'])}" if row["std"] is not None else ""
    return Cell(value(row["mean"]), spread, row["marks"], row["mean"] == best)


def _runs(part: pl.DataFrame) -> str:
    mishaps = part.select(pl.col("failed", "diverged").max()).row(0, named=True)
    named = ", ".join(f"{mishaps[name]} {name}" for name in applying(mishaps))
    runs = "/".join(part["runs"].unique().sort().cast(pl.String))
    return f"{runs} ({named})" if named else runs


def figures(trials: pl.DataFrame, measure: str) -> list[Section]:
    """Validation by epoch, and the measure against a swept number."""
    several_epochs = (trials["curve_validation"].list.len() > 1).any()
    drawn_apart = len(dev_losses(trials)) or not several_epochs
    parts = [] if drawn_apart else [Drawing("curves", curves(trials), words.CURVES_FIGURE)]
    if (drawn := hyperparameters(trials, measure)) is not None:
        parts.append(Drawing("hyperparameters", drawn, words.SWEPT_FIGURE.format(measure)))
    return Section(words.FIGURES, parts).if_any(parts)


def by_query(comparison: Comparison, summary: pl.DataFrame, measure: str) -> list[Section]:
    """The two best methods of each ranker and origin, query by query."""
    compared = comparison.by_query(summary, measure)
    if compared.is_empty():
        return []
    several = compared["collection"].n_unique() > 1
    ranker = columns.Column("ranker", lambda row: title_of(row["ranker"], row["collection"], several))
    note = " ".join(words.BY_QUERY.explained(measure=measure))
    table = columns.table(compared.drop_nulls("difference"), [ranker, *BY_QUERY], words=3, note=note)
    return [Section(words.BY_QUERY.title, [table])]


BY_QUERY = (
    columns.text("candidates"),
    columns.Column("the two best", lambda row: Cell(row["first"], below=f"over {row['second']}")),
    columns.number("difference", "+.4f"),
    columns.shown("wins / ties / losses", "{} / {} / {}".format, "wins", "ties", "losses"),
    columns.p("p", "p"),
    columns.p("p (Holm)", "p_holm"),
)
