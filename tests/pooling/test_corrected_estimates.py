import numpy as np
import polars as pl
import pytest

from pyrite.pooling.adjudicators.active_sampling import ActiveSampling
from pyrite.pooling.adjudicators.adjudicator import Adjudication, topic_rng
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.adjudicators.sample_beside import SampleBeside
from pyrite.pooling.adjudicators.sampled import CERTAIN, Sample, Sampled
from pyrite.pooling.adjudicators.stratified_sampling import StratifiedSampling
from pyrite.pooling.corrected_estimates import corrected, sampled_kappa, trusts_in, verdicts
from pyrite.pooling.estimates import JudgedTopic, Z, design_of, estimate, relevant_interval
from pyrite.pooling.estimation import estimation, topic_samples
from pyrite.pooling.mean_estimates import mean_average_precision, mean_precision
from pyrite.pooling.pool import Pool, TopicPool, with_machine
from pyrite.ranking.errors import BadInput
from tests.pooling.made_up import HALF_OF_FOUR, qrels_of, sample_of_all

METHODS: dict[str, Sampled] = {
    "active": ActiveSampling(),
    "stratified": StratifiedSampling(bounds=[2, 5], rates=[4, 2, 1]),
    "beside": SampleBeside(PosteriorFusion(), share=0.4),
}


def with_noise(six_topics: Pool, wrong: float, seed: int = 0) -> Pool:
    """The pool with grades of a machine that turns so many of the judgements round."""
    rng = np.random.default_rng(seed)
    rows = [
        (topic.name, document, int(grade > 0) ^ int(rng.random() < wrong))
        for topic in six_topics.topics
        for document, grade in zip(topic.documents, topic.grades, strict=True)
    ]
    return with_machine(six_topics, qrels_of(*rows))


