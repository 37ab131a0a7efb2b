import numpy as np
import pytest

from pooling.adjudicators.active_sampling import ActiveSampling
from pooling.adjudicators.sampled import Sample
from pooling.adjudicators.stratified_sampling import StratifiedSampling
from pooling.estimates import design_of, estimate
from pooling.estimation import topic_samples
from pooling.pool import TopicPool
from tests.pooling.made_up import HALF_OF_FOUR


def plain_ap(
    pool: TopicPool, sample: Sample, weights: np.ndarray, relevant: np.ndarray, run: int, left: np.ndarray
) -> float | None:
    design = design_of(pool, sample)
    total = float((weights * relevant).sum())
    if total <= 1e-12:
        return None
    held = [(int(d), rank) for rank, d in enumerate(pool.ranking[run], 1) if d >= 0 and relevant[d] and weights[d] > 0]
    added = 0.0
    for place, (document, rank) in enumerate(held):
        added += weights[document] / rank
        for other, _ in held[:place]:
            together = 1.0
            if sample.strata[document] >= 0 and sample.strata[document] == sample.strata[other] and left[document] > 0:
                together -= left[document] * left[other] / design.spread[sample.strata[document]]
            added += weights[document] * weights[other] / (rank * together)
    return added / total


def plain_variance(pool: TopicPool, sample: Sample, relevant: np.ndarray, run: int) -> float:
    """Each drawn document left out in turn, and all computed anew."""
    design = design_of(pool, sample)
    left = np.zeros(pool.size)
    left[design.drawn] = design.rest
    base = plain_ap(pool, sample, sample.weights, relevant, run, left)
    variance = 0.0
    for stratum in range(len(design.sizes)):
        own = [int(d) for d in design.drawn if sample.strata[d] == stratum]
        values = []
        for document in own:
            weights = sample.weights.copy()
            weights[own] *= len(own) / (len(own) - 1) if len(own) > 1 else 0.0
            weights[document] = 0
            found = plain_ap(pool, sample, weights, relevant, run, left)
            values.append(base if found is None else found)
        if own:
            centre = np.mean(values) if len(own) > 1 else base
            factor = (len(own) - 1) / len(own) if len(own) > 1 else 1.0
            variance += factor * sum(left[d] * (v - centre) ** 2 for d, v in zip(own, values, strict=True))
    return float(variance)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("budget", [3, 8, 25])
@pytest.mark.parametrize(
    "method", [ActiveSampling(), StratifiedSampling(bounds=[2, 5], rates=[4, 2, 1])], ids=["active", "stratified"]
)
def test_it_is_what_leaving_out_each_document_gives(random_pool, method, budget):
    pool = random_pool(np.random.default_rng(8), topics=1, documents=40, depth=15)
    [topic] = pool.topics
    relevant = pool.is_relevant(topic)
    for seed in range(3):
        [sample] = topic_samples(method, pool, topic, seed, [budget])
        told = estimate(topic.pool, sample, relevant)
        if told.relevant == 0:
            continue
        seen = relevant & (sample.weights > 0)
        expected = [plain_variance(topic.pool, sample, seen, run) for run in range(len(pool.runs))]
        assert told.ap_variance == pytest.approx(expected, abs=1e-12)
        assert budget < 8 or told.ap_variance.max() > 0


def test_of_two_documents_by_hand(pool_of):
    # Two of four are drawn, at ranks 1 and 2; the first is relevant. AP is 1 with both; without the second too, and
    # without the first nothing is known: the jackknife sees no spread.
    pool = pool_of([[[0, 1, 2, 3]]], [[1, 0, 0, 1]])
    told = estimate(pool.topics[0].pool, HALF_OF_FOUR, np.array([True, False, False, False]))
    assert told.ap_variance.tolist() == [0]
