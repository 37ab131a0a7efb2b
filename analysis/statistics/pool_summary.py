"""Summarises a pooling study by method and budget (Losada et al. 2016, tables 2 and 3, for the user's pool)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.statistics.crossed import Floats, deviation
from pyrite.analysis.statistics.paired import mean_difference
from pyrite.pooling.effort import WHOLE
from pyrite.pooling.pool import Pool
from pyrite.ranking.evaluation.significance import holm

RESAMPLES = 1000
ALPHA = 0.05
UNJUDGED = 0.1
"""The share of documents without a judgement above which `unjudged` returns them."""


def summarise_pools(budgets: pl.DataFrame, methods: Sequence[str], baseline: str | None) -> pl.DataFrame:
    """The relevant documents that each method found at each budget.

    Args:
        budgets: pool, method, seed, budget (`WHOLE` for the whole pool), topic, judged, found.
        methods: labels, in the order in which they are shown.
        baseline: the label that the others are tested against; None, or one that is missing, tests none.

    Returns:
        pool, method, judgements ("100", …, "all"), budget, found_mean (relevant documents per topic, mean over seeds),
        found_std (over seeds), low, high (95% interval over topics and seeds), best (of the pool's methods at this
        budget), difference (to the baseline), p (paired t-test over topics, of means over seeds, Holm-corrected over
        the methods of a pool and budget; null for the baseline, without one, and with fewer than three topics).
    """
    rows: list[dict[str, Any]] = []
    for (pool, budget), part in budgets.partition_by("pool", "budget", as_dict=True, maintain_order=True).items():
        by_method = part.partition_by("method", as_dict=True, maintain_order=True)
        matrices = {str(method): _matrix(of_method) for (method,), of_method in by_method.items()}
        best, against = max(float(values.mean()) for values in matrices.values()), matrices.get(baseline or "")
        p = {} if against is None or budget == WHOLE else _tests(matrices, baseline, methods)
        for method in filter(matrices.__contains__, methods):
            values = matrices[method]
            (low, high), mean = _interval(values), float(values.mean())
            rows.append({
                "pool": pool, "method": method, "judgements": "all" if budget == WHOLE else str(budget),
                "budget": budget, "found_mean": mean, "found_std": deviation((values - values[0]).mean(1)), "low": low,
                "high": high, "best": bool(np.isclose(mean, best)),
                "difference": None if against is None else mean - float(against.mean()), "p": p.get(method),
            })  # fmt: skip
    # A method's rows together: a reader that guesses types soon sees that judgements may be "all".
    pools = budgets["pool"].unique(maintain_order=True).to_list()
    rows.sort(key=lambda row: (pools.index(row["pool"]), methods.index(row["method"]), row["budget"] == WHOLE))
    figures = dict.fromkeys(("found_std", "difference", "p"), pl.Float64)
    return pl.DataFrame(rows, schema_overrides=figures).with_columns(pl.col("found_std", "p").fill_nan(None))


def _tests(matrices: Mapping[str, Floats], baseline: str | None, methods: Sequence[str]) -> dict[str, float]:
    """Return p of each method against the baseline, by Holm's method."""
    against = matrices[baseline or ""].mean(0)
    others = [method for method in methods if method in matrices and method != baseline]
    raw = [mean_difference(matrices[method].mean(0) - against).p for method in others]
    return dict(zip(others, holm(raw).tolist(), strict=True))


@dataclass(frozen=True)
class Unjudged:
    """The documents of a pool without a judgement, if they are more than a tenth.

    Args:
        count, of: their number, and that of all documents.
        depth: the depth down to which 95% are judged; None if there is none.
    """

    count: int
    of: int
    depth: int | None


def unjudged(pool: Pool) -> Unjudged | None:
    """Return the documents without a judgement; None if they are at most a tenth."""
    topics = [topic for topic in pool.topics if topic.pool.size]
    ranks = np.concatenate([np.minimum.reduceat(topic.pool.ranks, topic.pool.offsets[:-1]) for topic in topics])
    judged = np.concatenate([topic.judged for topic in topics])
    share = 1 - float(judged.mean())
    if share <= UNJUDGED:
        return None
    counts = np.bincount(ranks, minlength=pool.depth).cumsum()
    known = np.bincount(ranks, judged, minlength=pool.depth).cumsum()
    fitting = np.flatnonzero(known >= 0.95 * counts)
    return Unjudged(round(share * pool.size), pool.size, int(fitting[-1]) + 1 if len(fitting) else None)


def pool_contrasts(budgets: pl.DataFrame, pairs: Sequence[Sequence[str]]) -> pl.DataFrame:
    """How much more one method found than another, for the pairs that were named beforehand.

    A question that was asked before anyone looked is one test: it is not corrected for the other methods, as those of
    `summarise_pools` are. Pairs with a missing method (it failed) are left out.

    Returns:
        pool, method, against, judgements, difference (mean over topics of the means over seeds), low, high (Student's
        95% interval over topics), p (paired t-test over topics, uncorrected). Null if there is no t: fewer than three
        topics, or the same difference on all, unless it is 0.
    """
    rows: list[dict[str, Any]] = []
    parts = budgets.filter(pl.col("budget") != WHOLE).partition_by("pool", "budget", as_dict=True, maintain_order=True)
    for method, against in pairs:
        for (pool, budget), part in parts.items():
            first, other = part.filter(method=method), part.filter(method=against)
            if not len(first) or not len(other):
                continue
            differences = _matrix(first).mean(0) - _matrix(other).mean(0)
            test = mean_difference(differences)
            row = {"pool": pool, "method": method, "against": against, "judgements": budget, "difference": test.mean}
            rows.append(row | test._asdict())
    columns = {"pool": pl.String, "method": pl.String, "against": pl.String, "judgements": pl.Int64}
    return pl.DataFrame(rows, columns | dict.fromkeys(("difference", "low", "high", "p"), pl.Float64)).fill_nan(None)


