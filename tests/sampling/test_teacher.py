"""Scores of a teacher, asked for once."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ranking.pair_scores import PairScores
from sampling import teacher as teaching
from sampling.guard import Guard, negatives_lists
from sampling.retrieval import given, run_file
from sampling.retrieval.bm25 import Bm25Function
from sampling.teacher import teacher_scores


def test_pairs_are_found_and_others_are_nan():
    known = PairScores.of(np.array([2, 0, 0]), np.array([1, 3, 0]), np.array([5.0, -np.inf, 7.0]), 4)
    found = known.lookup(np.array([0, 2, 1]), np.array([[0, 3], [1, -1], [1, 0]]))
    np.testing.assert_array_equal(found, np.array([[7, np.nan], [5, np.nan], [np.nan, np.nan]], np.float32))
    nothing = PairScores.of(np.zeros(0, int), np.zeros(0, int), np.zeros(0), 4)
    assert np.isnan(nothing.lookup(np.array([0]), np.array([[1]]))).all()


def test_bm25_teaches_what_is_relevant_and_what_lists_hold(tiny_sources):
    teacher, function = Bm25Function(), Bm25Function(depth=3)
    lists, _, _ = negatives_lists(function, tiny_sources, Guard())
    queries = np.arange(4)
    known = teacher_scores(teacher, tiny_sources, queries, [lists])
    np.testing.assert_allclose(
        known.lookup(queries, lists.documents[:4])[lists.documents[:4] >= 0],
        lists.scores[:4][lists.documents[:4] >= 0],
        rtol=1e-6,
    )
    relevant = tiny_sources.encoded.judgements.relevant()
    own = [relevant.of(query)[0][:1] for query in queries]
    expected = teacher.own_scores(tiny_sources, queries, np.stack(own))
    found = known.lookup(queries, np.stack(own))
    assert np.isfinite(expected).any()
    np.testing.assert_allclose(found[np.isfinite(expected)], expected[np.isfinite(expected)])
    assert np.isnan(found[~np.isfinite(expected)]).all()
    assert np.isnan(known.lookup(np.array([5]), lists.documents[5:6])).all()  # nobody asked about this query


def test_what_was_given_is_sorted_once_however_often_it_is_asked(tiny_sources, tmp_path, monkeypatch):
    """64 queries at a time: anew each time would take as often as long for twice the queries."""
    (tmp_path / "a.run").write_text("q1 Q0 d5 1 3.5 x\nq2 Q0 d7 1 2.5 x\n")
    calls: list[str] = []

    def counted(name: str, of: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            return of(*arguments)

        return call

    monkeypatch.setattr(teaching, "CHUNK", 1)
    monkeypatch.setattr(given, "given_lists", counted("given", given.given_lists))
    monkeypatch.setattr(run_file, "PairScores", SimpleNamespace(of=counted("run", PairScores.of)))
    for teacher, name, score in (
        (given.Given(), "given", -5.0),
        (run_file.RunFile(str(tmp_path / "a.run")), "run", 3.5),
    ):
        lists = teacher.rank(tiny_sources)
        known = teacher_scores(teacher, tiny_sources, np.arange(8), [lists])
        place = tiny_sources.collection.documents["id"].to_list().index("d5")
        assert known.lookup(np.array([0]), np.array([[place]])) == score
        assert calls.count(name) == 1
