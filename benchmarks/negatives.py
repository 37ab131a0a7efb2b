"""Measures how fast negatives are found: BM25's lists for all training queries, and drawing from them.

    python -m benchmarks.negatives FOLDER

Prints the time of bm25s (compiled, `backend="numba"`) called directly and of ours over the same tokens, their ratio,
and how many negatives per second the uniform selector draws, batch by batch.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import bm25s
import numpy as np

from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.bm25 import Bm25, Bm25Options

SMALLEST = ["{collection} vectors=random encoding.min_count=1 ranker.preset=tiny training.batch_size=8 --batches 3"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--batches", type=int, default=2000, help="that negatives are drawn for")
    chosen = parser.parse_args(arguments)
    overrides = ["collection=beir", f"collection.path={chosen.folder}", *chosen.overrides]
    config = compose(overrides)
    artifacts = Artifacts()
    parts = artifacts.parts(config)
    collection, encoded = artifacts.collection(config), parts["base"].encoded
    options = Bm25Options()
    ours = Bm25(collection, options)
    # bm25s refuses a query without a known term.
    queries = np.array([query for query in encoded.queries_of("train") if len(ours.queries[query])])
    ours.search(queries[:8], 100)  # compiles

    theirs = bm25s.BM25(k1=options.k1, b=options.b, backend="numba")
    documents = [tokens.tolist() for tokens in ours.tokenize(collection.documents)]
    theirs.index((documents, ours.terms), create_empty_token=False, show_progress=False)
    asked = [tokens.tolist() for tokens in (ours.queries[query] for query in queries)]
    cores = len(os.sched_getaffinity(0))
    theirs.retrieve(asked[:8], k=100, show_progress=False, n_threads=cores)  # compiles
    started = time.perf_counter()
    _, scores = theirs.retrieve(asked, k=100, show_progress=False, n_threads=cores)
    direct = time.perf_counter() - started
    started = time.perf_counter()
    lists, _ = ours.search(queries, 100)
    own = time.perf_counter() - started
    top = np.where(np.isfinite(lists.scores), lists.scores, 0)
    print(f"top 100 of {len(documents):,} documents for {len(queries):,} queries, {cores} cores")
    print(f"bm25s      {direct:6.2f} s")
    print(f"Bm25       {own:6.2f} s   {direct / own:.1f}x, scores differ by {np.abs(top - scores).max():.1e} at most")

    for function in ("bm25", "random"):
        config = compose([*overrides, f"function={function}"])
        training, sampler = assemble(config, artifacts.parts(config), 0)
        drawn = 0
        started = time.perf_counter()
        for _ in range(chosen.batches):
            batch = training.next_batch()
            drawn += sampler.negatives(batch, training).size
            training.position = (training.position + len(batch)) % (len(training.examples) - len(batch))
        seconds = time.perf_counter() - started
        print(
            f"uniform over {function:7s} {drawn / seconds:12,.0f} negatives a second, {sampler.count} for each of "
            f"{training.batch_size} queries a batch"
        )


if __name__ == "__main__":
    main()
