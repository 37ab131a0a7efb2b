"""Reads the runs that a pool is built from."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.judgement_files import run_rows
from pyrite.ranking.collections.names import repeated
from pyrite.ranking.collections.opened import ENDINGS
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import JUDGED, judged_name

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
    r"(readme|license|copying|changelog)\b.*|thumbs\.db|desktop\.ini|core|nohup\.out|.*~|#.*#|.*\((conflicted )?copy\)|"
    r".*\.(md|pdf|html?|eval|log|err|out|bak|backup|orig|old|rej|sw[op]|tmp|part|zip|tar(\.\w+)?|t[gbx]z|7z|rar|sh|py|pl|"
    r"ipynb|ya?ml|toml|png|jpe?g|svg|xlsx?|docx?|sha\d+|md5)",
    re.IGNORECASE,
)
"""Names of files in a folder of runs that are no runs: notes, backups, archives and results."""
_NO_LINES = pl.DataFrame(
    schema={
        "query": pl.String, "document": pl.String, "rank": pl.Int32, "score": pl.Float64, "tag": pl.String,
        "line": pl.Int64,
    }
)  # fmt: skip
_NO_RANK = pl.lit(None, pl.Int32).alias("rank")
_REMEDY = "give a folder of TREC runs, or name the files"
_SUFFIXES = (*ENDINGS, ".txt", ".run", ".trec", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


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
    """One run that was read: its file, its table (topic, document, place), its tag (None if it has none, or several),
    whether it has no lines, counts of irregularities, by description, and the name that it gets.
    """

    file: Path
    table: pl.DataFrame
    tag: str | None
    empty: bool
    notes: dict[str, int]
    name: str = ""


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

    A run is named by its tag, or by its file if two files have the same tag, or one has none or several; with its
    folder if files have the same name. An empty file is a run that retrieved nothing. A file with the runs of several
    systems, which have documents or ranks of a topic in common, is a run for each tag.

    Args:
        paths: files, folders or patterns; see `files_of`.
        order: orders a run within a topic: `score`, `rank` or `file` (the order of the lines).
        groups: a table of two columns, run and team (separated by blanks, tabs or commas); `prefix`, which takes the
            letters that a name begins with as its team, or its folder if the runs of a path are in several; None makes
            each run a team.
        strict: raise on the first broken line, or file that is no run; otherwise leave them out and count them.
        deepest: documents kept per topic; None keeps all.
        precision: precision in which scores are compared: `single` as in trec_eval 9, `double` as in trec_eval 10.
        on_progress: called with the files that are read.
    """
    refuse(order not in _SORTED, f"there is no order {order!r}", remedy=f"choose one of {', '.join(_SORTED)}")
    named = listed(paths)
    beside = set(map(judged_name, named)) & set(named)  # as a shell lists a folder
    given = [_Given(path, files_of(path)) for path in named if path not in beside]
    faults = Faults(strict)
    files = _read_files(given, _Options(order, encoding, deepest, precision), faults, on_progress)
    runs, no_runs = [run for of_file in files for run in of_file], files.count([])
    where = paths if isinstance(paths, str) else None
    what = f"no {'readable ' * bool(no_runs)}lines in any of the runs"
    refuse(all(run.empty for run in runs), what, where, _REMEDY)
    runs = _named(runs, where)
    names, table = [run.name for run in runs], _together(runs)
    folders = {file: file.parent.name for one in given if one.of_teams for file in one.files}
    teams, strangers = _teams(names, groups, [folders.get(run.file) for run in runs])
    notes = {
        "broken lines left out": sum(faults.skipped.values()),
        "files left out that are no runs": no_runs,
        "judgements beside a run, which are no run": len(beside),
        "folders within the folder of runs, which are not read": sum(one.unread for one in given),
        **_notes(runs),
        "runs whose team is their folder": len(folders) * (groups == "prefix"),
        "files with the runs of several systems, each of which is read": sum(len(of_file) > 1 for of_file in files),
        "names in the table of groups that are none of the runs": strangers,
        **faults.notes,
    }
    return Runs(names, teams, sorted(table["topic"].unique(), key=by_value), table, notes)


def runs_of(tables: Mapping[str, pl.DataFrame], precision: Precision = "single") -> Runs:
    """Return runs in memory, ordered and counted as those of files.

    Args:
        tables: query, document and score of each run, by its name.
        precision: the precision in which scores are compared; see `read_runs`.
    """
    names, options = sorted(tables, key=str.encode), _Options("score", "utf-8", None, precision)
    lines = (
        tables[name].with_columns(_NO_RANK, tag=pl.lit(name), line=pl.int_range(1, pl.len() + 1)) for name in names
    )
    ranked = (_ranked(Path(name), of_run, options, Faults()) for name, of_run in zip(names, lines, strict=True))
    runs = [run._replace(name=name, tag=name) for name, run in zip(names, ranked, strict=True)]
    refuse(all(run.empty for run in runs), "no lines in any of the runs", "runs")
    table = _together(runs)
    return Runs(names, names, sorted(table["topic"].unique(), key=by_value), table, _notes(runs))


