"""Measures what a study costs beyond its training: two runs at once, overhead a run, memory of the collection.

    python -m benchmarks.study FOLDER [--epochs N]

Runs the same six trainings of equal length one after the other and then two at a time, through `pyrite study`'s
own code, and compares their throughput once every process has run one. Then lets one process and ten hold the
collection, and compares the memory that it takes altogether.
"""

from __future__ import annotations

from pyrite import cluster  # noqa: F401  # isort: skip  # says how to authenticate, which Ray reads when it is imported

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import ray
from rich.console import Console

from pyrite.cluster.commands import study as command
from pyrite.cluster.commands.conduct import conduct
from pyrite.cluster.commands.resuming import read
from pyrite.cluster.commands.study import STUDY
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.session import session
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.ranking.checkpoint import to_bytes

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 ranker.preset=tiny training.batch_size=8 scale=full "
    "measures=[AP@10] validation.measure=AP@10 --epochs 1 --runs 3 --processes 1"
]
ENDS: dict[str, tuple[float, float]] = {}


class Timed(LiveTable):
    """A live table that notes when each run starts and ends."""

    def start(self, name: str) -> None:
        ENDS[name] = (time.monotonic(), 0.0)
        super().start(name)

    def end(self, name: str, best: float | None) -> None:
        ENDS[name] = (ENDS[name][0], time.monotonic())
        super().end(name, best)


def throughput(chosen: argparse.Namespace, at_once: int) -> tuple[float, float]:
    """Runs a second once all processes are warm, and the mean seconds that a warm run adds to its training."""
    ENDS.clear()
    overrides = ["collection=beir", f"collection.path={chosen.folder}", "ranker=feed_forward", "scale=medium"]
    overrides += ["policy=fixed", "function=bm25", "selector=uniform", *chosen.overrides, f"seeds={chosen.runs}"]
    overrides += [f"training.max_epochs={chosen.epochs}", f"training.patience={chosen.epochs}"]
    with tempfile.TemporaryDirectory() as out:
        study = read(STUDY, [*overrides, f"concurrent={at_once}", f"out={out}/study"])
        conduct(study, Console(quiet=True))
        trials = pl.read_parquet(f"{out}/study/trials.parquet")
    seconds = dict(trials.select("run", "seconds").rows())
    ends = sorted(end for _, end in ENDS.values())
    warm = ends[at_once - 1]
    later = [name for name, (start, _) in ENDS.items() if start >= min(ends)]
    overhead = [ENDS[name][1] - ENDS[name][0] - seconds[name] for name in later]
    return (len(ends) - at_once) / (ends[-1] - warm), float(np.mean(overhead))


@ray.remote(num_cpus=0.1)
class Holder:
    """A process that reads the collection as a run does."""

    def __init__(self) -> None:
        import pyrite.cluster.runs.artifacts
        import pyrite.cluster.runs.execute  # noqa: F401

        self.parts: list[Any] = []

    def hold(self, small: list[Any], references: list[Any]) -> int:
        """Read every array and return the private memory in bytes that doing so took.

        A small object is read first: what it takes to read from the store at all is not the collection's.
        """
        ray.get(small)[0].max()
        before = private()
        self.parts = ray.get(references)
        base = self.parts[0]
        touched = [base.encoded.documents.tokens, base.encoded.queries.tokens, base.vectors.table]
        touched += [part.lists.documents for part in self.parts[1:] if getattr(part, "lists", None) is not None]
        for array in touched:
            array.max()
        return private() - before


def private() -> int:
    """Bytes of this process that no other shares."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def memory(chosen: argparse.Namespace) -> None:
    """Print the memory of the collection with one process and with many."""
    config = compose(["collection=beir", f"collection.path={chosen.folder}", *chosen.overrides])
    parts = Artifacts().parts(config)
    references = [ray.put(part) for part in parts.values()]
    shared = sum(len(to_bytes(part)) for part in parts.values())
    small = [ray.put(np.zeros(1 << 16))]
    totals = {}
    for count in sorted({1, chosen.processes}):
        holders = [Holder.remote() for _ in range(count)]
        own = ray.get([holder.hold.remote(small, references) for holder in holders])
        totals[count] = shared + sum(max(0, each) for each in own)
        for holder in holders:
            ray.kill(holder)
    print(f"collection in the object store {shared / 2**20:8.1f} MiB")
    for count, total in totals.items():
        print(f"with {count:2d} processes              {total / 2**20:8.1f} MiB")
    print(f"{chosen.processes} need {totals[chosen.processes] / totals[1] - 1:.1%} more than one")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--runs", type=int, default=6, help="of a study; more than two")
    parser.add_argument("--processes", type=int, default=10, help="that hold the collection")
    chosen = parser.parse_args(arguments)
    with session(dashboard=False), patch.object(command, "LiveTable", Timed):
        memory(chosen)
        alone, overhead = throughput(chosen, 1)
        paired, _ = throughput(chosen, 2)
        print(f"one after the other {alone * 60:6.2f} runs a minute; a run adds {overhead:.2f} s to its training")
        print(f"two at once         {paired * 60:6.2f} runs a minute   {paired / alone:.2f}x")


if __name__ == "__main__":
    main()
