"""Measures the share of the device's peak that a training step, encoding texts and a search reach.

    python -m benchmarks.device [--checkpoint NAME] [--layers N] [--batch N] [--rounds N]

The texts are random and fill the length limit. The peak is the rate of a product of two large matrices of the same
precision, measured before and after; floating-point operations are those of matrix products and attention, as torch
counts them. Runs on the GPU if there is one, otherwise on the CPU with --threads.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.growth import write_collection
from benchmarks.transformers import default_checkpoint
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.embedding import embed
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.training import RankerTraining

SMALLEST = [
    "--checkpoint {small_bert} --layers 1 --length 16 --batch 4 --documents 20 --vectors 500 --rounds 1",
]
GPU = torch.cuda.is_available()
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def seconds(action: Callable[[], object], rounds: int) -> float:
    """The median, after one round that is not counted, each waiting for the device."""
    took = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        action()
        if GPU:
            torch.cuda.synchronize()
        took.append(time.perf_counter() - started)
    return float(np.median(took[1:]))


def counted(action: Callable[[], object]) -> int:
    """Floating-point operations, two a multiply-add."""
    with FlopCounterMode(display=False) as counter:
        action()
    return int(counter.get_total_flops())


def peak(precision: torch.dtype, rounds: int) -> float:
    """Operations a second of a matrix product."""
    size = 8192 if GPU else 1024
    one = torch.randn(size, size, device="cuda" if GPU else "cpu").to(precision)
    return 2 * size**3 / seconds(lambda: one @ one, rounds)


def made(
    folder: Path, chosen: argparse.Namespace, ranker: str, precision: str
) -> tuple[RankerTraining, Callable[[], object]]:
    """A ranker's training, and a step of it over a batch that is always the same."""
    config = compose([
        "collection=beir", f"collection.path={folder / 'collection'}", f"cache={folder / 'cache'}",
        "vectors=random", f"ranker={ranker}", f"ranker.layers={chosen.layers}",
        f"ranker.checkpoint={chosen.checkpoint}", f"ranker.max_document={chosen.length}",
        f"ranker.precision={precision}", f"training.batch_size={chosen.batch}", "sampling.negatives=3",
        "function=random", "origin=[random]", "validation.origin=random", f"resources.gpu={int(GPU)}",
    ])  # fmt: skip
    training, sampler = assemble(config, Artifacts().parts(config), 0)
    batch = training.next_batch()
    negatives = sampler.negatives(batch, training)
    return training, lambda: training.update(batch, negatives)


def parts(folder: Path, chosen: argparse.Namespace, precision: str) -> Iterator[tuple[str, float, float]]:
    """A measurement: name, floating-point operations, seconds."""
    for ranker in ("cross_encoder", "bi_encoder"):
        training, step = made(folder, chosen, ranker, precision)
        yield f"a step of {ranker}", counted(step), seconds(step, chosen.rounds)
    rows = np.arange(min(chosen.documents, len(training.encoded.documents)))

    def read() -> object:
        return embed(training.ranker.eval(), training.encoded.documents, rows)

    yield "reading texts", counted(read), seconds(read, chosen.rounds)


def search(chosen: argparse.Namespace) -> tuple[str, float, float]:
    """Exact top 100 of made-up vectors."""
    rng = np.random.default_rng(0)
    vectors, queries = (rng.standard_normal((count, 384), np.float32) for count in (chosen.vectors, 256))
    index = VectorIndex.build(vectors, IndexOptions())
    took = seconds(lambda: index.search(queries, min(100, chosen.vectors)), chosen.rounds)
    return "search, exact", 2.0 * vectors.size * len(queries), took


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", default=None, help="MiniLM's where none is named")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--length", type=int, default=128, help="subwords read of a document")
    parser.add_argument("--batch", type=int, default=32, help="queries, each with its positive and three negatives")
    parser.add_argument("--documents", type=int, default=1000, help="that are read")
    parser.add_argument("--vectors", type=int, default=200_000, help="that are searched")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(chosen.threads)
    chosen.checkpoint = chosen.checkpoint or default_checkpoint()
    print(torch.cuda.get_device_name() if GPU else f"CPU, {chosen.threads} threads")
    with tempfile.TemporaryDirectory(prefix="device-") as folder:
        write_collection(Path(folder) / "collection", 2 * chosen.documents, 20_000, chosen.documents)
        for name, precision in PRECISIONS.items():
            before = peak(precision, chosen.rounds)
            measured = [*parts(Path(folder), chosen, name), *([search(chosen)] if name == "float32" else [])]
            most = max(before, peak(precision, chosen.rounds))
            print(f"{name}: {most / 1e12:.3f} TFLOP/s at the peak")
            for what, operations, took in measured:
                rate = operations / took
                print(f"  {what:24s} {took:8.4f} s, {rate / 1e12:8.3f} TFLOP/s, {rate / most:4.0%} of it")
            if GPU:
                print(f"  {torch.cuda.max_memory_allocated() / 2**20:,.0f} MiB of its memory at most")


if __name__ == "__main__":
    main()
