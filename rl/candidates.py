"""Describes each document that an agent may pick by five features, once for each query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.bm25 import Bm25Options
from ranking.encoding import UNKNOWN, EncodedCollection
from ranking.ranked_lists import RankedLists
from ranking.sources import Sources

CANDIDATE_FEATURES = ("tf", "length", "unique", "cosine", "bm25")
HALVES = (4.0, 100.0, 60.0)
"""Occurrences of query terms, words, and distinct words at which a count stands for one half."""
BM25_DEPTH = 100
"""Documents of BM25's list; behind it a rank is not known and its feature is 0."""
CHUNK = 1024


def candidate_table(lists: RankedLists, sources: Sources, documents: int) -> NDArray[np.float32]:
    """The matrix M of each query: five features of each of its nearest documents (Cohen et al. 2019, section 6.2).

    - tf: how often terms of the query stand in the document, as n/(n + 4);
    - length: words of the document, as n/(n + 100);
    - unique: distinct words of the document, as n/(n + 60);
    - cosine: between query and document, as the list has it;
    - bm25: 1 − r/100 for rank r = 0 … 99 of BM25's list, 0 beyond.

    The scales are fixed, so that an agent reads the same numbers in any collection. A table costs
    queries · documents · 20 bytes: 6 MB for 15,000 queries and 20 documents.

    Args:
        lists: nearest documents by cosine, as runs take them.
        sources: the collection, and BM25.
        documents: s_d, from the head of each list.

    Returns:
        float32 [queries, s_d, 5] in −1 … 1; zero where a list is shorter.
    """
    encoded, width = sources.encoded, min(documents, lists.documents.shape[1])
    ranked = sources.bm25(Bm25Options()).search(np.arange(len(lists)), BM25_DEPTH)[0].documents
    table = np.zeros((len(lists), documents, len(CANDIDATE_FEATURES)), np.float32)
    for start in range(0, len(lists), CHUNK):  # to bound the memory
        queries = np.arange(start, min(start + CHUNK, len(lists)))
        shown, cosines = lists.documents[queries, :width], lists.scores[queries, :width]
        found = shown[:, :, None] == ranked[queries, None, :]
        nearness = np.where(found.any(axis=2), 1 - found.argmax(axis=2) / BM25_DEPTH, 0)
        there = shown >= 0
        rows, places = np.nonzero(there)
        counts = _counts(encoded, queries[rows], shown[rows, places])
        table[queries[rows], places, :3] = counts / (counts + HALVES)
        table[queries[rows], places, 3] = np.nan_to_num(np.clip(cosines[there], -1, 1))
        table[queries[rows], places, 4] = nearness[there]
    return table


def _counts(
    encoded: EncodedCollection, queries: NDArray[np.integer], documents: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Occurrences of query terms, words and distinct words of pairs of a query and a document. Shape [pairs, 3]."""
    # A text and a word of it make one number, so that one sorted array tells of all of them what they hold.
    words = len(encoded.idf)
    asked, query_of = np.unique(queries, return_inverse=True)
    held, document_of = np.unique(documents, return_inverse=True)
    terms, texts = encoded.queries.take(asked), encoded.documents.take(held)
    known = terms.tokens != UNKNOWN  # two words that have no id need not be the same word
    wanted = np.unique(np.repeat(np.arange(len(asked)), terms.lengths)[known] * words + terms.tokens[known])
    distinct = np.unique(np.repeat(np.arange(len(held)), texts.lengths) * words + texts.tokens) // words
    unique = np.bincount(distinct, minlength=len(held))
    shown = texts.take(document_of)
    pair = np.repeat(np.arange(len(documents)), shown.lengths)
    occurring = np.isin(query_of[pair] * words + shown.tokens, wanted)
    tf = np.bincount(pair[occurring], minlength=len(documents))
    return np.stack([tf, shown.lengths, unique[document_of]], axis=1).astype(np.float64)
