"""Compares conclusions from few judgements with those from all, and finds which policies gain by feeding the pool."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.methods import METHOD, evaluations, measurements, swept
from pyrite.analysis.statistics.paired import by_seed, mean_difference, values_by_seed
from pyrite.pooling.correlation import kendall_tau
from pyrite.ranking.evaluation.significance import holm

KEYS = ("order", "budget", "feeders", "of")
PLACE = ("collection", "candidates", "measure")
ALPHA = 0.05
TEXT, NUMBER, COUNT = pl.String(), pl.Float64(), pl.Int64()
SCHEMA: dict[str, Any] = {
    **dict.fromkeys((*PLACE, "order"), TEXT), "budget": COUNT, "feeders": TEXT, "of": TEXT,
    "tau": NUMBER, "winner": TEXT, "by_all": TEXT, "same": NUMBER, "opposite": NUMBER, "pairs": COUNT,
    "enough": pl.Boolean(),
}  # fmt: skip
"""Columns of partial_judgements.parquet."""
PROFITS: dict[str, Any] = {
    **dict.fromkeys((*PLACE, "order"), TEXT), "budget": COUNT, "policy": TEXT, "feeders": TEXT,
    "value": NUMBER, "unfed": NUMBER, "gain": NUMBER, "low": NUMBER, "high": NUMBER,
}  # fmt: skip
"""Columns of profits.parquet."""


def few_judgements(trials: pl.DataFrame) -> pl.DataFrame:
    """Compare the policies by partial and by all judgements, at every place, order and budget.

    A policy is a policy, functions and a selector; the same seeds trained it with either judgements. Of two policies
    one is better if a paired t-test over seeds finds a difference (p < .05, Holm over the pairs).

    Returns:
        tau (between the policies' means), winner and by_all (the best by either), same (share of the pairs of policies
        decided alike), opposite (share decided the other way round), pairs, and enough: whether from this budget of the
        order on every pair is decided alike. Empty if nothing was judged in part.
    """
    rows: list[dict[str, Any]] = []
    for place, here in _results(trials).partition_by(*PLACE, as_dict=True).items():
        every = values_by_seed(here.filter(pl.col("order").is_null()), "policy")
        partial = here.drop_nulls("order")
        for (order, feeders, of), parts in partial.partition_by("order", "feeders", "of", as_dict=True).items():
            of_order = []
            for (budget,), part in sorted(parts.partition_by("budget", as_dict=True).items()):
                few = values_by_seed(part, "policy")
                common = sorted(every.keys() & few.keys())
                if len(common) < 2:
                    continue
                row = dict(zip(PLACE, place, strict=True)) | {"order": order, "feeders": feeders, "of": of}
                of_order.append(row | {"budget": budget} | _compared(every, few, common))
            alike = True
            for row in reversed(of_order):
                alike = alike and row["same"] == 1
                row["enough"] = alike
            rows += of_order
    return pl.DataFrame(rows, schema=SCHEMA).sort(*PLACE, "of", "feeders", "order", "budget")


def profits(trials: pl.DataFrame) -> pl.DataFrame:
    """The gain in a policy's measure if rankers of one kind of negatives were among the systems pooled, over seeds."""
    results = _results(trials).drop_nulls("order")
    rows: list[dict[str, Any]] = []
    for place, here in results.partition_by(*PLACE, "order", "budget", as_dict=True).items():
        unfed = values_by_seed(here.filter(feeders="[]"), "policy")
        for (feeders,), part in here.filter(pl.col("feeders") != "[]").partition_by("feeders", as_dict=True).items():
            for policy, values in values_by_seed(part, "policy").items():
                gains = by_seed(values, unfed.get(policy, {}))
                if len(gains) < 2:
                    continue
                gain, low, high, _, _ = mean_difference(gains)
                rows.append({
                    **dict(zip((*PLACE, "order", "budget"), place, strict=True)), "policy": policy, "feeders": feeders,
                    "value": _mean(values), "unfed": _mean(unfed[policy]), "gain": gain, "low": low, "high": high,
                })  # fmt: skip
    return pl.DataFrame(rows, schema=PROFITS).sort(*PLACE, "order", "budget", "policy", "feeders")


def _results(trials: pl.DataFrame) -> pl.DataFrame:
    """One row per run and place: collection, candidates, measure, order (null: all judgements), budget, feeders, of,
    policy, seed, value."""
    keys = swept(trials).filter(pl.col("key").str.starts_with("judging."))
    if "judging.order" not in keys["key"].to_list():
        return pl.DataFrame(schema={**dict.fromkeys((*PLACE, *KEYS, "policy"), TEXT), "seed": COUNT, "value": NUMBER})
    candidates, measure = evaluations(trials)[0]
    frame = measurements(trials).filter(candidates=candidates, measure=measure).drop_nulls("value")
    for key in KEYS:
        of_key = keys.filter(key=f"judging.{key}").select("run", pl.col("value").alias(key))
        frame = frame.drop(key, strict=False).join(of_key, on="run", how="left", maintain_order="left")
    fixed = pl.col("policy") == "fixed"
    policy = pl.when(fixed).then(pl.col("function")).otherwise(pl.format("{}({})", *METHOD[1:3]))
    return frame.drop("collection").join(trials.select("run", "collection"), on="run").select(
        *PLACE, "order", pl.col("budget").cast(COUNT), pl.col("feeders").fill_null("[]"), pl.col("of").fill_null("all"),
        policy.alias("policy"), "seed", "value",
    )  # fmt: skip


def _mean(values: dict[int, float]) -> float:
    return float(np.mean(list(values.values())))


def _compared(
    every: dict[str, dict[int, float]], few: dict[str, dict[int, float]], common: list[str]
) -> dict[str, Any]:
    by_all, by_few = (np.array([_mean(of[policy]) for policy in common]) for of in (every, few))
    before, now = decided(every, common), decided(few, common)
    return {
        "tau": kendall_tau(by_all, by_few),
        "winner": common[int(by_few.argmax())],
        "by_all": common[int(by_all.argmax())],
        "same": float(np.mean(before == now)),
        "opposite": float(np.mean(before * now < 0)),
        "pairs": len(before),
    }


def decided(values: dict[str, dict[int, float]], policies: list[str]) -> NDArray[np.int64]:
    """For each pair of policies which is better: 1 the first, -1 the second, 0 neither (paired t over seeds, Holm)."""
    tests = [mean_difference(by_seed(values[one], values[other])) for one, other in combinations(policies, 2)]
    varied = [test.p if test.low < test.high else 1.0 for test in tests]
    return np.where(holm(varied) < ALPHA, np.sign([test.mean for test in tests]), 0).astype(np.int64)
