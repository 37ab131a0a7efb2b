from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import pytrec_eval

from pyrite.ranking.bm25 import Bm25Options
from pyrite.ranking.encoding import EncodedCollection, Encoder
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import (
    Bm25Candidates,
    Candidates,
    FullCollection,
    Origin,
    OwnCategory,
    RandomCandidates,
    RunFileCandidates,
)
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.sources import Sources
from tests.made_up import collection_of, labelled
from tests.ranking.trained import Lengths

QUERIES = np.arange(8)
MEASURES = {"AP": "map", "RR": "recip_rank", "nDCG": "ndcg", "P@3": "P_3", "R@3": "recall_3"}


def test_bm25s_candidates_are_its_list(tiny_sources):
    found = Bm25Candidates(4).candidates(tiny_sources, QUERIES[2:5])
    lists, _ = tiny_sources.bm25(Bm25Options()).search(QUERIES[2:5], 4)
    np.testing.assert_array_equal(found.documents, lists.documents)
    assert found.depth == 4


def test_random_candidates_hold_all_relevant_documents_and_no_document_twice(tiny_sources):
    found = RandomCandidates(6).candidates(tiny_sources, QUERIES)
    assert found.documents.shape == (8, 6)
    relevant = tiny_sources.encoded.judgements.relevant()
    for query, row in enumerate(found.documents.tolist()):
        assert set(relevant.of(query)[0].tolist()) <= set(row)
        assert len(set(row)) == 6


@pytest.mark.parametrize(("depth", "expected"), [(1, [1, 1, 2, 1, 2, 2, 2, 1]), (12, [12] * 8), (100, [12] * 8)])
def test_random_candidates_of_few_and_of_all(depth, expected, tiny_sources):
    assert (RandomCandidates(depth).candidates(tiny_sources, QUERIES).documents >= 0).sum(axis=1).tolist() == expected


def test_random_candidates_depend_on_query_and_seed_alone(tiny_sources):
    every = RandomCandidates(6).candidates(tiny_sources, QUERIES)
    some = RandomCandidates(6).candidates(tiny_sources, np.array([1, 6]))
    other = RandomCandidates(6, seed=1).candidates(tiny_sources, QUERIES)
    np.testing.assert_array_equal(some.documents, every.documents[[1, 6]])
    assert not np.array_equal(every.documents, other.documents)
    taken = every.take(np.array([1, 6]))
    np.testing.assert_array_equal(taken.documents, some.documents)
    np.testing.assert_array_equal(taken.first_stage.scores, some.first_stage.scores)
    assert taken.queries.tolist() == [1, 6]


def test_random_candidates_are_uniform(tiny_sources):
    """Over the documents that are not relevant."""
    counts = np.zeros(12)
    for seed in range(300):
        counts[RandomCandidates(4, seed).candidates(tiny_sources, np.array([0])).documents[0]] += 1
    assert counts[0] == 300  # the relevant one
    assert np.abs(counts[1:] / 300 - 3 / 11).max() < 0.09


def test_run_file_candidates(tmp_path, tiny_sources):
    (tmp_path / "run").write_text("q5 Q0 d4 1 3 x\nq5 Q0 d30 2 5 x\nq1 Q0 d9 1 1 x\n")
    found = RunFileCandidates(str(tmp_path / "run"), 3).candidates(tiny_sources, np.array([4, 5]))
    assert found.documents.tolist() == [[4, 6, -1], [-1, -1, -1]]
    assert found.first_stage.scores.tolist() == [[5, 3, -np.inf], [-np.inf] * 3]  # the run's own
    np.testing.assert_array_equal(found.first_stage.documents, found.documents)


def pytrec(
    encoded: EncodedCollection, ids: list[str], queries: np.ndarray, documents: np.ndarray, scores: np.ndarray
) -> dict[str, list[float]]:
    """The values of trec_eval for a run with these scores."""
    qrel: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for query, row, values in zip(queries, documents, scores, strict=True):
        judged, grades = encoded.judgements.of(query)
        qrel[f"q{query}"] = {ids[document]: int(grade) for document, grade in zip(judged, grades, strict=True)}
        run[f"q{query}"] = {ids[d]: float(score) for d, score in zip(row, values, strict=True) if d >= 0}
    named = {"map", "recip_rank", "ndcg", "P.3", "recall.3"}
    evaluated = pytrec_eval.RelevanceEvaluator(qrel, named, encoded.judgements.relevant_from).evaluate(run)
    return {
        name: [evaluated.get(f"q{query}", {}).get(theirs, 0.0) for query in queries]
        for name, theirs in MEASURES.items()
    }


