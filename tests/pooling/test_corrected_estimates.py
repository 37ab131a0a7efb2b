import numpy as np
import polars as pl
import pytest

from pooling.adjudicators.sampled import CERTAIN, Sample
from pooling.adjudicators.stratified_sampling import StratifiedSampling
from pooling.corrected_estimates import corrected, sampled_kappa, trusts_in, verdicts
from pooling.estimation import estimation
from pooling.pool import Pool, with_machine
from tests.pooling.made_up import HALF_OF_FOUR, qrels_of, sample_of_all


def with_noise(pool: Pool, wrong: float, seed: int = 0) -> Pool:
    """The pool with grades of a machine that turns so many of the judgements round."""
    rng = np.random.default_rng(seed)
    rows = [
        (topic.name, document, int(grade > 0) ^ int(rng.random() < wrong))
        for topic in pool.topics
        for document, grade in zip(topic.documents, topic.grades, strict=True)
    ]
    return with_machine(pool, qrels_of(*rows))


def sample_of(size: int, rng: np.random.Generator) -> Sample:
    """A third of a pool, drawn uniformly."""
    drawn = rng.permutation(size)[: size // 3]
    weights, strata = np.zeros(size), np.full(size, CERTAIN, np.int32)
    weights[drawn], strata[drawn] = size / len(drawn), 0
    return Sample(weights, strata)


@pytest.fixture(scope="module")
def pool(random_pool) -> Pool:
    return random_pool(np.random.default_rng(5), topics=6, documents=60, depth=20)


def test_a_sample_corrects_the_machine_by_hand(pool_of):
    # The machine has three of four for relevant; two are judged, each stands for two, and of one it was wrong: 3 - 2.
    grades = qrels_of(*(("1", f"d00{document}", int(document < 3)) for document in range(4)))
    pool = with_machine(pool_of([[[0, 1, 2, 3]]], [[1, 0, 0, 0]]), grades)
    [topic] = pool.topics
    told = corrected(topic.pool, HALF_OF_FOUR, pool.is_relevant(topic), 1, trust=1.0)
    assert (told.relevant, told.machine) == (1, 3)
    assert verdicts(topic.pool, 1).tolist() == [1, 1, 1, 0]
    without = corrected(topic.pool, HALF_OF_FOUR, pool.is_relevant(topic), 1, trust=0.0)
    assert without.relevant == 2
    # Of y - f the two judged are 0 and -1; with one error more: 4 + 2.
    assert told.variance == pytest.approx(16 * 0.5 * 0.5 / 2 + 2)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("wrong", [0.05, 0.3, 0.5])
def test_intervals_hold_the_truth_however_noisy_the_machine(pool, wrong):
    method = StratifiedSampling(bounds=[2, 5], rates=[4, 2, 1])
    rows = pl.concat(estimation(method, with_noise(pool, wrong, seed), seed, [12]) for seed in range(60))
    truth = rows["relevant_true"][0]
    held = ((rows["corrected_low"] <= truth) & (truth <= rows["corrected_high"])).mean()
    assert held >= 0.9
    spread = {name: float(((rows[name] - truth) ** 2).mean() ** 0.5) for name in ("relevant", "corrected", "machine")}
    assert spread["corrected"] < spread["relevant"] * (0.8 if wrong < 0.1 else 1.1)
    if wrong > 0.1:
        assert spread["machine"] > spread["corrected"]
    width = rows["corrected_high"] - rows["corrected_low"]
    if wrong < 0.1:
        assert width.mean() < (rows["relevant_high"] - rows["relevant_low"]).mean()
    trust = float(rows["trust"].mean())
    assert (trust > 0.5) if wrong < 0.1 else (trust < 0.6), trust


def test_a_machine_that_says_nothing_is_not_trusted(pool):
    pools = [topic.pool for topic in with_noise(pool, 0.5).topics]
    every = [sample_of_all(each.size) for each in pools]
    relevant = [pool.is_relevant(topic) for topic in pool.topics]
    assert trusts_in(pools, every, relevant, 1) == [0] * len(pools)  # nothing was drawn, so there is nothing to gain


def test_a_topic_does_not_decide_how_far_its_machine_is_trusted(pool):
    topics = with_noise(pool, 0.1).topics
    pools, relevant = [topic.pool for topic in topics], [pool.is_relevant(topic) for topic in topics]
    rng = np.random.default_rng(3)
    samples = [sample_of(topic.pool.size, rng) for topic in topics]
    before = trusts_in(pools, samples, relevant, 1)
    after = trusts_in(pools, samples, [~relevant[0], *relevant[1:]], 1)
    assert before[0] == after[0] > 0
    assert all(one != other for one, other in zip(before[1:], after[1:], strict=True))
    assert trusts_in(pools[:1], samples[:1], relevant[:1], 1) == [0]  # no other topic to learn from


def test_the_machine_never_widens_an_interval(pool):
    method = StratifiedSampling(bounds=[2, 5], rates=[4, 2, 1])
    rows = pl.concat(estimation(method, with_noise(pool, 0.4, seed), seed, [8, 20]) for seed in range(20))
    width, plain = (rows[f"{name}_high"] - rows[f"{name}_low"] for name in ("corrected", "relevant"))
    assert (width <= plain + 1e-9).all()
    assert (width < plain).any()


def test_kappa_weighs_by_what_a_document_stands_for(pool):
    topics = with_noise(pool, 0.0).topics
    pools, relevant = [topic.pool for topic in topics], [pool.is_relevant(topic) for topic in topics]
    every = [sample_of_all(each.size) for each in pools]
    assert sampled_kappa(pools, every, relevant, 1) == 1
    assert sampled_kappa(pools, every, [~known for known in relevant], 1) < 0
    assert sampled_kappa(pools[:0], [], [], 1) is None
