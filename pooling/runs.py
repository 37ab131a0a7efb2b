"""Reads the runs that a pool is built from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from ranking.collections.faults import Faults
from ranking.collections.lines import tables
from ranking.errors import BadInput
from ranking.trec_files import RUN

Order = Literal["score", "rank", "file"]
"""What orders a run within a topic: `score` descending, then document descending, as NIST does (scores as float32,
as in trec_eval); the `rank` column; or the lines as they stand in the `file`."""

_BEHIND: dict[Order, str] = {"score": "document id, descending", "rank": "their place in the file", "file": "nothing"}
_SORTED: dict[Order, tuple[list[str], list[bool]]] = {
    "score": (["score", "document"], [True, True]),
    "rank": (["rank", "line"], [False, False]),
    "file": (["line"], [False]),
}


@dataclass(frozen=True)
class Runs:
    """Runs, ordered.

    Args:
        names: of the runs, in byte order.
        teams: name of each run's team.
        topics: ids, numbers by value, all others in byte order.
        table: run (UInt32, its place in `names`), topic (String), document (String), place (UInt32, from 0), a
            document once a run and topic.
        notes: counts of what was out of the ordinary.
    """

    names: list[str]
    teams: list[str]
    topics: list[str]
    table: pl.DataFrame
    notes: dict[str, int] = field(default_factory=dict)


def read_runs(
    paths: str | Sequence[str],
    order: Order = "score",
    groups: str | None = "prefix",
    strict: bool = True,
    encoding: str = "utf-8",
    deepest: int | None = None,
) -> Runs:
    """Read TREC runs, plain or .gz.

    A run is named by its tag; where two files have the same tag, or one has several, by its file.

    Args:
        paths: files, or folders, all of whose files are runs.
        order: what orders a run within a topic.
        groups: a table of two columns, run and team (blanks, tabs or commas between them); or `prefix`, which takes
            the letters that a name begins with for its team; None makes each run a team of its own.
        strict: raise on the first broken line; otherwise leave such lines out and count them.
        encoding: of the files.
        deepest: documents kept of each topic; None keeps all.

    Raises:
        BadInput: a broken line (when strict); a missing or empty file or folder; a run that the table of groups lacks.
    """
    files = [file for path in ([paths] if isinstance(paths, str) else paths) for file in files_of(path)]
    if order not in _SORTED:
        raise BadInput(f"there is no order {order!r}", remedy=f"choose one of {', '.join(_SORTED)}")
    if not files:
        raise BadInput("there are no runs", remedy="give a folder of TREC runs, or name the files")
    faults = Faults(strict)
    read = [_read(file, order, faults, encoding, deepest) for file in files]
    tags = [tag for _, tag, _, _ in read]
    names = [
        tag if tag is not None and tags.count(tag) == 1 else _stem(file) for file, tag in zip(files, tags, strict=True)
    ]
    where = paths if isinstance(paths, str) else None
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise BadInput(f"two runs are called {min(twice)!r}", where, "rename a file")
    by_name = sorted(range(len(files)), key=lambda place: names[place].encode())
    table = pl.concat(
        read[place][0].select(pl.lit(number, pl.UInt32).alias("run"), "topic", "document", "place")
        for number, place in enumerate(by_name)
    )
    ordered = [names[place] for place in by_name]
    notes = {
        "broken lines left out": sum(faults.skipped.values()),
        "lines that name a document again": sum(repeated for _, _, repeated, _ in read),
        f"lines tied with the one before by {order} (ordered by {_BEHIND[order]})": sum(tied for *_, tied in read),
        "runs named by their file, for want of a tag of their own": sum(
            name != tag for name, tag in zip(names, tags, strict=True)
        ),
    }
    return Runs(ordered, _teams(ordered, groups), _sorted_topics(table), table, notes)


def files_of(path: str) -> list[Path]:
    """The files of runs at a path: of a folder all that are not hidden, in the order of their names.

    Raises:
        BadInput: where a folder holds none.
    """
    place = Path(path)
    if not place.is_dir():
        return [place]
    files = sorted(file for file in place.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise BadInput("no runs in it", path, "give a folder of TREC runs, or name the files")
    return files


def _stem(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".run").removeprefix("input.")


def _read(
    file: Path, order: Order, faults: Faults, encoding: str, deepest: int | None
) -> tuple[pl.DataFrame, str | None, int, int]:
    """One run, its tag (None where it has several), how many lines name a document again, and how many are tied."""
    frames = list(tables(file, RUN, faults, encoding=encoding))
    if not sum(map(len, frames)):
        raise BadInput("no lines in it" if faults.strict else "no readable lines in it", file)
    lines = pl.concat(frames)
    tag = lines["tag"][0] if lines["tag"].n_unique() == 1 else None
    by, descending = _SORTED[order]
    ranked = (
        lines.rename({"query": "topic"})
        .with_columns(pl.col("score").cast(pl.Float32))
        .sort(["topic", *by], descending=[False, *descending])
        .unique(["topic", "document"], keep="first", maintain_order=True)
        .with_columns(place=pl.int_range(pl.len(), dtype=pl.UInt32).over("topic"))
    )
    repeated = len(lines) - len(ranked)
    kept = ranked if deepest is None else ranked.filter(pl.col("place") < deepest)
    tied = len(kept) - kept.select("topic", by[0]).n_unique()
    return kept, tag, repeated, tied


def _sorted_topics(table: pl.DataFrame) -> list[str]:
    topics = table["topic"].unique().to_list()
    return sorted(topics, key=lambda topic: (not topic.isdecimal(), int(topic) if topic.isdecimal() else 0, topic))


def _teams(names: list[str], groups: str | None) -> list[str]:
    if groups is None:
        return names
    if groups == "prefix":
        return [match[0] if (match := re.match(r"[^\W\d_]+", name)) else name for name in names]
    teams = _table(groups)
    for name in names:
        if name not in teams:
            raise BadInput(f"no team for the run {name!r}", groups, "give each run a line: its name, then its team")
    return [teams[name] for name in names]


def _table(path: str) -> dict[str, str]:
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't be read ({error})", path) from None
    teams = {}
    for number, line in enumerate(lines, 1):
        fields = re.split(r"[,\s]+", line.strip())
        if line.strip() and len(fields) != 2:
            raise BadInput(f"{len(fields)} columns", f"{path}:{number}", "give two: run and team")
        if line.strip():
            teams[fields[0]] = fields[1]
    return teams
