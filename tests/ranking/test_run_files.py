from pathlib import Path

import numpy as np
import pytest

from ranking.collections.collection import Collection
from ranking.errors import BadInput
from ranking.ranked_lists import RankedLists, stack_lists
from ranking.run_files import lists_of_run


def write(path: Path, lines: list[tuple[str, str, float]]) -> str:
    path.write_text("".join(f"{query} Q0 {document} 1 {score!r} tag\n" for query, document, score in lines))
    return str(path)


def listed(collection: Collection, documents: np.ndarray) -> list[list[str]]:
    ids = collection.documents["id"]
    return [[ids[int(document)] for document in row if document >= 0] for row in documents]


def test_a_list_is_ordered_as_trec_eval_orders_it(tmp_path, tiny):
    # The second and third scores are the same float32; the rank column says nothing.
    scored = [("q3", "d1", 0.5), ("q3", "d10", 2.0), ("q3", "d9", 2.0 + 1e-12), ("q3", "d2", 0.5), ("q1", "d7", -1.0)]
    lists = lists_of_run([write(tmp_path / "run", scored)], tiny, 10)
    assert lists.documents.shape == (8, 10)
    assert listed(tiny, lists.documents) == [["d7"], [], ["d9", "d10", "d2", "d1"], [], [], [], [], []]
    assert lists.scores[2, :5].tolist() == [2, 2, 0.5, 0.5, -np.inf]
    assert (lists.documents.dtype, lists.scores.dtype) == (np.int32, np.float32)


def test_lists_are_cut_to_the_depth(tmp_path, tiny):
    run = write(tmp_path / "run", [("q1", f"d{n}", n) for n in (1, 2, 4, 5, 7)])
    assert listed(tiny, lists_of_run([run], tiny, 2).documents)[0] == ["d7", "d5"]


def test_runs_of_different_queries_and_a_repeated_document(tmp_path, tiny):
    one = write(tmp_path / "one", [("q1", "d1", 1), ("q2", "d2", 1), ("elsewhere", "unheard", 3)])
    other = write(tmp_path / "other", [("q1", "d1", 2), ("q1", "d4", 1.5), ("q8", "d5", 1)])
    lists = lists_of_run([one, other], tiny, 3)
    assert listed(tiny, lists.documents) == [["d1", "d4"], ["d2"], [], [], [], [], [], ["d5"]]
    assert lists.scores[0].tolist() == [2, 1.5, -np.inf]


def test_a_document_that_the_collection_lacks_is_bad_input(tmp_path, tiny):
    good = write(tmp_path / "good", [("q1", "d1", 1)])
    bad = write(tmp_path / "bad", [("q1", "d1", 1), ("q2", "d99", 1), ("q2", "d98", 1)])
    with pytest.raises(BadInput, match=r"bad: unknown document: 'd99' of query 'q2' is not in tiny \(2 such lines\)"):
        lists_of_run([good, bad], tiny, 3)


def test_faults_are_left_out_and_counted_if_not_strict(tmp_path, tiny, caplog):
    run = write(tmp_path / "run", [("q1", "d1", 1), ("q2", "d99", 1)])
    Path(run).write_text(Path(run).read_text() + "q1 Q0 d2 1\n")
    with pytest.raises(BadInput, match=r"run:3: broken line"):
        lists_of_run([run], tiny, 3)
    assert listed(tiny, lists_of_run([run], tiny, 3, strict=False).documents)[:2] == [["d1"], []]
    assert "left out: 1 × broken line, 1 × unknown document" in caplog.text


def test_a_run_in_another_encoding(tmp_path, tiny):
    Path(tmp_path / "run").write_bytes("q1 Q0 d1 1 2.0 größe\n".encode("latin-1"))
    with pytest.raises(BadInput, match="wrong encoding"):
        lists_of_run([str(tmp_path / "run")], tiny, 3)
    lists = lists_of_run([str(tmp_path / "run")], tiny, 3, encoding="latin-1")
    assert listed(tiny, lists.documents)[0] == ["d1"]


def test_equal_and_endless_scores_are_told(tmp_path, tiny, caplog):
    lists_of_run([write(tmp_path / "run", [("q1", "d1", 1), ("q1", "d2", 1)])], tiny, None)
    assert "all scores of a query are equal; its documents are ordered by their ids" in caplog.text
    with pytest.raises(BadInput, match="score out of range: the score of 'd1' for query 'q1' is out of range"):
        lists_of_run([write(tmp_path / "run", [("q1", "d2", 1), ("q1", "d1", -1e99)])], tiny, None)


def lists() -> RankedLists:
    return stack_lists([(np.array([4, 2, 0]), np.array([3.0, 2.0, 1.0])), (np.array([], int), np.array([]))], 4)


def test_ragged_lists_are_made_rectangular_and_cut():
    stacked = lists()
    assert stacked.documents.tolist() == [[4, 2, 0, -1], [-1] * 4]
    assert stacked.scores.tolist() == [[3, 2, 1, -np.inf], [-np.inf] * 4]
    assert (stacked.documents.dtype, stacked.scores.dtype) == (np.int32, np.float32)
    assert stacked.counts.tolist() == [3, 0]
    assert stack_lists([(np.array([4, 2]), np.array([3.0, 2.0]))], 1).documents.tolist() == [[4]]
    assert stack_lists([], 3).documents.shape == (0, 3)


def test_keep_packs_to_the_left_in_the_same_order():
    kept = lists().keep(np.array([[True, False, True, True], [True] * 4]))
    assert kept.documents.tolist() == [[4, 0, -1, -1], [-1] * 4]
    assert kept.scores.tolist() == [[3, 1, -np.inf, -np.inf], [-np.inf] * 4]
    assert (kept.documents.dtype, kept.scores.dtype) == (np.int32, np.float32)


def test_take_takes_queries():
    assert lists().take(np.array([1, 0, 0])).counts.tolist() == [0, 3, 3]


def test_without_relevant(encoded_of):
    judgements = encoded_of([[1]] * 5, [[1]] * 2, {0: {2: 1, 4: 0, 3: 1}, 1: {0: 1}}).judgements
    assert lists().without_relevant(judgements).documents.tolist() == [[4, 0, -1, -1], [-1] * 4]
