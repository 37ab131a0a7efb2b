"""The documents that a collection gives with its queries, those that were judged, and those of run files."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import chisquare

from ranking.errors import BadInput
from ranking.given import given_lists
from ranking.sources import Sources
from sampling.guard import Guard, negatives_lists
from sampling.retrieval.given import Given
from sampling.retrieval.judged import Judged
from sampling.retrieval.run_file import RunFile
from sampling.teacher import teacher_scores
from tests.sampling.batches import batch_of, prepared


def names(sources: Sources, row: np.ndarray) -> list[str]:
    return [sources.collection.documents["id"][int(each)] for each in row if each >= 0]


def test_lists_are_by_score_and_cut(tiny_sources):
    lists = given_lists(tiny_sources.collection)
    assert lists.documents.shape == (8, 4)
    assert names(tiny_sources, lists.documents[0]) == ["d1", "d5", "d7", "d9"]
    found = Given(2).rank(tiny_sources, np.array([3, 0]))
    assert names(tiny_sources, found.documents[1]) == ["d1", "d5"]
    scores = Given().own_scores(tiny_sources, np.array([0]), found.documents[1:])
    assert scores.tolist() == [[-1.0, -5.0]]


def test_without_scores_the_file_says_the_order_and_it_can_t_teach(tiny, tiny_sources):
    given = tiny.given.with_columns(score=pl.lit(None, pl.Float32))
    sources = replace(tiny_sources, collection=replace(tiny, given=given))
    assert names(sources, given_lists(sources.collection).documents[0]) == ["d7", "d5", "d1", "d9"]
    assert Given().own_scores(sources, np.arange(8), np.zeros((8, 1), np.int32)) is None
    with pytest.raises(BadInput, match=r"teacher: Given has no scores of pairs; name the column of scores"):
        teacher_scores(Given(), sources, np.arange(4), [Given().rank(sources)])


def test_queries_without_scores_stand_beside_others_with(tiny, tiny_sources):
    """As where a file that was mined and one of bare pairs are read together."""
    bare = pl.when(pl.col("query") == "q1").then(None).otherwise(pl.col("score"))
    sources = replace(tiny_sources, collection=replace(tiny, given=tiny.given.with_columns(score=bare)))
    found = Given(2).rank(sources, np.array([3]))
    scores = Given().own_scores(sources, np.array([0]), found.documents)
    assert scores.tolist() == [[-np.inf, -np.inf]]
    known = teacher_scores(Given(), sources, np.arange(4), [Given().rank(sources)])
    assert np.isnan(known.lookup(np.array([0]), found.documents)).all()
    assert known.lookup(np.array([3]), found.documents).tolist() == [[-1.0, -5.0]]


def test_a_collection_that_gives_nothing_or_positives_alone_is_refused(tiny, tiny_sources):
    positives = tiny.judgements.filter(pl.col("grade") > 0)
    for given in (tiny.given.clear(), positives.select("query", "document", score=pl.lit(1, pl.Float32))):
        sources = replace(tiny_sources, collection=replace(tiny, given=given))
        with pytest.raises(BadInput, match="lists no documents with its queries, other than relevant ones"):
            Given().rank(sources)


def test_what_was_judged_and_not_found_relevant(encoded_of):
    """Neither the relevant ones nor those that nobody has read; the nearly relevant first."""
    encoded = encoded_of([[1]] * 9, [[1]] * 3, {0: {0: 2, 1: 0, 4: -2, 6: -1, 8: 0}, 2: {5: 3, 7: 0}})
    function, rng = prepared(Judged(), encoded), np.random.default_rng(0)
    top = function.top(batch_of(0, 1, 2), 5, rng)
    assert top.documents.tolist() == [[1, 8, 6, 4, -1], [-1] * 5, [7, -1, -1, -1, -1]]
    assert top.scores.tolist() == [[0, 0, -1, -2, -np.inf], [-np.inf] * 5, [0, *[-np.inf] * 4]]
    assert (top.documents.dtype, top.scores.dtype) == (np.int32, np.float32)
    drawn = function.sample(batch_of(np.zeros(12_000, int)), 2, rng).documents
    sets, frequencies = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)
    assert sets.tolist() == [[1, 4], [1, 6], [1, 8], [4, 6], [4, 8], [6, 8]]
    assert chisquare(frequencies).pvalue > 0.001
    few = function.sample(batch_of(2, 1), 3, rng).documents
    assert few.tolist() == [[7, -1, -1], [-1, -1, -1]]


def test_a_higher_threshold_makes_more_of_them(encoded_of):
    encoded = encoded_of([[1]] * 4, [[1]], {0: {0: 2, 1: 1, 2: 0}})
    strict = replace(encoded, judgements=replace(encoded.judgements, relevant_from=2))
    assert prepared(Judged(), strict).top(batch_of(0), 4, np.random.default_rng(0)).documents.tolist() == [
        [1, 2, -1, -1]
    ]


def test_a_collection_without_any_is_bad_input(encoded_of):
    with pytest.raises(BadInput, match="no document was judged not relevant"):
        prepared(Judged(), encoded_of([[1]] * 3, [[1]], {0: {0: 1}}))


def test_queries_that_the_run_lacks_get_no_negatives(tmp_path, tiny_sources):
    run = tmp_path / "run"
    run.write_text("q1 Q0 d60 1 9 x\nq1 Q0 d9 2 8 x\nq1 Q0 d7 3 7 x\nother Q0 unheard 1 1 x\n")
    function = RunFile(str(run), depth=4)
    lists, guarded, _ = negatives_lists(function, tiny_sources, Guard())
    assert guarded.total == 0
    assert lists.documents[0].tolist() == [8, 10, -1, -1]  # d60 is judged not relevant; d9 is relevant
    function.prepare(tiny_sources.encoded, lists)
    candidates = function.sample(batch_of(np.arange(8)), 2, np.random.default_rng(0))
    assert sorted(candidates.documents[0]) == [8, 10]
    assert (candidates.documents[1:] == -1).all()


def test_several_runs(tmp_path, tiny_sources):
    paths = []
    for number, line in enumerate(("q1 Q0 d60 1 9 x\n", "q2 Q0 d7 1 9 x\n")):
        (tmp_path / f"run{number}").write_text(line)
        paths.append(str(tmp_path / f"run{number}"))
    assert RunFile(paths, depth=1).rank(tiny_sources).documents[:3].tolist() == [[8], [10], [-1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("other Q0 d1 1 9 x\n", "ranks no document"),
        ("q1 Q0 unheard 1 9 x\n", "'unheard'"),
        ("", "run"),
        ("q1 d1\n", "run:1"),
    ],
)
def test_a_run_that_is_of_no_use_is_bad_input(tmp_path, tiny_sources, text, message):
    (tmp_path / "run").write_text(text)
    with pytest.raises(BadInput, match=message):
        RunFile(str(tmp_path / "run")).rank(tiny_sources)
    with pytest.raises(BadInput):
        RunFile(str(tmp_path / "none")).rank(tiny_sources)


def test_the_guard_reads_the_scores_of_the_run(tmp_path, tiny_sources):
    """d9 is relevant for q1 and scores 8; nothing relevant for q2 is in the run, so nothing is known there."""
    lines = ["q1 Q0 d60 1 9", "q1 Q0 d9 2 8", "q1 Q0 d7 3 7.9", "q1 Q0 d5 4 5", "q2 Q0 d60 1 3"]
    (tmp_path / "run").write_text("".join(f"{line} x\n" for line in lines))
    function = RunFile(str(tmp_path / "run"), depth=1)
    ids = tiny_sources.collection.documents["id"].to_list()
    relevant = {ids[d] for d in tiny_sources.encoded.judgements.relevant().of(0)[0].tolist()}
    assert "d9" in relevant
    assert not relevant & {"d60", "d7", "d5"}
    lists, guarded, _ = negatives_lists(function, tiny_sources, Guard(absolute=0.5))
    assert [ids[d] for d in lists.documents[:2, 0].tolist()] == ["d5", "d60"]
    assert [ids[d] for d in guarded.documents.tolist()] == ["d60"]  # no more of a query than its list is long
    assert (guarded.total, guarded.scores.tolist(), guarded.positives.tolist()) == (2, [9], [8])
    scores = function.own_scores(
        tiny_sources, np.array([1, 0]), np.array([[ids.index("d9"), -1], [ids.index("d7"), -1]])
    )
    assert scores.tolist() == [[-np.inf, -np.inf], [pytest.approx(7.9), -np.inf]]
