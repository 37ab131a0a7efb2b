import numpy as np
import pytest
import pytrec_eval

from pooling.average_precision import PoolEvaluation
from pooling.judging_order import JudgingOrder
from pooling.pool import Pool, make_pool
from pooling.runs import read_runs
from pooling.sentinels import UNPOOLED
from ranking.trec_files import read_qrels
from tests.pooling.made_up import random_order


def as_results(ranked: np.ndarray) -> dict[str, float]:
    """A ranking as pytrec_eval takes it; what is not in the pool has an id that the qrels lack."""
    ids = [str(document) if document >= 0 else f"outside{place}" for place, document in enumerate(ranked.tolist())]
    return {document: -float(place) for place, document in enumerate(ids)}


def by_trec_eval(pool: Pool, order: JudgingOrder, spent: np.ndarray) -> dict[str, np.ndarray]:
    """[topics, runs] of `map` and `infAP` with the judged documents; those still to judge have grade -1 for infAP."""
    qrels: dict[str, dict[str, dict[str, int]]] = {"map": {}, "infAP": {}}
    for topic, documents, count in zip(pool.topics, order.documents, spent, strict=True):
        known = {str(d): int(topic.grades[d] >= pool.relevant_from) for d in documents[:count].tolist()}
        qrels["map"][topic.name] = known
        qrels["infAP"][topic.name] = {str(d): -1 for d in range(topic.pool.size)} | known
    values = {measure: np.zeros((len(pool.topics), len(pool.runs))) for measure in qrels}
    for measure, of_measure in qrels.items():
        evaluator = pytrec_eval.RelevanceEvaluator(of_measure, {measure})
        for run in range(len(pool.runs)):
            results = evaluator.evaluate({topic.name: as_results(topic.pool.ranking[run]) for topic in pool.topics})
            for number, topic in enumerate(pool.topics):
                values[measure][number, run] = results[topic.name][measure]
    return values


def test_a_topic_with_one_relevant_document_and_one_with_none(pool_of):
    full = PoolEvaluation(pool_of([[[0, 1]], [[0, 1]]], [[0, 1], [0, 0]])).full()
    assert full.tolist() == [[0.5], [0.0]]


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_trec_eval(random_pool, seed):
    pool = random_pool(np.random.default_rng(seed))
    order, evaluation = random_order(pool, np.random.default_rng(seed)), PoolEvaluation(pool)
    for budget in (1, 3, 10, 20, 100):
        values = evaluation(evaluation.states(order, order.spent(budget)))
        expected = by_trec_eval(pool, order, order.spent(budget))
        np.testing.assert_allclose(values.ap, expected["map"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(values.inf_ap, expected["infAP"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(evaluation.full(), values.ap, rtol=0, atol=1e-12)  # all are judged by now


def test_infap_of_uniform_samples_is_nearly_unbiased_and_of_relevant_first_is_not(random_pool):
    pool = random_pool(np.random.default_rng(8), topics=20, documents=60, depth=30)
    evaluation = PoolEvaluation(pool)
    full = evaluation.full().mean()
    samples = [random_order(pool, np.random.default_rng(seed)) for seed in range(100)]
    states = [evaluation.states(order, order.spent(30)) for order in samples]
    assert np.mean([evaluation(of_sample).inf_ap.mean() for of_sample in states]) == pytest.approx(full, abs=0.03)
    assert np.mean([evaluation(of_sample).ap.mean() for of_sample in states]) < full - 0.1
    oracle = JudgingOrder(
        [np.argsort(~pool.is_relevant(topic), kind="stable").astype(np.int32) for topic in pool.topics]
    )
    assert evaluation(evaluation.states(oracle, oracle.spent(10))).inf_ap.mean() > full + 0.1


def test_grades_below_relevant_are_judged_and_not_relevant(pool_of):
    rankings, order = [[[0, 1, 2]]], JudgingOrder([np.array([0, 1, 2], np.int32)])
    graded = PoolEvaluation(pool_of(rankings, [[1, 3, 2]], relevant_from=2))
    binary = PoolEvaluation(pool_of(rankings, [[0, 1, 1]]))
    for spent in range(4):
        one, other = (e(e.states(order, np.array([spent]))) for e in (graded, binary))
        assert (one.ap == other.ap).all()
        assert (one.inf_ap == other.inf_ap).all()


def test_unpooled_documents_count_for_the_rank_alone(pool_of):
    evaluation = PoolEvaluation(pool_of([[[0, 1, 2]]], [[1, 0, 1]]))
    states = np.array([UNPOOLED, -1, 1, UNPOOLED], np.int8)
    values = evaluation(states)
    assert values.ap[0, 0] == pytest.approx(1 / 3)
    assert values.inf_ap[0, 0] == pytest.approx(1 / 3 + 2 / 3 * 1 / 2 * 1 / 2)  # one pooled of two, a half relevant


def test_trec8_full_map_is_trec_evals(shared_data):
    qrels = read_qrels(shared_data / "trec8" / "qrels.txt.gz")
    folder = shared_data / "trec8" / "runs"
    files = [str(folder / f"input.{name}.gz") for name in ("att99atdc", "READWARE", "UniNET8St")]
    runs = read_runs(files, "file")
    full = PoolEvaluation(make_pool(runs, qrels)).full()
    official: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.select("query", "document", "grade").iter_rows():
        official.setdefault(query, {})[document] = grade
    evaluator = pytrec_eval.RelevanceEvaluator(official, {"map"})
    for run in range(3):
        lists: dict[str, dict[str, float]] = {}
        for _, topic, document, place in runs.table.filter(run=run).iter_rows():
            lists.setdefault(topic, {})[document] = -float(place)
        expected = evaluator.evaluate(lists)
        np.testing.assert_allclose(full[:, run], [expected[topic]["map"] for topic in runs.topics], atol=1e-12)


def test_several_points_at_once_are_each_as_if_alone(random_pool):
    rng = np.random.default_rng(6)
    pool = random_pool(rng, topics=3)
    evaluation = PoolEvaluation(pool)
    order = random_order(pool, rng)
    points = rng.integers(0, 40, (5, 3))  # in no order, and beyond some topics' pools
    (ap, inf_ap), found = evaluation.spent(order, points)
    for point, spent in enumerate(points):
        states = evaluation.states(order, np.minimum(spent, order.sizes))
        alone = evaluation(states)
        assert (ap[point] == alone.ap).all()
        assert (inf_ap[point] == alone.inf_ap).all()
        assert (found[point] == evaluation.found(states)).all()
