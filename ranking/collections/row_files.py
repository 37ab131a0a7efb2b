"""Reads tables of rows: parquet, CSV, TSV, JSON and what the library datasets saves. Each row is a dict of its values.

Texts, numbers and ids of CSV and JSON stay as they are written: nothing is guessed from how a value looks. A cell that
begins as a list does is marked (`pyrite.ranking.collections.row_values.ListCell`), since cells can't hold lists.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyrite.ranking.collections.faults import Faults, RowFault
from pyrite.ranking.collections.json_rows import JsonPoint, are, json_rows, rows_of_columns
from pyrite.ranking.collections.names import repeated
from pyrite.ranking.collections.opened import ENDINGS, compression_of, encoding_of, open_bytes, plain_name
from pyrite.ranking.collections.pair_dialects import NAME_BESIDE, unnamed
from pyrite.ranking.collections.row_values import cell
from pyrite.ranking.collections.splits import split_named
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.similar import similar_path

ROWS = 10_000
"""The number of rows of a parquet or Arrow file that are read at once."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "parquet": (".parquet",),
    "csv": (".csv", ".tsv"),
    "json": (".jsonl", ".ndjson", ".json"),
    "arrow": (".arrow", ".feather", ".ipc"),
}
"""The endings of file names by format. Those of CSV and JSON may be compressed."""
ENDINGS_OF_TABLES = ", ".join(ending for endings in KINDS.values() for ending in endings)
REMEDIES = {
    (".xlsx", ".xls", ".ods"): "save it as CSV in UTF-8",
    (".zip", ".tar", ".tar.gz", ".tgz", ".7z", ".rar"): "unpack it",
    ("",): f"give it an ending by its format: {ENDINGS_OF_TABLES}",
}
"""What to do with files that are no tables, by the endings of their names; the first that fits counts."""
NO_DATA = re.compile(
    r"\..*|(readme|license|licence|copying|changelog|citation)\b.*|.*\.(md|lock|py)|dataset_infos?\.json|state\.json",
    re.I,
)
"""Names of files that come with a data set and hold none of its rows."""

WRITTEN_TABS = dict.fromkeys(("\\t", "tab", "TAB"), "\t")
"""Ways to write a tab on a command line."""

DATASET_DICT, STATE = "dataset_dict.json", "state.json"
"""The files with which the library datasets describes a data set with splits, and one without or one of the splits."""
SAVE_AGAIN = "save the dataset again, or move this file elsewhere"
Row = tuple[int, Mapping[str, Any]]
"""The number of a row's first line (of parquet and Arrow: of the row), from 1, and its values by column."""


@dataclass(frozen=True)
class TextOptions:
    """Options of CSV and TSV files.

    Args:
        separator: the character between cells, or `tab`. None takes a comma, semicolon or tab, whichever the header
            has.
        encoding: the encoding of the file. A byte order mark overrides it.
        quote: the character around cells that hold separators; "" for none. None takes " for CSV and for TSV with a
            header, and none for TSV without.
    """

    separator: str | None = None
    encoding: str = "utf-8"
    quote: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "separator", WRITTEN_TABS.get(self.separator or "", self.separator))
        for name in ("separator", "quote"):
            sign: str = getattr(self, name) or " "
            remedy = "give one, or tab for a tab" if name == "separator" else "give one, or '' for none"
            refuse(len(sign) > 1 or sign in "\r\n", f"{sign!r} is not one character", f"collection.{name}", remedy)
        both = self.separator and self.separator == self.quote
        refuse(both, f"{self.quote!r} is the separator too", "collection.quote", "give another, or '' for none")


def row_files(path: Path) -> dict[Path, str | None]:
    """Return the files of a table and the split that each name shows, None if it shows none.

    Args:
        path: one file; a folder of files, or one with a folder `data` of them, which may be in folders named by splits;
            or a folder that the library datasets has saved (`save_to_disk`), with or without splits.

    Raises:
        BadInput: if there is nothing to read.
    """
    if path.is_file():
        kind_of(path)
        return {path: split_named(path.name)}
    if not path.is_dir():
        raise BadInput("no such file or folder", path, similar_path(path, "check the path (collection.path=)"))
    files = next(filter(None, (layout(path) for layout in (_saved_splits, _saved, _tables))), None)
    if files is None:
        raise _without_tables(path)
    return files