def _together(runs: Sequence[_Run]) -> pl.DataFrame:
    """Return the table of runs that `Runs` has, with each run's position among them."""
    return pl.concat(
        run.table.select(pl.lit(number, pl.UInt32).alias("run"), "topic", "document", "place")
        for number, run in enumerate(runs)
    )


def _notes(runs: Sequence[_Run]) -> dict[str, int]:
    """Return the counts of irregularities of all runs, by description."""
    counts = {note: sum(run.notes[note] for run in runs) for note in runs[0].notes}
    counts["runs named by their file, for want of a tag of their own"] = sum(run.name != run.tag for run in runs)
    return counts


def _read_files(
    given: Sequence[_Given], options: _Options, faults: Faults, on_progress: OnProgress
) -> list[list[_Run]]:
    """Return the runs of each file; none for a file that is left out."""
    candidates = [(file, one.is_folder) for one in given for file in one.files]
    refuse(not candidates, "there are no runs", remedy=_REMEDY)
    again = repeated(os.path.abspath(file) for file, _ in candidates)
    refuse(again, "{} is named twice", remedy="name it once")
    files = []
    for number, (file, in_folder) in enumerate(candidates):
        on_progress("reading runs", number, len(candidates))
        files.append(_read(file, in_folder, options, faults))
    return files


class _Given(NamedTuple):
    """A path of runs, and its files."""

    path: str
    files: list[Path]

    @property
    def is_folder(self) -> bool:
        return Path(self.path).is_dir()

    @property
    def of_teams(self) -> bool:
        """Whether its files are in several folders, one per team."""
        return len({file.parent for file in self.files}) > 1

    @property
    def unread(self) -> int:
        """The number of folders next to its files."""
        inner = Path(self.path).iterdir() if self.is_folder and not self.of_teams else ()
        return sum(folder.is_dir() and not folder.name.startswith(".") for folder in inner)


def listed(paths: str | Sequence[str]) -> list[str]:
    """Return the paths of an option that takes one or several."""
    return [paths] if isinstance(paths, str) else list(paths)


def files_of(path: str, what: str = "runs") -> list[Path]:
    """Return the files of runs at a path, in the order of their names.

    Args:
        path: a file; a folder, all of whose files are runs that are not hidden; a folder with folders alone, one per
            team, with their files; or a pattern such as `runs/*.gz` or `runs/*/*`. Judgements that `pyrite rank` wrote
            next to its runs (`.qrels`) are no runs, unless the path is that file.
        what: the files' contents, for messages.
    """
    place = Path(path)
    if place.is_dir():
        files = _files_in(place) or _files_of_teams(path, what)
    else:
        files = [] if place.exists() else [Path(name) for name in sorted(glob(path)) if not Path(name).is_dir()]
    return [file for file in files or [place] if what != "runs" or file == place or file.suffix != JUDGED]


def _files_of_teams(path: str, what: str) -> list[Path]:
    """Return the files in the folders of a folder, one per team."""
    folders = [folder for folder in sorted(Path(path).iterdir()) if folder.is_dir() and not folder.name.startswith(".")]
    files = [file for folder in folders for file in _files_in(folder)]
    remedy = f"name the folder in it: {folders[0]}" if folders else _REMEDY
    refuse(len({file.parent for file in files}) < 2, f"no {what} in it", path, remedy)
    return files


def _files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if not (file.is_dir() or file.name.startswith(".")))


def _named(runs: Sequence[_Run], where: str | None) -> list[_Run]:
    """Return runs in the order of their names: the tag if no other has it, or the file."""
    tags = Counter(run.tag for run in runs)
    untagged = [run for run in runs if run.tag is None or tags[run.tag] > 1]
    files = Counter(run.file for run in untagged)
    stems = Counter(map(_stem, files))

    def of_file(run: _Run) -> str:
        """Return the name of the file, with its folder if files have the same name, and the tag if it has several."""
        folder = f"{run.file.parent.name}/" if max(stems.values()) > 1 else ""
        return f"{folder}{_stem(run.file)}" + f"/{run.tag}" * (files[run.file] > 1)

    named = [run._replace(name=str(run.tag) if tags[run.tag] == 1 and run.tag else of_file(run)) for run in runs]
    names = Counter(run.name for run in named)
    if len(names) < len(named):
        raise BadInput(
            f"two runs are called {min(name for name in names if names[name] > 1)!r}", where, "rename a file"
        )
    return sorted(named, key=lambda run: run.name.encode())


def _stem(file: Path) -> str:
    name = file.name.removeprefix("input.")
    while (suffix := next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), None)) and name != suffix:
        name = name.removesuffix(suffix)
    return name


class _Options(NamedTuple):
    """How runs are read; see `read_runs`."""

    order: Order
    encoding: str
    deepest: int | None
    precision: Precision


