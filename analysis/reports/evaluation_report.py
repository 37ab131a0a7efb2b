"""Lays out the measures of runs: a table of runs, one of topics, and the differences from a baseline."""

from __future__ import annotations

import polars as pl

from pyrite.analysis.reports.labels import p_value, signed, signed_interval, value
from pyrite.analysis.reports.report import Cell, Report, Section, Table, items
from pyrite.pooling.run_measures import JUDGED, RESIDUAL, RunMeasures

HOLM = "p adjusted by Holm for the number of runs; paired by topic, intervals of 95%"


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
    lines = [f"{what}: {count:,}" for what, count in measured.notes.items() if count]
    return Report("Evaluation", [Section("", [*tables, items(lines)] if lines else tables, [*tables, *lines])])


def _means(measured: RunMeasures) -> Table:
    means = measured.means()
    best = {
        measure: means[measure].max() for measure in measured.measures
        if len(means) > 1 and not JUDGED.fullmatch(measure) and not measure.endswith(RESIDUAL)
    }  # fmt: skip
    rows = [
        [row["run"], row["topics"],
         *(Cell(value(row[name]), best=name in best and row[name] == best[name]) for name in measured.measures)]
        for row in means.iter_rows(named=True)
    ]  # fmt: skip
    return Table(["run", "topics", *measured.measures], rows)


def _differences(tests: pl.DataFrame) -> Table:
    rows: list[object] = []
    for frame in tests.partition_by("measure", maintain_order=True):
        rows.append(frame["measure"][0])
        rows += [
            [row["run"], signed(row["difference"]), signed_interval(row["low"], row["high"]), p_value(row["p"]),
             p_value(row["p_holm"]), row["better"], row["worse"]]
            for row in frame.iter_rows(named=True)
        ]  # fmt: skip
    head = ["run", "difference", "interval", "p", "p (Holm)", "better", "worse"]
    return Table(head, rows, caption=f"Difference from {tests['baseline'][0]}", note=HOLM)  # type: ignore[arg-type]


def _topics(measured: RunMeasures) -> Table:
    wide = measured.values.pivot("measure", index=["run", "topic"], values="value", maintain_order=True)
    rows = [
        [row["run"], row["topic"], *(value(row[name]) for name in measured.measures)]
        for row in wide.iter_rows(named=True)
    ]
    return Table(["run", "topic", *measured.measures], rows, words=2, caption="By topic")
