"""Runs `pyrite report` and `pyrite study --power`: they read, and run nothing."""

from __future__ import annotations

import argparse
from dataclasses import replace

from rich.console import Console

from pyrite.analysis.methods import with_factors
from pyrite.analysis.reports.analysis_sections import power_section
from pyrite.analysis.reports.report import Report
from pyrite.analysis.statistics.sequential import SequentialRule
from pyrite.analysis.study_comparison import Comparison
from pyrite.cluster.commands.taken import Taken
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.override import unquoted
from pyrite.cluster.output.manifest import read_config, read_config_of
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import required_trials
from pyrite.cluster.output.terminal import print_lines
from pyrite.cluster.reports.pool_results import report_pools
from pyrite.cluster.reports.publish import write_parts
from pyrite.cluster.reports.study_results import report_study
from pyrite.ranking.errors import refuse

OF_POOLS = Taken(("baseline",), "{text} can't change a report", "give baseline= alone")
OF_STUDIES = replace(
    OF_POOLS, keys=("baseline", "factors", "contrasts"), remedy="give baseline=, factors=, contrasts= alone"
)


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Write the tables, the figures and the report of a study again."""
    storage = Storage(chosen.out)
    if "pools" in read_config(storage):
        baseline = OF_POOLS.read(chosen.overrides).get("baseline")
        report_pools(storage, console, baseline and unquoted(baseline))
    else:
        OF_STUDIES.read(chosen.overrides)
        options = compose(chosen.overrides, "study")
        report_study(storage, console, options["baseline"], options["factors"], options["contrasts"])
    return 0


def show_power(chosen: argparse.Namespace, console: Console) -> int:
    """Print how many seeds differences need, by the variation in a study, and write the table."""
    refuse(chosen.overrides or chosen.resume, "--power runs nothing", remedy="give it the folder of a study alone")
    storage = Storage(chosen.power)
    options = read_config_of("study", storage)["study"] or {}
    trials = with_factors(required_trials(storage), options.get("factors"))
    rule = SequentialRule.of_options(options) if "equal_within" in options else None
    sections = power_section(Comparison(trials).power(rule))
    refuse(not sections, "no two methods have three seeds in common", storage.place, "name a study with more seeds")
    report = Report("", sections)
    write_parts(report, storage)
    report.to_terminal(console)
    print_lines(console, f"table: {storage.shown('power.parquet')}")
    return 0
