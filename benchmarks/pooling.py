"""Measures how fast pools are judged: all methods over TREC-8, against plain Python, and over ever larger pools.

    python -m benchmarks.pooling FOLDER [--only reading command beside_plain first_use measuring study plain growth
        full] …

FOLDER holds `trec8/runs` and `trec8/qrels.txt.gz`. Prints the time of reading the runs; of `pyrite pool` from start
to report; of the same with the 14 methods of Losada et al. 2016 beside the plain loops, and when nothing is compiled
yet and again, for the default methods, both over any such folder (`--of dl19`); of what its trials measure; of
judging all topics by every method of `cluster/conf/method` and every seed, with its peak memory; of the plain loops
in `benchmarks.plain_pooling` and of the compiled ones over every tenth topic, whose orders must be equal; with which
power of the number of runs, of their depth and of topics the time grows over made-up pools; and judging 1,000 × 1,000
× 50.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from benchmarks.plain_pooling import plain_simulation
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import group_options
from pyrite.cluster.plan.pool_methods import variants
from pyrite.cluster.pools.sources import NamedPool
from pyrite.cluster.pools.trial import measure, plan_trial
from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators.fusion import Fusion
from pyrite.pooling.adjudicators.static import StaticOrder
from pyrite.pooling.pool import Pool, Topic, make_pool, topic_pool
from pyrite.pooling.runs import Runs, read_runs
from pyrite.pooling.sentinels import NO_DOCUMENT
from pyrite.pooling.simulation import Method, simulate
from pyrite.ranking.trec_files import read_qrels

SMALLEST = ["{trec8} --seeds 1 --methods mtf bla --divide 25 --here --only reading measuring study plain growth full"]
LOSADA = (
    "docid", "rank", "mtf", "moffat_a", "moffat_b", "moffat_c", "hedge", "random", "eps_n_greedy", "ucb1_tuned", "bla",
    "bla_ns", "mm", "mm_ns",
)  # fmt: skip
"""The methods of Losada et al. 2016."""
THREADS = 2
SEEDS = 10
GROWING = ("mtf", "mm", "ucb1_tuned", "bla", "moffat_c", "hedge", "posterior_fusion")
PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "reading": lambda chosen: reading(chosen.folder),
    "command": lambda chosen: command(chosen.folder, chosen.seeds, chosen.methods),
    "beside_plain": lambda chosen: beside_plain(chosen.folder / chosen.of, chosen.seeds, chosen.methods or LOSADA),
    "first_use": lambda chosen: first_use(chosen.folder / chosen.of, chosen.seeds),
    "measuring": lambda chosen: measuring(chosen.seeds, chosen.methods or GROWING, chosen.divide),
    "study": lambda chosen: study(trec8(chosen.folder), chosen.seeds, chosen.methods),
    "plain": lambda chosen: plain(trec8(chosen.folder), chosen.methods),
    "growth": lambda chosen: growth(chosen.methods or GROWING, chosen.divide),
    "full": lambda chosen: full(chosen.methods or GROWING, chosen.divide),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds trec8")
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", nargs="+", help="all by default, a few in growth and full")
    parser.add_argument("--of", default="trec8", help="for beside_plain and first_use: the folder in FOLDER")
    parser.add_argument("--divide", type=int, default=1, help="make the made-up pools smaller: runs, depth and topics")
    parser.add_argument("--here", action="store_true", help="measure in this process, not in one for each part")
    chosen = parser.parse_args(arguments)
    if not chosen.here:
        for part in chosen.only:  # a process each: the memory of one is not that of another
            rest = ["--seeds", str(chosen.seeds), "--divide", str(chosen.divide), "--of", chosen.of]
            rest += ["--methods", *chosen.methods] if chosen.methods else []
            asked = [sys.executable, "-m", "benchmarks.pooling", str(chosen.folder), "--only", part, "--here"]
            subprocess.run([*asked, *rest], check=True)
        return
    for part in chosen.only:
        PARTS[part](chosen)
        print(f"peak memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB\n")


def trec8(folder: Path) -> Pool:
    return pool_of(folder / "trec8")


def pool_of(folder: Path) -> Pool:
    return make_pool(read_runs(str(folder / "runs")), read_qrels(folder / "qrels.txt.gz"))


def runs_of_trec8(folder: Path) -> Runs:
    return read_runs(str(folder / "trec8" / "runs"))


def methods(names: Sequence[str] | None = None) -> dict[str, Method]:
    """As `cluster/conf/method` has them."""
    names = group_options()["method"] if names is None else names
    return {variant.method: variant.build() for variant in variants(names, [], [])}


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def compile_all(judged: dict[str, Method], pool: Pool) -> None:
    one = pool.only([pool.topics[0].name])
    took = timed(lambda: [simulate(method, one, [0]) for method in judged.values()])
    print(f"compiling, or loading what is compiled: {took:.1f} s for {len(judged)} methods")


def reading(folder: Path) -> None:
    seconds = [timed(lambda: runs_of_trec8(folder)) for _ in range(3)]
    runs = runs_of_trec8(folder)
    print(
        f"reading {len(runs.names)} runs, {len(runs.table):,} lines: " + ", ".join(f"{s:.2f}" for s in seconds) + " s"
    )


def command(folder: Path, seeds: int, names: Sequence[str] | None) -> None:
    """`pyrite pool` with all methods, from start to report: what a user waits for."""
    with TemporaryDirectory() as out:
        given = [f"method={','.join(names or ['all'])}", f"seeds={seeds}"]
        seconds, cpu = pool_command(folder / "trec8", given, f"{out}/pool")
        trials = pl.read_parquet(f"{out}/pool/trials.parquet")
        simulated, every = (trials[name].sum() for name in ("seconds", "seconds_in_all"))
    print(
        f"pyrite pool over TREC-8, {len(trials)} methods × {seeds} seeds: {seconds:.1f} s from start to report; "
        f"{cpu:.1f} s of CPU in its process and those that ended with it; "
        f"in the trials {every:.1f} s, of which {simulated:.1f} simulated"
    )


def beside_plain(folder: Path, seeds: int, names: Sequence[str]) -> None:
    """`pyrite pool` from start to report, beside the plain loops over a tenth of the topics and one seed."""
    with TemporaryDirectory() as out:
        given = [f"method={','.join(names)}", f"seeds={seeds}"]
        pool_command(folder, given, f"{out}/first")  # compiles
        seconds, _ = pool_command(folder, given, f"{out}/again")
    pool = pool_of(folder)
    sample = pool.only([topic.name for topic in pool.topics[::10]])
    slow = timed(lambda: [plain_simulation(method, sample, 0) for method in methods(names).values()])
    plainly = slow * seeds * pool.size / sample.size
    print(
        f"pyrite pool over {folder.name}, {len(names)} methods × {seeds} seeds: {seconds:.1f} s from start to report; "
        f"the plain loops {slow:.1f} s for one seed over {sample.size:,} of {pool.size:,} documents, so "
        f"{plainly:,.0f} s for all: {plainly / seconds:.0f}×"
    )


def first_use(folder: Path, seeds: int) -> None:
    """`pyrite pool` with its default methods when nothing is compiled, and again."""
    with TemporaryDirectory() as out:
        compiled = {"NUMBA_CACHE_DIR": f"{out}/compiled"}
        cold, cold_cpu = pool_command(folder, [f"seeds={seeds}"], f"{out}/cold", compiled)
        warm, warm_cpu = pool_command(folder, [f"seeds={seeds}"], f"{out}/warm", compiled)
    print(
        f"pyrite pool over {folder.name}, default methods × {seeds} seeds: {cold:.1f} s when nothing is compiled, "
        f"{warm:.1f} s again, {cold / warm:.2f}×; "
        f"of CPU {cold_cpu:.1f} s and {warm_cpu:.1f} s, {cold_cpu / warm_cpu:.2f}×"
    )


def pool_command(
    folder: Path, given: Sequence[str], out: str, environment: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Run `pyrite pool` over a folder with runs and qrels; return seconds, and those of CPU in processes that ended."""
    given = [f"runs={folder / 'runs'}", f"qrels={folder / 'qrels.txt.gz'}", *given, "dashboard=false", f"out={out}"]
    asked, known = [sys.executable, "-m", "pyrite", "pool", *given], os.environ | dict(environment or {})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = timed(lambda: subprocess.run(asked, check=True, stdout=subprocess.DEVNULL, env=known))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measuring(seeds: int, names: Sequence[str], divide: int) -> None:
    """Measure the other work of a trial at a depth of 50: tables, ranking quality, stopping rules."""
    config = compose([f"seeds={seeds}"], "pool")
    runs, depth, topics = smaller((59, 50, 54), divide)
    shallow = made_up(runs, depth, topics)
    spent: dict[str, list[float]] = {"simulated": [], "measured": []}
    for variant in variants(names, [], []):
        method, options = variant.build(), plan_trial(NamedPool("made up", shallow, ""), variant, config).options
        simulate(method, shallow.only([shallow.topics[0].name]), [0])
        started = time.process_time()
        orders = simulate(method, shallow, range(seeds))
        between = time.process_time()
        measure(options, method, shallow, orders)
        spent["simulated"].append(between - started)
        spent["measured"].append(time.process_time() - between)
    for what, seconds in spent.items():
        print(
            f"{what:10s} {sum(seconds):6.2f} s of CPU, {len(names)} methods × {seeds} seeds, "
            f"{runs} runs × {depth} × {topics} topics"
        )


