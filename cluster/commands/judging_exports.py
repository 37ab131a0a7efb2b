"""Writes the judgements of a folder for other programs, and a copy of them: `pyrite judge --export` and `--backup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import polars as pl
from rich.console import Console

from pyrite.cluster.commands.judging_folder import OVERRIDES, folder_of, remembered
from pyrite.cluster.commands.taken import Taken
from pyrite.cluster.config.override import unquoted, values_by_key
from pyrite.cluster.output.terminal import counted, print_lines
from pyrite.pooling.judging import export, export_files, store
from pyrite.pooling.judging.backup import back_up
from pyrite.pooling.judging.log_check import check_log
from pyrite.pooling.judging.options import Options
from pyrite.ranking.bounds import check_arguments
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import Repeated, read_qrels

OF_AN_EXPORT = Taken(("out", "resolve"), "{key} has no effect on an export", "give out=, and resolve= if you need it")
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
    stored: dict[str, str] = {}
    with suppress(BadInput):  # an export needs none of the options of the folder, which may be lost
        stored = values_by_key(remembered(storage))
    rule = (stored | given).get("resolve")
    if rule is not None:
        check_arguments(Options, {"resolve": rule})
    options = Options(resolve=cast(export.Rule, rule)) if rule is not None else Options()
    folder = Path(storage.path(""))
    content = store.read(folder)
    check_log(store.events_of(folder), content.settings.get("grades"), folder / store.FILE)
    if as_table:
        export_files.write(Path(path), export.table(content))
        print_lines(console, f"{counted(len(content.judgements), 'judgement')}: {path}")
        return
    machine = _grades_of_model(stored)  # before anything is written: the file may be gone
    disagreements = export.write_qrels(content, options.resolve, Path(path))
    if machine is not None:
        model_grades = export.write_machine(content, machine, Path(path))
        print_lines(console, f"grades of a model for unjudged documents: {model_grades}")
    judged, known = content.judgements.drop_nulls("grade").n_unique(["topic", "document"]), len(content.known)
    print_lines(console, f"{counted(judged, 'document')} judged, {known:,} known before: {path}")
    if judged_with := export.judged_with_others(content):
        print_lines(console, f"documents with the text of a judged one, which have its grade: {judged_with:,}")
    if disagreements:
        print_lines(console, f"disagreements of assessors: {disagreements}")


def _grades_of_model(stored: Mapping[str, str]) -> pl.DataFrame | None:
    """Read the judgements of `machine=` as the judging did, by the options of its folder; None if it has none."""
    given = {key: unquoted(value) for key, value in stored.items()}
    if given.get("machine", "null") == "null":
        return None
    faults = Faults(given.get("strict", "true").lower() not in ("false", "no", "off", "0"))
    repeated = cast(Repeated, given.get("qrels_repeated", "max"))
    return read_qrels(given["machine"], given.get("encoding", "utf-8"), faults, repeated)


def write_backup(overrides: Sequence[str], path: str, console: Console) -> None:
    """Write a copy of the judgements (`pyrite judge --backup FILE out=FOLDER`), also while the page is served."""
    OF_A_BACKUP.read(overrides)
    storage = folder_of(overrides)
    count = back_up(Path(storage.path("")), Path(path))
    options = storage.path(OVERRIDES)
    print_lines(console, f"{counted(count, 'event')}: {path}")
    print_lines(console, f"To continue from it, copy it into a folder as {store.FILE}, with {options}")
