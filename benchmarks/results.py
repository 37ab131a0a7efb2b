"""Measures the tables and the page of a study with many runs: time, and memory of the process that writes them.

    python -m benchmarks.results [RUNS …] [--queries N] [--methods N]

The results are random, one file per run as trials write them, in a folder that is deleted afterwards: two measures of
every query over one origin, curves of ten epochs and a trace of 500 steps. Each count in RUNS is a separate process,
whose memory is sampled ten times per second.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from benchmarks.process_memory import Watched
from pyrite import cluster  # noqa: F401  before ray, which it tells how to authenticate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.output.manifest import write_config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.sweep import Planned
from pyrite.ranking.collections.collection import Collection

SMALLEST = ["12 --queries 40 --methods 2"]
METHODS = [
    (function, selector) for function in ("bm25", "random", "in_batch", "tfidf") for selector in ("uniform", "top")
]
MEASURES = ("AP@100", "RR@10")
SHOWN = ("queries.parquet", "report.html")
SPREAD = 0.02
"""Of a method's means over seeds."""


def planned_runs(count: int, methods: int) -> list[Planned]:
    """Return `count` runs of `methods` methods, the same number of each, with different seeds."""
    runs = []
    for function, selector in METHODS[:methods]:
        own = ("policy=fixed", f"function={function}", f"selector={selector}", f"measures=[{','.join(MEASURES)}]")
        config = compose([*own, "ranker=static"])
        for seed in range(count // methods):
            name = f"static-fixed-{function}-{selector}-s{seed}"
            runs.append(Planned(name, (*own, f"seed={seed}"), (), config | {"seed": seed}))
    return runs


def collection_of(queries: int) -> Collection:
    """Queries without texts."""
    ids = pl.DataFrame({"id": [f"query-{number}" for number in range(queries)]})
    return Collection("made up", "0" * 16, ids.head(0), ids, ids.head(0))


def write_outcomes(storage: Storage, runs: Sequence[Planned], queries: int) -> None:
    """Write a result for each run that has none."""
    from pyrite.cluster.runs.outcome import Outcome, write_outcome

    hard = np.random.default_rng(0).beta(1, 3, queries)
    every = np.arange(queries)
    for number, planned in enumerate(runs):
        rng = np.random.default_rng([1, number])
        values = {name: np.clip(hard + rng.normal(0, SPREAD) + rng.normal(0, 0.1, queries), 0, 1) for name in MEASURES}
        curve = np.sort(rng.random(10)).tolist()
        trace = {name: rng.normal(size=500).astype(np.float32) for name in ("positive", "negative", "misranked")}
        trace |= {"function": np.zeros(500, np.int8), "version": np.full(500, -1), "age": np.full(500, -1)}
        write_outcome(storage, planned.name, Outcome(
            epochs=10, best_epoch=9, steps=500, seconds=1.0, losses=[curve[::-1]], validations=[curve],
            queries={"bm25": every}, values={"bm25": values}, bm25={"bm25": dict.fromkeys(MEASURES, hard)},
            traces=[trace],
        ))  # fmt: skip


def tables_and_page(folder: Path, count: int, queries: int, methods: int) -> None:
    """Run the final steps of a study."""
    from pyrite.cluster.reports.study_results import report_study, results_of
    from pyrite.cluster.reports.study_tables import tables_of, write_tables

    storage, runs, collection = Storage(str(folder)), planned_runs(count, methods), collection_of(queries)
    collections = dict.fromkeys((planned.name for planned in runs), collection)
    started = time.perf_counter()
    tables = tables_of(storage, runs, collections, {})
    write_tables(storage, tables)
    written = time.perf_counter()
    baseline = f"policy=fixed function={METHODS[0][0]} selector={METHODS[0][1]}"
    report_study(storage, Console(file=io.StringIO()), baseline, results=results_of(storage, tables))
    print(f"tables {written - started:.1f} s, page {time.perf_counter() - written:.1f} s", end="", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--queries", type=int, default=7_000)
    parser.add_argument("--methods", type=int, default=len(METHODS), choices=range(1, len(METHODS) + 1))
    parser.add_argument("--place", type=Path, help="where the folder is made; the system's for temporary ones")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.folder:
        tables_and_page(chosen.folder, chosen.runs[0], chosen.queries, chosen.methods)
        return
    for count in chosen.runs:
        with tempfile.TemporaryDirectory(prefix="results-", dir=chosen.place) as place:
            folder = Path(place) / "out"
            storage = Storage(str(folder))
            write_outcomes(storage, planned_runs(count, chosen.methods), chosen.queries)
            named = ["function=bm25", "selector=uniform"]
            write_config(storage, {"command": "", "study": {"baseline": None}, "overrides": named, "design": {}})
            more = ["--queries", str(chosen.queries), "--methods", str(chosen.methods), "--folder", str(folder)]
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.results", str(count), *more], stdout=subprocess.PIPE
            )
            with Watched(process.pid) as watched:
                said, _ = process.communicate()
            if process.returncode:
                raise SystemExit(f"{count} runs ended with {process.returncode}")
            sizes = [f"{file} {(folder / file).stat().st_size / 2**20:,.1f} MiB" for file in SHOWN]
            memory = f"at most {watched.own:,.0f} MiB of its own, {watched.whole:,.0f} with files"
            print(f"{count:,} runs x {chosen.queries:,} queries: {said.decode()}; {memory}; {', '.join(sizes)}")


if __name__ == "__main__":
    main()