def study(pool: Pool, seeds: int, names: Sequence[str] | None) -> None:
    """All methods, topics and seeds."""
    judged = methods(names)
    compile_all(judged, pool)
    took = {name: timed(lambda m=method: simulate(m, pool, range(seeds), THREADS)) for name, method in judged.items()}
    for name, seconds in took.items():
        each = seconds / seeds / pool.size * 1e6
        print(f"{name:18s} {seconds:7.2f} s   {each:6.2f} µs a judgement")
    print(
        f"{'together':18s} {sum(took.values()):7.2f} s   {len(judged)} methods × {len(pool.topics)} topics × "
        f"{len(pool.runs)} runs × {seeds} seeds, {pool.size:,} documents, {THREADS} threads"
    )


def plain(pool: Pool, names: Sequence[str] | None) -> None:
    """Each method's plain loop and compiled loop, side by side, with equal orders."""
    sample = pool.only([topic.name for topic in pool.topics[::10]])
    judged = methods(names)
    compile_all(judged, pool)
    print(f"{len(sample.topics)} topics, {sample.size:,} documents, a seed (of {SEEDS} that the compiled loops judge)")
    kinds: dict[str, list[tuple[float, float, float]]] = {}
    for name, method in judged.items():
        plainly, [fast] = None, simulate(method, sample, [0])

        def judge(method: Method = method) -> None:
            nonlocal plainly
            plainly = plain_simulation(method, sample, 0)

        slow = timed(judge)
        alone = median(timed(lambda m=method: simulate(m, sample, range(SEEDS))) / SEEDS for _ in range(3))
        together = median(timed(lambda m=method: simulate(m, sample, range(SEEDS), THREADS)) / SEEDS for _ in range(3))
        assert plainly is not None
        for ours, theirs in zip(fast.documents, plainly.documents, strict=True):
            assert (ours == theirs).all(), name
        assert fast.turns is None or plainly.turns is None or (fast.turns == plainly.turns).all(), name
        kinds.setdefault(kind_of(method), []).append((slow, alone, together))
        row(name, slow, alone, together)
    for kind, seconds in kinds.items():
        row(kind, *map(sum, zip(*seconds, strict=True)))
    row("together", *map(sum, zip(*(each for seconds in kinds.values() for each in seconds), strict=True)))


