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
from pyrite.cluster.output.table_files import check_table_file, write_table
from pyrite.cluster.output.terminal import print_lines
from pyrite.pooling.run_measures import RunMeasures, measure_runs
from pyrite.pooling.runs import Runs, files_of, listed, read_runs
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput
from pyrite.ranking.trec_files import read_qrels


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
    out = None if config["out"] is None else Path(config["out"])
    if out is not None:
        check_table_file(out)
    evaluated = evaluate(config)
    evaluated.report().to_terminal(console)
    if out is not None:
        write_table(out, evaluated.measured.values)
        print_lines(console, f"values of {len(evaluated.measured.values):,} runs, topics and measures: {out}")
    return 0


def evaluate(config: Mapping[str, Any], runs: Runs | None = None, qrels: pl.DataFrame | None = None) -> Evaluated:
    """Measure runs by a configuration of `EvaluateConfig`.

    Args:
        runs, qrels: runs and judgements in memory, instead of the configuration's files.
    """
    faults = Faults(config["strict"])
    if qrels is None:
        qrels = _judgements(config, faults)
    if runs is None:
        runs = read_runs(
            config["runs"], config["order"], None, config["strict"], config["encoding"],
            precision=config["order_precision"],
        )  # fmt: skip
    left_out = {"broken lines of the judgements left out": sum(faults.skipped.values()), **faults.notes}
    measured = measure_runs(
        replace(runs, notes=runs.notes | left_out), qrels, config["measures"], relevant_from=config["relevant_from"],
        judged_only=config["judged_only"], complete=config["complete"],
    )  # fmt: skip
    tests = None if config["baseline"] is None else run_differences(measured, config["baseline"])
    return Evaluated(measured, tests, config["per_query"])


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