def _read(file: Path, in_folder: bool, options: _Options, faults: Faults) -> list[_Run]:
    """Read the runs of a file; none if it is a file in a folder that is no run and may be left out."""
    if in_folder and _NO_RUNS.fullmatch(file.name):
        return _left_out(file, "is no run, by its name", faults)
    if in_folder and not file.exists():  # a link to nothing
        return _left_out(file, "no such file", faults)
    broken = dict(faults.skipped)
    frames = list(run_rows(file, faults, options.encoding))
    nul = pl.any_horizontal(pl.col("query", "document").str.contains("\0", literal=True))
    lines = faults.only(pl.concat(frames or [_NO_LINES]), ~nul, "broken line", "a NUL character in an id", file)
    unreadable = lines.is_empty() and faults.skipped != broken
    refuse(unreadable and not in_folder, "no readable lines in it", file)
    if unreadable:
        faults.skipped = broken  # it is counted as a file, not by its lines
        return []
    return [_ranked(file, system, options, faults) for system in _systems(lines)]


def _left_out(file: Path, why: str, faults: Faults) -> list[_Run]:
    """Return no run, or raise an error if every file must be one."""
    refuse(faults.strict, why, file, "move it out of the folder, or set strict=false to leave it out")
    return []


def _systems(lines: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the lines of each system of a file: of each tag, if several have a document or a rank of one topic."""
    both = (("query", "document"), ("query", "rank"))
    shared = (
        lines.n_unique([*pair]) < lines.n_unique([*pair, "tag"]) and lines.n_unique([pair[1]]) > 1 for pair in both
    )
    return lines.partition_by("tag", maintain_order=True) if any(shared) else [lines]


def _ranked(file: Path, lines: pl.DataFrame, options: _Options, faults: Faults) -> _Run:
    """Return the run of lines, in order."""
    order, empty = options.order, lines.is_empty()
    tag = lines["tag"][0] if lines["tag"].n_unique() == 1 else None
    by_rank = order == "score" and not empty and bool((lines["score"] == -lines["rank"]).fill_null(False).all())
    if order == "rank":
        what = "the rank is not a whole number"
        lines = faults.only(lines, pl.col("rank").is_not_null(), "broken line", what, file)
    by, descending = _SORTED[order]
    score = pl.col("score").cast(pl.Float32) if options.precision == "single" else pl.col("score")
    ranked = (
        lines.rename({"query": "topic"})
        .with_columns(score, exact=pl.col("score"))
        .sort(["topic", *by], descending=[False, *descending])
        .unique(["topic", "document"], keep="first", maintain_order=True)
        .with_columns(place=pl.int_range(pl.len(), dtype=pl.UInt32).over("topic"))
    )
    kept = ranked if options.deepest is None else ranked.filter(pl.col("place") < options.deepest)
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
        "runs with negative ranks, of which the lowest comes first (order=score orders them by score)": (
            order == "rank" and bool((lines["rank"] < 0).any())
        ),
    }
    return _Run(file, kept, tag, empty, notes)


def _rises(lines: pl.DataFrame) -> bool:
    """Return whether most scores are higher than the score of the rank before, in lines that follow each other."""
    follows = (pl.col("query") == pl.col("query").shift()) & (pl.col("rank") == pl.col("rank").shift() + 1)
    rise = pl.col("score").diff().filter(follows)
    risen, fallen = lines.select(risen=(rise > 0).sum(), fallen=(rise < 0).sum()).row(0)
    return bool(risen > fallen)


def by_value(topic: str) -> tuple[bool, int, str]:
    """Return the key by which topics are sorted: numbers by value, then all others in byte order."""
    return not topic.isdecimal(), int(topic) if topic.isdecimal() else 0, topic


def _teams(names: list[str], groups: str | None, folders: Sequence[str | None]) -> tuple[list[str], int]:
    """Return the team of each run, and the number of names in the table of groups that are none of them.

    Args:
        folders: the folder of each run, if it is that of a team.
    """
    if groups is None:
        return names, 0
    if groups == "prefix":
        letters = (re.match(r"[^\W\d_]*", name) for name in names)
        prefixes = [(match and match[0]) or name for match, name in zip(letters, names, strict=True)]
        return [folder or prefix for folder, prefix in zip(folders, prefixes, strict=True)], 0
    teams = _table(groups)
    for name in names:
        refuse(
            name not in teams, f"no team for the run {name!r}", groups, "give each run a line: its name, then its team"
        )
    return [teams[name] for name in names], len(teams.keys() - set(names))


def _table(path: str) -> dict[str, str]:
    teams: dict[str, str] = {}
    for where, fields in fields_of(path):
        refuse(len(fields) != 2, f"not two columns, but {len(fields)}", where, "give run and team")
        if teams.setdefault(*fields) != fields[1]:
            what = f"the run {fields[0]!r} is given two teams, {teams[fields[0]]} and {fields[1]}"
            raise BadInput(what, where, "give each run one line")
    return teams


def fields_of(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the fields of each line of a small table, separated by blanks, tabs or commas."""
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()  # Excel begins a file with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't be read ({error})", path) from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{path}:{number}", re.split(r"[,\s]+", line.strip())