ORIGINS: list[Origin] = [
    *(Bm25Candidates(5), RandomCandidates(7), RandomCandidates(12)),
    *(FullCollection(12), FullCollection(5), FullCollection(None), OwnCategory(None), OwnCategory(2)),
]


@pytest.mark.parametrize("relevant_from", [1, 2])
@pytest.mark.parametrize("origin", ORIGINS)
def test_values_are_trec_evals(origin, relevant_from, tiny_sources):
    """Also of graded judgements: what is relevant from grade 2 on still gains 1 in nDCG by grade 1."""
    judgements = replace(tiny_sources.encoded.judgements, relevant_from=relevant_from)
    tiny_sources = Sources(
        tiny_sources.collection, replace(tiny_sources.encoded, judgements=judgements), tiny_sources.vectors
    )
    encoded, ids = tiny_sources.encoded, tiny_sources.collection.documents["id"].to_list()
    candidates, ranker = origin.candidates(tiny_sources, QUERIES), Lengths()
    values = Evaluation(encoded, candidates, list(MEASURES))(ranker)
    documents = candidates.documents
    if documents is None:
        documents = np.tile(np.arange(12), (8, 1))
    if candidates.categories is not None:  # of four documents each
        documents = np.stack([np.flatnonzero(encoded.documents.labels[:, 0] == own) for own in candidates.categories])
    scores = score_candidates(ranker, encoded, QUERIES, documents)
    assert any(len(np.unique(row)) < len(row) for row in scores)  # there are ties to break
    if candidates.documents is None:  # the first ones of all, in trec_eval's order
        order = np.lexsort((-encoded.document_key[documents], -scores), axis=1)[:, : candidates.depth]
        documents, scores = (np.take_along_axis(array, order, 1) for array in (documents, scores))
    for name, expected in pytrec(encoded, ids, QUERIES, documents, scores).items():
        np.testing.assert_allclose(values[name], expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("origin", ORIGINS)
def test_bm25s_own_values_are_trec_evals(origin, tiny_sources):
    encoded, ids = tiny_sources.encoded, tiny_sources.collection.documents["id"].to_list()
    candidates = origin.candidates(tiny_sources, QUERIES)
    values = Evaluation(encoded, candidates, list(MEASURES)).of_bm25()
    expected = pytrec(encoded, ids, QUERIES, candidates.first_stage.documents, candidates.first_stage.scores)
    for name in MEASURES:
        np.testing.assert_allclose(values[name], expected[name], atol=1e-6, err_msg=name)


def test_relevant_documents_that_are_no_candidates_count_as_missed(tiny_sources):
    candidates = Candidates(np.array([2]), np.array([[9, -1]], np.int32), tiny_sources.bm25(Bm25Options()).search(
        np.array([2]), 2)[0], 2)  # fmt: skip
    assert Evaluation(tiny_sources.encoded, candidates, ["AP"])(Lengths())["AP"].tolist() == [0.5]


@pytest.mark.parametrize("origin", [RandomCandidates(5), FullCollection(5), OwnCategory(None)])
def test_a_ranker_that_scores_nan_is_an_error(origin, tiny_sources):
    evaluation = Evaluation(tiny_sources.encoded, origin.candidates(tiny_sources, QUERIES), ["AP"])
    with pytest.raises(FloatingPointError):
        evaluation(Lengths(float("nan")))


@pytest.mark.parametrize("origin", ORIGINS)
def test_no_queries(origin, tiny_sources):
    evaluation = Evaluation(tiny_sources.encoded, origin.candidates(tiny_sources, np.zeros(0, np.int64)), ["AP"])
    assert evaluation(Lengths())["AP"].shape == (0,)
    assert evaluation.of_bm25()["AP"].shape == (0,)


def test_a_query_whose_every_document_is_relevant(tiny_sources, encoded_of):
    encoded = encoded_of([[1], [2, 3]], [[1]], {0: {0: 1, 1: 2}})
    sources = Sources(collection_of(["a", "b c"], ["a"]), encoded, tiny_sources.vectors)
    for origin in (RandomCandidates(3), FullCollection(3)):
        evaluation = Evaluation(encoded, origin.candidates(sources, np.zeros(1, np.int64)), ["AP", "nDCG"])
        assert evaluation(Lengths())["AP"].tolist() == [1]


SIX: list[Any] = [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "a"), (6, None)]  # words, category
ASKED: list[Any] = [  # words, category, relevant documents
    (1, "a", [2, 3]),
    (4, "b", [3]),
    (6, None, [4]),
    (2, "c", [0]),  # a category that no document has
    (6, "a", [5]),  # its one relevant document is of none
    (1, "a", [4]),
    (3, "b", [0, 1, 3]),
]
# Of a: 0, 2, 4 in this order for a word; of b: 3 and then 1 for four words and for three.
WITHIN = {
    "R@1": [0, 1, 0, 0, 0, 0, 1 / 3],
    "R@5": [1 / 2, 1, 1, 0, 0, 1, 2 / 3],
    "RR": [1 / 2, 1, 1 / 2, 0, 0, 1 / 3, 1],
    "AP": [1 / 4, 1, 1 / 2, 0, 0, 1 / 3, 2 / 3],
}


