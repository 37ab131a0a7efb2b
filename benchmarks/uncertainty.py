"""Simulates which candidates error reduction picks, by how probability is read from scores.

    python -m benchmarks.uncertainty [--queries N]

Eight candidates a query score as a standard normal, the positive `lead` more on average. Shown is how often the one
pick is the candidate that scores highest, as Dynamic-λ with λ = 0 would pick, and its mean distance to the positive.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.training import Batch
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.selection.error_reduction import ErrorReduction

SMALLEST = ["--queries 100"]
CANDIDATES = 8


class Drawn:
    """A training whose scores were drawn: column 0 of a query is its positive, column d its document d."""

    def __init__(self, scores: NDArray[np.float64]) -> None:
        self.scores = scores

    def score(self, queries: NDArray[np.int64], documents: NDArray[np.int32]) -> NDArray[np.float64]:
        return np.take_along_axis(self.scores[queries], documents, 1)

    def probabilities(self, queries: NDArray[np.int64], documents: NDArray[np.int32]) -> NDArray[np.float64]:
        shares: NDArray[np.float64] = softmax(self.score(queries, documents), axis=1)
        return shares


def simulate(lead: float, queries: int, probability: str, rng: np.random.Generator) -> tuple[float, float]:
    """How often the pick scores highest, and how much less than the positive it scores on average."""
    scores = rng.standard_normal((queries, 1 + CANDIDATES))
    scores[:, 0] += lead
    documents = np.tile(np.arange(1, 1 + CANDIDATES, dtype=np.int32), (queries, 1))
    function, training = BM25(), Drawn(scores)
    function.prepare(None, RankedLists(documents, np.zeros(documents.shape, np.float32)))  # type: ignore[arg-type]
    batch = Batch(np.arange(queries), np.zeros(queries, np.int32))
    stand_in: Any = training
    picked = ErrorReduction(CANDIDATES, probability=probability).select(batch, function, 1, stand_in, rng).documents
    below = scores[:, 0] - training.score(batch.queries, picked)[:, 0]
    return float((picked[:, 0] == scores[:, 1:].argmax(1) + 1).mean()), float(below.mean())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    queries = parser.parse_args(arguments).queries
    print("lead   softmax: picks the top   below the positive      pair: picks the top   below the positive")
    for lead in (0.0, 1.0, 2.0, 4.0, 8.0):
        row = [simulate(lead, queries, kind, np.random.default_rng(0)) for kind in ("objective", "pair")]
        (softmax_top, softmax_below), (pair_top, pair_below) = row
        print(f"{lead:4.0f} {softmax_top:23.1%} {softmax_below:20.2f} {pair_top:24.1%} {pair_below:20.2f}")


if __name__ == "__main__":
    main()
