"""Measures how fast all candidates are scored: f_FF at the paper's widths over the dev queries of a collection.

    python -m benchmarks.scoring FOLDER [--threads N] [--preset paper]

Prints the time of the plain loop over pairs, of `score_candidates`, their ratio, that AP is the same, and the
share of the machine's own matrix-multiply rate that is reached on the work that remains.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.scoring import score_candidates

SMALLEST = ["{collection} vectors=random encoding.min_count=1 --preset tiny"]


@torch.no_grad()
def plain_loop(ranker: FeedForward, encoded: EncodedCollection, candidates: Candidates) -> np.ndarray:
    """A query at a time, each of its pairs through the whole network."""
    assert candidates.documents is not None
    scores = np.full(candidates.documents.shape, -np.inf, np.float32)
    for row, query in enumerate(candidates.queries):
        documents = candidates.documents[row]
        there = np.flatnonzero(documents >= 0)
        if len(there):
            of_query = encoded.queries.take(np.repeat(query, len(there)))
            pairs = ranker(of_query, encoded.documents.take(documents[there]))
            scores[row, there] = pairs[:, 0].numpy()
    return scores


def multiplications(ranker: FeedForward, encoded: EncodedCollection, candidates: Candidates) -> int:
    """Multiply-adds that the factored form needs: each distinct text once, then what depends on the pair."""
    assert candidates.documents is not None
    distinct = len(np.unique(candidates.documents[candidates.documents >= 0])) + len(candidates.queries)
    once = sum(layer.weight.numel() for layer in ranker.lower) + ranker.document_half.weight.numel()
    each = sum(layer.weight.numel() for layer in ranker.upper)
    return distinct * once + candidates.documents.size * each


def matmul_rate(size: int = 2048) -> float:
    """Multiply-adds a second of a large square product, the best of five."""
    left, right = torch.randn(size, size), torch.randn(size, size)
    return size**3 / min(timed(lambda: left @ right)[0] for _ in range(5))


def timed(action: Callable[[], object]) -> tuple[float, object]:
    """Seconds, and the result."""
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--preset", default="paper")
    chosen = parser.parse_args(arguments)
    collection = ["collection=beir", f"collection.path={chosen.folder}"]
    config = compose([*collection, "ranker=feed_forward", f"ranker.preset={chosen.preset}", *chosen.overrides])
    parts = Artifacts().parts(config)
    training, _ = assemble(config, parts, 0)
    torch.set_num_threads(chosen.threads)
    ranker, encoded, candidates = training.ranker, training.encoded, training.validation.candidates
    assert isinstance(ranker, FeedForward)
    assert candidates.documents is not None
    evaluation = Evaluation(encoded, candidates, ["AP@100"])
    score_candidates(ranker, encoded, candidates.queries[:8], candidates.documents[:8])  # compiles
    plain, loop_scores = timed(lambda: plain_loop(ranker, encoded, candidates))
    fast, scores = min(
        (timed(lambda: score_candidates(ranker, encoded, candidates.queries, candidates.documents)) for _ in range(3)),
        key=lambda pair: pair[0],
    )
    precision = [evaluation.of_scores(each)["AP@100"].mean() for each in (loop_scores, scores)]
    work, rate = multiplications(ranker, encoded, candidates), matmul_rate()
    print(f"{candidates.documents.size:,} pairs of {len(candidates.queries):,} queries, {chosen.threads} threads")
    print(f"plain loop over pairs    {plain:8.2f} s")
    print(f"score_candidates         {fast:8.2f} s   {plain / fast:.1f}x")
    print(f"AP@100                   {precision[0]:.8f} and {precision[1]:.8f}")
    print(f"matrix-multiply rate     {rate / 1e9:8.1f} G multiply-adds a second")
    print(f"  reached                {work / fast / 1e9:8.1f} G   {work / fast / rate:.0%} of it")


if __name__ == "__main__":
    main()
