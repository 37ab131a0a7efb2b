"""Lays out the measures of runs: a table of runs, one of topics, and the differences from a baseline."""

from __future__ import annotations

import polars as pl

from pyrite.analysis.reports import columns
from pyrite.analysis.reports.labels import value
from pyrite.analysis.reports.report import Cell, Report, Section, Table, applying, items
from pyrite.pooling.run_measures import JUDGED, RESIDUAL, RunMeasures

HOLM = (
    "p adjusted by Holm for the number of runs; paired by topic, intervals of 95%. There are none with fewer than "
    "three topics, or if all differ by the same amount."
)


def evaluation_report(measured: RunMeasures, tests: pl.DataFrame | None, by_topic: bool) -> Report:
    """Return the report of an evaluation.

    Args:
        tests: the differences from a baseline (`run_differences`), or None.
        by_topic: whether to show the values of each topic.
    """
    tables = [_means(measured)]
    if tests is not None and len(tests):
        tables.append(_differences(tests))
    if by_topic:
        tables.append(_topics(measured))
    lines = [f"{what}: {measured.notes[what]:,}" for what in applying(measured.notes)]
    return Report("Evaluation", [Section("", [*tables, items(lines)] if lines else tables, [*tables, *lines])])


def _means(measured: RunMeasures) -> Table:
    means = measured.means()
    best = {name: means[name].max() for name in measured.measures if len(means) > 1 and not _is_of_judging(name)}
    of_best = [_best(name, best.get(name)) for name in measured.measures]
    return columns.table(means, [columns.text("run"), columns.text("topics"), *of_best])


def _is_of_judging(measure: str) -> bool:
    """Return whether a measure is of the judgements rather than of a run."""
    return bool(JUDGED.fullmatch(measure)) or measure.endswith(RESIDUAL)


def _best(name: str, best: object) -> columns.Column:
    """Declare a column of a measure whose best value is bold."""
    return columns.Column(name, lambda row: Cell(value(row[name]), best=best is not None and row[name] == best))


DIFFERENCES = (
    columns.text("run"), columns.diff(), columns.interval("interval"), columns.p("p", "p"),
    columns.p("p (Holm)", "p_holm"), columns.text("better"), columns.text("worse"),
)  # fmt: skip


def _differences(tests: pl.DataFrame) -> Table:
    parts = ((frame["measure"][0], frame) for frame in tests.partition_by("measure", maintain_order=True))
    return columns.grouped(parts, DIFFERENCES, caption=f"Difference from {tests['baseline'][0]}", note=HOLM)


def _topics(measured: RunMeasures) -> Table:
    wide = measured.values.pivot("measure", index=["run", "topic"], values="value", maintain_order=True)
    of_measures = map(columns.measure, measured.measures)
    return columns.table(wide, [columns.text("run"), columns.text("topic"), *of_measures], words=2, caption="By topic")
