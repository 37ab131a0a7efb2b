"""Looks up which documents must never be a query's negatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.ascending import find
from pyrite.ranking.contents import repeated_in_row
from pyrite.ranking.encoding import EncodedCollection


class RelevantPairs:
    """Looks up quickly which documents are no negatives of a query.

    They are the documents that are judged relevant for it or for a query with the same text (in a mixture), documents
    with the text of one of these, and the query itself if it is a document of the collection
    (`pyrite.ranking.contents`).

    Attributes:
        counts: int64 [queries], the number of such documents.
        size: the number of documents in the collection.
        most_copies: the largest number of documents with the same text.
        only_judged: whether these are the documents that are judged relevant, and no others.
    """

    def __init__(self, encoded: EncodedCollection) -> None:
        relevant = encoded.judgements.relevant()
        self.size, self.encoded, self.most_copies = len(encoded.documents), encoded, encoded.most_copies
        rows, contents = relevant.rows(), encoded.contents(relevant.documents).astype(np.int64)
        self._texts = encoded.query_contents(np.arange(len(encoded.judgements.offsets) - 1)).astype(np.int64)
        # A query's text and a content are one number.
        keys = self._texts[rows] * self.size + contents
        if encoded.itself is not None:
            known = np.flatnonzero(encoded.itself >= 0)
            keys = np.concatenate([keys, self._texts[known] * self.size + encoded.itself[known]])
        self.only_judged = encoded.content is encoded.itself is encoded.query_content is None
        if not self.only_judged:
            keys = np.unique(keys)
        self._keys = keys
        copies = np.ones(len(keys), np.int64)
        if encoded.content is not None:
            copies = np.bincount(encoded.content, minlength=self.size)[keys % max(self.size, 1)]
        most = int(self._texts.max(initial=-1)) + 1
        of_texts = np.bincount(keys // max(self.size, 1), weights=copies, minlength=most)
        self.counts = of_texts.astype(np.int64)[self._texts]

    def contents_of(self, queries: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the contents of all documents that must not be negatives of one of these queries."""
        texts = np.unique(self._texts[queries])
        first, last = np.searchsorted(self._keys, [texts * self.size, (texts + 1) * self.size])
        lengths = last - first
        places = np.arange(lengths.sum()) + np.repeat(first - np.cumsum(lengths) + lengths, lengths)
        return (self._keys[places] % max(self.size, 1)).astype(np.int32)

    def among(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of the documents [b, m] must not be negatives of their query [b]; a missing one (−1) may."""
        contents = self.encoded.contents(documents)
        _, known = find(self._keys, self._texts[queries][:, None] * self.size + contents)
        return known & (documents >= 0)

    def allowed(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of the documents [b, m] may be negatives, each text once: its first document in the row."""
        out = self.among(queries, documents) | (documents < 0)
        if self.encoded.content is not None:
            out |= repeated_in_row(np.where(out, -1, self.encoded.contents(documents)))
        return ~out

    def unjudged_among(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of the documents `among` finds are not judged relevant themselves."""
        out = self.among(queries, documents)
        return out & ~self.encoded.judgements.are_relevant(queries, documents) if out.any() else out
