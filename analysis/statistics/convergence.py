"""Counts how many learned agents beat the random policy (the convergence rate).

The same learning with another seed gives another agent, and not every agent finds a policy that is better than
choosing at random (Cohen et al. 2019, table 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from polars.selectors import by_name, matches
from scipy import stats

from pyrite.analysis.methods import METHOD, is_learned
from pyrite.analysis.statistics.comparison import TESTS, compare, methods_of
from pyrite.analysis.statistics.places import Places

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
    settled = pl.DataFrame(schema={"run": TEXT, "converged": pl.Boolean()})
    known = trials.select(by_name(settled.columns, require_all=False))
    settled = pl.concat([settled, known], how="diagonal_relaxed")
    rates, agents = list[Row](), [pl.DataFrame(schema=AGENTS)]
    for place in Places(trials).in_order(finished=True):
        results = place.results.join(settled, on="run", how="left", maintain_order="left")
        results = results.sort("value")  # means must not depend on their order
        for rate, of_method in _of_family({name: place.key[name] for name in PLACE}, results, place.columns):
            rates.append(rate)
            agents.append(of_method)
    return pl.DataFrame(rates, schema=RATES).fill_nan(None), pl.concat(agents)


def _of_family(place: Row, family: pl.DataFrame, columns: Sequence[str]) -> Iterator[tuple[Row, pl.DataFrame]]:
    """Yield the rate and the agents of each learned method of a ranker in one place, the highest mean first."""
    runs = methods_of(family, columns)
    methods = family.select(columns).unique("method", keep="first", maintain_order=True).sort("method")
    learned_ones = filter(is_learned, methods.iter_rows(named=True))
    random = {method["method"]: _random(method, methods) for method in learned_ones}
    against = {method: runs[other] for method, other in random.items() if other}
    tests = compare([runs[method] for method in random], against)
    for method in sorted(random, key=lambda name: runs[name].rank):
        learned, chance = (family.filter(method=name) for name in (method, random[method] or ""))
        row: Row = {**place, "method": method, "random": random[method], "random_mean": _mean(chance["value"])}
        agents = _agents(learned, chance, row)
        rate: Row = {**row, "agents": len(agents), "mean": learned["value"].mean(), "best": agents["mean"].max()}
        if method in against:
            better = agents.filter("better")["agent"].to_list()
            rate |= {"better": len(better), "rate": len(better) / len(agents), **tests.get(method, {})}
            rate["rate_low"], rate["rate_high"] = rate_interval(learned, chance)
            rate["better_mean"] = learned.filter(pl.col("agent").is_in(better))["value"].mean()
        converged = pl.col("converged")
        yield rate | agents.select(pl.when(converged.count() > 0).then(converged.sum())).row(0, named=True), agents


def _agents(learned: pl.DataFrame, chance: pl.DataFrame, row: Row) -> pl.DataFrame:
    """Return the agents of a method, by the seeds of their learning, each with the random policy of its own seeds, or
    of all if they share none: a seed that it lacks, as its run failed, must not count on one side alone."""
    rows = list[Row]()
    for (agent,), every in learned.partition_by("agent", as_dict=True).items():
        runs, same = every.join(chance, on="seed", how="semi"), chance.join(every, on="seed", how="semi")
        runs, same = (every, chance) if same.is_empty() else (runs.sort("value"), same.sort("value"))
        figures = {"runs": len(runs), "mean": runs["value"].mean(), "random_mean": _mean(same["value"])}
        rows.append({**row, "agent": agent, **figures, "converged": every[0, "converged"]})
    agents = pl.DataFrame(rows, schema=AGENTS)
    agents = agents.sort(pl.col("agent").str.len_bytes(), "agent")
    return agents.with_columns(better=pl.col("mean") > pl.col("random_mean"))


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None


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
    both = wide.join(chance.group_by("seed").agg(pl.col("value").mean()), on="seed", maintain_order="left")
    seeds, count = len(both), runs["agent"].n_unique()
    if seeds < 2:
        return None, None
    leads = (both.drop("seed", "value").to_numpy() - both["value"].to_numpy()[:, None]).astype(np.float64)
    leads = np.nan_to_num(leads)  # a seed that an agent lacks, as its run failed, is on neither side of its comparison
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
    weights = 1 / seeds + (drawn - 1 / seeds) * np.sqrt(seeds / (seeds - 1))
    better = np.take_along_axis(weights @ leads > 0, rng.integers(count, size=(RESAMPLES, count)), 1)
    low, high = np.quantile(better.mean(1), [0.025, 0.975])
    exact = stats.binomtest(int((leads.mean(0) > 0).sum()), count).proportion_ci(0.95, method="exact")
    return float(min(low, exact.low)), float(max(high, exact.high))


def _random(method: Mapping[str, str], methods: pl.DataFrame) -> str | None:
    """Return the method that chooses at random what a learned method has learned to choose, all else alike.

    For a learned policy that is the random policy; if there is none of the same functions and selector, one of
    others, preferably with selector uniform. For a learned selector it is the uniform one over the same
    function, or else a random policy.
    """
    alike = methods.select(~(by_name(*METHOD, "method") | matches(r"^(policy|selector)\."))).columns
    same = methods.filter(**{key: method[key] for key in alike})
    others = same.filter(pl.col("policy") != "learned", pl.col("selector") != "learned")
    ranked = sorted((_distance(other, method), other["method"]) for other in others.iter_rows(named=True))
    return next((name for distance, name in ranked if not distance[0]), None)


def _distance(other: Mapping[str, str], method: Mapping[str, str]) -> tuple[bool, bool, bool, bool, bool]:
    """Return whether another method does not choose at random, and in what it differs from a learned one."""
    twin = {**method, "selector": "uniform"}
    is_twin = method["selector"] == "learned" and all(other[part] == twin[part] for part in METHOD)
    functions = [set(each["function"].split("+")) for each in (other, method)]
    return (
        other["policy"] != "random" and not is_twin,
        not is_twin,
        functions[0] != functions[1],
        other["selector"] != method["selector"],
        other["selector"] != "uniform",
    )
