"""BM25 over pieces: scores and lists of one index of all documents, to the bit."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ranking import bm25_pieces, reading
from ranking.bm25 import Bm25, Bm25Options
from ranking.bm25_pieces import PiecedBm25, fewer_first
from ranking.collections.arrow_files import mapped, write
from ranking.collections.build import STORED
from ranking.collections.collection import Collection
from ranking.collections.pieces import piece_file
from tests.ranking.test_bm25 import PLAIN, by_chance

EVERY = np.arange(30)


@pytest.fixture
def collections(tmp_path) -> tuple[Collection, Collection]:
    """The same texts in one piece and in seven of unequal size, one of them empty."""
    return both(by_chance(), [0, 1, 30, 30, 90, 91, 170, 200], tmp_path)


def both(collection: Collection, bounds: list[int], folder: Path) -> tuple[Collection, Collection]:
    """A collection in one piece, and in pieces between these rows."""
    whole = replace(collection, fingerprint="f")
    blank = [pl.lit(None, pl.String).alias(name) for name in ("category", "subcategory")]
    documents = whole.documents.with_row_index("id").with_columns(pl.col("id").cast(pl.String), *blank)
    files = []
    for number, (start, stop) in enumerate(pairwise(bounds)):
        files.append(folder / piece_file(number))
        write(files[-1], STORED["documents"], [documents[start:stop]])
    frame = pl.concat([mapped(file) for file in files], rechunk=False)
    return whole, replace(whole, documents=frame, files=tuple(files), rows=tuple(len(mapped(file)) for file in files))


def assert_same(whole: Collection, parts: Collection, options: Bm25Options, *asked: Any) -> None:
    """An index of the pieces gives the bytes of that of the whole."""
    expected, of_pairs = Bm25(whole, options).search(*asked)
    found, of_pairs_too = PiecedBm25(parts, options).search(*asked)
    assert expected.documents.tobytes() == found.documents.tobytes()
    assert expected.scores.tobytes() == found.scores.tobytes()
    assert of_pairs.tobytes() == of_pairs_too.tobytes()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("options", [PLAIN, Bm25Options(), Bm25Options(1.2, 0.75, None, False), Bm25Options(0, 0)])
@pytest.mark.parametrize("many", [1, 1000])
def test_scores_and_lists_are_those_of_one_piece(collections, options, many, monkeypatch):
    monkeypatch.setattr(bm25_pieces, "MANY", many)
    monkeypatch.setattr(reading, "CHUNK", 25)
    whole, parts = collections
    pairs = np.random.default_rng(2).integers(-1, 200, (30, 50))
    for depth in (15, 0, 300):
        assert_same(whole, parts, options, EVERY, depth, pairs)
    assert_same(whole, parts, options, np.array([17, 3, 3]), 15)


def test_long_lists_of_postings_and_many_blocks(tmp_path, monkeypatch):
    """So many that documents are left out, with queries, lists and postings in blocks."""
    for name, size in (("MANY", 1), ("BLOCK", 7), ("MERGED", 3)):
        monkeypatch.setattr(bm25_pieces, name, size)
    whole, parts = both(by_chance(4000), [0, 2500, 4000], tmp_path)
    pairs = np.random.default_rng(2).integers(-1, 4000, (30, 20))
    assert_same(whole, parts, Bm25Options(0.9, 0.4, None, False), EVERY, 2, pairs)


@pytest.mark.parametrize("best_in", [0, 3, None])
def test_pieces_are_asked_for_their_share_first(best_in):
    """The lists are those of whole depth wherever the best are, and only pieces that may have more are asked again."""
    ranges, depth, queries = [range(100 * n, 100 * n + 100) for n in range(12)], 30, 40
    rng = np.random.default_rng(0)
    scores = rng.integers(1, 50, (queries, 1200)).astype(np.float32)  # with ties
    if best_in is not None:
        scores[:, ranges[best_in].start : ranges[best_in].stop] += 100
    scores[:5, 20:] = 0  # fewer than the depth
    asked = []

    def ask(rows: list[np.ndarray], depth: int, pairs: np.ndarray) -> list[Any]:
        asked.append((depth, sum(map(len, rows))))
        results = []
        for some, held in zip(rows, ranges, strict=True):
            part = scores[some][:, held.start : held.stop]
            order = np.lexsort((np.broadcast_to(np.arange(100), part.shape), -part), axis=1)[:, :depth]
            values = np.take_along_axis(part, order, 1)
            none = values <= 0
            results.append((np.where(none, -1, order).astype(np.int32), np.where(none, -np.inf, values), pairs[some]))
        return results

    pairs = np.zeros((queries, 2), np.float32)
    documents, values, of_pairs = fewer_first(ask, ranges, depth, pairs)
    expected = bm25_pieces.merged(ask([np.arange(queries)] * 12, depth, pairs), ranges, depth)
    assert documents.tobytes() == expected[0].tobytes()
    assert values.tobytes() == expected[1].tobytes()
    assert of_pairs.shape == (queries, 2)
    assert asked[0] == (9, 12 * queries)
    assert asked[1][0] == depth
    assert asked[1][1] < 2 * queries


def test_what_is_counted_stays_where_it_is_interrupted(collections):
    parts, counted = collections[1], []

    def interrupted(task: Callable[[int], None], count: int) -> None:
        for number in range(count):
            if number == 5:
                raise KeyboardInterrupt
            task(number)

    def look(task: Callable[[int], None], count: int) -> None:
        place = parts.pieces[0].parent
        counted.append(len(list(place.glob("bm25-*/*/offsets.npy"))))
        for number in range(count):
            task(number)

    with pytest.raises(KeyboardInterrupt):
        PiecedBm25(parts, PLAIN, interrupted)
    found = PiecedBm25(parts, PLAIN, look).search(EVERY, 10)[0]
    assert counted == [5, 7]  # five of seven were there; then all are weighed
    assert found.documents.tobytes() == Bm25(collections[0], PLAIN).search(EVERY, 10)[0].documents.tobytes()
    PiecedBm25(parts, PLAIN, look)
    assert counted == [5, 7]  # made once