@pytest.fixture(scope="module")
def six() -> Sources:
    """Six documents and seven queries of as many words as `SIX` and `ASKED` say."""
    texts, labels = [], []
    for rows in (SIX, ASKED):
        texts.append([" ".join(["word"] * words) for words, *_ in rows])
        labels.append([(category, None) for _, category, *_ in rows])
    judged = [(f"q{q}", f"d{d}", 1) for q, (_, _, relevant) in enumerate(ASKED) for d in relevant]
    made = labelled(collection_of(*texts, judged), *labels)
    made = replace(made, self_documents="keep")  # a document may have the text of a query
    return Sources(made, Encoder(min_count=1).encode(made)[0], None)


def test_the_space_of_a_category_by_hand(six):
    candidates = OwnCategory(None).candidates(six, np.arange(7))
    assert candidates.documents is None
    assert candidates.depth is None
    values = Evaluation(six.encoded, candidates, list(WITHIN))(Lengths())
    for name, of_queries in WITHIN.items():
        assert values[name].tolist() == pytest.approx(of_queries), name


@pytest.mark.parametrize(
    ("origin", "reciprocal"),
    [
        (FullCollection(2), [0, 1, 1 / 2, 0, 1, 0, 1 / 2]),
        (OwnCategory(2), [1 / 2, 1, 1 / 2, 0, 0, 0, 1]),
        (OwnCategory(1), [0, 1, 0, 0, 0, 0, 1]),
    ],
)
def test_ranks_beyond_the_depth_do_not_count(origin, reciprocal, six):
    candidates = origin.candidates(six, np.arange(7))
    assert Evaluation(six.encoded, candidates, ["RR"])(Lengths())["RR"].tolist() == pytest.approx(reciprocal)
    whole = type(origin)(None).candidates(six, np.arange(7)).head(candidates.depth)
    assert Evaluation(six.encoded, whole, ["RR"])(Lengths())["RR"].tolist() == pytest.approx(reciprocal)


def test_an_own_categorys_queries_are_measured_alone_as_together(six):
    every = OwnCategory(None).candidates(six, np.arange(7))
    assert every.categories.tolist() == [0, 1, -1, 2, 0, 0, 1]
    some = np.array([1, 2, 5])
    for candidates in (every.take(some), OwnCategory(None).candidates(six, some)):
        assert candidates.categories.tolist() == [1, -1, 0]
        assert Evaluation(six.encoded, candidates, ["RR"])(Lengths())["RR"].tolist() == pytest.approx([1, 1 / 2, 1 / 3])


def test_the_best_order_within_a_category_lacks_what_lies_outside(six):
    ideal = Evaluation(six.encoded, OwnCategory(None).candidates(six, np.arange(7)), ["AP", "RR"]).of_ideal()
    assert ideal["AP"].tolist() == pytest.approx([1 / 2, 1, 1, 0, 0, 1, 2 / 3])
    assert ideal["RR"].tolist() == [1, 1, 1, 0, 0, 1, 1]
    everything = Evaluation(six.encoded, FullCollection(None).candidates(six, np.arange(7)), ["AP"])
    assert everything.of_ideal()["AP"].tolist() == [1] * 7


def test_bm25s_own_order_within_a_category(tiny_sources):
    """Its order over everything, without other categories."""
    whole, _ = tiny_sources.bm25(Bm25Options()).search(QUERIES, 12)
    own = OwnCategory(3).candidates(tiny_sources, QUERIES)
    labels, asked = tiny_sources.encoded.documents.labels, tiny_sources.encoded.queries.labels
    lists = whole.documents.tolist(), own.first_stage.documents.tolist()
    for row, found, category in zip(*lists, asked[:, 0], strict=True):
        expected = [document for document in row if document >= 0 and labels[document, 0] == category][:3]
        assert [document for document in found if document >= 0] == expected
