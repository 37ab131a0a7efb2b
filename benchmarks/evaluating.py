"""Compares the time of `pyrite.evaluate` with that of ir-measures, over one run, side by side.

    python -m benchmarks.evaluating

Both read the same two files; ir-measures by its readers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import ir_measures
import numpy as np

import pyrite

SMALLEST = ["--topics 5 --depth 20 --times 1"]
"""The options with which it takes seconds."""
MEASURES = ("AP", "nDCG@10", "RR@10", "P@10", "R@1000")


def write(folder: Path, topics: int, depth: int) -> tuple[str, str]:
    """Write a run and judgements, drawn."""
    rng = np.random.default_rng(0)
    run, qrels = folder / "drawn.run", folder / "qrels.txt"
    with run.open("w") as lines:
        for topic in range(topics):
            documents = rng.permutation(10 * depth)[:depth]
            lines.writelines(f"{topic} Q0 d{name} {rank} {depth - rank} drawn\n" for rank, name in enumerate(documents))
    with qrels.open("w") as lines:
        for topic in range(topics):
            documents = rng.permutation(10 * depth)[: max(1, depth // 5)]
            lines.writelines(f"{topic} 0 d{name} {rng.integers(0, 3)}\n" for name in documents)
    return str(run), str(qrels)


def seconds(call: Callable[[], object]) -> float:
    """Return the time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        run, qrels = write(Path(folder), chosen.topics, chosen.depth)
        measures = [ir_measures.parse_measure(name) for name in MEASURES]

        def theirs() -> object:
            judgements = list(ir_measures.read_trec_qrels(qrels))
            return list(ir_measures.iter_calc(measures, judgements, list(ir_measures.read_trec_run(run))))

        def ours() -> object:
            return pyrite.evaluate(run, qrels, MEASURES)

        ours(), theirs()
        pairs = [(seconds(ours), seconds(theirs)) for _ in range(chosen.times)]
    mine, other = (float(np.median(column)) for column in zip(*pairs, strict=True))
    print(f"{chosen.topics * chosen.depth:,} lines: pyrite {mine:.2f} s, ir-measures {other:.2f} s, {mine / other:.2f}")


if __name__ == "__main__":
    main()
