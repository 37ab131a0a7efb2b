"""Counts how many learned agents beat the random policy (the convergence rate).

The same learning with another seed gives another agent, and not every agent finds a policy that is better than
choosing at random (Cohen et al. 2019, table 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
import polars as pl
from scipy import stats

from pyrite.analysis.methods import METHOD, evaluations_by_origin, is_learned, measurements, method_columns
from pyrite.analysis.statistics.comparison import TESTS, compare, methods_of

PLACE = ("collection", "candidates", "measure", "ranker")
RESAMPLES = 4999
TEXT, NUMBER, WHOLE = pl.String(), pl.Float64(), pl.Int64()
AGENTS = {
    **dict.fromkeys((*PLACE, "method", "agent"), TEXT), "runs": WHOLE, "mean": NUMBER,
    "random": TEXT, "random_mean": NUMBER, "converged": pl.Boolean(), "better": pl.Boolean(),
}  # fmt: skip
RATES = {
    **dict.fromkeys((*PLACE, "method"), TEXT), "agents": WHOLE, "better": WHOLE, "rate": NUMBER,
    "rate_low": NUMBER, "rate_high": NUMBER, "converged": WHOLE, "mean": NUMBER,
    "best": NUMBER, "better_mean": NUMBER, "random": TEXT, "random_mean": NUMBER,
    **dict.fromkeys(TESTS, NUMBER), "pairs": WHOLE,
}  # fmt: skip

Row = dict[str, object]


def convergence(trials: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Compare the agents of each learned method in each place with the random policy.

    Returns:
        The table in `convergence.csv`, which docs/reference/results.md documents, one row per learned method and place;
        and the columns of AGENTS, one row per agent: its seed ("-" if the study has only one), the mean of its rankers,
        the random policy and its mean (null without one), whether the agent has converged (null without a criterion),
        and whether its mean is the higher one.
    """
    columns = method_columns(trials)
    settled = pl.col("converged") if "converged" in trials.columns else pl.lit(None, pl.Boolean).alias("converged")
    every = measurements(trials).join(trials.select("run", settled), on="run", how="left")
    every = every.drop_nulls("value").sort("value")  # means must not depend on their order
    rates, agents = list[Row](), [pl.DataFrame(schema=AGENTS)]
    for collection, (candidates, measure) in product(
        every["collection"].unique().sort(), evaluations_by_origin(trials)
    ):
        here = every.filter(collection=collection, candidates=candidates, measure=measure)
        for ranker in here["ranker"].unique().sort():
            place = dict(zip(PLACE, (collection, candidates, measure, ranker), strict=True))
            for rate, of_method in _of_family(place, here.filter(ranker=ranker), columns):
                rates.append(rate)
                agents.append(of_method)
    return pl.DataFrame(rates, schema=RATES), pl.concat(agents)


def _of_family(place: Row, family: pl.DataFrame, columns: list[str]) -> Iterator[tuple[Row, pl.DataFrame]]:
    """Yield the rate and the agents of each learned method of a ranker in one place, the highest mean first."""
    methods = list(family.select(columns).unique().sort("method").iter_rows(named=True))
    runs = methods_of(family, columns)
    random = {method["method"]: _random(method, methods) for method in methods if is_learned(method)}
    against = {method: runs[other] for method, other in random.items() if other is not None}
    tests = compare([runs[method] for method in random], against)
    for method in sorted(random, key=lambda name: (-runs[name].mean, name)):
        learned, chance = (family.filter(method=name or "") for name in (method, random[method]))
        chance_mean = float(chance["value"].to_numpy().mean()) if len(chance) else None
        row: Row = {**place, "method": method, "random": random[method], "random_mean": chance_mean}
        by_agent = {
            agent: learned.filter(agent=agent)
            for agent in sorted(learned["agent"].unique(), key=lambda seed: (len(seed), seed))
        }
        agents = pl.DataFrame(
            [
                {**row, "agent": agent, "runs": len(of_agent), "mean": of_agent["value"].mean(),
                 "converged": of_agent["converged"].first()}
                for agent, of_agent in by_agent.items()
            ],
            schema=AGENTS,
        ).with_columns(better=pl.col("mean") > pl.col("random_mean"))  # fmt: skip
        row |= {"agents": len(agents), "mean": learned["value"].mean(), "best": agents["mean"].max()}
        if random[method] is not None:
            better = agents.filter("better")["agent"].to_list()
            row |= {"better": len(better), "rate": len(better) / len(agents), **tests.get(method, {})}
            row["rate_low"], row["rate_high"] = rate_interval(learned, chance)
            row["better_mean"] = learned.filter(pl.col("agent").is_in(better))["value"].mean()
        if agents["converged"].null_count() < len(agents):
            row["converged"] = int(agents["converged"].sum())
        yield row, agents


def rate_interval(runs: pl.DataFrame, chance: pl.DataFrame, seed: int = 0) -> tuple[float | None, float | None]:
    """The 95% interval of a convergence rate, by a bootstrap over agents and over the seeds of both sides.

    All agents are compared with one random policy over the same few seeds, so they are above or below it together: the
    exact interval of a share (Clopper and Pearson 1934), which takes agents as independent, is too narrow, and here is
    a lower limit of the width. Seeds' weights are spread by n / (n - 1), or a bootstrap of few would be too narrow.

    Args:
        runs, chance: the runs of the agents (agent, seed, value) and of the random policy (seed, value).

    Returns:
        (low, high); None if the two sides share fewer than two seeds.
    """
    wide = runs.pivot("agent", index="seed", values="value", aggregate_function="mean").sort("seed")
    both = wide.join(chance.group_by("seed").agg(pl.col("value").mean()), on="seed", maintain_order="left").drop_nulls()
    seeds, count = len(both), runs["agent"].n_unique()
    if seeds < 2:
        return None, None
    leads = (both.drop("seed", "value").to_numpy() - both["value"].to_numpy()[:, None]).astype(np.float64)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
    weights = 1 / seeds + (drawn - 1 / seeds) * np.sqrt(seeds / (seeds - 1))
    better = np.take_along_axis(weights @ leads > 0, rng.integers(count, size=(RESAMPLES, count)), 1)
    low, high = np.quantile(better.mean(1), [0.025, 0.975])
    exact = stats.binomtest(int((leads.mean(0) > 0).sum()), count).proportion_ci(0.95, method="exact")
    return float(min(low, exact.low)), float(max(high, exact.high))


def _random(method: Mapping[str, str], methods: list[dict[str, str]]) -> str | None:
    """The method that chooses at random what a learned method has learned to choose, all else alike.

    For a learned policy that is the random policy; if there is none of the same functions and selector, one of
    others, preferably with selector uniform. For a learned selector it is the uniform one over the same
    function, or else a random policy.
    """
    alike = [key for key in method if key not in (*METHOD, "method") and not key.startswith(("policy.", "selector."))]
    others = [other for other in methods if not is_learned(other) and all(other[key] == method[key] for key in alike)]
    if method["selector"] == "learned":
        uniform = {**method, "selector": "uniform"}
        for other in others:
            if all(other[part] == uniform[part] for part in METHOD):
                return other["method"]

    def distance(other: Mapping[str, str]) -> tuple[bool, bool, bool, str]:
        of_other, of_method = (set(part["function"].split("+")) for part in (other, method))
        selectors = other["selector"] != method["selector"], other["selector"] != "uniform"
        return (of_other != of_method, *selectors, other["method"])

    random = [other for other in others if other["policy"] == "random"]
    return min(random, key=distance)["method"] if random else None
