import numpy as np
import pytest

from ranking.errors import BadInput
from sampling.guard import Guard, negatives_lists
from sampling.retrieval.run_file import RunFile
from tests.sampling.batches import batch_of


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
