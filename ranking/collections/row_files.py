"""Reads tables of rows, a chunk at a time: parquet, CSV, JSON lines, and what the library datasets saves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from ranking.collections.faults import Faults
from ranking.collections.lines import lines
from ranking.errors import BadInput

ROWS = 10_000
"""Of a chunk."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "parquet": (".parquet",),
    "csv": (".csv", ".csv.gz"),
    "json": (".jsonl", ".ndjson", ".jsonl.gz", ".json", ".json.gz"),
    "arrow": (".arrow",),
}
"""How the names of files end, by what they hold."""
SPLITS = {"train": "train", "dev": "dev", "val": "dev", "valid": "dev", "validation": "dev", "test": "test"}
"""What files and folders are called, and the split that they hold."""


def row_files(path: Path) -> list[tuple[str | None, Path]]:
    """The files of a table and the split that each says it holds, None where it says none.

    Args:
        path: one file; a folder of files, or one with a folder `data` of them; or a folder that the library datasets
            has saved (`save_to_disk`), with or without splits.

    Raises:
        BadInput: where there is nothing to read.
    """
    if path.is_file():
        kind_of(path)
        return [(_split(path.name), path)]
    if not path.is_dir():
        raise BadInput("no such file or folder", path, "check path=")
    if (path / "dataset_dict.json").is_file():
        splits: list[str] = _json(path / "dataset_dict.json")["splits"]
        return [(_split(name), file) for name in splits for file in _saved(path / name)]
    if (path / "state.json").is_file():
        return [(None, file) for file in _saved(path)]
    folder = path / "data" if (path / "data").is_dir() else path
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and _kind(file)]
    if not files:
        known = ", ".join(endings[0] for endings in KINDS.values())
        raise BadInput("holds no table", folder, f"a table is a file that ends in {known}")
    return [(_split(file.name), file) for file in files]


def kind_of(file: Path) -> str:
    """What a file holds, by its name: a key of `KINDS`.

    Raises:
        BadInput: where the name does not say.
    """
    kind = _kind(file)
    if kind is None:
        known = ", ".join(ending for endings in KINDS.values() for ending in endings)
        raise BadInput("is no table by its name", file, f"call it by what it holds: {known}")
    return kind


def column_names(file: Path) -> list[str]:
    """The columns of a file; of JSON lines those of the first."""
    for frame, _ in chunks(file, Faults(strict=False), rows=1):
        return frame.columns
    return []


def chunks(
    file: Path, faults: Faults, texts: Sequence[str] = (), rows: int = ROWS
) -> Iterator[tuple[pl.DataFrame, int]]:
    """The rows of a file, and the number of each chunk's first row, from 1 (of JSON lines and CSV: its first line).

    Args:
        file: of any of `KINDS`.
        faults: hears of broken lines.
        texts: columns that hold text, also where it looks like numbers.
        rows: of a chunk, about.

    Raises:
        BadInput: where the file is not what its name says.
    """
    try:
        yield from _READ[kind_of(file)](file, faults, texts, rows)
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError) as error:
        said = str(error).splitlines()[0][:200]
        raise BadInput(f"can't be read ({said})", file, "is it whole, and what its name says?") from None


def _parquet(file: Path, faults: Faults, texts: Sequence[str], rows: int) -> Iterator[tuple[pl.DataFrame, int]]:
    from pyarrow import parquet

    first = 1
    with parquet.ParquetFile(file) as table:
        for batch in table.iter_batches(rows):
            yield _frame(batch), first
            first += len(batch)


def _csv(file: Path, faults: Faults, texts: Sequence[str], rows: int) -> Iterator[tuple[pl.DataFrame, int]]:
    from pyarrow import csv

    first = 2
    as_text = csv.ConvertOptions(column_types={name: pa.string() for name in texts}, strings_can_be_null=True)
    parse = csv.ParseOptions(newlines_in_values=True)
    with (
        pa.input_stream(str(file)) as stream,
        csv.open_csv(stream, parse_options=parse, convert_options=as_text) as table,
    ):
        for batch in table:
            yield _frame(batch), first
            first += len(batch)


def _lines(file: Path, faults: Faults, texts: Sequence[str], rows: int) -> Iterator[tuple[pl.DataFrame, int]]:
    gathered: list[dict[str, Any]] = []
    first = 1
    for number, line in lines(file, faults):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            faults.report("broken line", f"not JSON ({error.msg} at character {error.pos + 1})", file, number)
            continue
        if not isinstance(entry, dict):
            faults.report("broken line", "not a JSON object", file, number)
            continue
        first = first if gathered else number
        gathered.append(entry)
        if len(gathered) >= rows:
            yield _of_entries(gathered), first
            gathered = []
    if gathered:
        yield _of_entries(gathered), first


def _of_entries(entries: list[dict[str, Any]]) -> pl.DataFrame:
    names = list(dict.fromkeys(name for entry in entries for name in entry))
    return pl.DataFrame({name: pl.Series([entry.get(name) for entry in entries], strict=False) for name in names})


def _arrow(file: Path, faults: Faults, texts: Sequence[str], rows: int) -> Iterator[tuple[pl.DataFrame, int]]:
    first = 1
    with pa.memory_map(str(file)) as source:
        try:
            table: Any = pa.ipc.open_stream(source)
        except pa.ArrowInvalid:
            table = pa.ipc.open_file(source)
        batches = table if hasattr(table, "read_next_batch") else map(table.get_batch, range(table.num_record_batches))
        for batch in batches:
            for start in range(0, len(batch), rows):
                yield _frame(batch.slice(start, rows)), first + start
            first += len(batch)


_READ: Mapping[str, Callable[..., Iterator[tuple[pl.DataFrame, int]]]] = {
    "parquet": _parquet, "csv": _csv, "json": _lines, "arrow": _arrow,
}  # fmt: skip


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(batch))


def _kind(file: Path) -> str | None:
    return next((kind for kind, endings in KINDS.items() if file.name.lower().endswith(endings)), None)


def _split(name: str) -> str | None:
    word = name.lower().split(".")[0].split("-")[0].split("_")[0]
    return SPLITS.get(word)


def _saved(folder: Path) -> list[Path]:
    return [folder / str(each["filename"]) for each in _json(folder / "state.json")["_data_files"]]


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"can't be read ({error})", file, "save the dataset again") from None
