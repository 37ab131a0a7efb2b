"""Ranks a collection in pieces by BM25: gathers statistics over all pieces, searches each, and merges the lists."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ranking.backing import at_hand, publish, withdraw
from ranking.bm25 import Bm25Index
from ranking.collections.arrow_files import mapped, write_whole
from ranking.collections.build import STORED
from ranking.collections.collection import Collection
from ranking.collections.pieces import Run, in_turn, piece_file
from ranking.digest import digest
from ranking.mapped import open_array, write_array
from ranking.postings import Postings, Searched, largest_weights, search_postings
from ranking.ranges import merge, within
from ranking.terms import Bm25Options, Terms

FORMAT = 2
MADE = "made"
"""A file in the folder of an index whose postings all have weights."""
BLOCK = 20_000
"""Queries that are searched at once."""
MERGED = 1_000
"""Queries whose lists are merged at once."""
WEIGHED = 1 << 20
"""Postings whose weights are computed at once."""
MANY = 1_000
"""The number of queries from which the pieces are searched by tasks."""
OFFSETS, DOCUMENTS, WEIGHTS, BOUNDS, COUNTS, LENGTHS = (
    f"{name}.npy" for name in ("offsets", "documents", "weights", "bounds", "counts", "lengths")
)


@dataclass(frozen=True)
class CountTerms:
    """A task that writes the postings of a piece: its documents with each query term, the counts, and all lengths.

    Terms that no query has only add to the length of a document, so they get no postings.

    Args:
        pieces: the files of the documents.
        folder: the folder of the index.
        options: how text is read.
        terms: the numbered terms of all queries.
    """

    pieces: tuple[Path, ...]
    folder: Path
    options: Bm25Options
    terms: Path

    def __call__(self, number: int) -> None:
        folder = _folder_of(self.folder, number)
        if at_hand(folder / OFFSETS):
            return
        known = mapped(self.terms)["term"].to_list()
        reader, frame = Terms(self.options, known), mapped(self.pieces[number])
        counted, lengths = [], [np.zeros(0, np.int32)]
        first = 0
        for flat, sizes in reader.flat(frame):
            lengths.append(sizes.astype(np.int32))
            counted.append(_counted(flat, sizes, first, len(known)))
            first += len(sizes)
        held = [np.zeros(len(known), np.int64), *(np.bincount(terms, minlength=len(known)) for terms, _, _ in counted)]
        offsets = np.zeros(len(known) + 1, np.int64)
        np.cumsum(np.sum(held, axis=0, dtype=np.int64), out=offsets[1:])
        documents, counts = np.zeros(offsets[-1], np.int32), np.zeros(offsets[-1], np.float32)
        free = offsets[:-1].copy()  # the index of each term's next posting
        for (terms, rows, times), added in zip(counted, held[1:], strict=True):
            before = np.cumsum(added) - added
            places = np.arange(len(terms)) + (free - before)[terms]
            documents[places], counts[places] = rows, times
            free += added
        write_array(folder / COUNTS, counts)
        write_array(folder / DOCUMENTS, documents)
        write_array(folder / LENGTHS, np.concatenate(lengths))
        write_array(folder / OFFSETS, offsets)


def _counted(
    flat: NDArray[np.int32], lengths: NDArray[np.int64], first: int, known: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Return each known term of each text once: the term, the text's row and its count; by term, then by row.

    Args:
        flat: the terms of all texts, see `ranking.terms.Terms.flat`.
        lengths: the number of terms of each text.
        first: the row of the first text.
        known: the number of known terms; others have higher numbers.
    """
    of_queries = flat < known
    rows = np.repeat(np.arange(len(lengths)), lengths)[of_queries]
    keys, times = np.unique(flat[of_queries].astype(np.int64) * len(lengths) + rows, return_counts=True)
    terms, rows = np.divmod(keys, max(1, len(lengths)))
    return terms.astype(np.int32), (rows + first).astype(np.int32), times.astype(np.float32)


@dataclass(frozen=True)
class Weigh:
    """A task that writes BM25's score of each posting of a piece, from the statistics of all pieces.

    Args:
        folder: the folder of the index.
        options: k1 and b.
        mean: the mean number of terms of a document, over all pieces.
    """

    folder: Path
    options: Bm25Options
    mean: float

    def __call__(self, number: int) -> None:
        folder, k1, b = _folder_of(self.folder, number), self.options.k1, self.options.b
        if at_hand(folder / WEIGHTS):
            return
        lengths, offsets = open_array(folder / LENGTHS), open_array(folder / OFFSETS)
        documents, counts = open_array(folder / DOCUMENTS), open_array(folder / COUNTS)
        idf, weights = open_array(self.folder / "idf.npy"), np.zeros(len(documents), np.float32)
        for start in range(0, len(documents), WEIGHED):
            some = slice(start, start + WEIGHED)
            terms = np.searchsorted(offsets, np.arange(start, min(start + WEIGHED, len(documents))), side="right") - 1
            # As bm25s computes it, in the same order: float64 except for the parts that it keeps as float32.
            longer = k1 * ((1 - b) + b * lengths[documents[some]] / np.float64(self.mean))
            weights[some] = (idf[terms] * (counts[some] / (longer + counts[some]))).astype(np.float32)
        write_array(folder / BOUNDS, largest_weights(np.asarray(offsets), weights))
        write_array(folder / WEIGHTS, weights)


