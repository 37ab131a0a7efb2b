"""Writes the judgements of a folder for other programs, and a copy of them: `pyrite judge --export` and `--backup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from pyrite.cluster.commands.judging_folder import OVERRIDES, folder_of, remembered
from pyrite.cluster.commands.taken import Taken
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.override import of_keys
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.pooling.judging import export, export_files, store
from pyrite.pooling.judging.backup import back_up
from pyrite.pooling.judging.log_check import check_log
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import read_qrels

OF_AN_EXPORT = Taken(("out", "resolve"), "{key} has no effect on an export", "give out=, and resolve= if you need it")
OPTIONS = {"machine", "strict", "encoding", "qrels_repeated", "resolve"}
"""The options of a judging that its export reads."""
OF_A_BACKUP = Taken(("out",), "{key} has no effect on a backup", "give out= alone")


def write_qrels(overrides: Sequence[str], path: str, console: Console) -> None:
    """Write the judgements so far (`pyrite judge --export PATH out=FOLDER`), also while the page is served.

    Args:
        overrides: `out`, and `resolve` to use another rule than the page's.
        path: the path of the qrels, in the form of its ending (`pyrite.pooling.judging.export_files`). If documents
            were judged twice, `PATH.disagreements.tsv` is written too. A path that ends in .csv receives a table of all
            judgements, with assessor, time and note.
    """
    given = OF_AN_EXPORT.read(overrides)
    storage = folder_of(overrides)
    as_table = export_files.ending_of(Path(path))[0] == export_files.TABLE
    what = "has no effect on a table of all judgements"
    refuse(as_table and "resolve" in given, what, "resolve", "leave it out, or export qrels (no .csv)")
    stored: list[str] = []
    with suppress(BadInput):  # an export needs none of the options of the folder, which may be lost
        stored = remembered(storage)
    options = compose(of_keys([*stored, *overrides], OPTIONS), "judge", complete=False)
    folder = Path(storage.path(""))
    content = store.read(folder)
    check_log(store.events_of(folder), content.settings.get("grades"), folder / store.FILE)
    if as_table:
        export_files.write(Path(path), export.table(content))
        print_lines(console, f"{counted(len(content.judgements), 'judgement')}: {path}")
        return
    machine = _grades_of_model(options)  # before anything is written: the file may be gone
    disagreements = export.write_qrels(content, options["resolve"], Path(path))
    if machine is not None:
        model_grades = export.write_machine(content, machine, Path(path))
        print_lines(console, f"grades of a model for unjudged documents: {model_grades}")
    judged, known = content.judgements.drop_nulls("grade").n_unique(["topic", "document"]), len(content.known)
    print_lines(console, f"{counted(judged, 'document')} judged, {known:,} known before: {path}")
    if judged_with := export.judged_with_others(content):
        print_lines(console, f"documents with the text of a judged one, which have its grade: {judged_with:,}")
    if disagreements:
        print_lines(console, f"disagreements of assessors: {disagreements}")


def _grades_of_model(options: Mapping[str, Any]) -> pl.DataFrame | None:
    """Read the judgements of `machine=` as the judging did, by the options of its folder; None if it has none."""
    if options["machine"] is None:
        return None
    faults = Faults(options["strict"])
    return read_qrels(options["machine"], options["encoding"], faults, options["qrels_repeated"])


def write_backup(overrides: Sequence[str], path: str, console: Console) -> None:
    """Write a copy of the judgements (`pyrite judge --backup FILE out=FOLDER`), also while the page is served."""
    OF_A_BACKUP.read(overrides)
    storage = folder_of(overrides)
    count = back_up(Path(storage.path("")), Path(path))
    options = storage.path(OVERRIDES)
    print_lines(console, f"{counted(count, 'event')}: {path}")
    print_lines(console, f"To continue from it, copy it into a folder as {store.FILE}, with {options}")
