"""Reads documents and queries from JSON lines and parquet, under the names that BEIR, Pyserini and Tevatron use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ranking.collections.faults import Faults
from ranking.collections.json_rows import json_rows
from ranking.collections.lines import lines
from ranking.collections.opened import compression_of
from ranking.collections.row_forms import IDS, TEXT
from ranking.errors import BadInput

NAMES = ("_id", "id", "query_id", "qid", *(name for name in IDS if name not in ("_id", "id")))
TEXTS = (*TEXT, "query")
Entry = tuple[object, ...]
"""Id, text, category, subcategory, file and line."""


def read_parquet(file: Path, faults: Faults) -> Iterator[Entry]:
    """Yield id, text, category, subcategory, file and row of each row."""
    from pyarrow import ArrowException, parquet

    number = 0
    try:
        compression_of(file)  # refuses what is something else
        with parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(10_000):
                for entry in batch.to_pylist():
                    number += 1
                    yield from _entry(entry, file, number, faults)
    except (ArrowException, OSError) as error:
        raise BadInput(f"can't be read ({str(error).splitlines()[0][:200]})", file, "is it whole?") from None


def read_json(file: Path, faults: Faults, within: tuple[int, int] | None = None) -> Iterator[Entry]:
    """Yield the entries of JSON lines, or of one array."""
    _, first = (0, "") if within else next(lines(file, Faults(strict=False)), (0, ""))
    if first.lstrip().startswith("["):
        for number, entry in json_rows(file, faults):
            yield from _entry(entry, file, number, faults)
        return
    for number, line in lines(file, faults, within=within):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            what = f"not JSON ({error.msg.removesuffix(' at')} at character {error.pos + 1})"
            faults.report("broken line", what, file, number)
        except RecursionError:
            faults.report("broken line", "nested too deeply", file, number)
        else:
            yield from _entry(entry, file, number, faults, "\\ud" in line)


def _entry(entry: object, file: Path, number: int, faults: Faults, escaped: bool = False) -> Iterator[Entry]:
    """Yield the row of an entry, or nothing if it is broken; `escaped` if an escape may encode half a character."""
    try:
        identifier, text = _identifier(entry), _text(entry)
        category, subcategory = (_label(entry, key) for key in ("category", "subcategory"))
        if escaped:
            f"{identifier}{text}{category}{subcategory}".encode()
    except UnicodeEncodeError:
        faults.report("broken line", "half of a surrogate pair, which is no character", file, number)
    except _NoText as error:
        faults.report("broken line", str(error), file, number)
    else:
        yield identifier, text, category, subcategory, str(file), number


class _NoText(ValueError):
    """An entry without an id and a text."""


def _identifier(entry: object) -> str:
    if not isinstance(entry, dict):
        raise _NoText("not a JSON object")
    name = next((name for name in NAMES if name in entry), None)
    if name is None:
        raise _NoText(f"no `_id` (or id, docid, docno, qid): it has {', '.join(entry) or 'nothing'}")
    if not isinstance(entry[name], str | int) or isinstance(entry[name], bool):
        raise _NoText(f"`{name}` is not a string")
    return str(entry[name])


def _text(entry: Any) -> str:
    name = next((name for name in TEXTS if name in entry), None)
    if name is None:
        raise _NoText(f"no `text` (or contents, passage, query): it has {', '.join(entry)}")
    # Some exports write null for what is empty, and a list of paragraphs.
    title, body = entry.get("title") or "", entry[name] or ""
    if isinstance(body, list) and all(isinstance(paragraph, str) for paragraph in body):
        body = " ".join(body)
    if not isinstance(title, str) or not isinstance(body, str):
        raise _NoText(f"`{name if isinstance(title, str) else 'title'}` is not a string")
    return f"{title} {body}" if title else body


def _label(entry: Any, key: str) -> str | None:
    metadata = entry.get("metadata")
    label = metadata.get(key) if isinstance(metadata, dict) else None
    return None if label is None or label == "" else str(label)