def _saved_splits(folder: Path) -> dict[Path, str | None]:
    """Return the files of splits that the library datasets has saved."""
    splits = _listed(folder / DATASET_DICT, "splits", str)
    absent = [name for name in splits if not (folder / name / STATE).is_file()]
    what, remedy = f"names the split {{}}, and there is no {STATE} in its folder", "copy the folder again, whole"
    refuse(absent, what, folder / DATASET_DICT, remedy)
    return {file: split_named(name) for name in splits for file in _saved(folder / name)}


def _saved(folder: Path) -> dict[Path, str | None]:
    """Return the files of a table that the library datasets has saved."""
    entries = _listed(folder / STATE, "_data_files", dict)
    return {folder / str(entry.get("filename")): None for entry in entries}


def _listed(file: Path, key: str, kind: type) -> list[Any]:
    """Return the list under a key of a file of the library datasets; an empty one if there is no such file."""
    listed = _json(file).get(key, [])
    refuse(not isinstance(listed, list) or not are(kind, listed), f"has no list of {key}", file, SAVE_AGAIN)
    return list(listed)


def _tables(folder: Path) -> dict[Path, str | None]:
    """Return the tables of a folder, or of its folder `data`, and those in folders named by splits."""
    folder = _of_data(folder)
    files = {file: split_named(file.name) for file in _tables_in(folder)}
    for inner in sorted(folder.iterdir()):
        split = split_named(inner.name)
        files |= dict.fromkeys(_tables_in(inner) if split else [], split)
    return files


def _of_data(folder: Path) -> Path:
    return folder / "data" if (folder / "data").is_dir() else folder


def _without_tables(path: Path) -> BadInput:
    """Return the error for a folder without a table."""
    folder = _of_data(path)
    if inner := [inner.name for inner in sorted(folder.iterdir()) if _tables_in(inner)]:
        remedy = f"name one of them: collection.path={folder / inner[0]}"
        return BadInput(f"holds no table, but its folders do ({', '.join(inner)})", folder, remedy)
    return BadInput("holds no table", folder, f"a table is a file that ends in {ENDINGS_OF_TABLES}")


PART = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<of>[-_. ]of[-_. ])(?P<count>\d+)(?P<after>.*)", re.I)
"""The name of a part of a table, as train-00000-of-00003.parquet."""


def check_parts(files: Iterable[Path]) -> None:
    """Refuse files whose names show that a part of them is missing."""
    parts: dict[tuple[Path, str, str, str, str], dict[int, str]] = {}
    for match, file in ((match, file) for file in files if (match := PART.fullmatch(file.name))):
        key = (file.parent, match["before"], match["of"], match["count"], match["after"])
        parts.setdefault(key, {})[int(match["number"])] = match["number"]
    for (folder, before, of, count, after), numbers in parts.items():
        first = int(int(count) in numbers)  # counted from 0, or from 1
        width = len(next(iter(numbers.values())))
        missing = sorted({*range(first, int(count) + first)} - numbers.keys())
        names = [f"{before}{number:0{width}}{of}{count}{after}" for number in missing]
        remedy = f'copy it there; to read the others alone, rename them without "{of}{count}"'
        what = f"is missing ({len(numbers)} of {int(count)} parts are there)"
        refuse(names, what, folder / "".join(names[:1]), remedy)


def files_named(folder: Path, names: Sequence[str], subset: str | None, *others: str) -> list[Path]:
    """Return the file that has one of some names, or the parts of parquet in a folder of a name.

    Args:
        subset: the collection whose files are read, of several in the same folders; None if there is one.
        others: endings of files besides those of JSON lines and parquet.
    """
    endings = (*map(".jsonl{}".format, ("", *ENDINGS)), ".parquet", *others)
    usual = (folder / f"{name}{ending}" for name in names for ending in endings)
    of_subset = sorted((folder / f"{subset}-{names[0]}").glob("*.parquet"))  # as MTEB has languages
    parts = itertools.chain.from_iterable(sorted((folder / name).glob("*.parquet")) for name in names)
    chosen = [file for file in parts if subset is None or file.name.startswith(f"{subset}-")]
    return list(filter(Path.exists, usual))[:1] or of_subset or chosen


