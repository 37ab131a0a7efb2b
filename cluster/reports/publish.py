"""Writes reports, and the tables and figures next to them, to output folders."""

from __future__ import annotations

import re

from rich.console import Console
from rich.markup import escape

from pyrite.analysis.reports.report import FILES, Report, drawings
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.whole_file import as_parquet

PAGE = "report.html"
FILE = re.compile(r"(figures/)?\w+\.(png|csv|parquet)")


def publish(report: Report, storage: Storage, console: Console) -> None:
    """Write tables, figures and report.html, and print what a terminal shows. Files of the report before, which this
    one does not have, are deleted.
    """
    written = write_parts(report, storage)
    stale = _listed(storage) - written
    storage.write(PAGE, report.to_html(written).encode())
    for name in stale:
        storage.delete(name)
    report.to_terminal(console)
    console.print(f"report: {escape(storage.shown(PAGE))}", soft_wrap=True)


def renew(report: Report, storage: Storage) -> None:
    """Write report.html alone, while runs are missing."""
    storage.write(PAGE, report.to_html(_listed(storage)).encode())


def write_parts(report: Report, storage: Storage) -> set[str]:
    """Write tables and figures, and return their names."""
    written = set()
    for section in report.sections:
        files = {f"figures/{drawing.name}.png": drawing.png for drawing in drawings(section.parts)}
        for name, frame in section.frames.items():
            files[name] = frame.write_csv().encode() if name.endswith(".csv") else as_parquet(frame)
        for name, content in files.items():
            storage.write(name, content)
        written |= set(files)
    return written


def _listed(storage: Storage) -> set[str]:
    """Return the names of the files that report.html lists. A page from elsewhere may list anything."""
    page = (storage.read(PAGE) or b"").decode(errors="replace")
    listed = re.search(FILES.format('([^"]*)'), page)
    return {name for name in listed[1].split() if FILE.fullmatch(name)} if listed else set()
