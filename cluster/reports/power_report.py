"""Reports how many seeds it takes to see differences, for `pyrite study --power`."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from cluster.output.manifest import read_config
from cluster.output.methods import with_factors
from cluster.output.storage import Storage
from cluster.output.tables import required_table
from cluster.reports.analysis_sections import power_section
from cluster.reports.report import Report
from cluster.statistics.power import power
from cluster.statistics.sequential import StoppingRule
from ranking.errors import BadInput


def report_power(storage: Storage, console: Console) -> None:
    """Print the seeds that differences take, by the spread of a study's runs, and write table and curve."""
    options = read_config(storage).get("study", {})
    trials = with_factors(required_table(storage, "trials"), options.get("factors"))
    sections = power_section(power(trials, StoppingRule.of_options(options) if "equal_within" in options else None))
    if not sections:
        raise BadInput("no two methods have three seeds in common", storage.place, "name a study with more seeds")
    report = Report("", [replace(section, terminal=section.parts[:1]) for section in sections])
    report.write_parts(storage)
    report.to_terminal(console)
    console.print(f"table and curve: {storage.shown('power.parquet')}, figures/power.png", soft_wrap=True, markup=False)
