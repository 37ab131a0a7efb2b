"""Reads and writes the texts of pooled documents."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pyarrow as pa

from pooling.judging.folder import make_private, private_file
from pooling.pool import Pool
from ranking.collections.arrow_files import mapped, write
from ranking.errors import BadInput
from ranking.whole_file import replace_file

FIELDS = ("category", "subcategory")
"""Metadata of a document that the page shows next to its text."""
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs"}
"""Unicode's categories of control and format characters, such as the zero-width space, and of separators."""
_TEXTS = {"id": pl.String(), "text": pl.String(), **dict.fromkeys(FIELDS, pl.String())}


class PooledDocuments:
    """Texts by id.

    Args:
        texts: id, text and optionally `FIELDS`; of several texts with one id the first counts.
    """

    def __init__(self, texts: pl.DataFrame) -> None:
        self._texts, self._frame = texts["text"], texts
        self._rows = {name: row for row, name in reversed(list(enumerate(texts["id"])))}

    def text(self, document: str) -> str | None:
        """Return the text of a document, None if it is not known."""
        row = self._rows.get(document)
        return None if row is None else self._texts[row]

    def fields(self, document: str) -> dict[str, str]:
        """Return what is known of a document in addition to its text, by name."""
        row = self._rows.get(document)
        if row is None:
            return {}
        known = {name: self._frame[name][row] for name in FIELDS if name in self._frame.columns}
        return {name: str(value) for name, value in known.items() if value is not None}

    def missing(self, pool: Pool) -> tuple[int, int]:
        """Count the pool's documents that are not known, and those that have nothing to read in them; one in several
        topics counts once.
        """
        names = {name for topic in pool.topics for name in topic.documents}
        known = [name for name in names if name in self._rows]
        return len(names) - len(known), sum(not readable(self.text(name)) for name in known)


def readable(text: str | None) -> bool:
    """Return whether there is a text with a character that can be seen."""
    return any(unicodedata.category(character) not in _INVISIBLE for character in text or "")


def pooled(frames: Iterable[pl.DataFrame], pool: Pool) -> Iterable[pl.DataFrame]:
    """Return those documents of a collection that are in the pool: id, text, `FIELDS`. Memory is bounded by one frame.

    Args:
        frames: id, text and maybe more, for example from `Reader.read_documents`.
    """
    wanted = pl.concat([topic.documents for topic in pool.topics]).unique().rename("id").to_frame()
    for frame in frames:
        yield _with_fields(frame).join(wanted, on="id", how="semi", maintain_order="left")


def write_texts(path: Path, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Write texts completely or not at all into a file that only its owner may read, and map it.

    Raises:
        BadInput: if it can't be written.
    """
    try:
        make_private(path.parent)
        with replace_file(path) as temporary:
            private_file(temporary)
            write(temporary, _TEXTS, map(_with_fields, frames))
    except OSError as error:
        raise BadInput(f"can't be written ({error.strerror})", path, "choose another out=") from None
    return mapped(path)


def read_texts(path: Path) -> pl.DataFrame | None:
    """Read the texts in a file that `write_texts` wrote, None if it does not exist."""
    try:
        return mapped(path)
    except (OSError, pa.ArrowException):
        return None


def _with_fields(frame: pl.DataFrame) -> pl.DataFrame:
    absent = [pl.lit(None, pl.String).alias(name) for name in FIELDS if name not in frame.columns]
    return frame.with_columns(absent).select(list(_TEXTS))
