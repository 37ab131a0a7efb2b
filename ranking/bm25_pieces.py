"""Ranks a collection in pieces by BM25: statistics are gathered over all pieces, each is searched, lists are merged."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
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
"""Stands in a folder whose postings are all weighed."""
BLOCK = 20_000
"""Queries that are searched at once."""
MERGED = 1_000
"""Queries whose lists are merged at once."""
WEIGHED = 1 << 20
"""Postings that are weighed at once."""
MANY = 1_000
"""Queries from which on the pieces are searched by tasks."""
OFFSETS, DOCUMENTS, WEIGHTS, BOUNDS, COUNTS, LENGTHS = (
    f"{name}.npy" for name in ("offsets", "documents", "weights", "bounds", "counts", "lengths")
)


@dataclass(frozen=True)
class CountTerms:
    """Writes the postings of a piece: which of its documents have a term of any query, and how often; and all lengths.

    Terms that no query has add to the length of a document and nothing else, so they get no postings.

    Args:
        pieces: files of the documents.
        folder: of the index.
        options: how text is read.
        terms: of all queries, numbered.
    """

    pieces: tuple[Path, ...]
    folder: Path
    options: Bm25Options
    terms: Path

    def __call__(self, number: int) -> None:
        place = _place(self.folder, number)
        if at_hand(place / OFFSETS):
            return
        known = mapped(self.terms)["term"].to_list()
        reader, frame = Terms(self.options, known), mapped(self.pieces[number])
        counted, lengths = [], [np.zeros(0, np.int32)]
        first = 0
        for flat, own in reader.flat(frame):
            lengths.append(own.astype(np.int32))
            counted.append(_counted(flat, own, first, len(known)))
            first += len(own)
        held = [np.zeros(len(known), np.int64), *(np.bincount(terms, minlength=len(known)) for terms, _, _ in counted)]
        offsets = np.zeros(len(known) + 1, np.int64)
        np.cumsum(np.sum(held, axis=0, dtype=np.int64), out=offsets[1:])
        documents, counts = np.zeros(offsets[-1], np.int32), np.zeros(offsets[-1], np.float32)
        free = offsets[:-1].copy()  # where the next posting of each term goes
        for (terms, rows, times), own in zip(counted, held[1:], strict=True):
            before = np.cumsum(own) - own
            places = np.arange(len(terms)) + (free - before)[terms]
            documents[places], counts[places] = rows, times
            free += own
        write_array(place / COUNTS, counts)
        write_array(place / DOCUMENTS, documents)
        write_array(place / LENGTHS, np.concatenate(lengths))
        write_array(place / OFFSETS, offsets)


def _counted(
    flat: NDArray[np.int32], lengths: NDArray[np.int64], first: int, known: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Each known term of each text once: the term, the text's row and how often; by term, then by row.

    Args:
        flat, lengths: of `Terms.flat`.
        first: row of the first text.
        known: how many terms are known; others have higher numbers.
    """
    of_queries = flat < known
    rows = np.repeat(np.arange(len(lengths)), lengths)[of_queries]
    keys, times = np.unique(flat[of_queries].astype(np.int64) * len(lengths) + rows, return_counts=True)
    terms, rows = np.divmod(keys, max(1, len(lengths)))
    return terms.astype(np.int32), (rows + first).astype(np.int32), times.astype(np.float32)


