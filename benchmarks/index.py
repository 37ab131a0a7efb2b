"""Measures what a negative index costs its training and its readers while it is rebuilt.

    python -m benchmarks.index FOLDER [--layers N] [--length N] [--turns N]

One bi-encoder trains on one core and reads its negatives from an index on Ray actors, whose single encoder has the
other core. Steps during a build alternate with the same number of steps without one; then the same for readers that
do nothing else. FOLDER is a BEIR folder, for example MedQuAD.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.transformers import default_checkpoint
from pyrite import cluster  # noqa: F401  before ray, which it tells how to authenticate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.session import session
from pyrite.cluster.index.attach import attach_indexes
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 --checkpoint {small_bert} --layers 1 --length 16 --turns 1 "
    "--depth 10 --reads 5"
]
READERS = 32
"""Queries that a reader asks at once."""


class Beside:
    """Repeat an action while an index is built, and the same number of times without a build.

    Args:
        index: the index of the function.
        training: the training whose weights it is built from.
    """

    def __init__(self, index: Any, training: Any) -> None:
        self.index, self.training = index, training
        self.now = training.step

    def with_build(self, action: Callable[[], float]) -> NDArray[np.float64]:
        """Publish the weights of now, and act until they are served. What publishing takes is the first action's."""
        self.now = max(self.now + 1, self.training.step)
        started = time.perf_counter()
        self.index.publish(self.training.ranker.state_dict(), self.now)
        publishing = time.perf_counter() - started
        took = [publishing + action()]
        while self.now not in self.index.status()["versions"]:
            took.append(action())
        return np.array(took)

    def settle(self) -> None:
        """Wait until nothing is being built."""
        while (status := self.index.status())["building"] is not None or status["pending"]:
            time.sleep(0.1)


def training_cost(training: Any, sampler: Any, beside: Beside, turns: int) -> None:
    """Steps a second with a build and without."""

    def step() -> float:
        started = time.perf_counter()
        if training.epoch_over:
            training.position = 0  # without the validation, which both have
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        sampler.observe(negatives, training.update(batch, negatives))
        return time.perf_counter() - started

    for _ in range(3):
        step()  # the first one waits for the first version
    shares, alone, both = [], [], []
    for _ in range(turns):
        built = beside.with_build(step)
        beside.settle()
        quiet = np.array([step() for _ in built])
        shares.append(quiet.sum() / built.sum())
        alone.append(len(quiet) / quiet.sum())
        both.append(len(built) / built.sum())
    print(f"training, {turns} builds of {len(training.encoded.documents):,} documents, about {len(built)} steps each")
    print(f"  {np.median(alone):.2f} steps a second without a build, {np.median(both):.2f} with one: ", end="")
    print(f"{np.median(shares):.2f} (goal: .85); turns {', '.join(f'{each:.2f}' for each in shares)}")


def reader_delay(training: Any, beside: Beside, depth: int, reads: int) -> None:
    """Measure how long a reader waits for an answer, with and without a build."""
    rng = np.random.default_rng(0)
    queries = training.encoded.queries

    def read() -> float:
        asked = rng.integers(len(queries), size=READERS)
        started = time.perf_counter()
        beside.index.search(asked, depth, beside.now)
        return time.perf_counter() - started

    for _ in range(20):
        read()
    quiet = np.array([read() for _ in range(reads)])
    built = beside.with_build(read)
    beside.settle()
    quiet = np.concatenate([quiet, [read() for _ in range(max(0, len(built) - len(quiet)))]])
    print(f"readers, {READERS} queries at once, top {depth}: {len(quiet):,} reads without a build, {len(built):,} with")
    for name, took in (("without", quiet), ("with", built)):
        middle, high, most = 1e3 * np.percentile(took, [50, 99, 100])
        print(f"  {name:8s} median {middle:6.1f} ms, 99% below {high:6.1f} ms, longest {most:6.1f} ms")
    added = 1e3 * (built.max() - np.median(quiet))
    print(f"  a build delays a reader by {added:.1f} ms at most (goal: 50)")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--checkpoint", default=default_checkpoint(), help="of a BERT; MiniLM by default")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--length", type=int, default=48, help="subwords of a document")
    parser.add_argument("--turns", type=int, default=2, help="builds beside the training")
    parser.add_argument("--depth", type=int, default=100, help="documents that a query is given")
    parser.add_argument("--reads", type=int, default=300, help="without a build, at least")
    chosen = parser.parse_args(arguments)
    config = compose([
        "collection=beir", f"collection.path={chosen.folder}", "ranker=bi_encoder",
        f"ranker.checkpoint={chosen.checkpoint}", f"ranker.layers={chosen.layers}",
        f"ranker.max_document={chosen.length}", "function=dense", "function.dense.refresh.mode=async",
        "function.dense.refresh.every=1000000000", f"function.dense.depth={chosen.depth}", "origin=[bm25]",
        "training.batch_size=8", "sampling.negatives=7", "optimizer.lr=2e-5",
        *chosen.overrides,
    ])  # fmt: skip
    torch.set_num_threads(1)
    parts = Artifacts().parts(config)
    with session(dashboard=False):
        training, sampler = assemble(config, parts, 0)
        with attach_indexes(sampler.functions, training, config, "benchmark") as attached:
            (index,) = attached.values()
            beside = Beside(index, training)
            training_cost(training, sampler, beside, chosen.turns)
            reader_delay(training, beside, chosen.depth, chosen.reads)


if __name__ == "__main__":
    main()
