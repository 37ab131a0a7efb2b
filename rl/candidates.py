"""Describes each document that an agent may pick by five features, once per query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.bm25 import Bm25Options
from pyrite.ranking.encoding import UNKNOWN, EncodedCollection
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.sources import Sources

CANDIDATE_FEATURES = ("tf", "length", "unique", "cosine", "bm25")
HALVES = (4.0, 100.0, 60.0)
"""Numbers of query terms, words and distinct words whose feature is one half."""
BM25_DEPTH = 100
"""Length of BM25's list; the feature of documents beyond it is 0."""
CHUNK = 1024


def candidate_table(lists: RankedLists, sources: Sources, documents: int) -> NDArray[np.float32]:
    """Return the matrix M of each query, float32 [queries, s_d, 5] in −1 … 1; zero if a list is shorter.

    It has five features of the query's nearest documents (Cohen et al. 2019, section 6.2):

    - tf: occurrences n of the query's terms in the document, as n/(n + 4);
    - length: number n of words in the document, as n/(n + 100);
    - unique: number n of distinct words in the document, as n/(n + 60);
    - cosine: the cosine between query and document, from the list;
    - bm25: 1 − r/100 for rank r = 0 … 99 of BM25's list, 0 beyond.

    The scales are fixed, so an agent reads the same numbers in any collection. A table takes queries · documents · 20
    bytes: 6 MB for 15,000 queries and 20 documents.

    Args:
        lists: the nearest documents by cosine, as runs use them.
        documents: s_d, the number of documents from the head of each list.
    """
    encoded, width = sources.encoded, min(documents, lists.documents.shape[1])
    ranked = sources.bm25(Bm25Options()).search(np.arange(len(lists)), BM25_DEPTH)[0].documents
    table = np.zeros((len(lists), documents, len(CANDIDATE_FEATURES)), np.float32)
    for start in range(0, len(lists), CHUNK):  # to bound the memory
        queries = np.arange(start, min(start + CHUNK, len(lists)))
        shown, cosines = lists.documents[queries, :width], lists.scores[queries, :width]
        at_rank = shown[:, :, None] == ranked[queries, None, :]
        nearness = np.where(at_rank.any(axis=2), 1 - at_rank.argmax(axis=2) / BM25_DEPTH, 0)
        present = shown >= 0
        rows, columns = np.nonzero(present)
        counts = _counts(encoded, queries[rows], shown[rows, columns])
        table[queries[rows], columns, :3] = counts / (counts + HALVES)
        table[queries[rows], columns, 3] = np.nan_to_num(np.clip(cosines[present], -1, 1))
        table[queries[rows], columns, 4] = nearness[present]
    return table


def _counts(
    encoded: EncodedCollection, queries: NDArray[np.integer], documents: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Count occurrences of query terms, words and distinct words for pairs of query and document. Shape [pairs, 3]."""
    # A text and a word are one number, so that one sorted array holds the words of all texts.
    words = len(encoded.idf)
    distinct_queries, query_of = np.unique(queries, return_inverse=True)
    distinct_documents, document_of = np.unique(documents, return_inverse=True)
    terms, texts = encoded.queries.take(distinct_queries), encoded.documents.take(distinct_documents)
    known = terms.tokens != UNKNOWN  # two words without an id need not be the same word
    wanted = np.unique(np.repeat(np.arange(len(distinct_queries)), terms.lengths)[known] * words + terms.tokens[known])
    text_of_word = np.unique(np.repeat(np.arange(len(texts)), texts.lengths) * words + texts.tokens) // words
    unique = np.bincount(text_of_word, minlength=len(texts))
    shown = texts.take(document_of)
    pair = np.repeat(np.arange(len(documents)), shown.lengths)
    occurring = np.isin(query_of[pair] * words + shown.tokens, wanted)
    tf = np.bincount(pair[occurring], minlength=len(documents))
    return np.stack([tf, shown.lengths, unique[document_of]], axis=1).astype(np.float64)