def unread_files(path: Path, read: Iterable[Path]) -> list[str]:
    """Return the names of files and folders next to those that are read, which may hold data too."""
    if not path.is_dir() or (path / "ids").is_dir():  # `pyrite mine` wrote it
        return []
    folders = {path, *(file.parent for file in read)}
    held = {*read, *folders, path / DATASET_DICT, *(folder.parent for folder in folders)}
    others = {*itertools.chain.from_iterable(map(Path.iterdir, folders))} - held
    holds = filter(_may_hold_rows, sorted(others, key=lambda other: (other.parent, other)))
    return [str(other.relative_to(path)) for other in holds]


def _may_hold_rows(other: Path) -> bool:
    return not NO_DATA.fullmatch(other.name) and (other.is_file() or bool(_tables_in(other)))


def _tables_in(folder: Path) -> list[Path]:
    files = [file for file in sorted(folder.glob("*")) if not file.is_dir() and not NO_DATA.fullmatch(file.name)]
    return list(filter(_kind, files))


def kind_of(file: Path) -> str:
    """Return the format of a file, a key of `KINDS`; raise `BadInput` if its name does not show it."""
    kind = _kind(file)
    if kind is None:
        remedy = next(remedy for endings, remedy in REMEDIES.items() if file.name.lower().endswith(endings))
        raise BadInput("is no table by its name", file, remedy)
    return kind


