"""Reads documents and queries from JSON lines and parquet, under the names that BEIR, Pyserini and Tevatron use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyrite.ranking.collections.faults import Faults, RowFault, refuse_row
from pyrite.ranking.collections.json_rows import HALF_CHARACTER, JsonPoint, are, array_items, json_lines
from pyrite.ranking.collections.lines import lines
from pyrite.ranking.collections.names import IDS, TEXT, TITLE, first
from pyrite.ranking.collections.row_files import read_rows
from pyrite.ranking.collections.row_values import titled

NAMES = ("_id", "id", "query_id", "qid", *(name for name in IDS if name not in ("_id", "id")))
TEXTS = (*TEXT, "query")
Entry = tuple[object, ...]
"""Id, text, category, subcategory, file and line."""


def read_entries(file: Path, faults: Faults, within: tuple[int, int] | None = None) -> Iterator[Entry]:
    """Yield the documents or queries of parquet, JSON lines, or one JSON array; see `json_lines` for `within`."""
    entries: Iterator[tuple[int, Any]]
    if file.suffix == ".parquet":
        entries = read_rows(file, faults)
    elif within is None and next(lines(file, Faults(strict=False)), (0, ""))[1].lstrip().startswith("["):
        entries = array_items(file, faults)
    else:
        entries = json_lines(file, faults, within=within, parse=json.loads)
    for number, entry in entries:
        try:
            row = _identifier(entry), _text(entry), _label(entry, "category"), _label(entry, "subcategory")
            "".join(filter(None, row)).encode()
        except UnicodeEncodeError:
            faults.report("broken line", HALF_CHARACTER, file, number)
        except RowFault as fault:
            faults.report_row(fault, file, number)
        else:
            yield *row, str(file), number


def _identifier(entry: object) -> str:
    if not isinstance(entry, dict):
        raise RowFault("not a JSON object")
    name = first(NAMES, entry)
    if name is None:
        raise RowFault(f"no `_id` (or id, docid, docno, qid): it has {', '.join(entry) or 'nothing'}")
    is_id = isinstance(entry[name], str | int) and not isinstance(entry[name], bool | JsonPoint)
    refuse_row(not is_id, f"`{name}` is not a string")
    return str(entry[name])


def _text(entry: Any) -> str:
    name = first(TEXTS, entry)
    if name is None:
        raise RowFault(f"no `text` (or contents, passage, query): it has {', '.join(entry)}")
    # Some exports write null for what is empty, and a list of paragraphs.
    texts = {key: entry.get(key) or "" for key in (TITLE, name)}
    if isinstance(texts[name], list) and are(str, texts[name]):
        texts[name] = " ".join(texts[name])
    wrong = [key for key, text in texts.items() if type(text) is not str]  # a number is a kind of text
    refuse_row(wrong, f"`{', '.join(wrong[:1])}` is not a string")
    return titled(texts[TITLE], texts[name])


def _label(entry: Any, key: str) -> str | None:
    metadata = entry.get("metadata")
    label = metadata.get(key) if isinstance(metadata, dict) else None
    return None if label in (None, "") else str(label)
