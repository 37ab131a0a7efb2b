"""Measures how good the estimates of a sampling order are: bias, error, and how often intervals hold the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from pyrite.pooling.adjudicators.adjudicator import topic_rng
from pyrite.pooling.adjudicators.sampled import CERTAIN, Sample, Sampled
from pyrite.pooling.corrected_estimates import Corrected, corrected, sampled_kappa, trusts_in
from pyrite.pooling.correlation import kendall_tau
from pyrite.pooling.estimates import CUTOFF, JudgedTopic, TopicEstimates, estimate, relevant_interval
from pyrite.pooling.mean_estimates import mean_average_precision, mean_precision
from pyrite.pooling.pool import Pool, Topic


def estimation(adjudicator: Sampled, pool: Pool, seed: int, budgets: Sequence[int]) -> pl.DataFrame:
    """Estimate from the judgements of each budget, and compare with the values from all judgements of the pool.

    Relevant documents outside the pool are beyond any sample of it: the truth here is the pool's.

    Returns:
        One row per budget: budget, judged (per topic); relevant, relevant_low, relevant_high, relevant_true (documents
            per topic); topics_covered (share of the topics whose interval holds the truth); and for MAP and P@10 over
            the runs their bias (mean difference to the truth), rmse, covered (share of the runs whose interval holds
            the truth), width (mean of half the intervals); tau, between the runs by estimated and by true MAP.
    """
    everything = [
        JudgedTopic(topic.pool, Sample(np.ones(size), np.full(size, CERTAIN, np.int32)), pool.is_relevant(topic))
        for topic, size in zip(pool.topics, np.diff(pool.offsets).tolist(), strict=True)
    ]
    truth = list(map(estimate, everything))
    by_topic = [topic_samples(adjudicator, pool, topic, seed, budgets) for topic in pool.topics]
    rows = []
    for budget, topics in zip(budgets, zip(*by_topic, strict=True), strict=True):
        row: dict[str, float | None] = {"budget": budget, **_compared(topics, truth)}
        if all(len(topic.pool.machine) for topic in topics):
            row |= _by_machine(topics, pool.relevant_from)
        rows.append(row)
    return pl.DataFrame(rows)


def topic_samples(
    adjudicator: Sampled, pool: Pool, topic: Topic, seed: int, budgets: Sequence[int]
) -> list[JudgedTopic]:
    """Return what is judged of a topic when each budget is spent. Budgets ascend."""
    rng = topic_rng(seed, topic.name)
    rewards = adjudicator.reward(topic.grades, pool.relevant_from, pool.highest)
    state, options = adjudicator.start(topic.pool, rng, pool.runs), adjudicator.options()
    samples, judged = [], 0
    for budget in budgets:
        upto = min(budget, topic.pool.size)
        adjudicator.loop(topic.pool, state, options, rng, rewards, np.empty(upto - judged, np.int32))
        judged = upto
        samples.append(JudgedTopic(topic.pool, adjudicator.sample(topic.pool, state), pool.is_relevant(topic)))
    return samples


def _by_machine(topics: Sequence[JudgedTopic], relevant_from: int) -> dict[str, float | None]:
    """Estimate from the machine's grades, corrected by the sample; without them if they would widen an interval."""

    def interval(estimated: Sequence[Corrected], of: slice = slice(None)) -> tuple[float, float]:
        total, variance = (sum(getattr(each, key) for each in estimated[of]) for key in ("relevant", "variance"))
        return relevant_interval(topics[of], total, variance)

    with_machine, without = (
        [corrected(topic, relevant_from, trust) for topic, trust in zip(topics, trusts, strict=True)]
        for trusts in (trusts_in(topics, relevant_from), [0.0] * len(topics))
    )
    covered = []
    for number, topic in enumerate(topics):
        of = slice(number, number + 1)
        low, high = min(interval(with_machine, of), interval(without, of), key=lambda ends: ends[1] - ends[0])
        covered.append(low - 1e-9 <= topic.relevant.sum() <= high + 1e-9)
    chosen = min(with_machine, without, key=lambda estimated: np.subtract(*interval(estimated)[::-1]))
    low, high = interval(chosen)
    return {
        "machine": sum(estimated.machine for estimated in chosen) / len(topics),
        "corrected": sum(estimated.relevant for estimated in chosen) / len(topics),
        "corrected_low": low / len(topics),
        "corrected_high": high / len(topics),
        "corrected_topics_covered": float(np.mean(covered)),
        "trust": float(np.mean([estimated.trust for estimated in chosen])),
        "kappa": sampled_kappa(topics, relevant_from),
    }


def _compared(judged: Sequence[JudgedTopic], truth: Sequence[TopicEstimates]) -> dict[str, float]:
    estimates = list(map(estimate, judged))
    topics = len(estimates)
    total, true = sum(estimated.relevant for estimated in estimates), sum(estimated.relevant for estimated in truth)
    variance = sum(estimated.relevant_variance for estimated in estimates)
    low, high = relevant_interval(judged, total, variance)
    covered = [
        estimated.low - 1e-9 <= known.relevant <= estimated.high + 1e-9
        for estimated, known in zip(estimates, truth, strict=True)
    ]
    row = {
        "judged": float(np.mean([(topic.sample.weights > 0).sum() for topic in judged])),
        "relevant": total / topics,
        "relevant_low": low / topics,
        "relevant_high": high / topics,
        "relevant_true": true / topics,
        "topics_covered": float(np.mean(covered)),
    }
    measures = (
        ("map", "ap", mean_average_precision(estimates, judged)),
        (f"p{CUTOFF}", "precision", mean_precision(estimates, judged)),
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
