import pytest

from ranking.errors import BadInput
from ranking.relabel import relabelled


def test_a_files_grades_take_the_place_of_the_collections(tmp_path, tiny):
    (tmp_path / "qrels").write_text("q1 0 d9 0\nq1 0 d10 1\nq1 0 nothing 1\nnobody 0 d9 1\nq1 0 d1 -1\nbroken\n")
    mended = relabelled(tiny, tmp_path / "qrels", strict=False)
    grades = {(query, document): grade for query, document, grade in mended.judgements.rows()}
    before = {(query, document): grade for query, document, grade in tiny.judgements.rows()}
    assert grades == before | {("q1", "d9"): 0, ("q1", "d10"): 1}
    assert mended.facts["judgements corrected"] == "2 (4 other lines left out)"
    assert mended.fingerprint != tiny.fingerprint
    assert mended.judgements.schema == tiny.judgements.schema


def test_judgements_of_something_else_are_refused(tmp_path, tiny):
    (tmp_path / "qrels").write_text("q1 0 nothing 1\n")
    with pytest.raises(BadInput, match="is it of tiny"):
        relabelled(tiny, tmp_path / "qrels")
