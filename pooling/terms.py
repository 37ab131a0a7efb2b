"""Turns texts of pooled documents into tf·idf vectors, from which orders of judging learn about relevance."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import Stemmer
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pyrite.pooling.pool import Pool, Terms
from pyrite.ranking.lazy import sklearn
from pyrite.ranking.stop_words import STOP_WORDS

NO_TEXT_NOTE = "pooled documents without a text"
"""Name of a note."""
_WORD = re.compile(r"\w+")


def with_terms(pool: Pool, documents: pl.DataFrame, topics: Mapping[str, str]) -> Pool:
    """Return the same pool with the tf·idf vectors of its documents (id, text) and topics (texts by id).

    Words are stemmed, English stop words left out; (1 + ln tf) · idf, idf over the documents of the whole pool, rows of
    unit length. A document without a text has no terms.
    """
    wanted = pl.concat([topic.documents for topic in pool.topics]).unique(maintain_order=True).rename("id").to_frame()
    known = documents.select("id", "text").unique("id", keep="first")
    found = wanted.join(known, on="id", how="left", maintain_order="left")
    rows = {name: row for row, name in enumerate(found["id"])}
    titles = [topics.get(topic.name, "") for topic in pool.topics]
    matrix = _matrix([*found["text"].fill_null("").to_list(), *titles], len(found))
    with_vectors = []
    for number, topic in enumerate(pool.topics):
        topic_texts = matrix[[*(rows[name] for name in topic.documents), len(found) + number]]
        with_vectors.append(replace(topic, pool=topic.pool._replace(terms=_terms(topic_texts))))
    return replace(pool, topics=with_vectors, notes=pool.notes | {NO_TEXT_NOTE: int(found["text"].null_count())})


def matrix_of(terms: Terms) -> csr_array:
    """Return a topic's vectors: float64 [documents + 1, terms], the last row the topic's."""
    width = int(terms.columns.max(initial=0)) + 1
    return csr_array((terms.values, terms.columns, terms.starts), (len(terms.starts) - 1, width))


def rows_of(terms: Terms, kept: NDArray[np.bool_]) -> Terms:
    """Return the vectors of some of the documents, and of the topic."""
    return _terms(matrix_of(terms)[np.append(kept, True)]) if len(terms.starts) else terms


def _terms(matrix: csr_array) -> Terms:
    terms = Terms(matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float64))
    for array in terms:
        array.flags.writeable = False
    return terms


def _matrix(texts: Sequence[str], documents: int) -> csr_array:
    """Compute [texts, terms], with idf by the first `documents` texts."""
    # With pandas this takes most of a second for every process.

    stemmer = Stemmer.Stemmer("english")

    def words(text: str) -> list[str]:
        return list(stemmer.stemWords([word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]))

    vectorizer = sklearn.feature_extraction.text.TfidfVectorizer(analyzer=words, sublinear_tf=True)
    try:
        fitted = vectorizer.fit(texts[:documents])
    except ValueError:  # no words at all
        return csr_array((len(texts), 1))
    return csr_array(fitted.transform(texts))
