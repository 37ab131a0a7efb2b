"""Measures how good the estimates of a sampling order are: bias, error, and how often intervals hold the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pooling.adjudicators.adjudicator import topic_rng
from pooling.adjudicators.sampled import CERTAIN, Sample, Sampled
from pooling.corrected_estimates import Corrected, corrected, sampled_kappa, trusts_in
from pooling.correlation import kendall_tau
from pooling.estimates import CUTOFF, TopicEstimates, estimate, relevant_interval
from pooling.mean_estimates import mean_average_precision, mean_precision
from pooling.pool import Pool, Topic


def estimation(adjudicator: Sampled, pool: Pool, seed: int, budgets: Sequence[int]) -> pl.DataFrame:
    """Estimate from the judgements of each budget, and compare with the values from all judgements of the pool.

    Relevant documents outside the pool are beyond any sample of it: the truth here is the pool's.

    Returns:
        One row per budget: budget, judged (per topic); relevant, relevant_low, relevant_high, relevant_true (documents
            per topic); topics_covered (share of the topics whose interval holds the truth); and for MAP and P@10 over
            the runs their bias (mean difference to the truth), rmse, covered (share of the runs whose interval holds
            the truth), width (mean of half the intervals); tau, between the runs by estimated and by true MAP.
    """
    relevant = [pool.is_relevant(topic) for topic in pool.topics]
    everything = [
        Sample(np.ones(topic.pool.size), np.full(topic.pool.size, CERTAIN, np.int32)) for topic in pool.topics
    ]
    truth = _estimates(pool, everything, relevant)
    by_topic = [topic_samples(adjudicator, pool, topic, seed, budgets) for topic in pool.topics]
    rows = []
    for budget, samples in zip(budgets, zip(*by_topic, strict=True), strict=True):
        row: dict[str, float | None] = {"budget": budget, **_compared(pool, samples, relevant, truth)}
        if all(len(topic.pool.machine) for topic in pool.topics):
            row |= _by_machine(pool, samples, relevant)
        rows.append(row)
    return pl.DataFrame(rows)


def topic_samples(adjudicator: Sampled, pool: Pool, topic: Topic, seed: int, budgets: Sequence[int]) -> list[Sample]:
    """Return the judged documents of a topic when each budget is spent, as samples. Budgets ascend."""
    rng = topic_rng(seed, topic.name)
    rewards = adjudicator.reward(topic.grades, pool.relevant_from, pool.highest)
    state, options = adjudicator.start(topic.pool, rng, pool.runs), adjudicator.options()
    samples, judged = [], 0
    for budget in budgets:
        upto = min(budget, topic.pool.size)
        adjudicator.loop(topic.pool, state, options, rng, rewards, np.empty(upto - judged, np.int32))
        judged = upto
        samples.append(adjudicator.sample(topic.pool, state))
    return samples


def _estimates(pool: Pool, samples: Sequence[Sample], relevant: Sequence[NDArray[np.bool_]]) -> list[TopicEstimates]:
    return [
        estimate(topic.pool, sample, known) for topic, sample, known in zip(pool.topics, samples, relevant, strict=True)
    ]


def _by_machine(
    pool: Pool, samples: Sequence[Sample], relevant: Sequence[NDArray[np.bool_]]
) -> dict[str, float | None]:
    """Estimate from the machine's grades, corrected by the sample; without them if they would widen an interval."""
    count, least, pools = len(pool.topics), pool.relevant_from, [topic.pool for topic in pool.topics]
    trusts = trusts_in(pools, samples, relevant, least)

    def estimates(trusts: Sequence[float]) -> list[Corrected]:
        return [
            corrected(topic_pool, sample, known, least, trust)
            for topic_pool, sample, known, trust in zip(pools, samples, relevant, trusts, strict=True)
        ]

    def interval(estimated: Sequence[Corrected], of: slice = slice(None)) -> tuple[float, float]:
        total, variance = (sum(getattr(each, key) for each in estimated[of]) for key in ("relevant", "variance"))
        return relevant_interval(samples[of], relevant[of], total, variance)

    with_machine, without = estimates(trusts), estimates([0.0] * count)
    covered = []
    for number, known in enumerate(relevant):
        of = slice(number, number + 1)
        low, high = min(interval(with_machine, of), interval(without, of), key=lambda ends: ends[1] - ends[0])
        covered.append(low - 1e-9 <= known.sum() <= high + 1e-9)
    chosen = min(with_machine, without, key=lambda estimated: np.subtract(*interval(estimated)[::-1]))
    low, high = interval(chosen)
    return {
        "machine": sum(estimated.machine for estimated in chosen) / count,
        "corrected": sum(estimated.relevant for estimated in chosen) / count,
        "corrected_low": low / count,
        "corrected_high": high / count,
        "corrected_topics_covered": float(np.mean(covered)),
        "trust": float(np.mean([estimated.trust for estimated in chosen])),
        "kappa": sampled_kappa(pools, samples, relevant, least),
    }


def _compared(
    pool: Pool, samples: Sequence[Sample], relevant: Sequence[NDArray[np.bool_]], truth: Sequence[TopicEstimates]
) -> dict[str, float]:
    estimates = _estimates(pool, samples, relevant)
    topics = len(estimates)
    total, true = sum(estimated.relevant for estimated in estimates), sum(estimated.relevant for estimated in truth)
    variance = sum(estimated.relevant_variance for estimated in estimates)
    low, high = relevant_interval(samples, relevant, total, variance)
    covered = [
        estimated.low - 1e-9 <= known.relevant <= estimated.high + 1e-9
        for estimated, known in zip(estimates, truth, strict=True)
    ]
    row = {
        "judged": float(np.mean([(sample.weights > 0).sum() for sample in samples])),
        "relevant": total / topics,
        "relevant_low": low / topics,
        "relevant_high": high / topics,
        "relevant_true": true / topics,
        "topics_covered": float(np.mean(covered)),
    }
    pools = [topic.pool for topic in pool.topics]
    measures = (
        ("map", "ap", mean_average_precision(estimates, samples, relevant)),
        (f"p{CUTOFF}", "precision", mean_precision(estimates, pools, samples, relevant)),
    )
    for name, of, (means, half) in measures:
        known = np.mean([getattr(estimated, of) for estimated in truth], axis=0)
        row |= {
            f"{name}_bias": float((means - known).mean()),
            f"{name}_rmse": float(np.sqrt(((means - known) ** 2).mean())),
            f"{name}_covered": float((np.abs(means - known) <= half + 1e-12).mean()),
            f"{name}_width": float(half.mean()),
        }
        if of == "ap":
            row["tau"] = kendall_tau(known, means)
    return row
