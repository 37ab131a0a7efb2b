import numpy as np
import polars as pl
import pytest

from pyrite.pooling.adjudicators.adjudicator import Adjudicator, judging_order, topic_rng
from pyrite.pooling.adjudicators.autotar import AutoTar
from pyrite.pooling.adjudicators.continuous_learning import ContinuousLearning
from pyrite.pooling.adjudicators.machine_prior import MachinePrior
from pyrite.pooling.adjudicators.sampled import CERTAIN
from pyrite.pooling.adjudicators.scalable_learning import ScalableLearning
from pyrite.pooling.estimates import estimate
from pyrite.pooling.estimation import topic_samples
from pyrite.pooling.pool import Pool, TopicPool, with_machine
from pyrite.pooling.terms import NO_TEXT_NOTE, matrix_of, with_terms
from pyrite.ranking.errors import BadInput
from tests.pooling.made_up import qrels_of

WORDS = ["wing flutter", "boundary layer", "shock wave", "heat transfer"]


@pytest.fixture
def pool(pool_of) -> Pool:
    """A topic about wings, of 24 documents that a run ranks by their number; every fourth is about wings."""
    pool = pool_of([[list(range(24))]], [[int(number % 4 == 0) for number in range(24)]])
    texts = [f"{WORDS[number % 4]} in report {'abcdef'[number // 4]}" for number in range(24)]
    documents = pl.DataFrame({"id": pool.topics[0].documents, "text": texts})
    return with_terms(pool, documents, {"1": "wings that flutter"})


def order_of(method: Adjudicator, pool: Pool) -> list[int]:
    [topic] = pool.topics
    return judging_order(method, topic.pool, topic.grades.astype(float), topic_rng(0, "1"), pool.runs).tolist()


def test_words_are_stemmed_and_rows_have_unit_length(pool):
    vectors = matrix_of(pool.topics[0].pool.terms).toarray()
    assert vectors.shape[0] == 25
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(25))
    alike = vectors[:-1] @ vectors[-1]
    assert (alike[::4] > 0).all()
    assert alike[1] == alike[2] == alike[3] == 0


def test_a_document_without_a_text_has_no_terms_and_is_counted(pool):
    texts = pl.DataFrame({"id": ["d000"], "text": ["wings"]})
    bare = with_terms(pool, texts, {})
    assert bare.notes[NO_TEXT_NOTE] == 23
    assert matrix_of(bare.topics[0].pool.terms)[[5]].nnz == 0


@pytest.mark.parametrize("method", [ContinuousLearning(batch=4), AutoTar(), ScalableLearning(most=50)])
def test_documents_that_read_like_relevant_ones_come_first(method, pool):
    order = order_of(method, pool)
    assert sorted(order) == list(range(24))
    assert {document % 4 for document in order[:6]} == {0}


def test_what_was_judged_turns_it_round(pool):
    # The topic reads like wings, but the heat transfers are what is relevant: judging finds that out.
    [topic] = pool.topics
    relevant = np.arange(24) % 4 == 3
    order = judging_order(ContinuousLearning(3), topic.pool, relevant.astype(float), topic_rng(0, "1"), pool.runs)
    assert relevant[order[:15]].sum() >= 5


def test_batches_grow_by_a_tenth():
    sizes = [1]
    while len(sizes) < 15:
        sizes.append(AutoTar().next_size(sizes[-1]))
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19]
    assert ContinuousLearning(7).next_size(7) == 7


@pytest.mark.nightly
def test_a_batch_stands_for_what_was_not_judged_of_it(random_pool):
    pool = random_pool(np.random.default_rng(5), topics=1, documents=80, depth=30)
    [topic] = pool.topics
    relevant, method = pool.is_relevant(topic), ScalableLearning(most=2)
    passed = 22  # judgements after which every document has been in a batch
    told = []
    for seed in range(40):
        [judged] = topic_samples(method, pool, topic, seed, [passed])
        told.append(estimate(judged).relevant)
        sample = judged.sample
        assert sample.weights.sum() == pytest.approx(topic.pool.size)
        assert (sample.strata[sample.weights == 1] == CERTAIN).all()
    error = np.std(told) / np.sqrt(len(told))
    assert np.std(told) > 0.5
    assert abs(np.mean(told) - relevant.sum()) < 4 * error


def test_a_pool_without_texts_is_refused(pool_of):
    bare: TopicPool = pool_of([[[0, 1]]], [[0, 1]]).topics[0].pool
    with pytest.raises(BadInput, match="learns from texts"):
        AutoTar().start(bare, np.random.default_rng(0), ["run0"])


def graded(pool: Pool, grades: list[int]) -> Pool:
    return with_machine(pool, qrels_of(*(("1", f"d{number:03}", grade) for number, grade in enumerate(grades))))


def test_what_the_machine_finds_relevant_comes_first_and_then_ranks_decide(pool_of):
    grades = [0, 0, 0, 0, 1, 1, 1, 1]
    assert order_of(MachinePrior(), graded(pool_of([[list(range(8))]], [grades]), grades)) == [4, 5, 6, 7, 0, 1, 2, 3]


def test_a_machine_that_is_wrong_is_soon_believed_no_more(pool_of):
    # Thirty that it has for relevant are not. Its word's odds fall to 1.8 / (n + .2), below .2 / 1.8 of the others from
    # n = 16 on (ranks weigh little beside); from the first relevant one on the others lead.
    truth = [0] * 30 + [1] * 30
    pool = graded(pool_of([[list(range(60))]], [truth]), [1 - grade for grade in truth])
    order = order_of(MachinePrior(), pool)
    assert max(order[:10]) < 30
    first = next(place for place, document in enumerate(order) if document >= 30)
    assert 12 <= first <= 24
    assert min(order[first : first + 30]) >= 30


def test_grades_of_other_topics_are_refused(pool):
    with pytest.raises(BadInput, match="no document of the pool"):
        with_machine(pool, qrels_of(("9", "d000", 1)))
    with pytest.raises(BadInput, match="no grades of a machine"):
        MachinePrior().start(pool.topics[0].pool, np.random.default_rng(0), ["run0"])
