"""Measures BM25 against bm25s's compiled search, over made-up texts of several sizes, in one thread.

    python -m benchmarks.bm25 --documents 16000 300000 1000000

Prints the seconds of CPU that building and searching take, for both the best of two searches after a warm one, and the
largest memory of this process so far. Both index the same terms, and the scores of both lists are compared.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import bm25s
import numpy as np
import polars as pl

from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.collections.collection import Collection

SMALLEST = ["--documents 300 --queries 20", "--documents 300 --queries 20 --only-ours"]
OPTIONS = Bm25Options(stemming=None, stop_words=False)
VOCABULARY = 100_000


def made_up(documents: int, queries: int, length: float = 57, asked: float = 5) -> Collection:
    """Return texts of words as frequent as Zipf's law has them; a document has `length` of them on average."""
    rng = np.random.default_rng(0)
    share = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    words = pl.Series([f"w{number}" for number in range(VOCABULARY)])

    def texts(count: int, mean: float) -> pl.DataFrame:
        lengths = rng.poisson(mean, count)
        drawn = np.searchsorted(share, rng.random(int(lengths.sum())) * share[-1])
        rows = pl.DataFrame({"row": np.repeat(np.arange(count), lengths), "text": words.gather(drawn)})
        joined = rows.group_by("row", maintain_order=True).agg(pl.col("text").str.join(" "))
        every = pl.DataFrame({"row": np.arange(count)}).join(joined, on="row", how="left", maintain_order="left")
        return every.select(pl.col("text").fill_null(""))

    parts = [texts(min(50_000, documents - start), length) for start in range(0, documents, 50_000)]
    return Collection("made up", "", pl.concat(parts), texts(queries, asked), pl.DataFrame())


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of this process's CPU, and the result."""
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[16_000, 300_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--only-ours", action="store_true", help="leave bm25s out")
    chosen = parser.parse_args(arguments)
    for documents in chosen.documents:
        compare(documents, chosen.queries, chosen.only_ours)


def compare(documents: int, queries: int, only_ours: bool) -> None:
    collection = made_up(documents, queries)
    every = np.arange(queries)
    Bm25(made_up(50, 5), OPTIONS).search(np.arange(5), 10, threads=1)  # compiles
    building, ours = timed(lambda: Bm25(collection, OPTIONS))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ours.search(every[:50], 100, threads=1)
    searching, (lists, _) = min((timed(lambda: ours.search(every, 100, threads=1)) for _ in range(2)), key=_seconds)
    print(f"{documents:,} documents, top 100 of {queries:,} queries")
    print(f"  Bm25   built in {building:6.2f} s, {memory:,.0f} MiB; {queries / searching:9,.0f} queries a second")
    if only_ours:
        return
    reader = Bm25(Collection("none", "", collection.documents.head(0), collection.queries, pl.DataFrame()), OPTIONS)
    tokens = [terms.tolist() for terms in reader.tokenize(collection.documents)]
    theirs = bm25s.BM25(k1=OPTIONS.k1, b=OPTIONS.b, backend="numba")
    building, _ = timed(lambda: theirs.index((tokens, reader.terms), create_empty_token=False, show_progress=False))
    known = [query for query in every if len(reader.queries[query])]  # it refuses a query without a term
    asked = [reader.queries[query].tolist() for query in known]
    theirs.retrieve(asked[:50], k=100, show_progress=False, n_threads=1)
    direct, (_, scores) = min(
        (timed(lambda: theirs.retrieve(asked, k=100, show_progress=False, n_threads=1)) for _ in range(2)),
        key=_seconds,
    )
    top = np.where(np.isfinite(lists.scores[known]), lists.scores[known], 0)
    print(f"  bm25s  built in {building:6.2f} s; {len(known) / direct:9,.0f} queries a second")
    print(f"  {direct / searching:.2f} times as fast, scores differ by {np.abs(top - scores).max():.1e} at most")


def _seconds(result: tuple[float, Any]) -> float:
    return result[0]


if __name__ == "__main__":
    main()
