"""Measures what Ray Tune costs a study of many short trials: seconds per trial, memory of the driver, bytes on disk.

    python -m benchmarks.trials [COUNT …] [--runs] [--profile]

Each COUNT is a separate process with the study's `TuneExecutor`: trials with a whole configuration each that only
report three epochs, or, with --runs, a real study of COUNT runs of a fraction of a second each.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from benchmarks.process_memory import resident
from pyrite import cluster  # noqa: F401  before ray, which it tells how to authenticate
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.session import session
from pyrite.cluster.executors.task import Context, Task
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.telemetry.run_watch import RunWatch, raise_unwritable
from pyrite.cluster.telemetry.tracking.tracking import tracked

SMALLEST = ["1", "1 --runs"]
EPOCHS = 3
SCALE = 2**20


def body(config: str, context: Context) -> dict[str, Any]:
    """Only report."""
    for epoch in range(EPOCHS):
        reported = {"epoch": epoch + 1, "max_epochs": EPOCHS, "validation": 0.5, "best": 0.5}
        context.report(reported)
    return reported


def empty_trials(count: int, out: Path) -> float:
    """Run trials that do nothing; the seconds that it took."""
    from pyrite.cluster.executors.tune import TuneExecutor

    storage, console = Storage(str(out)), Console(quiet=True)
    config = compose(["policy=fixed", "function=bm25"])
    tasks = [
        Task(f"run-{seed:05}", body, {"config": json.dumps(config | {"seed": seed})}, Resources(cpu=1))
        for seed in range(count)
    ]
    started = time.perf_counter()
    with LiveTable(console, count, 0, "AP@100") as table, tracked([], storage, console, "study", False) as tracking:
        watch = RunWatch(table, tracking)
        for done in TuneExecutor().run(tasks, watch=watch):
            raise_unwritable(done)
    assert not watch.errors
    assert table.done == count
    return time.perf_counter() - started


def real_runs(count: int, out: Path) -> float:
    """Run a study of tiny runs; the seconds that it took, tables included."""
    from pyrite.cluster.commands.conduct import conduct
    from pyrite.cluster.commands.resuming import read
    from pyrite.cluster.commands.study import STUDY

    overrides = [
        "collection=beir", f"collection.path={made_up(out.parent / 'collection')}", "vectors=random",
        "encoding.min_count=1", "ranker.preset=tiny", f"training.max_epochs={EPOCHS}", "training.batch_size=8",
        "measures=[AP@10,RR@10]", "validation.measure=AP@10", "policy=fixed", "function=random", "selector=uniform",
        f"seeds={count}", f"cache={out.parent / 'cache'}", f"out={out}", "scale=full",
    ]  # fmt: skip
    started = time.perf_counter()
    assert conduct(read(STUDY, overrides), Console(quiet=True)) == 0
    seconds = time.perf_counter() - started
    inside = pl.read_parquet(out / "trials.parquet")["seconds"].mean()
    print(f"of each real run {inside:.3f} s are its training; parts, tables, figures and page are counted in below")
    return seconds


def made_up(folder: Path) -> Path:
    """A BEIR folder of 60 documents and 40 queries, each query the beginning of its document."""
    (folder / "qrels").mkdir(parents=True)
    texts = [" ".join(f"word{(7 * number + 13 * place) % 60}" for place in range(12)) for number in range(60)]
    for file, count, length in (("corpus", 60, 12), ("queries", 40, 4)):
        lines = [
            {"_id": f"{file[0]}{number}", "title": "", "text": " ".join(texts[number].split()[:length])}
            for number in range(count)
        ]
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for split, numbers in (("train", range(24)), ("dev", range(24, 32)), ("test", range(32, 40))):
        lines = ["query-id\tcorpus-id\tscore", *(f"q{number}\tc{number}\t1" for number in numbers)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def size(folder: Path) -> tuple[int, int]:
    """Files and bytes beneath."""
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def measure(count: int, real: bool, profile: bool) -> None:
    """Print one line of figures."""
    with tempfile.TemporaryDirectory() as folder, session(dashboard=False):
        out = Path(folder) / "out"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        profiler = cProfile.Profile()
        if profile:
            profiler.enable()
        cpu = time.process_time()
        seconds = (real_runs if real else empty_trials)(count, out)
        cpu = time.process_time() - cpu
        profiler.disable()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        own_memory = (resident(os.getpid()) or (0.0, 0.0))[0]
        beside = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # of ended processes, so without Ray's
        files, total = size(out / "tune")
        _, own = size(out)
        print(
            f"{count:6,} trials  {seconds:7.1f} s, {seconds / count:.3f} a trial; driver {cpu / count:.3f} s of CPU "
            f"a trial, {peak / SCALE:,.0f} MiB at most ({before / SCALE:,.0f} before), {own_memory:,.0f} of its own "
            "at the end, where files that are mapped are not counted; Tune's folder "
            f"{total / SCALE:,.1f} MiB in {files:,} files, ours {(own - total) / SCALE:,.1f} MiB"
            + (f"; the process that makes tables and page {beside / SCALE:,.0f} MiB at most" if real else "")
        )
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(50)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", type=int, nargs="*", default=[100, 300, 1000], metavar="COUNT")
    parser.add_argument("--runs", action="store_true", help="real runs of a tiny ranker")
    parser.add_argument("--profile", action="store_true", help="where the driver's time goes")
    chosen = parser.parse_args(arguments)
    if len(chosen.counts) == 1:
        measure(chosen.counts[0], chosen.runs, chosen.profile)
        return
    options = ["--runs"] * chosen.runs + ["--profile"] * chosen.profile
    for count in chosen.counts:
        subprocess.run([sys.executable, "-m", "benchmarks.trials", str(count), *options], check=True)


if __name__ == "__main__":
    main()