@dataclass(frozen=True)
class Weigh:
    """Writes BM25's score of each posting of a piece, from what is known of all pieces.

    Args:
        folder: of the index.
        options: k1 and b.
        mean: terms of a document, over all.
    """

    folder: Path
    options: Bm25Options
    mean: float

    def __call__(self, number: int) -> None:
        place, k1, b = _place(self.folder, number), self.options.k1, self.options.b
        if at_hand(place / WEIGHTS):
            return
        lengths, offsets = open_array(place / LENGTHS), open_array(place / OFFSETS)
        documents, counts = open_array(place / DOCUMENTS), open_array(place / COUNTS)
        idf, weights = open_array(self.folder / "idf.npy"), np.zeros(len(documents), np.float32)
        for start in range(0, len(documents), WEIGHED):
            some = slice(start, start + WEIGHED)
            terms = np.searchsorted(offsets, np.arange(start, min(start + WEIGHED, len(documents))), side="right") - 1
            # As bm25s computes it, in the same order: float64 but for the parts that it keeps as float32.
            longer = k1 * ((1 - b) + b * lengths[documents[some]] / np.float64(self.mean))
            weights[some] = (idf[terms] * (counts[some] / (longer + counts[some]))).astype(np.float32)
        write_array(place / BOUNDS, largest_weights(np.asarray(offsets), weights))
        write_array(place / WEIGHTS, weights)


@dataclass(frozen=True)
class SearchPiece:
    """Searches a piece for queries and writes what it finds.

    Args:
        folder: of the index.
        found: folder for what is found.
        ranges: the documents of each piece.
        terms, offsets: of the queries, back to back.
        depth: length of a list.
        pairs: documents to score for each query.
    """

    folder: Path
    found: Path
    ranges: list[range]
    terms: NDArray[np.int64]
    offsets: NDArray[np.int64]
    depth: int
    pairs: NDArray[np.int32]

    def __call__(self, number: int) -> None:
        asked = np.split(self.terms, self.offsets[1:-1])
        found = search_piece(self.folder, number, self.ranges[number], asked, self.depth, self.pairs, 1)
        for name, array in zip(("documents", "scores", "pairs"), found, strict=True):
            write_array(self.found / f"{name}-{number:05d}.npy", array)


class PiecedBm25(Bm25Index):
    """BM25 over documents in pieces: what `ranking.bm25.Bm25` finds, with the memory of a piece.

    The postings lie beside the pieces, in a folder of their own for each set of options, and are made once.

    Args:
        collection: in several pieces, or in one that is cut.
        options: text processing, k1 and b.
        run: does the tasks, of a piece each.
        shards: pieces that a collection of one piece is cut into; another has its own.
        cut: folder for the index of a collection of one piece.
    """

    def __init__(
        self,
        collection: Collection,
        options: Bm25Options,
        run: Run = in_turn,
        shards: int = 1,
        cut: Path | None = None,
    ) -> None:
        self.options, self.run = options, run
        content = [FORMAT, collection.fingerprint, astuple(options)]
        if collection.pieces:
            self.folder = collection.pieces[0].parent / f"bm25-{digest(content)}"
        else:
            assert cut is not None
            self.folder = cut / f"bm25-{digest([*content, shards])}"
            collection = _cut(collection, self.folder, shards)
        reader = Terms(options)
        self.queries = reader.tokenize(collection.queries)
        # Words are learned in no particular order: terms in that of the alphabet make the same files each time.
        order = sorted(reader.terms, key=reader.terms.__getitem__)
        known = sorted(order)
        place = np.searchsorted(known, order) if known else np.zeros(0, np.int64)
        self.queries = [place[query].astype(np.int64) for query in self.queries]
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
        found = [self._by_tasks(terms[block], depth, pairs[block]) for block in blocks]
        documents, scores, of_pairs = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return documents, scores, of_pairs

    def _by_tasks(self, terms: list[NDArray[np.integer]], depth: int, pairs: NDArray[np.int32]) -> Searched:
        place = self.folder / f"found-{uuid4().hex[:8]}"
        names = "documents", "scores", "pairs"
        files = [[place / f"{name}-{number:05d}.npy" for name in names] for number in range(len(self.ranges))]
        try:
            offsets = np.concatenate([[0], np.cumsum([len(own) for own in terms])]).astype(np.int64)
            flat = np.concatenate(terms)
            self.run(SearchPiece(self.folder, place, self.ranges, flat, offsets, depth, pairs), len(self.ranges))
            found = [tuple(open_array(file) for file in own) for own in files]
            return merged(found, self.ranges, depth)  # type: ignore[arg-type]
        finally:
            for file in itertools.chain.from_iterable(files):
                withdraw(file)
            shutil.rmtree(place, ignore_errors=True)

    def _make(self, collection: Collection, known: list[str]) -> None:
        """Count the terms of each piece, add up, and weigh the postings of each."""
        self.folder.mkdir(exist_ok=True, parents=True)
        if at_hand(self.folder / MADE):
            return
        terms, count = self.folder / "terms.arrow", len(collection.files)
        write_whole(terms, {"term": pl.String()}, [pl.DataFrame({"term": known}, schema={"term": pl.String})])
        self.run(CountTerms(collection.files, self.folder, self.options, terms), count)
        total, length, frequencies = 0, 0, np.zeros(len(known), np.int64)
        for number in range(count):
            lengths = open_array(_place(self.folder, number) / LENGTHS)
            total, length = total + len(lengths), length + int(lengths.sum(dtype=np.int64))
            frequencies += np.diff(open_array(_place(self.folder, number) / OFFSETS))
        idf = [math.log(1 + (total - df + 0.5) / (df + 0.5)) for df in frequencies.tolist()]
        write_array(self.folder / "idf.npy", np.array(idf, np.float32))
        self.run(Weigh(self.folder, self.options, length / total if length else 1.0), count)
        for number in range(count):
            withdraw(_place(self.folder, number) / COUNTS)
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
    """What some pieces have for queries together, by rows of the collection.

    Args:
        folder: of the index.
        held: numbers of the pieces, and the documents of each.
        terms, depth, pairs, threads: of `Bm25Index.find`.
    """
    found = [search_piece(folder, number, own, terms, depth, pairs, threads) for number, own in held.items()]
    return merged(found, list(held.values()), depth)


