"""Reads the results of a pooling study from its folder, and writes its report there."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from rich.console import Console

from pyrite.analysis.reports.pool_report import failures, pool_report
from pyrite.analysis.reports.report import Report
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.manifest import CONFIG, read_config
from pyrite.cluster.output.run_log import failure_summary
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import read_table, required_table
from pyrite.cluster.pools.trial import TABLES
from pyrite.cluster.reports.publish import publish

Tables = Mapping[str, pl.DataFrame]


def report_pools(storage: Storage, console: Console, baseline: str | None = None, tables: Tables | None = None) -> None:
    """Write summary, figures and report.html of a pooling study, and print its tables.

    A folder without a finished pooling study is refused, and so is a baseline that is none of its methods. None takes
    the study's baseline, and reads its tables from the folder.
    """
    tables = tables or read_tables(storage)
    if "budgets" not in tables:
        Report("", failures(tables["trials"])).to_terminal(console)
        return
    publish(report_of(storage, tables, baseline), storage, console)


def read_tables(storage: Storage) -> Tables:
    """Read the tables of a pooling study."""
    tables = {name: frame for name in TABLES if (frame := read_table(storage, name)) is not None}
    return {"trials": required_table(storage, "trials"), **tables}


def report_of(storage: Storage, tables: Tables, baseline: str | None = None, waiting: int = 0) -> Report:
    """Make the report of a pooling study from its tables, and the configuration and log in its folder."""
    written, lost = (storage.read(CONFIG) or b"").decode(), failure_summary(EventLog.read(storage))
    return pool_report(tables, read_config(storage), written, lost, baseline, waiting)
