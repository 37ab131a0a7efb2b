"""Measures what reading rows of pairs costs: the memory and processor time of the process that reads a table.

    python -m benchmarks.pairs_memory [--pairs N] [--beside CHECKOUT …]

The table is parquet: queries of seven words and documents of twenty from 30,000, no two the same. Each checkout reads
it in a process of its own, this one first, whose memory is sampled ten times per second: anonymous memory, and memory
including mapped files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.process_memory import Watched

SMALLEST = ["--pairs 400"]
WORDS = 30_000
CHUNK = 50_000
READ = """
import sys
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.pairs import Pairs
print(open_collection(Pairs(sys.argv[1]), sys.argv[2]).fingerprint)
"""


def write_pairs(path: Path, pairs: int) -> None:
    """Write a table of pairs."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{number:x}" for number in range(WORDS)])

    def texts(length: int, name: str, start: int, count: int) -> list[str]:
        drawn = words[rng.integers(0, WORDS, (count, length))]
        return [f"{' '.join(row)} {name}{number}" for number, row in enumerate(drawn, start)]

    parts = [(start, min(CHUNK, pairs - start)) for start in range(0, pairs, CHUNK)]
    frames = [pl.DataFrame({"query": texts(7, "q", *part), "positive": texts(20, "d", *part)}) for part in parts]
    pl.concat(frames).write_parquet(path)


def measure(checkout: Path, table: Path) -> str:
    """Return the costs of reading a table with the code of a checkout, and the collection's fingerprint."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        command = [sys.executable, "-c", READ, str(table), cache]
        process = subprocess.Popen(command, env=environment, cwd=checkout, stdout=subprocess.PIPE, text=True)
        with Watched(process.pid) as watched:
            printed, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{checkout}: reading ended with {process.returncode}")
    mib = f"{watched.own:,.0f} MiB of its own, {watched.whole:,.0f} with mapped files"
    return f"{checkout.name}: {mib}, {watched.processor:.1f} s of processor time ({printed.strip()})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--beside", type=Path, nargs="*", default=[], help="other checkouts, to compare with")
    options = parser.parse_args(arguments)
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "pairs.parquet"
        write_pairs(table, options.pairs)
        print(f"{options.pairs:,} pairs, {table.stat().st_size / 2**20:,.1f} MiB", flush=True)
        for checkout in (here, *options.beside):
            print(measure(checkout.resolve(), table), flush=True)


if __name__ == "__main__":
    main()