def merged(found: Sequence[Searched], ranges: Sequence[range], depth: int) -> Searched:
    """The best of several pieces, by rows of the collection.

    Args:
        found: of each, by rows of its own.
        ranges: the documents of each.
        depth: length of a list.
    """
    best = []
    for start in range(0, len(found[0][0]), MERGED):
        some = slice(start, start + MERGED)
        lists = [(rows[some], scores[some].astype(np.float64)) for rows, scores, _ in found]
        best.append(merge(lists, ranges, depth))
    documents = np.concatenate([np.zeros((0, depth), np.int32), *(rows for rows, _ in best)])
    scores = np.concatenate([np.zeros((0, depth)), *(own for _, own in best)])
    of_pairs = found[0][2]
    for _, _, own in found[1:]:
        of_pairs = np.maximum(of_pairs, own)
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
    """What one piece has for queries, by rows of its own; scores of its documents among `pairs`, −inf for others."""
    place = _place(folder, number)
    names = OFFSETS, DOCUMENTS, WEIGHTS, BOUNDS
    offsets, documents, weights, bounds = (np.asarray(open_array(place / name)) for name in names)
    postings = Postings(offsets, documents, weights, bounds, len(held))
    return search_postings(postings, terms, depth, within(pairs, held).astype(np.int32), threads)


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}"


def _cut(collection: Collection, folder: Path, shards: int) -> Collection:
    """A collection of one piece with its documents in files of about as many each."""
    bounds = [collection.size * number // shards for number in range(shards + 1)]
    files = tuple(folder / piece_file(number) for number in range(shards))
    if not at_hand(folder / MADE):
        for file, (start, stop) in zip(files, itertools.pairwise(bounds), strict=True):
            if not at_hand(file):
                write_whole(file, STORED["documents"], [collection.documents[start:stop]])
    return collection.changed(files=files, rows=tuple(stop - start for start, stop in itertools.pairwise(bounds)))