def kind_of(method: Method) -> str:
    adjudicator = method.adjudicator if isinstance(method, AcrossTopics) else method
    if isinstance(adjudicator, StaticOrder):
        return "… static"
    return "… fusions" if isinstance(adjudicator, Fusion) else "… bandits"


def row(name: str, slow: float, alone: float, together: float) -> None:
    print(
        f"{name:18s} plain {slow:8.3f} s   compiled {alone * 1e3:8.1f} ms {slow / alone:6.0f}×   "
        f"{THREADS} threads {together * 1e3:8.1f} ms {slow / together:6.0f}×",
        flush=True,
    )


def made_up(runs: int, depth: int, topics: int) -> Pool:
    """Runs that draw their documents with Zipf's probabilities, so that they overlap; the likely are often relevant."""
    rng = np.random.default_rng([runs, depth, topics])
    candidates = 30 * depth
    odds = np.arange(1, candidates + 1, dtype=np.float32)
    made = []
    for number in range(topics):
        lists = np.empty((runs, depth), np.int32)
        for run in range(runs):  # the smallest of exponential times with these rates: draws without replacement
            times = rng.standard_exponential(candidates, np.float32) * odds
            first = np.argpartition(times, depth)[:depth]
            lists[run] = first[np.argsort(times[first])]
        held = np.unique(lists)
        relevant = rng.random(len(held)) < 0.6 / (1 + 4 * held / depth)
        pool = topic_pool(np.searchsorted(held, lists).astype(np.int32), len(held))
        ids = pl.Series([], dtype=pl.String)
        grades, known = relevant.astype(np.int32), np.ones(len(held), bool)
        made.append(Topic(str(number), pool, ids, grades, known, int(relevant.sum())))
    assert all(NO_DOCUMENT not in topic.pool.ranking for topic in made)
    names = [f"run{run:04}" for run in range(runs)]
    return Pool(made, names, names, depth)


