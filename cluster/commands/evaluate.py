"""Runs `pyrite evaluate`: measures retrieval runs by judgements."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from pyrite.analysis.reports.evaluation_report import evaluation_report
from pyrite.analysis.reports.report import Report
from pyrite.analysis.statistics.run_differences import run_differences
from pyrite.cluster.config.compose import compose
from pyrite.cluster.output.table_files import check_table_file, write_table_file
from pyrite.cluster.output.terminal import print_lines
from pyrite.pooling.run_measures import RunMeasures, measure_runs
from pyrite.pooling.runs import Runs, files_of, listed, read_runs, runs_of
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import graded_once, read_qrels


@dataclass(frozen=True)
class Evaluated:
    """The measures of runs, and the differences from a baseline if there is one."""

    measured: RunMeasures
    tests: pl.DataFrame | None
    by_topic: bool

    def report(self) -> Report:
        """Return the tables for a terminal and a notebook."""
        return evaluation_report(self.measured, self.tests, self.by_topic)


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print the measures, and write them to `out`, if it is given."""
    config = compose(chosen.overrides, "evaluate")
    evaluated = evaluate(config)
    evaluated.report().to_terminal(console)
    if config["out"] is not None:
        print_lines(console, f"values of {len(evaluated.measured.values):,} runs, topics and measures: {config['out']}")
    return 0


def evaluate(
    config: Mapping[str, Any], runs: Mapping[str, pl.DataFrame] | None = None, qrels: pl.DataFrame | None = None
) -> Evaluated:
    """Measure runs by a configuration of `EvaluateConfig`, and write the values to its `out`, if it has one.

    Args:
        runs: query, document and score by the name of the run, instead of the configuration's files.
        qrels: query, document, grade and line, instead of the configuration's files.
    """
    out = None if config["out"] is None else Path(config["out"])
    if out is not None:
        check_table_file(out)
    faults = Faults(config["strict"])
    if qrels is None:
        judged = _judgements(config, faults)
    else:
        judged = graded_once(qrels, "qrels", faults, config["qrels_repeated"])
    ranked = _runs(config) if runs is None else _runs_in_memory(config, runs)
    left_out = {"broken lines of the judgements left out": sum(faults.skipped.values()), **faults.notes}
    measured = measure_runs(
        replace(ranked, notes=ranked.notes | left_out), judged, config["measures"],
        relevant_from=config["relevant_from"], judged_only=config["judged_only"], complete=config["complete"],
    )  # fmt: skip
    tests = None if config["baseline"] is None else run_differences(measured, config["baseline"])
    if out is not None:
        write_table_file(out, measured.values)
    return Evaluated(measured, tests, config["per_query"])


def _runs(config: Mapping[str, Any]) -> Runs:
    return read_runs(
        config["runs"], config["order"], None, config["strict"], config["encoding"], precision=config["order_precision"]
    )


def _runs_in_memory(config: Mapping[str, Any], runs: Mapping[str, pl.DataFrame]) -> Runs:
    """Return runs in memory, which have scores and neither ranks nor lines."""
    remedy = "leave order out, or give files"
    refuse(config["order"] != "score", "orders runs of files; one in memory is ordered by its scores", "order", remedy)
    return runs_of(runs, config["order_precision"])


def _judgements(config: Mapping[str, Any], faults: Faults) -> pl.DataFrame:
    """Return the judgements of one or several files; a document that two of them judge is an error."""
    files = [file for path in listed(config["qrels"]) for file in files_of(path, "judgements")]
    parts = [read_qrels(file, config["encoding"], faults, config["qrels_repeated"]) for file in files]
    together = pl.concat(parts)
    twice = together.filter(pl.struct("query", "document").is_duplicated())
    if len(twice):
        what = f"document {twice['document'][0]!r} of query {twice['query'][0]!r} is judged in several files"
        raise BadInput(what, "qrels", "evaluate by one of them at a time, or remove it from the others")
    return together
