"""Runs `pyrite report`, `pyrite options` and `pyrite study --power`: they read, and run nothing."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console

from cluster.output.storage import Storage
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
    from cluster.config.show import show

    show(chosen.overrides, console, chosen.of or "config")
    return 0


def show_power(chosen: argparse.Namespace, console: Console) -> int:
    """Print how many seeds differences need, by the variation in a study."""
    from cluster.reports.power_report import report_power

    if chosen.overrides or chosen.resume:
        raise BadInput("--power runs nothing", remedy="give it the folder of a study alone")
    report_power(Storage(chosen.power), console)
    return 0