def sample_of(size: int, rng: np.random.Generator) -> Sample:
    """A third of a pool, drawn uniformly."""
    drawn = rng.permutation(size)[: size // 3]
    weights, strata = np.zeros(size), np.full(size, CERTAIN, np.int32)
    weights[drawn], strata[drawn] = size / len(drawn), 0
    return Sample(weights, strata)


def all_judged(pool: Pool) -> list[JudgedTopic]:
    return [JudgedTopic(topic.pool, sample_of_all(topic.pool.size), pool.is_relevant(topic)) for topic in pool.topics]


@pytest.fixture(scope="module")
def six_topics(random_pool) -> Pool:
    return random_pool(np.random.default_rng(5), topics=6, documents=60, depth=20)


def test_a_sample_corrects_the_machine_by_hand(pool_of):
    # The machine has three of four for relevant; two are judged, each stands for two, and of one it was wrong: 3 - 2.
    grades = qrels_of(*(("1", f"d00{document}", int(document < 3)) for document in range(4)))
    pool = with_machine(pool_of([[[0, 1, 2, 3]]], [[1, 0, 0, 0]]), grades)
    [topic] = pool.topics
    judged = JudgedTopic(topic.pool, HALF_OF_FOUR, pool.is_relevant(topic))
    told = corrected(judged, 1, trust=1.0)
    assert (told.relevant, told.machine) == (1, 3)
    assert verdicts(topic.pool, 1).tolist() == [1, 1, 1, 0]
    assert corrected(judged, 1, trust=0.0).relevant == 2
    # Of y - f the two judged are 0 and -1; with one error more: 4 + 2.
    assert told.variance == pytest.approx(16 * 0.5 * 0.5 / 2 + 2)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("wrong", [0.05, 0.3, 0.5])
def test_intervals_hold_the_truth_however_noisy_the_machine(six_topics, wrong):
    rows = pl.concat(
        estimation(METHODS["stratified"], with_noise(six_topics, wrong, seed), seed, [12]) for seed in range(60)
    )
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


def test_a_machine_that_says_nothing_is_not_trusted(six_topics):
    assert trusts_in(all_judged(with_noise(six_topics, 0.5)), 1) == [0] * 6  # nothing was drawn: nothing to gain


def test_a_topic_does_not_decide_how_far_its_machine_is_trusted(six_topics):
    rng = np.random.default_rng(3)
    judged = all_judged(with_noise(six_topics, 0.1))
    topics = [topic._replace(sample=sample_of(topic.pool.size, rng)) for topic in judged]
    before = trusts_in(topics, 1)
    after = trusts_in([topics[0]._replace(relevant=~topics[0].relevant), *topics[1:]], 1)
    assert before[0] == after[0] > 0
    assert all(one != other for one, other in zip(before[1:], after[1:], strict=True))
    assert trusts_in(topics[:1], 1) == [0]  # no other topic to learn from


def test_the_machine_never_widens_an_interval(six_topics):
    rows = pl.concat(
        estimation(METHODS["stratified"], with_noise(six_topics, 0.4, seed), seed, [8, 20]) for seed in range(20)
    )
    width, plain = (rows[f"{name}_high"] - rows[f"{name}_low"] for name in ("corrected", "relevant"))
    assert (width <= plain + 1e-9).all()
    assert (width < plain).any()


def test_kappa_weighs_by_what_a_document_stands_for(six_topics):
    topics = all_judged(with_noise(six_topics, 0.0))
    assert sampled_kappa(topics, 1) == 1
    assert sampled_kappa([topic._replace(relevant=~topic.relevant) for topic in topics], 1) < 0
    assert sampled_kappa([], 1) is None


@pytest.fixture(scope="module")
def pool(random_pool) -> Pool:
    return random_pool(np.random.default_rng(5), topics=1, documents=60, depth=20)


def test_a_uniform_sample_by_hand(pool_of):
    # Of four documents two are judged, one of them relevant: it stands for two. n²/n-1 … gives N²(1-f)s²/n = 16/2·½·½.
    pool = pool_of([[[0, 1, 2, 3]]], [[1, 0, 0, 1]])
    told = estimate(JudgedTopic(pool.topics[0].pool, HALF_OF_FOUR, np.array([True, False, False, True])))
    assert told.relevant == 2
    assert told.relevant_variance == pytest.approx(16 * 0.5 * 0.5 / 2)
    assert told.precision.tolist() == [0.2]
    assert 1 <= told.low <= 2 <= told.high <= 3  # one was found, and two are left
    # AP is 1 with both; without the second too, and without the first nothing is known: the jackknife sees no spread.
    assert told.ap_variance.tolist() == [0]


def test_first_ranks_that_nobody_drew_may_hold_relevant_documents(pool_of):
    # Two of the last ten documents were drawn, each for five. The first run has one of them in front, relevant, so that
    # its variance is known; the second run has eight that nobody looked at, the third all that are judged anyway.
    ranks = [[10, *range(9)], [*range(12, 20), 0, 1], [*range(10)]]
    pool = pool_of([ranks], [[1] * 10 + [1] + [0] * 9])
    weights, strata = np.ones(20), np.full(20, CERTAIN, np.int32)
    weights[10:], weights[[10, 11]], strata[[10, 11]] = 0.0, 5.0, 0
    topic = JudgedTopic(pool.topics[0].pool, Sample(weights, strata), np.arange(20) <= 10)
    told = estimate(topic)
    assert told.precision_variance[1] == 0
    _, halves = mean_precision([told], [topic])
    assert halves[0] == pytest.approx(Z * np.sqrt(told.precision_variance[0]))
    expected = (1 + 0.5) / (1 + 1)  # one document of anyone's first ten was drawn, and it was relevant
    assert halves[1] == pytest.approx(Z * np.sqrt(8 * (5 - 1) * expected) / 10)
    assert halves[2] == 0


def test_a_topic_without_a_find_may_be_as_good_as_the_others_or_worth_nothing(pool_of):
    pool = pool_of([[[0, 1, 2, 3]], [[0, 1, 2, 3]]], [[1, 0, 0, 0], [0, 0, 0, 1]])
    first, second = all_judged(pool)
    topics = [first, second._replace(sample=HALF_OF_FOUR)]
    told = list(map(estimate, topics))
    assert [each.relevant for each in told] == [1, 0]
    mean, half = mean_average_precision(told, topics)
    assert (mean.tolist(), half.tolist()) == ([0.75], [0.25])  # (1 + 0) / 2 to (1 + 1) / 2


def test_all_judgements_give_the_true_figures(pool_of):
    pool = pool_of([[[0, 1, 2, 3], [3, 2, 1, 0]]], [[1, 0, 1, 0]])
    told = estimate(all_judged(pool)[0])
    assert (told.relevant, told.low, told.high, told.relevant_variance) == (2, 2, 2, 0)
    assert told.ap.tolist() == pytest.approx([(1 + 2 / 3) / 2, (1 / 2 + 2 / 4) / 2])
    assert told.ap_variance.tolist() == [0, 0]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", METHODS)
def test_the_estimate_is_unbiased_whatever_is_judged(name, pool):
    [topic], seeds = pool.topics, 400
    relevant, budgets = pool.is_relevant(topic), [12, 24]
    samples = [topic_samples(METHODS[name], pool, topic, seed, budgets) for seed in range(seeds)]
    told = [list(map(estimate, of_seed)) for of_seed in samples]
    for place in range(len(budgets)):
        every = np.array([each[place].relevant for each in told])
        error = every.std() / np.sqrt(seeds)
        assert abs(every.mean() - relevant.sum()) < 4 * error
        assert every.std() > 0.5, "an estimate that never differs is none"
        variances = np.mean([each[place].relevant_variance for each in told])
        assert variances == pytest.approx(every.var(), rel=0.3)
        held = np.mean([each[place].low <= relevant.sum() <= each[place].high for each in told])
        assert held > 0.8  # of a dozen judgements in three strata; docs/guide/pooling.md has what real pools give


def test_the_authors_estimator_says_too_little_while_it_learns(pool):
    [topic], means = pool.topics, {}
    for name in ("lure", "horvitz_thompson"):
        method = ActiveSampling(estimator=name)
        samples = [topic_samples(method, pool, topic, seed, [12])[0] for seed in range(300)]
        means[name] = np.mean([estimate(judged).relevant for judged in samples])
    assert means["horvitz_thompson"] < means["lure"] - 0.3


def test_documents_judged_elsewhere_are_certain_and_others_wait_for_their_judgement(pool):
    [topic] = pool.topics
    for method in METHODS.values():
        people = Adjudication(method, topic.pool, topic_rng(1, topic.name), pool.runs)
        people.judge(0, 1)
        first, second = people.next(), people.next()
        people.judge(second, 1)
        sample = method.sample(topic.pool, people.state)
        assert sample.weights[0] == 1
        assert sample.strata[0] == CERTAIN
        assert sample.weights[first] == 0
        people.judge(first, 0)
        sample = method.sample(topic.pool, people.state)
        assert sample.weights[[first, second]].min() >= 1


def test_what_was_found_bounds_the_interval(pool_of):
    [topic] = pool_of([[[0, 1, 2, 3]]], [[0] * 4]).topics
    low, high = relevant_interval([JudgedTopic(topic.pool, HALF_OF_FOUR, np.zeros(4, bool))], 0.0, 0.0)
    assert low == 0
    assert 0 < high <= 2  # a sample that found nothing does not say that there is nothing


def test_estimation_reports_bias_and_coverage(pool):
    table = estimation(METHODS["stratified"], pool, 3, [10, pool.size])
    assert table["relevant"][1] == table["relevant_true"][1]
    assert table["map_rmse"][1] == pytest.approx(0)
    assert table["map_covered"][1] == table["topics_covered"][1] == 1
    assert table["map_rmse"][0] > 0
    assert estimation(METHODS["stratified"], pool, 3, [10, pool.size]).equals(table)


def test_bounds_that_do_not_rise_and_rates_that_are_too_few_are_refused():
    for options in ({"bounds": [5, 5]}, {"rates": [1]}):
        with pytest.raises(BadInput):
            StratifiedSampling(**options)


def test_single_topics_of_active_sampling(random_pool):
    pool = random_pool(np.random.default_rng(8), topics=8, runs=8, documents=120, depth=40)
    rows = pl.concat(estimation(ActiveSampling(), pool, seed, [12, 26]) for seed in range(20))
    for budget in (12, 26):
        assert rows.filter(pl.col("budget") == budget)["topics_covered"].to_numpy().mean() >= 0.93


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
@pytest.mark.parametrize("name", ["active", "stratified"])
def test_it_is_what_leaving_out_each_document_gives(random_pool, name, budget):
    pool = random_pool(np.random.default_rng(8), topics=1, documents=40, depth=15)
    [topic] = pool.topics
    for seed in range(3):
        [judged] = topic_samples(METHODS[name], pool, topic, seed, [budget])
        told = estimate(judged)
        if told.relevant == 0:
            continue
        seen = judged.relevant & (judged.sample.weights > 0)
        expected = [plain_variance(topic.pool, judged.sample, seen, run) for run in range(len(pool.runs))]
        assert told.ap_variance == pytest.approx(expected, abs=1e-12)
        assert budget < 8 or told.ap_variance.max() > 0