def read_rows(
    file: Path, faults: Faults, options: TextOptions = TextOptions(), names: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield the rows of a file.

    Args:
        file: a file in one of the formats of `KINDS`.
        faults: receives broken rows.
        options: the options of CSV and TSV.
        names: names of columns, in lower case. A TSV file has a header if its first row has one of them and only words
            without blanks; otherwise its columns are query, positive, negative, negative_2 and so on.

    Raises:
        BadInput: if the file is not in the format that its name shows.
    """
    try:
        compression_of(file)
        yield from READERS[kind_of(file)](file, faults, options, names)
    except (pa.ArrowException, OSError) as error:
        message = str(error).splitlines()[0][:200]
        raise BadInput(f"can't be read ({message})", file, "is it whole, and what its name says?") from None


def _parquet_rows(file: Path, faults: Faults, options: TextOptions, names: Sequence[str]) -> Iterator[Row]:
    with pq.ParquetFile(file) as table:
        yield from _of_batches(table.iter_batches(ROWS), table.schema_arrow.names, file)


def _arrow_rows(file: Path, faults: Faults, options: TextOptions, names: Sequence[str]) -> Iterator[Row]:
    with pa.memory_map(str(file)) as source:
        schema, batches = _arrow(source)
        yield from _of_batches(batches, schema.names, file)


def _arrow(source: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches of an Arrow file, or of a stream."""
    try:
        stream = pa.ipc.open_stream(source)
        return stream.schema, iter(stream)
    except pa.ArrowInvalid:
        file: Any = pa.ipc.open_file(source)
        return file.schema, map(file.get_batch, range(file.num_record_batches))


def _of_batches(batches: Iterator[pa.RecordBatch], names: Sequence[str], file: Path) -> Iterator[Row]:
    _refuse_repeated(names, file)
    parts = (batch.slice(start, ROWS) for batch in batches for start in range(0, len(batch), ROWS))
    yield from enumerate(itertools.chain.from_iterable(map(_dicts, parts)), 1)


def _refuse_repeated(names: Iterable[str], place: str | Path) -> None:
    again = list(map(repr, repeated(filter(None, names))))
    refuse(again, "two columns are called {}", place, "rename one of them")


def _dicts(part: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    names = part.schema.names
    return (dict(zip(names, row, strict=True)) for row in zip(*map(_values, part.columns), strict=True))


def _values(column: pa.Array) -> list[Any]:
    """Return a column's values; numbers with a point are marked, so that they are not taken for ids."""
    if column.type in (pa.binary(), pa.large_binary(), pa.binary_view()):
        column = column.cast(pa.large_string())  # bytes of UTF-8
    values: list[Any] = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return [None if value is None else JsonPoint(repr(value)) for value in values]


def csv_rows(file: Path, faults: Faults, options: TextOptions, names: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file; see `read_rows`."""
    csv.field_size_limit(sys.maxsize)  # a cell may hold a whole document
    tabs = plain_name(file).endswith(".tsv")
    encoding = encoding_of(file, options.encoding)
    with open_bytes(file) as stream:
        text = _text_lines(stream, encoding, file)
        filled = ((number, line) for number, line in enumerate(text, 1) if line.strip("\r\n"))
        start, first = next(filled, (1, ""))
        said = re.fullmatch(r"sep=(.)\s*", first)  # as Excel writes it
        if said:
            start, first = next(filled, (start, ""))
        usual = said[1] if said else "\t" if tabs else separator_of(first)
        separator = options.separator or usual
        remedy = f"if it is UTF-16 without its mark, set {faults.encoding}=utf-16-le"
        refuse("\0" in first, f"a NUL character, which is no {encoding} text", f"{file}:{start}", remedy)
        cells = next(csv.reader([first], delimiter=separator), [])
        named = not tabs or _is_header(cells, names)
        if not named:
            _check_texts(cells, f"{file}:{start}")
        quote = '"' * named if options.quote is None else options.quote
        quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
        table = csv.reader(itertools.chain([first], text), delimiter=separator, strict=True, **quoting)
        yield from _of_table(table, file, faults, encoding, named, start)


def _text_lines(stream: Any, encoding: str, file: Path) -> Iterator[str]:
    """Yield the lines of a file. Bytes that are not in its encoding become halves of surrogate pairs, by which their
    row is recognised, except in encodings of several bytes per character, in which nothing after them can be read."""
    try:
        yield from io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline="")
    except UnicodeError as error:
        raise BadInput(f"is not {encoding}, or cut short ({error})", file, "convert it to UTF-8 with iconv") from None


def _check_texts(cells: Sequence[str], place: str) -> None:
    """Refuse a first row without a header that has numbers, which are ids or labels."""
    if len(cells) < 2:
        return
    numbers = [number for number, cell in enumerate(cells, 1) if cell.strip().isdigit()]
    what = "every cell of the first row is a number: are they ids, not texts?"
    refuse(len(numbers) == len(cells), what, place, NAME_BESIDE)
    what = "cell {} of the first row is a number, and no header says whether it is an id or a label"
    refuse(numbers, what, place, "write a header above, such as qid, query, positive, negative, label, between tabs")


def _is_header(cells: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a first row names columns: words without blanks, one of them known, or all with underscores."""
    words = [cell.strip(' "\r\n').lower() for cell in cells]
    known = {*words} & {*names} or all(re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", word) for word in words)
    return bool(known) and all(re.fullmatch(r"[\w.-]*", word) for word in words)


def separator_of(header: str) -> str:
    """Return the separator of a header: the first of comma, semicolon and tab that divides it."""
    counts = {sign: len(next(csv.reader([header], delimiter=sign), [])) for sign in (",", ";", "\t", "|")}
    return next((sign for sign, count in counts.items() if count > 1), ",")


def _of_table(table: Any, file: Path, faults: Faults, encoding: str, named: bool, first: int) -> Iterator[Row]:
    """Yield the rows of a table of cells, the first of which names the columns if it is `named`."""
    rows = _cells(table, file, faults, first)
    ahead = list(itertools.islice(rows, 1))
    line, top = ahead[0] if ahead else (first, [])
    header = [cell.strip() for cell in top] if named else unnamed(len(top))
    _refuse_repeated(header, f"{file}:{line}")
    if what := _undecoded(header, encoding):  # no row can be read without the names, strict or not
        Faults(encoding=faults.encoding).report_encoding(what, file, line, "cp1252")
    for start, cells in itertools.chain([] if named else ahead, rows):
        if len(cells) != len(header):
            faults.report("broken line", f"{len(cells)} cells, and {len(header)} in the first row", file, start)
        elif what := _undecoded(cells, encoding):
            faults.report_encoding(what, file, start, "cp1252")
        else:
            yield start, dict(zip(header, map(cell, cells), strict=True))


def _undecoded(cells: Sequence[str], encoding: str) -> str:
    """Return what is wrong with cells of which a byte is not in the encoding of their file; empty if none is."""
    wrong = re.search("[\udc80-\udcff]", "".join(cells))
    return f"byte 0x{ord(wrong[0]) - 0xDC00:02x} is not {encoding}" if wrong else ""


def _cells(table: Any, file: Path, faults: Faults, first: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each row that is not blank; `first` is the line before the table."""
    line, ends = first, False
    while not ends:
        try:
            cells = next(table, None)
        except csv.Error as error:
            ends = "unexpected end of data" in str(error)
            what = "a quote that begins here is never closed" if ends else f"not CSV ({error})"
            remedy = "write it twice within a cell, or read the file with collection.quote=''"
            faults.report("broken line", what, file, line, remedy=remedy)
            cells = []
        ends = ends or cells is None
        start, line = line, table.line_num + first
        if cells and cells != [""]:
            yield start, cells


def _json_rows(file: Path, faults: Faults, options: TextOptions, names: Sequence[str]) -> Iterator[Row]:
    entries = json_rows(file, faults, options.encoding)
    ahead = list(itertools.islice(entries, 2))
    # Only the one object of a file may be a whole table: the texts of a row may be in lists of one length too.
    try:
        table = rows_of_columns(ahead[0][1]) if len(ahead) == 1 else None
    except RowFault as fault:
        raise BadInput(fault.what, f"{file}:{ahead[0][0]}", "write one object per line") from None
    yield from ((ahead[0][0], row) for row in table) if table is not None else itertools.chain(ahead, entries)


READERS: Mapping[str, Callable[[Path, Faults, TextOptions, Sequence[str]], Iterator[Row]]] = {
    "csv": csv_rows, "json": _json_rows, "parquet": _parquet_rows, "arrow": _arrow_rows,
}  # fmt: skip
"""How the formats of `KINDS` are read."""


def _kind(file: Path) -> str | None:
    # Tables in parquet and Arrow compress their columns; a packed file of them is none.
    names = {"parquet": file.name.lower(), "arrow": file.name.lower()}
    plain = plain_name(file)
    return next((kind for kind, endings in KINDS.items() if names.get(kind, plain).endswith(endings)), None)


def classes_of(file: Path) -> dict[str, list[str]]:
    """Return the names of the classes of a table's columns, as the library datasets saves them with it."""
    features = _json(file.parent / "dataset_info.json").get("features") or _features(file)
    found = features.items() if isinstance(features, Mapping) else ()
    named = {name: feature.get("names") for name, feature in found if isinstance(feature, Mapping)}
    return {name: list(map(str, names)) for name, names in named.items() if isinstance(names, list)}


def _features(file: Path) -> Any:
    """Return the library's description of the columns of a parquet or Arrow file; None if it has none."""
    try:
        return json.loads(METADATA[str(_kind(file))](file)[b"huggingface"])["info"]["features"]
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError):  # reading its rows reports what is wrong
        return None


def _arrow_metadata(file: Path) -> Any:
    with pa.memory_map(str(file)) as source:
        return _arrow(source)[0].metadata


METADATA: Mapping[str, Callable[[Path], Any]] = {
    "parquet": lambda file: pq.read_metadata(file).metadata,
    "arrow": _arrow_metadata,
}


def _json(file: Path) -> Any:
    """Return the content of a file of JSON; an empty object if there is none."""
    try:
        content = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"can't be read ({error})", file, SAVE_AGAIN) from None
    refuse(not isinstance(content, dict), "holds no JSON object", file, SAVE_AGAIN)
    return content
