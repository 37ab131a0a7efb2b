"""Turns a collection into flat arrays of token ids, judgements and splits, made once for all runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.ascending import find
from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.contents import content_ids, query_contents, text_hashes
from pyrite.ranking.labels import LabelCounts, encode_labels, label_counts
from pyrite.ranking.reading import WORDS, Reading, words_of
from pyrite.ranking.texts import Texts, taken

PADDING, UNKNOWN = 0, 1
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Judgements:
    """Grades in compressed rows: query `q` judged `documents[offsets[q]:offsets[q+1]]`, ascending.

    Args:
        offsets: int64, one longer than the number of queries.
        documents: int32 document indices.
        grades: int32, as given: gains of nDCG.
        relevant_from: the lowest grade that counts as relevant; a lower one is judged not relevant.
    """

    offsets: NDArray[np.int64]
    documents: NDArray[np.int32]
    grades: NDArray[np.int32]
    relevant_from: int = 1

    def of(self, query: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return documents and grades of one query."""
        row = slice(self.offsets[query], self.offsets[query + 1])
        return self.documents[row], self.grades[row]

    def relevant(self) -> Judgements:
        """Return only relevant documents."""
        return self._where(self.grades >= self.relevant_from)

    def answered(self) -> NDArray[np.bool_]:
        """Return whether each query has a relevant document. One without any is neither trained on nor measured."""
        return np.diff(self.relevant().offsets) > 0

    def not_relevant(self) -> Judgements:
        """Return only documents that are judged and not relevant; −1 (in TREC's pool, not judged) is no judgement."""
        return self._where((self.grades < self.relevant_from) & (self.grades != -1))

    def gaining(self) -> Judgements:
        """Return only documents with a gain in nDCG: a grade above zero, relevant or not."""
        return self._where(self.grades > 0)

    def _where(self, keep: NDArray[np.bool_]) -> Judgements:
        kept = np.concatenate([[0], np.cumsum(keep)])
        return Judgements(kept[self.offsets], self.documents[keep], self.grades[keep], self.relevant_from)

    def with_relevant(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> Judgements:
        """Return these judgements, and the pairs [n] that have none as relevant, with the lowest relevant grade.

        A grade of −1 (in TREC's pool, not judged) is none.
        """
        pooled, today = self.grades == -1, self.rows()
        lowest = np.full(len(queries), self.relevant_from, np.int32)
        # The first of a pair counts: a judgement, then what is added.
        rows = np.concatenate([today[~pooled], queries, today[pooled]])
        columns = np.concatenate([self.documents[~pooled], documents, self.documents[pooled]])
        grades = np.concatenate([self.grades[~pooled], lowest, self.grades[pooled]])
        pairs, first = np.unique(np.stack([rows, columns]), axis=1, return_index=True)
        offsets = np.searchsorted(pairs[0], np.arange(len(self.offsets)))
        return Judgements(offsets, pairs[1].astype(np.int32), grades[first], self.relevant_from)

    def take(self, queries: NDArray[np.integer]) -> Judgements:
        """Return the judgements of some queries [q], which are numbered from 0 in this order."""
        places, offsets = taken(self.offsets, queries)
        return Judgements(offsets, self.documents[places], self.grades[places], self.relevant_from)

    def rows(self) -> NDArray[np.int64]:
        """Return the query of each judgement."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def lookup(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer], unjudged: int = 0
    ) -> NDArray[np.int32]:
        """Return grades of `documents` [q, d] for `queries` [q]; `unjudged` if there is none, or the document is −1."""
        grades, judged = self._find(queries, documents)
        return np.where(judged, grades, unjudged).astype(np.int32)

    def are_relevant(self, queries: NDArray[np.integer], documents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of `documents` [q, d] are judged relevant for `queries` [q]."""
        grades, judged = self._find(queries, documents)
        return judged & (grades >= self.relevant_from)

    def _find(
        self, queries: NDArray[np.integer], documents: NDArray[np.integer]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the grade of each pair, and whether there is one; otherwise it is arbitrary.

        Only the judgements of these queries are read: a batch asks for few of many.
        """
        asked, rows = np.unique(queries, return_inverse=True)
        part = self.take(asked)
        if not len(part.documents):
            return np.zeros(documents.shape, np.int32), np.zeros(documents.shape, bool)
        # A query and a document make one number (int64: millions of both multiply), ascending as judgements are.
        width = int(part.documents.max()) + 1
        inside = (documents >= 0) & (documents < width)
        wanted = rows[:, None] * width + np.where(inside, documents, 0)
        index, judged = find(part.rows() * width + part.documents, wanted)
        return part.grades[index], inside & judged


@dataclass(frozen=True)
class EncodedCollection:
    """The parts of a collection that a run needs, without its strings (ids are added to the results again).

    Args:
        documents: token ids and labels of the documents.
        queries: token ids and labels of the queries.
        idf: float32 [vocabulary], log((N + 1) / (df + 1)) + 1; 0 for padding.
        judgements: grades by query index.
        split: int8 by query, an index into `SPLITS`, −1 if the collection has no split.
        document_key: int32 by document, the rank of its id in ascending byte order. trec_eval
            breaks ties by it.
        content: int32 by document, the index of the first document with the same text after case and white space
            (`pyrite.ranking.contents`); None if all texts are different.
        itself: int32 by query, the content of the document that the query is, −1 if it is none; None if no query is a
            document, or queries may find themselves (`collection.self=keep`).
        merges: whether an evaluation takes documents with the same text as one (`collection.duplicates=merge`).
        query_content: int32 by query, a number that queries with the same text share, as in a mixture of collections;
            None if all texts are different.
    """

    documents: Texts
    queries: Texts
    idf: NDArray[np.float32]
    judgements: Judgements
    split: NDArray[np.int8]
    document_key: NDArray[np.int32]
    content: NDArray[np.int32] | None = None
    itself: NDArray[np.int32] | None = None
    merges: bool = False
    query_content: NDArray[np.int32] | None = None

    def queries_of(self, split: str) -> NDArray[np.int64]:
        """Return indices of the queries of a split."""
        return np.flatnonzero(self.split == SPLITS.index(split))

    def with_queries(self, queries: NDArray[np.integer]) -> EncodedCollection:
        """Return the same documents and some of the queries, renumbered in this order, with their judgements."""
        itself, content = (None if of is None else of[queries] for of in (self.itself, self.query_content))
        taken, judgements, split = self.queries.take(queries), self.judgements.take(queries), self.split[queries]
        return replace(self, queries=taken, judgements=judgements, split=split, itself=itself, query_content=content)

    @property
    def most_copies(self) -> int:
        """The largest number of documents with the same text."""
        return 1 if self.content is None else int(np.bincount(self.content).max(initial=1))

    def own_documents(self, queries: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the documents that each query is [q, most], −1 after the last (`itself`)."""
        if self.itself is None:
            return np.full((len(queries), 0), -1, np.int32)
        itself = self.itself[queries]
        if self.content is None:
            return itself[:, None].astype(np.int32)
        order = np.argsort(self.content, kind="stable")
        starts, ends = (np.searchsorted(self.content, itself, side, sorter=order) for side in ("left", "right"))
        counts = np.where(itself >= 0, ends - starts, 0)
        columns = np.arange(counts.max(initial=0))
        at = np.minimum(starts[:, None] + columns, len(order) - 1)
        return np.where(columns < counts[:, None], order[at], -1).astype(np.int32)

    def most_documents(self, texts: int) -> int:
        """Return the largest number of documents of `texts` different texts: a search of this depth finds them all."""
        copies = np.ones(0, np.int64) if self.content is None else np.bincount(self.content)
        return max(texts, int(np.sort(copies)[::-1][:texts].sum()))

    def counted(self, documents: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the documents that an evaluation counts these as, of any shape: the first with the same text, if it
        merges them."""
        return self.contents(documents) if self.merges else documents

    def counted_judgements(self) -> Judgements:
        """Return the judgements of `counted` documents, each text with its highest grade."""
        if self.counts_each:
            return self.judgements
        best = self._best_copies()
        offsets = np.searchsorted(self.judgements.rows()[best], np.arange(len(self.judgements.offsets)))
        documents = self.contents(self.judgements.documents[best]).astype(np.int32)
        return Judgements(offsets, documents, self.judgements.grades[best], self.judgements.relevant_from)

    def judged_copies(self, queries: NDArray[np.integer], documents: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the document with the highest grade among those with the text of each `counted` document [q, m], or
        itself if none is judged: other programs know the text by it."""
        if self.counts_each:
            return documents
        copies = replace(self.counted_judgements(), grades=self.judgements.documents[self._best_copies()])
        judged = copies.lookup(queries, documents, unjudged=-1)
        return np.where(judged < 0, documents, judged)

    @property
    def counts_each(self) -> bool:
        """Whether an evaluation counts each document, since texts are different or aren't merged."""
        return self.content is None or not self.merges

    def _best_copies(self) -> NDArray[np.intp]:
        """Return the rows of the judgements that count, by query and text: those with a text's highest grade."""
        rows, texts = self.judgements.rows(), self.contents(self.judgements.documents)
        order = np.lexsort((-self.judgements.grades, texts, rows))
        _, first = np.unique(np.stack([rows, texts])[:, order], axis=1, return_index=True)
        return order[first]

    def contents(self, documents: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the contents of documents of any shape: equal for the same text; −1 for no document (−1)."""
        if self.content is None or not len(self.content):
            return documents
        return np.where(documents < 0, -1, self.content[np.maximum(documents, 0)])

    def have_relevant_text(self, queries: NDArray[np.integer], contents: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which of `contents` [q, m] are those of a document that is relevant for `queries` [q]; −1 is not."""
        relevant, size = self.judgements.take(queries).relevant(), len(self.documents)
        keys = np.unique(relevant.rows() * size + self.contents(relevant.documents))
        _, known = find(keys, np.arange(len(queries))[:, None] * size + contents)
        return known & (contents >= 0)

    def query_contents(self, queries: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return a number for each query, the same for queries with the same text."""
        return queries if self.query_content is None else self.query_content[queries]

    @property
    def label_counts(self) -> LabelCounts:
        """The numbers of categories and subcategories."""
        return label_counts(self.documents, self.queries)


def count_words(frame: pl.DataFrame, limit: int, reading: Reading = WORDS) -> pl.DataFrame:
    """Return the number of texts that hold each word (word, count), in the first `limit` words of each."""
    seen = (words.list.unique().explode().drop_nulls().rename("word") for words in words_of(frame, limit, reading))
    return _sum_of_counts(words.value_counts(name="count") for words in seen)


def merge_counts(
    parts: Iterable[pl.DataFrame], total: int, min_count: int, max_words: int
) -> tuple[list[str], NDArray[np.float32]]:
    """Return words and their idf, the two ids for padding and unknown first.

    Args:
        parts: results of `count_words`, for all texts together.
        total: the number of texts.
        min_count: the number of texts that must hold a word.
        max_words: the number of words to keep, the most frequent ones.
    """
    counts = _sum_of_counts(parts).filter(pl.col("count") >= min_count)
    counts = counts.sort(["count", "word"], descending=[True, False]).head(max_words)
    idf = np.log((total + 1) / (counts["count"].to_numpy() + 1)) + 1
    unknown = np.log(total + 1) + 1
    return ["", "<unknown>", *counts["word"]], np.concatenate([[0, unknown], idf]).astype(np.float32)


def _sum_of_counts(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    counts = pl.DataFrame(schema={"word": pl.String, "count": pl.UInt32})
    for part in parts:
        more = part.select("word", pl.col("count").cast(pl.UInt32))
        counts = pl.concat([counts, more]).group_by("word").agg(pl.col("count").sum())
    return counts


def encode_texts(frame: pl.DataFrame, vocabulary: list[str], limit: int, reading: Reading = WORDS) -> Texts:
    """Return token ids of the first `limit` words of each text; a text without words is one unknown word."""
    known = pl.Series("word", vocabulary[2:], pl.String)
    ids = pl.DataFrame({"word": known, "id": np.arange(2, len(vocabulary), dtype=np.int32)})
    tokens, lengths = [], []
    for words in words_of(frame, limit, reading):
        words = pl.select(pl.when(words.list.len() > 0).then(words).otherwise(pl.lit(["<unknown>"]))).to_series()
        flat = words.explode().rename("word").to_frame().join(ids, on="word", how="left", maintain_order="left")
        tokens.append(flat["id"].fill_null(UNKNOWN).to_numpy().astype(np.int32))
        lengths.append(words.list.len().to_numpy().astype(np.int64))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]) if lengths else np.zeros(1)
    return Texts(np.concatenate(tokens) if tokens else np.zeros(0, np.int32), offsets.astype(np.int64))


def encode_judgements(collection: Collection, relevant_from: int) -> Judgements:
    """Return judgements by index, with their grades."""
    queries = pl.DataFrame({"query": collection.queries["id"]}).with_row_index("q")
    rows = collection.document_rows(collection.judgements["document"]).alias("d")
    frame = collection.judgements.with_columns(rows).drop_nulls("d").join(queries, on="query").sort(["q", "d"])
    counts = np.bincount(frame["q"].to_numpy(), minlength=len(queries))
    return Judgements(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        frame["d"].to_numpy().astype(np.int32),
        frame["grade"].to_numpy().astype(np.int32),
        relevant_from,
    )


@checked
@dataclass(frozen=True)
class Encoder:
    """The encoding of texts as token ids (`encoding` in the configuration).

    Args:
        min_count: the number of texts that must hold a word for it to get an id.
        max_words: the size of the vocabulary; the most frequent words are kept.
        max_document: words read of a document.
        max_query: words read of a query.
        relevant_from: the lowest grade that counts as relevant.
    """

    min_count: Annotated[int, AtLeast(1)] = 2
    max_words: Annotated[int, AtLeast(1)] = 200_000
    max_document: Annotated[int, AtLeast(1)] = 256
    max_query: Annotated[int, AtLeast(1)] = 32
    relevant_from: Annotated[int, AtLeast(1)] = 1

    def encode(self, collection: Collection) -> tuple[EncodedCollection, list[str]]:
        """Return the encoded collection, and the word of each token id."""
        reading = collection.reading
        frames = (collection.documents, collection.queries)
        counts = [count_words(frame, self.max_document, reading) for frame in frames]
        total = len(collection.documents) + len(collection.queries)
        vocabulary, idf = merge_counts(counts, total, self.min_count, self.max_words)
        documents = encode_texts(collection.documents, vocabulary, self.max_document, reading)
        return self.with_documents(collection, documents, vocabulary, idf), vocabulary

    def with_documents(
        self,
        collection: Collection,
        documents: Texts,
        vocabulary: list[str],
        idf: NDArray[np.float32],
        hashes: NDArray[np.uint64] | None = None,
    ) -> EncodedCollection:
        """Return the encoded collection if its documents are encoded already.

        Args:
            documents: token ids, without labels.
            vocabulary, idf: the words and their idf, from `merge_counts`.
            hashes: `pyrite.ranking.contents.text_hashes` of the documents; None computes them.
        """
        split = collection.queries["split"].replace_strict(list(SPLITS), [0, 1, 2], default=-1, return_dtype=pl.Int8)
        of_documents, of_queries = encode_labels(collection)
        hashes = text_hashes(collection.documents["text"]) if hashes is None else hashes
        content = content_ids(hashes)
        itself = query_contents(collection, hashes, content) if collection.self_documents == "drop" else None
        judgements = encode_judgements(collection, self.relevant_from)
        if itself is not None:
            itself = _not_relevant(itself, judgements, content)
        query_content = content_ids(text_hashes(collection.queries["text"]))
        return EncodedCollection(
            documents=replace(documents, labels=of_documents),
            queries=replace(
                encode_texts(collection.queries, vocabulary, self.max_query, collection.reading), labels=of_queries
            ),
            idf=idf,
            judgements=judgements,
            split=split.fill_null(-1).to_numpy(),
            document_key=collection.document_keys(),
            content=_if_repeated(content),
            itself=itself if itself is not None and (itself >= 0).any() else None,
            merges=collection.duplicates == "merge",
            query_content=_if_repeated(query_content),
        )


def _if_repeated(content: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """Return the contents of texts; None if all texts are different."""
    return content if (content != np.arange(len(content))).any() else None


def unmatched_queries(encoded: EncodedCollection) -> NDArray[np.int64]:
    """Return the queries none of whose words is in a document: nothing that counts words finds anything for them."""
    texts = encoded.documents
    occurs = np.zeros(len(encoded.idf), bool)
    for start in range(0, len(texts.tokens), 1 << 24):
        occurs[texts.tokens[start : start + (1 << 24)]] = True
    occurs[[PADDING, UNKNOWN]] = False
    matched = np.concatenate([[0], np.cumsum(occurs[encoded.queries.tokens])])
    return np.flatnonzero(np.diff(matched[encoded.queries.offsets]) == 0)


def _not_relevant(itself: NDArray[np.int32], judgements: Judgements, content: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return `itself` with −1 for queries whose own document is judged relevant for them."""
    relevant = judgements.relevant()
    rows = relevant.rows()
    judged = np.unique(rows[content[relevant.documents] == itself[rows]])
    kept = itself.copy()
    kept[judged] = -1
    return kept
