"""Measures how often 95% intervals hold the truth, and how often a test rejects a true null, over made-up populations.

Seven parts, each with its repetitions (default 1,000): the rate of false negatives of `pyrite audit`, that rate if
some queries are recorded (`sampling.recorded`), the relevant documents of single topics by active sampling, the
convergence rate of agents, a learned method against a random one over agents, seeds and queries, the test over seeds
and queries (`p_both`), and next to it the t-test over seeds alone, whose p is about other seeds and the same queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.statistics.comparison import MethodRuns, compare
from pyrite.analysis.statistics.convergence import rate_interval
from pyrite.analysis.statistics.crossed import crossed_difference
from pyrite.analysis.statistics.paired import MeasuredRun, mean_difference
from pyrite.pooling.adjudicators.active_sampling import ActiveSampling
from pyrite.pooling.estimation import estimation
from pyrite.pooling.false_negatives import RecordedQueries, draw, rate, sizes_of
from pyrite.pooling.pool import Pool, Topic, topic_pool

SMALLEST = ["--repeat 3"]
LEVEL = 0.05
PARTS = ("audit", "recorded", "topics", "convergence", "learned", "both")
AUDITS = [(share, tilt, budget) for share, tilt in ((0.002, 0.0), (0.005, 0.0), (0.02, 1.5), (0.04, 0.0), (0.04, 1.5),
          (0.2, 1.0)) for budget in (100, 300)]  # fmt: skip
"""Share of relevant negatives, how much likelier those are that are shown often, and the judgements."""
RECORDED = ((0.1, 500, 0.1, 300), (0.3, 200, 0.1, 300), (0.3, 1000, 0.02, 300), (0.7, 200, 0.1, 100))
"""Shares of the queries that are recorded, all queries, the mean share of relevant negatives, and the judgements."""
BOTH = ((3, 300, 0.05, 0.006), (3, 1000, 0.05, 0.006), (5, 400, 0.05, 0.006), (10, 400, 0.02, 0.006),
        (20, 400, 0.05, 0.006), (40, 1000, 0.10, 0.006))  # fmt: skip
"""Seeds, queries, and the standard deviations of the effects of a query and of a seed (those of MedQuAD)."""
CELL = 0.2
"""The standard deviation of a single difference."""
AGENTS = ((0.012, 0.012, 0.0, 8, 4), (0.012, 0.012, 0.0, 16, 5), (0.012, 0.012, 0.01, 8, 4), (0.0, 0.025, 0.01, 16, 5))
"""Standard deviations of a seed, of a run and of an agent; agents and seeds."""
LEARNED = (
    (8, 10, 0.006, 0.025, 0.012),
    (5, 4, 0.003, 0.018, 0.012),
    (16, 5, 0.006, 0.012, 0.012),
    (3, 3, 0.0, 0.01, 0.01),
)
"""Agents, seeds, and the standard deviations of an agent, of a random agent's run and of a run of an agent: first those
of `ac_rewards` and of `agent=as_printed`."""


def audit(share: float, tilt: float, budget: int, repeat: int) -> Iterator[tuple[str, float]]:
    """Coverage of the rate of a policy that repeats negatives, and of one that shows many once."""
    rng, count = np.random.default_rng([3, int(1000 * share), int(10 * tilt)]), 6000
    repeating = np.where(rng.random(count) < 0.3, rng.geometric(0.2, count), 0).astype(np.float64)
    flat = np.where(rng.random(count) < 0.9, 1.0, 0.0)
    often = np.log1p(repeating)
    relevant = (rng.random(count) < np.minimum(share * np.exp(tilt * (often - often.mean())), 0.9)).astype(np.float64)
    shown = repeating + flat > 0
    exposures, relevant = [repeating[shown], flat[shown]], relevant[shown]
    held = np.zeros(2)
    for seed in range(repeat):
        drawn = draw(sizes_of(exposures), budget, np.random.default_rng(seed))
        judged = np.full(len(relevant), np.nan)
        judged[drawn.order[:budget]] = relevant[drawn.order[:budget]]
        for policy, times in enumerate(exposures):
            truth, estimate = (times * relevant).sum() / times.sum(), rate(times, drawn.inclusion, judged)
            held[policy] += estimate.low - 1e-12 <= truth <= estimate.high + 1e-12
    for name, covered in zip(("repeats", "shows once"), held / repeat, strict=True):
        yield f"audit, {share:.1%} relevant, tilt {tilt:g}, {budget} judged, a policy that {name}", float(covered)


def recorded(share: float, queries: int, mean: float, budget: int, repeat: int) -> float:
    """Coverage of the rate over all queries, whose shares of relevant negatives differ, from those of recorded ones."""
    rng, held = np.random.default_rng([4, queries, int(100 * share)]), 0
    of = np.repeat(np.arange(queries), rng.integers(5, 40, queries))
    times = rng.geometric(0.4, len(of)).astype(np.float64)
    relevant = (rng.random(len(of)) < rng.beta(0.5, 0.5 / mean - 0.5, queries)[of]).astype(np.float64)
    truth = (times * relevant).sum() / times.sum()
    for seed in range(repeat):
        chance = np.random.default_rng(seed)
        shown = (chance.random(queries) < share)[of]
        drawn = draw(sizes_of([times[shown]]), budget, chance)
        judged = np.full(int(shown.sum()), np.nan)
        judged[drawn.order[:budget]] = relevant[shown][drawn.order[:budget]]
        estimate = rate(times[shown], drawn.inclusion, judged, RecordedQueries(share, of[shown]))
        held += estimate.low <= truth <= estimate.high
    return held / repeat


def made_up_pool(rng: np.random.Generator, topics: int = 15, runs: int = 12, documents: int = 400) -> Pool:
    """A pool of runs of growing quality, over topics with 3% to 25% relevant documents."""
    made = []
    for number in range(topics):
        relevant = rng.random(documents) < rng.uniform(0.03, 0.25)
        scores = rng.normal(0, 1, (runs, documents)) + np.linspace(0.2, 2.5, runs)[:, None] * relevant
        pooled, numbers = np.unique(np.argsort(-scores, axis=1, kind="stable")[:, :60], return_inverse=True)
        ranking, grades = numbers.reshape(runs, 60).astype(np.int32), relevant[pooled].astype(np.int32)
        names = pl.Series([f"d{document:04}" for document in range(len(pooled))])
        judged = np.ones(len(pooled), bool)
        pool = topic_pool(ranking, len(pooled), np.arange(runs, dtype=np.int32))
        made.append(Topic(str(number + 1), pool, names, grades, judged, int(grades.sum())))
    names_of_runs = [f"r{run:02}" for run in range(runs)]
    return Pool(made, names_of_runs, names_of_runs, 60)


def topics(repeat: int) -> Iterator[tuple[str, float]]:
    """Coverage of the relevant documents of single topics, after some judgements each."""
    pool, budgets = made_up_pool(np.random.default_rng(11)), [12, 26, 46]
    table = pl.concat(estimation(ActiveSampling(), pool, seed, budgets) for seed in range(repeat))
    for (budget,), part in table.partition_by("budget", as_dict=True, maintain_order=True).items():
        yield f"single topics, active sampling, {budget} judged", float(part["topics_covered"].to_numpy().mean())


def convergence(of_seed: float, of_run: float, of_agent: float, agents: int, seeds: int, repeat: int) -> float:
    """Coverage of a convergence rate of one half."""
    rng, held = np.random.default_rng([7, agents, seeds]), 0
    names = np.repeat([f"{agent:02}" for agent in range(agents)], seeds)
    for number in range(repeat):
        luck = rng.normal(0, of_seed, seeds)
        chance = pl.DataFrame({"seed": range(seeds), "value": luck + rng.normal(0, of_run, seeds)})
        values = rng.normal(0, of_agent, (agents, 1)) + luck + rng.normal(0, of_run, (agents, seeds))
        runs = pl.DataFrame({"agent": names, "seed": list(range(seeds)) * agents, "value": values.ravel()})
        low, high = rate_interval(runs, chance, number)
        held += low is not None and high is not None and low <= 0.5 <= high
    return held / repeat


def learned(agents: int, seeds: int, of_agent: float, of_chance: float, of_run: float, repeat: int) -> float:
    """Coverage of the difference of a learned method, with several agents, from a random one that is as good."""
    rng, held, queries = np.random.default_rng([9, agents, seeds]), 0, 200
    for _ in range(repeat):
        chance = rng.normal(0, of_chance, (1, seeds, 1)) + rng.normal(0, 0.05 / np.sqrt(2), (1, 1, queries))
        runs = rng.normal(0, of_agent, (agents, 1, 1)) + rng.normal(0, of_run, (agents, seeds, 1))
        runs = runs + rng.normal(0, 0.05 / np.sqrt(2), (1, 1, queries))
        values, methods = dict[str, NDArray[np.float64]](), dict[str, MethodRuns]()
        for name, size, mean in (("learned", agents, runs), ("random", 1, chance)):
            cells = mean + rng.normal(0, CELL / np.sqrt(2), (size, seeds, queries))
            of_method = [
                MeasuredRun(float(cells[agent, seed].mean()), seed, f"{agent}", name=f"{name} {agent} {seed}")
                for agent, seed in np.ndindex(size, seeds)
            ]
            values |= {run.name: cells[divmod(number, seeds)] for number, run in enumerate(of_method)}
            methods[name] = MethodRuns({"method": name, "policy": name}, of_method)
        row = compare([methods["learned"]], methods | {"learned": methods["random"]}, values)["learned"]
        low, high = row["low_both"], row["high_both"]
        held += low is not None and high is not None and low <= 0 <= high
    return held / repeat


def both(seeds: int, queries: int, of_query: float, of_seed: float, repeat: int) -> tuple[float, float]:
    """How often a true null is rejected over seeds and queries, and over seeds alone."""
    rng, rejected = np.random.default_rng([5, seeds, queries]), np.zeros(2)
    for _ in range(repeat):
        effects = rng.normal(0, of_seed, (seeds, 1)) + rng.normal(0, of_query, (1, queries))
        cells: NDArray[np.float64] = effects + rng.normal(0, CELL, (seeds, queries))
        test = crossed_difference(cells)
        rejected += [test.p < LEVEL, mean_difference(cells.mean(1)).p < LEVEL]
    return float(rejected[0] / repeat), float(rejected[1] / repeat)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts",
        nargs="*",
        choices=[*PARTS, []],
        metavar="PART",
        help=f"what is measured, of {', '.join(PARTS)}; all by default",
    )
    parser.add_argument("--repeat", type=int, default=1000, help="repetitions of each setting")
    chosen = parser.parse_args(arguments)
    measured: dict[str, Callable[[], None]] = {"audit": lambda: _covered(
        line for setting in AUDITS for line in audit(*setting, chosen.repeat)
    ), "recorded": lambda: _covered(
        (f"audit, {setting[0]:.0%} of {setting[1]} queries recorded, {setting[2]:.0%} relevant, {setting[3]} judged",
         recorded(*setting, chosen.repeat)) for setting in RECORDED
    ), "topics": lambda: _covered(topics(chosen.repeat)), "convergence": lambda: _covered(
        (f"convergence rate, {agents} agents, {seeds} seeds, sd of a seed {seed:g}, an agent {agent:g}",
         convergence(seed, run, agent, agents, seeds, chosen.repeat)) for seed, run, agent, agents, seeds in AGENTS
    ), "learned": lambda: _covered(
        (f"a learned method's difference, {setting[0]} agents, {setting[1]} seeds, sd of an agent {setting[2]:g}, a "
         f"random run {setting[3]:g}", learned(*setting, chosen.repeat)) for setting in LEARNED
    ), "both": lambda: _rejected(chosen.repeat)}  # fmt: skip
    for part in chosen.parts or PARTS:
        measured[part]()


def _covered(lines: Iterator[tuple[str, float]]) -> None:
    least = 1.0
    for name, share in lines:
        least = min(least, share)
        print(f"{share:.3f}  covered: {name}", flush=True)
    print(f"{least:.3f}  the least of these\n", flush=True)


def _rejected(repeat: int) -> None:
    for seeds, queries, of_query, of_seed in BOTH:
        shares = both(seeds, queries, of_query, of_seed, repeat)
        setting = f"{seeds} seeds, {queries} queries, sd of a query {of_query:g}, a seed {of_seed:g}"
        print(
            f"{shares[0]:.3f}  a true null rejected by p_both: {setting} (by seeds alone {shares[1]:.3f})", flush=True
        )


if __name__ == "__main__":
    main()
