import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pooling.pool import make_pool, topic_pool
from pooling.runs import read_runs
from pooling.sentinels import NO_DOCUMENT
from ranking.errors import BadInput
from ranking.trec_files import read_qrels
from tests.pooling.made_up import qrels_of, runs_of

RUNS = runs_of({"a1": {"1": "cab", "2": "x"}, "a2": {"1": "bdc"}, "b": {"1": "e", "2": "yx", "3": "z"}})
QRELS = qrels_of(("1", "a", 1), ("1", "d", 0), ("1", "e", 2), ("1", "q", 1), ("2", "x", 0), ("4", "x", 1))


def test_a_pool():
    pool = make_pool(RUNS, QRELS, depth=2)
    assert [topic.name for topic in pool.topics] == ["1", "2"]
    assert pool.runs == ["a1", "a2", "b"]
    assert pool.teams == ["a", "a", "b"]
    first, second = pool.topics
    assert first.documents.to_list() == ["a", "b", "c", "d", "e"]
    assert first.pool.ranking.tolist() == [[2, 0], [1, 3], [4, NO_DOCUMENT]]
    assert first.pool.lengths.tolist() == [2, 2, 1]
    assert first.pool.teams.tolist() == [0, 0, 1]
    assert first.grades.tolist() == [1, 0, 0, 0, 2]
    assert first.judged.tolist() == [True, False, False, True, True]
    assert first.relevant == 3
    assert second.pool.ranking.tolist() == [[0, NO_DOCUMENT], [NO_DOCUMENT, NO_DOCUMENT], [1, 0]]
    assert second.pool.lengths.tolist() == [1, 0, 2]
    assert pool.size == 7
    assert pool.depth == 2
    assert pool.highest == 2
    assert pool.is_relevant(first).tolist() == [True, False, False, False, True]
    assert pool.notes == {
        "read": 7,
        "judgements of -1 (pooled, not judged)": 0,
        "pooled documents without a judgement (taken as not relevant)": 3,
        "relevant documents outside the pool": 1,
        "topics of the runs that the judgements lack": 1,
        "topics of the judgements that the runs lack": 1,
        "topics that a run lacks": 1,
        "lists shorter than the pool's depth": 2,
    }


def test_higher_grades_alone():
    pool = make_pool(RUNS, QRELS, relevant_from=2)
    assert pool.is_relevant(pool.topics[0]).tolist() == [False, False, False, False, True]
    assert [topic.relevant for topic in pool.topics] == [1, 0]
    assert pool.notes["relevant documents outside the pool"] == 0
    assert make_pool(RUNS, QRELS, relevant_from=3).highest == 3


def test_without_judgements():
    pool = make_pool(RUNS, None)
    assert [topic.name for topic in pool.topics] == ["1", "2", "3"]
    assert not any(topic.judged.any() or topic.grades.any() or topic.relevant for topic in pool.topics)
    assert pool.notes["pooled documents without a judgement (taken as not relevant)"] == 0


def test_of_two_judgements_the_last_counts():
    pool = make_pool(RUNS, qrels_of(("2", "x", 1), ("2", "x", 0), ("2", "y", 0), ("2", "y", 1)))
    assert pool.topics[0].grades.tolist() == [0, 1]
    assert pool.topics[0].relevant == 1


def test_topics_of_ones_choice():
    pool = make_pool(RUNS, None)
    some = pool.only(["3", "1"])
    assert [topic.name for topic in some.topics] == ["1", "3"]
    assert (some.runs, some.teams, some.depth, some.notes) == (pool.runs, pool.teams, pool.depth, pool.notes)


@pytest.mark.parametrize("options", [{"depth": 0}, {"relevant_from": 0}])
def test_options_out_of_range(options):
    with pytest.raises(BadInput, match="1 or more"):
        make_pool(RUNS, QRELS, **options)


@given(st.lists(st.lists(st.integers(0, 9), max_size=6, unique=True), min_size=1, max_size=6).filter(any))
def test_a_topics_arrays_say_the_same(lists):
    ranking = np.full((len(lists), 6), NO_DOCUMENT, np.int32)
    for run, documents in enumerate(lists):
        ranking[run, : len(documents)] = documents
    pool = topic_pool(ranking, 10)
    assert pool.size == 10
    assert pool.lengths.tolist() == [len(documents) for documents in lists]
    assert pool.teams.tolist() == list(range(len(lists)))
    documents = np.repeat(np.arange(10), np.diff(pool.offsets))
    cells = list(zip(documents.tolist(), pool.holders.tolist(), pool.ranks.tolist(), strict=True))
    expected = [(document, run, rank) for run, row in enumerate(lists) for rank, document in enumerate(row)]
    assert cells == sorted(expected)


def test_trec8(shared_data):
    # Losada et al. (2016): 94.04 relevant documents a topic in the pool (table 2), 94.56 known of (table 1).
    pool = make_pool(read_runs(str(shared_data / "trec8" / "runs")), read_qrels(shared_data / "trec8" / "qrels.txt.gz"))
    assert (len(pool.topics), len(pool.runs), pool.depth) == (50, 71, 100)
    assert np.mean([pool.is_relevant(topic).sum() for topic in pool.topics]) == pytest.approx(94.04)
    assert np.mean([topic.relevant for topic in pool.topics]) == pytest.approx(94.56)


def test_a_depth_beyond_the_longest_list_costs_nothing():
    deep, whole = (make_pool(RUNS, QRELS, depth=depth) for depth in (10**9, 3))
    for topic, other in zip(deep.topics, whole.topics, strict=True):
        assert topic.pool.ranking.tolist() == other.pool.ranking.tolist()
        assert topic.pool.ranking.shape == (3, 3)
