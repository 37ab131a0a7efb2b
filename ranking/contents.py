"""Finds documents with the same text, and queries that are documents of the collection."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.collections.collection import Collection

CHUNK = 50_000
"""Texts hashed at a time."""
LETTERS = 20
"""Letters from which a text at an end of another is no chance."""


def normalized(texts: pl.Series) -> pl.Series:
    """Return texts in a form that is equal if they differ only in case, white space or Unicode composition.

    >>> normalized(pl.Series(["The  otter", "the otter "])).to_list()
    ['the otter', 'the otter']
    """
    return texts.str.normalize("NFC").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(" ")


def text_hashes(texts: pl.Series) -> NDArray[np.uint64]:
    """Return a number for each text, equal for texts that are equal when `normalized`.

    Among ten million different texts, two have the same number with a probability of 3·10⁻⁶.
    """
    parts = [normalized(texts.slice(start, CHUNK)).hash().to_numpy() for start in range(0, len(texts), CHUNK)]
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def content_ids(hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the content of each document: the index of the first document with the same text, int32 [documents]."""
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    return first[number].astype(np.int32)


def query_contents(collection: Collection, hashes: NDArray[np.uint64], content: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the content of the document that each query is, int32 [queries]; −1 if it is none.

    A query is a document if their texts are the same and the document is not judged relevant for it, or if they have
    the same id and one text of `LETTERS` or more begins or ends the other (a document may have a title, as in ArguAna,
    or a query be one). Ids alone do not decide: in many collections both are numbered from 1, and a keyword occurs in
    many documents. `hashes` and `content` are those of the documents.
    """
    queries = collection.queries
    contents = np.full(len(queries), -1, np.int32)
    order = np.argsort(hashes, kind="stable")
    wanted = text_hashes(queries["text"])
    at = np.minimum(np.searchsorted(hashes, wanted, sorter=order), max(len(hashes) - 1, 0))
    if len(hashes):
        same_text = hashes[order[at]] == wanted
        contents[same_text] = content[order[at[same_text]]]
    rows = collection.document_rows(queries["id"])
    same_id = np.flatnonzero(rows.is_not_null().to_numpy() & (contents < 0))
    if len(same_id):
        documents = rows.gather(same_id.astype(np.uint32)).to_numpy()
        texts = pl.DataFrame({
            "query": normalized(queries["text"].gather(same_id.astype(np.uint32))),
            "document": normalized(collection.gather("text", documents)),
        })  # fmt: skip
        contained = texts.select(_is_end_of("query", "document") | _is_end_of("document", "query")).to_series()
        contents[same_id[contained.to_numpy()]] = content[documents[contained.to_numpy()]]
    return contents


def _is_end_of(part: str, whole: str) -> pl.Expr:
    """Return whether a text begins or ends another, up to a blank, and is long enough that this is no chance."""
    text, blank = pl.col(part), pl.lit(" ")
    ends = pl.col(whole).str.starts_with(text + blank) | pl.col(whole).str.ends_with(blank + text)
    return ends & (text.str.len_chars() >= LETTERS)


def repeated_in_row(contents: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return which entries of contents [b, m] occur earlier in their row; negative ones never count."""
    order = np.argsort(contents, axis=1, kind="stable")
    ascending = np.take_along_axis(contents, order, 1)
    repeated = np.zeros(contents.shape, bool)
    repeated[:, 1:] = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)
    out = np.zeros(contents.shape, bool)
    np.put_along_axis(out, order, repeated, 1)
    return out
