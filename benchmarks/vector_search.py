"""Measures the search of vectors by kind of index and shards: time to build, bytes per vector, queries per second,
recall.

    python -m benchmarks.vector_search [--vectors N] [--dimension D] [--factories NAME …] [--shards N …]

The vectors are random: a thousand directions, with noise of the same length; queries are documents with more noise.
Shards are searched one after the other, on the same number of threads as one index, so that their cost is measured
and not the gain of parallel machines. Times are CPU times, which a busy machine changes little.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Sequence

import numpy as np
import torch

from pyrite.ranking.faiss_index import import_faiss
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.shards import ShardedIndex

SMALLEST = ["--vectors 1000 --dimension 16 --factories Flat HNSW8 IVF8,SQ8 --shards 1 2"]
QUERIES = 320
BATCH = 32
"""Queries that a training step asks at once."""
DEPTH = 100
FACTORIES = {
    "Flat": None, "IVF1024,Flat": 16, "IVF1024,PQ48": 16, "PQ48": None, "HNSW32": 64, "IVF1024,SQ8": 16,
}  # fmt: skip
"""By faiss's factory string: `index.probes`."""


def made_up(count: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors of length one."""
    centres = rng.standard_normal((1000, dimension), np.float32)
    vectors = centres[rng.integers(len(centres), size=count)]
    vectors += rng.standard_normal(vectors.shape, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def held(index: VectorIndex) -> int:
    """Return the bytes of a FAISS index without its vectors."""
    return 0 if index.index is None else len(import_faiss().serialize_index(index.index))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--factories", nargs="*", default=list(FACTORIES))
    parser.add_argument("--shards", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    rng = np.random.default_rng(0)
    vectors = made_up(chosen.vectors, chosen.dimension, rng)
    noise = rng.standard_normal((QUERIES, chosen.dimension), np.float32) / np.sqrt(chosen.dimension)
    queries = vectors[rng.choice(chosen.vectors, QUERIES, replace=False)] + 0.5 * noise
    exact = VectorIndex.build(vectors, IndexOptions()).search(queries, DEPTH)[0]
    for factory, shards in itertools.product(chosen.factories, chosen.shards):
        options = IndexOptions(factory=factory, probes=FACTORIES.get(factory))
        started = time.process_time()
        index = ShardedIndex.build(vectors, options, shards)
        built = time.process_time() - started
        index.search(queries[:BATCH], DEPTH)
        started = time.process_time()
        found = [index.search(queries[start : start + BATCH], DEPTH)[0] for start in range(0, QUERIES, BATCH)]
        rate = QUERIES / (time.process_time() - started)
        shares = [len(np.intersect1d(a, b)) / DEPTH for a, b in zip(np.concatenate(found), exact, strict=True)]
        size = sum(held(shard) for shard in index.shards) / chosen.vectors
        print(
            f"{factory:14s} {shards} shards: built in {built:6.1f} s, {1e6 * built / chosen.vectors:6.1f} a million; "
            f"{size:6.0f} bytes a vector; {rate:8.1f} queries a second; {np.mean(shares):.3f} of the {DEPTH} found",
            flush=True,
        )


if __name__ == "__main__":
    main()
