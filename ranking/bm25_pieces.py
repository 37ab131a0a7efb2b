"""Ranks a collection in pieces by BM25: gathers statistics over all pieces, searches each, and merges the lists."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.bm25 import Bm25Index
from pyrite.ranking.collections.arrow_files import mapped, write_whole
from pyrite.ranking.collections.build import STORED
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pieces import Run, in_turn, piece_file
from pyrite.ranking.counted_postings import CountedPostings, idf_of, weigh
from pyrite.ranking.digest import digest
from pyrite.ranking.mapped import open_array, write_array
from pyrite.ranking.postings import Postings, Searched, largest_weights, search_postings
from pyrite.ranking.ranges import merge, within
from pyrite.ranking.terms import Bm25Options, TermNumbers

FORMAT = 2
MADE = "made"
"""A file in the folder of an index whose postings all have weights."""
BLOCK = 20_000
"""Queries that are searched at once."""
MERGED = 1_000
"""Queries whose lists are merged at once."""
MANY = 1_000
"""The number of queries from which the pieces are searched by tasks."""
OFFSETS, DOCUMENTS, WEIGHTS, BOUNDS, COUNTS, LENGTHS = (
    f"{name}.npy" for name in ("offsets", "documents", "weights", "bounds", "counts", "lengths")
)


def count_terms(pieces: tuple[Path, ...], folder: Path, options: Bm25Options, terms: Path, number: int) -> None:
    """Write the postings of a piece: its documents with each query term, the counts, and all lengths.

    Terms that no query has only add to the length of a document, so they get no postings.

    Args:
        terms: the file of the numbered terms of all queries.
    """
    part = _folder_of(folder, number)
    if (part / OFFSETS).exists():
        return
    known = mapped(terms)["term"].to_list()
    counted = CountedPostings()
    for flat, sizes in TermNumbers(options, known).flat(mapped(pieces[number])):
        counted.add(flat, sizes, len(known))
    offsets, documents, counts, lengths = counted.take(len(known))
    write_array(part / DOCUMENTS, documents)
    write_array(part / COUNTS, counts)
    write_array(part / LENGTHS, lengths)
    write_array(part / OFFSETS, offsets)  # last: it shows that the others are whole


def weigh_piece(folder: Path, options: Bm25Options, mean: float, number: int) -> None:
    """Write BM25's score of each posting of a piece, from the statistics of all pieces.

    Args:
        mean: the mean number of terms of a document, over all pieces.
    """
    part = _folder_of(folder, number)
    if (part / WEIGHTS).exists():
        return
    names = OFFSETS, DOCUMENTS, COUNTS, LENGTHS
    offsets, documents, counts, lengths = (np.asarray(open_array(part / name)) for name in names)
    weights = np.empty(len(documents), np.float32)
    idf = np.asarray(open_array(folder / "idf.npy"))
    weigh(offsets, documents, counts, lengths, mean, idf, options, weights)
    write_array(part / BOUNDS, largest_weights(offsets, weights))
    write_array(part / WEIGHTS, weights)


class PiecedBm25(Bm25Index):
    """BM25 over documents in pieces: the same results as `pyrite.ranking.bm25.Bm25`, with the memory of one piece.

    The postings are next to the pieces, in one folder per set of options, and are made once.

    Args:
        shards: the number of pieces that a collection of one piece is cut into; any other has its pieces.
        cut: the folder for the index of a collection of one piece.
    """

    def __init__(
        self,
        collection: Collection,
        options: Bm25Options,
        run: Run = in_turn,
        shards: int = 1,
        cut: Path | None = None,
    ) -> None:
        options = options.of(collection)
        self.options, self.run = options, run
        content = [FORMAT, collection.fingerprint, [options.k1, options.b, options.stemming, options.stop_words]]
        if collection.pieces:
            self.folder = collection.pieces[0].parent / f"bm25-{digest(content)}"
        else:
            assert cut is not None
            self.folder = cut / f"bm25-{digest([*content, shards])}"
            collection = _cut(collection, self.folder, shards)
        reader = TermNumbers(options)
        queries = reader.tokenize(collection.queries)
        # Words are learned in no particular order: terms in alphabetical order make the same files each time.
        known = sorted(reader.terms)
        number = np.searchsorted(known, list(reader.terms))
        self.queries = [number[query].astype(np.int64) for query in queries]
        self._make(collection, known)
        ends = np.cumsum(collection.rows).tolist()
        self.ranges = [range(end - size, end) for end, size in zip(ends, collection.rows, strict=True)]

    def find(
        self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32], threads: int | None
    ) -> Searched:
        held = dict(enumerate(self.ranges))
        if len(terms) < MANY:
            return search_pieces(self.folder, held, terms, depth, pairs, threads)
        blocks = [slice(start, start + BLOCK) for start in range(0, len(terms), BLOCK)]
        results = [self._by_tasks(terms[block], depth, pairs[block]) for block in blocks]
        documents, scores, of_pairs = (np.concatenate(parts) for parts in zip(*results, strict=True))
        return documents, scores, of_pairs

    def _by_tasks(self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32]) -> Searched:
        offsets = np.concatenate([[0], np.cumsum([len(query) for query in terms])]).astype(np.int64)
        flat, count = np.concatenate(terms), len(self.ranges)
        folders = []

        def ask(asked: list[NDArray[np.int64]], depth: int, pairs: NDArray[np.int32]) -> list[Searched]:
            folders.append(folder := self.folder / f"found-{uuid4().hex[:8]}")
            self.run(partial(write_found, self.folder, self.ranges, folder, flat, offsets, asked, depth, pairs), count)
            return [tuple(open_array(file) for file in _found(folder, number)) for number in range(count)]  # type: ignore[misc]

        try:
            return fewer_first(ask, self.ranges, depth, pairs)
        finally:
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _make(self, collection: Collection, known: list[str]) -> None:
        """Count the terms of each piece, add them up, and compute the weights of each piece's postings."""
        self.folder.mkdir(exist_ok=True, parents=True)
        if (self.folder / MADE).exists():
            return
        terms, count = self.folder / "terms.arrow", len(collection.files)
        write_whole(terms, {"term": pl.String()}, [pl.DataFrame({"term": known}, schema={"term": pl.String})])
        self.run(partial(count_terms, collection.files, self.folder, self.options, terms), count)
        total, length, frequencies = 0, 0, np.zeros(len(known), np.int64)
        for number in range(count):
            lengths = open_array(_folder_of(self.folder, number) / LENGTHS)
            total, length = total + len(lengths), length + int(lengths.sum(dtype=np.int64))
            frequencies += np.diff(open_array(_folder_of(self.folder, number) / OFFSETS))
        write_array(self.folder / "idf.npy", idf_of(total, frequencies))
        self.run(partial(weigh_piece, self.folder, self.options, length / total if length else 1.0), count)
        for number in range(count):
            (_folder_of(self.folder, number) / COUNTS).unlink(missing_ok=True)
        (self.folder / MADE).touch()


