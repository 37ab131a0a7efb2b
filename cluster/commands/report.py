"""Runs `pyrite report`, `pyrite options` and `pyrite study --power`: they read, and run nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from cluster.output.storage import Storage
from cluster.output.terminal import print_lines
from ranking.errors import BadInput


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Write the tables, the figures and the report of a study again."""
    from cluster.config.compose import compose
    from cluster.output.manifest import read_config
    from cluster.reports.pool_report import report_pools
    from cluster.reports.study_report import report_study

    storage = Storage(chosen.out)
    if "pools" in read_config(storage):
        report_pools(storage, console, _baseline(chosen.overrides))
    else:
        options = compose(chosen.overrides, "study")
        report_study(storage, console, options["baseline"], options["factors"], options["contrasts"])
    return 0


def _baseline(overrides: Sequence[str]) -> str | None:
    """Return the only option that the report of a pooling study takes."""
    for text in overrides:
        if not text.startswith("baseline="):
            raise BadInput(f"{text} can't change a report", remedy="give baseline=METHOD alone")
    return overrides[-1].removeprefix("baseline=") if overrides else None


def show_options(chosen: argparse.Namespace, console: Console) -> int:
    """Print the configuration that overrides give, with explanations."""
    from cluster.config.explain import show

    show(chosen.overrides, console, chosen.of or "config")
    return 0


def show_power(chosen: argparse.Namespace, console: Console) -> int:
    """Print how many seeds differences need, by the variation in a study, and write table and curve."""
    from cluster.output.manifest import read_config_of
    from cluster.output.methods import with_factors
    from cluster.output.tables import required_trials
    from cluster.reports.analysis_sections import power_section
    from cluster.reports.report import Report
    from cluster.statistics.power import power
    from cluster.statistics.sequential import StoppingRule

    if chosen.overrides or chosen.resume:
        raise BadInput("--power runs nothing", remedy="give it the folder of a study alone")
    storage = Storage(chosen.power)
    options = read_config_of("study", storage)["study"] or {}
    trials = with_factors(required_trials(storage), options.get("factors"))
    sections = power_section(power(trials, StoppingRule.of_options(options) if "equal_within" in options else None))
    if not sections:
        raise BadInput("no two methods have three seeds in common", storage.place, "name a study with more seeds")
    report = Report("", [replace(section, terminal=section.parts[:1]) for section in sections])
    report.write_parts(storage)
    report.to_terminal(console)
    print_lines(console, f"table and curve: {storage.shown('power.parquet')}, figures/power.png")
    return 0