def efforts(effort: pl.DataFrame) -> pl.DataFrame:
    """Means over seeds: pool, method, area, to_50, to_80, to_90 (`pyrite.pooling.effort`)."""
    return effort.group_by("pool", "method", maintain_order=True).agg(pl.exclude("seed").mean())


def estimate_errors(estimates: pl.DataFrame) -> pl.DataFrame:
    """The errors of estimates over seeds: means by pool, method and budget, and for the relevant documents also bias,
    rmse and covered (share of the seeds whose interval holds the truth)."""
    error = pl.col("relevant") - pl.col("relevant_true")
    held = pl.col("relevant_true").is_between(pl.col("relevant_low") - 1e-9, pl.col("relevant_high") + 1e-9)
    keys = ("pool", "method", "budget")
    return estimates.group_by(*keys, maintain_order=True).agg(
        pl.exclude("seed", *keys).fill_nan(None).mean(),
        bias=error.mean(),
        rmse=(error**2).mean().sqrt(),
        covered=held.mean(),
    )


def over_seeds(table: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """The numbers of a table averaged over seeds, by pool, method and keys; names of runs are left out."""
    numbers = [name for name, dtype in table.schema.items() if dtype.is_numeric() and name not in ("seed", *keys)]
    return table.group_by("pool", "method", *keys, maintain_order=True).agg(
        pl.col(name).fill_nan(None).mean() for name in numbers
    )


def _matrix(of_method: pl.DataFrame) -> NDArray[np.float64]:
    """Relevant documents found: float64 [seeds, topics]."""
    return of_method["found"].to_numpy().astype(np.float64).reshape(of_method["seed"].n_unique(), -1)


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of the mean, drawing topics and seeds with replacement."""
    rng = np.random.default_rng(0)
    seeds, topics = values.shape
    # How often each is drawn: the mean of a draw is then one product of matrices.
    of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
    of_topics = rng.multinomial(topics, np.full(topics, 1 / topics), RESAMPLES) / topics
    means = ((of_seeds @ values) * of_topics).sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


CLOSE = 0.95
"""The share of the most found that a method finds which is taken to lead."""


@dataclass(frozen=True)
class PoolConclusion:
    """The order of judging that a pool is advised to take, as facts.

    Args:
        pool: its name.
        baseline: the method that others are tested against; None if there is none.
        best: the method that finds 90% of the relevant documents first; of those that find them at once, the one that
            finds more over all budgets. None if no judged document is relevant.
        after: its judgements per topic until then.
        other: the baseline, or else the next method; None if no other one finds 90%.
        other_after: the judgements of that one.
        tested: the number of budgets at which the best is tested against the baseline.
        better_at: the budgets at which it finds more.
        leaders: the methods that find most, each with the last budget at which it leads, by budget.
    """

    pool: str
    baseline: str | None
    best: str | None = None
    after: float = 0.0
    other: str | None = None
    other_after: float = 0.0
    tested: int = 0
    better_at: Sequence[str] = ()
    leaders: Sequence[tuple[str, int]] = ()


def conclude_pool(pool: str, summary: pl.DataFrame, effort: pl.DataFrame, baseline: str | None) -> PoolConclusion:
    """Conclude a pool, from the frames of `summarise_pools` and `efforts`."""
    of_pool, reached = summary.filter(pool=pool), effort.filter(pool=pool).drop_nulls("to_90").drop_nans("to_90")
    conclusion = PoolConclusion(pool, baseline, leaders=_leaders(of_pool))
    if reached.is_empty():
        return conclusion
    first, *others = reached.sort("to_90", "area", "method", descending=[False, True, False]).rows(named=True)
    tests = of_pool.filter(method=first["method"]).drop_nulls("p")
    better = tests.filter(pl.col("p") < ALPHA, pl.col("difference") > 0)
    conclusion = replace(
        conclusion, best=first["method"], after=first["to_90"], tested=len(tests),
        better_at=better["judgements"].to_list(),
    )  # fmt: skip
    # The baseline, if it is another method; or the next one.
    for other in sorted(others, key=lambda row: row["method"] != baseline)[:1]:
        conclusion = replace(conclusion, other=other["method"], other_after=other["to_90"])
    return conclusion


def _leaders(summary: pl.DataFrame) -> list[tuple[str, int]]:
    """Return the methods that find most, each with the last budget at which it leads.

    The one of the budget before is kept while it finds almost as much as the best one (`CLOSE`).
    """
    leaders: list[tuple[str, int]] = []
    for budget in summary.filter(pl.col("budget") != WHOLE)["budget"].unique().sort():
        here = summary.filter(budget=budget)
        close = here.filter(pl.col("found_mean") >= CLOSE * pl.col("found_mean").max())
        best = close.sort("best", descending=True, maintain_order=True)["method"].to_list()
        before = leaders[-1][0] if leaders else ""
        name = before if before in best else best[0]
        leaders[-1 if name == before else len(leaders) :] = [(name, budget)]
    return leaders