def search_pieces(
    folder: Path,
    held: Mapping[int, range],
    terms: Sequence[NDArray[np.integer]],
    depth: int,
    pairs: NDArray[np.int32],
    threads: int | None,
) -> Searched:
    """Search several pieces for queries; return rows of the collection.

    Args:
        held: the documents of each piece, by its number.
        terms, depth, pairs, threads: see `pyrite.ranking.bm25.Bm25Index.find`.
    """

    def ask(asked: list[NDArray[np.int64]], depth: int, pairs: NDArray[np.int32]) -> list[Searched]:
        return [
            search_piece(folder, number, rows, [terms[query] for query in some], depth, pairs[some], threads)
            for (number, rows), some in zip(held.items(), asked, strict=True)
        ]

    return fewer_first(ask, list(held.values()), depth, pairs)


def fewer_first(
    ask: Callable[[list[NDArray[np.int64]], int, NDArray[np.int32]], Sequence[Searched]],
    ranges: Sequence[range],
    depth: int,
    pairs: NDArray[np.int32],
) -> Searched:
    """Return the best of several pieces, each of which is asked for about its share of the list first.

    A piece whose last document is in the merged list may have more that belongs there, so it is asked for the whole
    depth. A search costs less the fewer documents it lists: with 12 pieces this takes less than half of the time.

    Args:
        ask: returns the results of each piece from the rows of its queries, a depth, and the pairs of all queries.
        ranges: the documents of each piece.
    """
    share, count = depth / len(ranges), len(pairs)
    first = min(depth, math.ceil(share + 4 * math.sqrt(share)))
    results = ask([np.arange(count)] * len(ranges), first, pairs)
    documents, scores, of_pairs = merged(results, ranges, depth)
    if first in (0, depth) or not count:
        return documents, scores, of_pairs
    again = []
    for (rows, values, _), held in zip(results, ranges, strict=True):
        last, score = rows[:, -1] + held.start, values[:, -1]
        ahead = (score > scores[:, -1]) | ((score == scores[:, -1]) & (last <= documents[:, -1]))
        again.append(np.flatnonzero((rows[:, -1] >= 0) & (ahead | (documents[:, -1] < 0))))
    some = np.unique(np.concatenate(again))
    more = ask(again, depth, pairs[:, :0]) if len(some) else []
    for start in range(0, len(some), MERGED):
        block = some[start : start + MERGED]
        lists = [_extended(*each, block, depth) for each in zip(results, again, more, strict=True)]
        documents[block], scores[block], _ = merged(lists, ranges, depth)
    return documents, scores, of_pairs


