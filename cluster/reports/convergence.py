"""Counts how many learned agents beat the random policy (the convergence rate).

The same learning with another seed gives another agent, and not every agent finds a policy that is better than
choosing at random (Cohen et al. 2019, table 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl
from scipy import stats

from cluster.output.methods import METHOD, column_of, evaluations, factors, is_learned, measurements
from cluster.output.storage import Storage
from cluster.reports.comparison import TESTS, compare, runs_of
from cluster.runs.agent_file import FILE
from ranking.checkpoint import from_bytes

PLACE = ("collection", "candidates", "measure", "ranker")
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


@dataclass(frozen=True)
class Learned:
    """A learned method in one place, and the random policy that it is held against.

    Args:
        place: collection, candidates, measure and ranker.
        runs: the method's done runs: agent, value, and whether the agent has converged.
        method, random: their names; `random` is None where the study has no random policy there.
        chance: mean of the random policy's runs.
        tests: of the method's runs against the random policy's: the columns of TESTS.
    """

    place: dict[str, str]
    runs: pl.DataFrame
    method: str
    random: str | None
    chance: float | None
    tests: Mapping[str, float | None]


def agents(trials: pl.DataFrame) -> pl.DataFrame:
    """What the rankers of each agent reach, beside those of the random policy.

    Args:
        trials: the frame of `trials.parquet`; the order of its rows does not matter.

    Returns:
        One row an agent and place: collection, candidates, measure, ranker, method, agent (its seed; "-" where the
        study has one alone), runs and their mean, random and random_mean (the random policy that it is held
        against and what its runs reach; null without one), converged (by the agent's own criterion, null without
        one), and better, whether the agent's mean is higher.
    """
    rows: list[Row] = []
    for learned in _learned(trials):
        for agent in sorted(learned.runs["agent"].unique(), key=lambda seed: (len(seed), seed)):
            values = learned.runs.filter(agent=agent)["value"]
            row: Row = {**learned.place, "method": learned.method, "agent": agent}
            row |= {"runs": len(values), "mean": values.mean()}
            settled = learned.runs.filter(agent=agent)["converged"]
            row |= {"random": learned.random, "random_mean": learned.chance, "converged": settled.first()}
            rows.append(row)
    return pl.DataFrame(rows, schema=AGENTS).with_columns(better=pl.col("mean") > pl.col("random_mean"))


def convergence(trials: pl.DataFrame) -> pl.DataFrame:
    """The convergence rate of each learned method: what `convergence.csv` holds.

    Args:
        trials: the frame of `trials.parquet`; the order of its rows does not matter.

    Returns:
        The columns that docs/reference/results.md documents, one row per learned method and place; no rows if
        nothing is learned.
    """
    each = agents(trials)
    rows: list[Row] = []
    for learned in _learned(trials):
        own = each.filter(*(pl.col(name) == value for name, value in learned.place.items()), method=learned.method)
        better = own.filter(pl.col("better"))
        row: Row = {**learned.place, "method": learned.method, "agents": len(own)}
        if learned.random is not None:
            row |= {"better": len(better), "rate": len(better) / len(own), **learned.tests}
            row["rate_low"], row["rate_high"] = interval(len(better), len(own))
            of_better = learned.runs.filter(pl.col("agent").is_in(better["agent"].to_list()))
            row["better_mean"] = of_better["value"].mean()
        if own["converged"].null_count() < len(own):
            row["converged"] = int(own["converged"].sum())
        row |= {"mean": learned.runs["value"].mean(), "best": own["mean"].max()}
        rows.append(row | {"random": learned.random, "random_mean": learned.chance})
    return pl.DataFrame(rows, schema=RATES)


def interval(better: int, agents: int) -> tuple[float, float]:
    """The 95% interval of a share that was counted (Clopper and Pearson 1934): never narrower than it says."""
    found = stats.binomtest(better, agents).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)


def with_converged(trials: pl.DataFrame, storage: Storage) -> pl.DataFrame:
    """Say of each run whether the agent that the study learned for it has converged; null without a criterion.

    Args:
        trials: the frame of `trials.parquet`.
        storage: the study's folder, whose `agents/` are read.
    """
    found = re.compile(r"(?:policy|selector)\.checkpoint=\S*/agents/([^/\s']+)")
    named = [each[1] if (each := found.search(text or "")) else None for text in trials["overrides"]]
    converged: dict[str, bool | None] = {}
    for name in {name for name in named if name is not None}:
        content = storage.read(f"agents/{name}/{FILE}")
        converged[name] = from_bytes(content, name)["facts"].get("converged") if content else None
    column = [None if name is None else converged[name] for name in named]
    return trials.with_columns(converged=pl.Series(column, dtype=pl.Boolean))


def _learned(trials: pl.DataFrame) -> Iterator[Learned]:
    """Every learned method in every place, in the order of the places in the summary."""
    settled = pl.col("converged") if "converged" in trials.columns else pl.lit(None, pl.Boolean).alias("converged")
    every = measurements(trials).join(trials.select("run", settled), on="run", how="left")
    every = every.drop_nulls("value").sort("value")  # means must not depend on their order
    keys = [column_of(key) for key in factors(trials)]
    origins = list(dict.fromkeys(origin for origin, _ in evaluations(trials)))
    places = sorted(evaluations(trials), key=lambda pair: origins.index(pair[0]))
    for collection in every["collection"].unique().sort():
        for candidates, measure in places:
            here = every.filter(collection=collection, candidates=candidates, measure=measure)
            for ranker in here["ranker"].unique().sort():
                place = dict(zip(PLACE, (collection, candidates, measure, ranker), strict=True))
                yield from _of_family(place, here.filter(ranker=ranker), keys)


def _of_family(place: dict[str, str], family: pl.DataFrame, keys: list[str]) -> Iterator[Learned]:
    methods = list(family.select(*METHOD, *keys, "method").unique().sort("method").iter_rows(named=True))
    runs = {
        method["method"]: runs_of(family.filter(method=method["method"]), (*METHOD, *keys, "method"))
        for method in methods
    }
    learned = [method for method in methods if is_learned(method)]
    random = {method["method"]: _random(method, methods, keys) for method in learned}
    against = {method: runs[other] for method, other in random.items() if other is not None}
    tests = compare([runs[method["method"]] for method in learned], against)
    for method in sorted(random, key=lambda name: (-runs[name].mean, name)):
        own, other = family.filter(method=method), random[method]
        chance = runs[other].mean if other is not None else None
        yield Learned(place, own.select("agent", "value", "converged"), method, other, chance, tests.get(method, {}))


def _random(method: Mapping[str, str], methods: list[dict[str, str]], keys: list[str]) -> str | None:
    """The method that chooses at random what a learned method has learned to choose, all else alike.

    For a learned policy that is the random policy; where there is none of the same functions and selector, one of
    others serves, first of all with selector uniform. For a learned selector it is the uniform one over the same
    function, or else a random policy.
    """
    alike = [key for key in keys if key.split(".")[0] not in ("policy", "selector")]
    others = [other for other in methods if not is_learned(other) and all(other[key] == method[key] for key in alike)]
    if method["selector"] == "learned":
        uniform = {**method, "selector": "uniform"}
        for other in others:
            if all(other[part] == uniform[part] for part in METHOD):
                return other["method"]

    def distance(other: Mapping[str, str]) -> tuple[bool, bool, bool, str]:
        functions, own = (set(each["function"].split("+")) for each in (other, method))
        selectors = other["selector"] != method["selector"], other["selector"] != "uniform"
        return (functions != own, *selectors, other["method"])

    random = [other for other in others if other["policy"] == "random"]
    return min(random, key=distance)["method"] if random else None
