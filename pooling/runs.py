"""Reads the runs that a pool is built from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.judgement_files import run_rows
from pyrite.ranking.collections.opened import ENDINGS
from pyrite.ranking.errors import BadInput

Order = Literal["score", "rank", "file"]
"""What orders a run within a topic: `score` descending, then document descending, as in trec_eval; the `rank` column;
or the order of the lines in the `file`."""
OnProgress = Callable[[str, int, int], None]
"""Is called with what is done, and how many of how many are done."""
Precision = Literal["single", "double"]
"""The precision in which scores are compared: `single` as in trec_eval up to version 9, `double` as in version 10."""

_TIES: dict[Order, str] = {"score": "document id, descending", "rank": "their order in the file", "file": "nothing"}
_SORTED: dict[Order, tuple[list[str], list[bool]]] = {
    "score": (["score", "document"], [True, True]),
    "rank": (["rank", "line"], [False, False]),
    "file": (["line"], [False]),
}
_NO_RUNS = re.compile(
    r"(readme|license|copying|changelog)\b.*|thumbs\.db|desktop\.ini|.*\.(md|pdf|html?)", re.IGNORECASE
)
"""Names of files in a folder of runs that are certainly no runs."""
_NO_LINES = pl.DataFrame(
    schema={
        "query": pl.String, "document": pl.String, "rank": pl.Int32, "score": pl.Float64, "tag": pl.String,
        "line": pl.Int64,
    }
)  # fmt: skip
_SUFFIXES = (*ENDINGS, ".txt", ".run", ".trec", ".csv", ".tsv", ".json", ".parquet")


@dataclass(frozen=True)
class Runs:
    """Runs, ordered.

    Args:
        names: names of the runs, in byte order.
        teams: name of each run's team.
        topics: ids, numbers by value, all others in byte order.
        table: run (UInt32, its position in `names`), topic (String), document (String), place (UInt32, from 0), each
            document once per run and topic.
        notes: counts of irregularities, by description.
    """

    names: list[str]
    teams: list[str]
    topics: list[str]
    table: pl.DataFrame
    notes: dict[str, int] = field(default_factory=dict)


class _Run(NamedTuple):
    """One run that was read: its table (topic, document, place), its tag (None if it has none, or several), whether it
    has no lines, and counts of irregularities, by description.
    """

    table: pl.DataFrame
    tag: str | None
    empty: bool
    notes: dict[str, int]


def no_progress(what: str, done: int, total: int) -> None:
    """Show nothing."""


def read_runs(
    paths: str | Sequence[str],
    order: Order = "score",
    groups: str | None = "prefix",
    strict: bool = True,
    encoding: str = "utf-8",
    deepest: int | None = None,
    precision: Precision = "single",
    on_progress: OnProgress = no_progress,
) -> Runs:
    """Read runs, plain or compressed, in any form of `pyrite.ranking.collections.judgement_files.run_rows`.

    A run is named by its tag, or by its file if two files have the same tag, or one has none or several. An empty file
    is a run that retrieved nothing.

    Args:
        paths: files, or folders, all of whose files are runs.
        order: orders a run within a topic: `score`, `rank` or `file` (the order of the lines).
        groups: a table of two columns, run and team (separated by blanks, tabs or commas); `prefix`, which takes the
            letters that a name begins with as its team; None makes each run a team.
        strict: raise on the first broken line, or file that is no run; otherwise leave them out and count them.
        deepest: documents kept per topic; None keeps all.
        precision: precision in which scores are compared: `single` as in trec_eval 9, `double` as in trec_eval 10.
        on_progress: called with the files that are read.
    """
    if order not in _SORTED:
        raise BadInput(f"there is no order {order!r}", remedy=f"choose one of {', '.join(_SORTED)}")
    named = [paths] if isinstance(paths, str) else paths
    candidates = [(file, Path(path).is_dir()) for path in named for file in files_of(path)]
    if not candidates:
        raise BadInput("there are no runs", remedy="give a folder of TREC runs, or name the files")
    faults, files, runs, no_runs = Faults(strict), [], [], 0
    for number, (file, in_folder) in enumerate(candidates):
        on_progress("reading runs", number, len(candidates))
        run = _read(file, in_folder, order, faults, encoding, deepest, precision)
        if run is None:
            no_runs += 1
        else:
            files.append(file)
            runs.append(run)
    where = paths if isinstance(paths, str) else None
    if all(run.empty for run in runs):
        what = "no readable lines in any of the runs" if no_runs else "no lines in any of the runs"
        raise BadInput(what, where, "give a folder of TREC runs, or name the files")
    tags = [run.tag for run in runs]
    names = [
        tag if tag is not None and tags.count(tag) == 1 else _stem(file) for file, tag in zip(files, tags, strict=True)
    ]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise BadInput(f"two runs are called {min(twice)!r}", where, "rename a file")
    by_name = sorted(range(len(files)), key=lambda place: names[place].encode())
    table = pl.concat(
        runs[place].table.select(pl.lit(number, pl.UInt32).alias("run"), "topic", "document", "place")
        for number, place in enumerate(by_name)
    )
    ordered = [names[place] for place in by_name]
    teams, strangers = _teams(ordered, groups)
    notes = {
        "broken lines left out": sum(faults.skipped.values()),
        "files left out that are no runs": no_runs,
        "folders within the folder of runs, which are not read": sum(
            inner.is_dir() and not inner.name.startswith(".")
            for path in named
            if Path(path).is_dir()
            for inner in Path(path).iterdir()
        ),
        **{note: sum(run.notes[note] for run in runs) for note in runs[0].notes},
        "runs named by their file, for want of a tag of their own": sum(
            name != tag for name, tag in zip(names, tags, strict=True)
        ),
        "names in the table of groups that are none of the runs": strangers,
        **faults.notes,
    }
    return Runs(ordered, teams, sorted(table["topic"].unique(), key=by_value), table, notes)


def files_of(path: str) -> list[Path]:
    """Return the files of runs at a path, which is a file, a folder, or a pattern such as `runs/*.gz`: in a folder all
    that are not hidden, in the order of their names.
    """
    place = Path(path)
    if not place.exists() and (files := [Path(name) for name in sorted(glob(path)) if Path(name).is_file()]):
        return files
    if not place.is_dir():
        return [place]
    files = sorted(file for file in place.iterdir() if not (file.is_dir() or file.name.startswith(".")))
    if not files:
        inner = next((folder for folder in sorted(place.iterdir()) if folder.is_dir()), None)
        remedy = "give a folder of TREC runs, or name the files"
        raise BadInput("no runs in it", path, remedy if inner is None else f"name the folder in it: {inner}")
    return files


def _stem(file: Path) -> str:
    name = file.name.removeprefix("input.")
    while (suffix := next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), None)) and name != suffix:
        name = name.removesuffix(suffix)
    return name


def _read(
    file: Path,
    in_folder: bool,
    order: Order,
    faults: Faults,
    encoding: str,
    deepest: int | None,
    precision: Precision,
) -> _Run | None:
    """Read one run; None if it is a file in a folder that is no run and may be left out."""
    if in_folder and _NO_RUNS.fullmatch(file.name):
        if not faults.strict:
            return None
        raise BadInput("is no run, by its name", file, "move it out of the folder, or set strict=false to leave it out")
    broken = dict(faults.skipped)
    frames = list(run_rows(file, faults, encoding))
    nul = pl.any_horizontal(pl.col("query", "document").str.contains("\0", literal=True))
    lines = _without(pl.concat(frames or [_NO_LINES]), nul, "a NUL character in an id", file, faults)
    empty = lines.is_empty()
    if empty and faults.skipped != broken:
        if in_folder:
            faults.skipped = broken  # it is counted as a file, not by its lines
            return None
        raise BadInput("no readable lines in it", file)
    tag = lines["tag"][0] if lines["tag"].n_unique() == 1 else None
    by_rank = order == "score" and not empty and bool((lines["score"] == -lines["rank"]).fill_null(False).all())
    if order == "rank":
        lines = _without(lines, pl.col("rank").is_null(), "the rank is not a whole number", file, faults)
    by, descending = _SORTED[order]
    score = pl.col("score").cast(pl.Float32) if precision == "single" else pl.col("score")
    ranked = (
        lines.rename({"query": "topic"})
        .with_columns(score, exact=pl.col("score"))
        .sort(["topic", *by], descending=[False, *descending])
        .unique(["topic", "document"], keep="first", maintain_order=True)
        .with_columns(place=pl.int_range(pl.len(), dtype=pl.UInt32).over("topic"))
    )
    kept = ranked if deepest is None else ranked.filter(pl.col("place") < deepest)
    tied = len(kept) - kept.select("topic", by[0]).n_unique()
    in_single = tied - len(kept) + kept.select("topic", "exact").n_unique() if by[0] == "score" else 0
    notes = {
        "lines that name a document again": len(lines) - len(ranked),
        f"lines tied with the one before by {order} (ordered by {_TIES[order]})": tied,
        "of these ties, in single precision alone, as in trec_eval 9 (order_precision=double orders them by their "
        "scores, as trec_eval 10 does)": in_single,
        "runs without scores (ordered by their ranks)": by_rank,
        "empty runs": empty,
        "runs whose scores rise from one rank to the next, as distances do (ordered by score, as in trec_eval; "
        "order=rank orders them by rank)": order == "score" and _rises(lines),
    }
    return _Run(kept, tag, empty, notes)


def _rises(lines: pl.DataFrame) -> bool:
    """Return whether most scores are higher than the score of the rank before, in lines that follow each other."""
    follows = (pl.col("query") == pl.col("query").shift()) & (pl.col("rank") == pl.col("rank").shift() + 1)
    rise = pl.col("score").diff().filter(follows)
    risen, fallen = lines.select(risen=(rise > 0).sum(), fallen=(rise < 0).sum()).row(0)
    return bool(risen > fallen)


def _without(lines: pl.DataFrame, broken: pl.Expr, why: str, file: Path, faults: Faults) -> pl.DataFrame:
    """Return the rows that are not broken, and report the others."""
    rows = lines.filter(broken)
    if len(rows):
        faults.report("broken line", why, file, rows["line"][0], times=len(rows))
    return lines.filter(~broken)


def by_value(topic: str) -> tuple[bool, int, str]:
    """Return the key by which topics are sorted: numbers by value, then all others in byte order."""
    return not topic.isdecimal(), int(topic) if topic.isdecimal() else 0, topic


def _teams(names: list[str], groups: str | None) -> tuple[list[str], int]:
    """Return the team of each run, and the number of names in the table of groups that are none of them."""
    if groups is None:
        return names, 0
    if groups == "prefix":
        return [match[0] if (match := re.match(r"[^\W\d_]+", name)) else name for name in names], 0
    teams = _table(groups)
    for name in names:
        if name not in teams:
            raise BadInput(f"no team for the run {name!r}", groups, "give each run a line: its name, then its team")
    return [teams[name] for name in names], len(teams.keys() - set(names))


def _table(path: str) -> dict[str, str]:
    teams: dict[str, str] = {}
    for where, fields in fields_of(path):
        if len(fields) != 2:
            raise BadInput(f"not two columns, but {len(fields)}", where, "give run and team")
        if teams.setdefault(*fields) != fields[1]:
            what = f"the run {fields[0]!r} is given two teams, {teams[fields[0]]} and {fields[1]}"
            raise BadInput(what, where, "give each run one line")
    return teams


def fields_of(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the fields of each line of a small table, separated by blanks, tabs or commas."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't be read ({error})", path) from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{path}:{number}", re.split(r"[,\s]+", line.strip())