def _extended(
    less: Searched, asked: NDArray[np.int64], more: Searched, queries: NDArray[np.int64], depth: int
) -> Searched:
    """Return a piece's lists for some queries: longer ones if it was asked again (and was not lost since)."""
    documents = np.full((len(queries), depth), -1, np.int32)
    scores = np.full((len(queries), depth), -np.inf, np.float32)
    first = less[0].shape[1]
    documents[:, :first], scores[:, :first] = less[0][queries], less[1][queries]
    rows = np.flatnonzero(np.isin(asked, queries) & (more[0][:, 0] >= 0))
    at = np.searchsorted(queries, asked[rows])
    documents[at], scores[at] = more[0][rows], more[1][rows]
    return documents, scores, np.zeros((len(queries), 0), np.float32)


def merged(results: Sequence[Searched], ranges: Sequence[range], depth: int) -> Searched:
    """Return the best of several pieces, by rows of the collection, from the results of each by its rows."""
    best = []
    for start in range(0, len(results[0][0]), MERGED):
        some = slice(start, start + MERGED)
        lists = [(rows[some], scores[some].astype(np.float64)) for rows, scores, _ in results]
        best.append(merge(lists, ranges, depth))
    documents = np.concatenate([np.zeros((0, depth), np.int32), *(rows for rows, _ in best)])
    scores = np.concatenate([np.zeros((0, depth)), *(part for _, part in best)])
    of_pairs = results[0][2]
    for _, _, part in results[1:]:
        of_pairs = np.maximum(of_pairs, part)
    return documents, scores.astype(np.float32), np.asarray(of_pairs)


def search_piece(
    folder: Path,
    number: int,
    held: range,
    terms: Sequence[NDArray[np.integer]],
    depth: int,
    pairs: NDArray[np.int32],
    threads: int | None,
) -> Searched:
    """Search one piece; return its rows, and scores of its documents among `pairs`, −inf for others."""
    part = _folder_of(folder, number)
    names = OFFSETS, DOCUMENTS, WEIGHTS, BOUNDS
    offsets, documents, weights, bounds = (np.asarray(open_array(part / name)) for name in names)
    postings = Postings(offsets, documents, weights, bounds, len(held))
    return search_postings(postings, terms, depth, within(pairs, held).astype(np.int32), threads)


def write_found(
    folder: Path,
    ranges: Sequence[range],
    results: Path,
    flat: NDArray[np.integer],
    offsets: NDArray[np.int64],
    asked: Sequence[NDArray[np.int64]],
    depth: int,
    pairs: NDArray[np.int32],
    number: int,
) -> None:
    """Search one piece for the queries that it is asked for, and write what it finds to `results`.

    Args:
        flat, offsets: the terms of all queries, one after another, and where each query begins.
        asked: the queries of each piece.
    """
    terms = [flat[offsets[query] : offsets[query + 1]] for query in asked[number]]
    found = search_piece(folder, number, ranges[number], terms, depth, pairs[asked[number]], 1)
    for file, array in zip(_found(results, number), found, strict=True):
        write_array(file, array)


def _found(folder: Path, number: int) -> list[Path]:
    """Return the files of a piece's results: documents, scores and those of pairs."""
    return [folder / f"{name}-{number:05d}.npy" for name in ("documents", "scores", "pairs")]


def _folder_of(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}"


def _cut(collection: Collection, folder: Path, shards: int) -> Collection:
    """Cut the documents of a collection of one piece into files of similar size."""
    bounds = [collection.size * number // shards for number in range(shards + 1)]
    files = tuple(folder / piece_file(number) for number in range(shards))
    if not (folder / MADE).exists():
        for file, (start, stop) in zip(files, itertools.pairwise(bounds), strict=True):
            if not file.exists():
                write_whole(file, STORED["documents"], [collection.documents[start:stop]])
    return collection.changed(files=files, rows=tuple(stop - start for start, stop in itertools.pairwise(bounds)))