SERIES: dict[str, list[tuple[int, int, int]]] = {
    "runs": [(runs, 100, 2) for runs in (125, 250, 500, 1000)],
    "depth": [(100, depth, 2) for depth in (125, 250, 500, 1000)],
    "topics": [(71, 100, topics) for topics in (6, 12, 25, 50)],
}


def growth(names: Sequence[str], divide: int) -> None:
    """Seconds while one size grows, and the power of it with which they do, from a line through their logarithms."""
    judged = methods(names)
    compile_all(judged, made_up(5, 5, 1))
    for what, large in SERIES.items():
        sizes = [smaller(size, divide) for size in large]
        pools = [made_up(*size) for size in sizes]
        ranges = [f"{min(s[axis] for s in sizes):,}–{max(s[axis] for s in sizes):,}" for axis in range(3)]
        ranges = [r if len(set(r.split("–"))) > 1 else r.split("–")[0] for r in ranges]
        counts = np.array([size[list(SERIES).index(what)] for size in sizes])
        documents = np.array([pool.size for pool in pools])
        print(
            f"{what}: {' × '.join(ranges)} (runs × depth × topics), {', '.join(f'{n:,}' for n in documents)} documents"
        )
        print(f"  documents                 grow with {what}^{slope(counts, documents):.2f}")
        for name, method in judged.items():
            seconds = np.array([min(timed(lambda m=method, p=p: simulate(m, p, [0])) for _ in range(3)) for p in pools])
            times = " ".join(f"{each:8.3f}" for each in seconds)
            each = seconds[-1] / documents[-1] * 1e6
            print(f"  {name:18s} {times} s   {what}^{slope(counts, seconds):.2f}   {each:6.1f} µs a judgement at last")


def smaller(size: tuple[int, int, int], divide: int) -> tuple[int, int, int]:
    runs, depth, topics = (max(1, number // divide) for number in size)
    return runs, depth, topics


def slope(sizes: np.ndarray, values: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def full(names: Sequence[str], divide: int) -> None:
    """The largest: 1,000 runs, 1,000 deep, 50 topics."""
    judged = methods(names)
    compile_all(judged, made_up(5, 5, 1))
    started = time.perf_counter()
    runs, depth, topics = smaller((1000, 1000, 50), divide)
    pool = made_up(runs, depth, topics)
    size = f"{pool.size:,} documents of {sum(len(topic.pool.holders) for topic in pool.topics):,} ranked"
    print(f"{runs:,} runs × {depth:,} × {topics} topics, {size}, made up in {time.perf_counter() - started:.0f} s")
    for name, method in judged.items():
        seconds = timed(lambda m=method: simulate(m, pool, [0], THREADS))
        print(f"{name:18s} {seconds:7.1f} s   {seconds / pool.size * 1e6:6.1f} µs a judgement", flush=True)


if __name__ == "__main__":
    main()