@dataclass(frozen=True)
class SearchPiece:
    """A task that searches a piece for queries and writes the results.

    Args:
        folder: the folder of the index.
        results: the folder for the results.
        ranges: the documents of each piece.
        terms: the terms of the queries, concatenated.
        offsets: the start of each query's terms.
        depth: the length of a list.
        pairs: documents to score for each query.
    """

    folder: Path
    results: Path
    ranges: list[range]
    terms: NDArray[np.int64]
    offsets: NDArray[np.int64]
    depth: int
    pairs: NDArray[np.int32]

    def __call__(self, number: int) -> None:
        queries = np.split(self.terms, self.offsets[1:-1])
        result = search_piece(self.folder, number, self.ranges[number], queries, self.depth, self.pairs, 1)
        for name, array in zip(("documents", "scores", "pairs"), result, strict=True):
            write_array(self.results / f"{name}-{number:05d}.npy", array)


class PiecedBm25(Bm25Index):
    """BM25 over documents in pieces: the same results as `ranking.bm25.Bm25`, with the memory of one piece.

    The postings are next to the pieces, in one folder per set of options, and are made once.

    Args:
        collection: a collection in several pieces, or in one that is cut.
        options: text processing, k1 and b.
        run: runs the tasks, one per piece.
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
        reader = Terms(options)
        self.queries = reader.tokenize(collection.queries)
        # Words are learned in no particular order: terms in alphabetical order make the same files each time.
        order = sorted(reader.terms, key=reader.terms.__getitem__)
        known = sorted(order)
        number = np.searchsorted(known, order) if known else np.zeros(0, np.int64)
        self.queries = [number[query].astype(np.int64) for query in self.queries]
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
        folder = self.folder / f"found-{uuid4().hex[:8]}"
        names = "documents", "scores", "pairs"
        files = [[folder / f"{name}-{number:05d}.npy" for name in names] for number in range(len(self.ranges))]
        try:
            offsets = np.concatenate([[0], np.cumsum([len(query) for query in terms])]).astype(np.int64)
            flat = np.concatenate(terms)
            self.run(SearchPiece(self.folder, folder, self.ranges, flat, offsets, depth, pairs), len(self.ranges))
            results = [tuple(open_array(file) for file in of_piece) for of_piece in files]
            return merged(results, self.ranges, depth)  # type: ignore[arg-type]
        finally:
            for file in itertools.chain.from_iterable(files):
                withdraw(file)
            shutil.rmtree(folder, ignore_errors=True)

    def _make(self, collection: Collection, known: list[str]) -> None:
        """Count the terms of each piece, add them up, and compute the weights of each piece's postings."""
        self.folder.mkdir(exist_ok=True, parents=True)
        if at_hand(self.folder / MADE):
            return
        terms, count = self.folder / "terms.arrow", len(collection.files)
        write_whole(terms, {"term": pl.String()}, [pl.DataFrame({"term": known}, schema={"term": pl.String})])
        self.run(CountTerms(collection.files, self.folder, self.options, terms), count)
        total, length, frequencies = 0, 0, np.zeros(len(known), np.int64)
        for number in range(count):
            lengths = open_array(_folder_of(self.folder, number) / LENGTHS)
            total, length = total + len(lengths), length + int(lengths.sum(dtype=np.int64))
            frequencies += np.diff(open_array(_folder_of(self.folder, number) / OFFSETS))
        idf = [math.log(1 + (total - df + 0.5) / (df + 0.5)) for df in frequencies.tolist()]
        write_array(self.folder / "idf.npy", np.array(idf, np.float32))
        self.run(Weigh(self.folder, self.options, length / total if length else 1.0), count)
        for number in range(count):
            withdraw(_folder_of(self.folder, number) / COUNTS)
        (self.folder / MADE).touch()
        publish(self.folder / MADE)


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
        folder: the folder of the index.
        held: the documents of each piece, by its number.
        terms: see `ranking.bm25.Bm25Index.find`.
        depth: see `ranking.bm25.Bm25Index.find`.
        pairs: see `ranking.bm25.Bm25Index.find`.
        threads: see `ranking.bm25.Bm25Index.find`.
    """
    results = [search_piece(folder, number, rows, terms, depth, pairs, threads) for number, rows in held.items()]
    return merged(results, list(held.values()), depth)


def merged(results: Sequence[Searched], ranges: Sequence[range], depth: int) -> Searched:
    """Return the best of several pieces, by rows of the collection.

    Args:
        results: the results of each piece, by its rows.
        ranges: the documents of each piece.
        depth: the length of a list.
    """
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


def _folder_of(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}"


def _cut(collection: Collection, folder: Path, shards: int) -> Collection:
    """Cut the documents of a collection of one piece into files of similar size."""
    bounds = [collection.size * number // shards for number in range(shards + 1)]
    files = tuple(folder / piece_file(number) for number in range(shards))
    if not at_hand(folder / MADE):
        for file, (start, stop) in zip(files, itertools.pairwise(bounds), strict=True):
            if not at_hand(file):
                write_whole(file, STORED["documents"], [collection.documents[start:stop]])
    return collection.changed(files=files, rows=tuple(stop - start for start, stop in itertools.pairwise(bounds)))
