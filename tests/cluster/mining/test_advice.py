"""Lines below a mined set say what was left out, and that a guard does not see every relevant negative."""

import polars as pl
import pytest

from pyrite.cluster.mining.data_card import _promoted, above_advice, remarks
from pyrite.sampling.guard import Guard

ROW = {
    "function": "bm25",
    "negatives": 90,
    "fallback": 0,
    "guarded": 0,
    "promoted": 0,
    "same text": 0,
    "without a limit": 0,
    "median rank": 3.0,
    "rank of 90%": 9.0,
}


def lines(guarded: str, **totals: int) -> str:
    counts = {
        "examples": 30,
        "lists": 30,
        "rows": 18,
        "left out": 0,
        "without scores": 0,
        "above": 0,
        "above negatives": 0,
        "promoted": 0,
    }
    return "\n".join(remarks(counts | totals, pl.DataFrame([ROW]), guarded, "out/my set", 5))


@pytest.mark.parametrize("guarded", ["", "pair"])
def test_the_audit_is_named_with_a_guard_and_without(guarded):
    said = lines(guarded)
    assert said.endswith("pyrite audit 'out/my set'")
    assert ("a guard sees scores alone" in said) == bool(guarded)
    assert "left out" not in said


def test_pairs_that_are_left_out_are_explained():
    said = lines("", **{"left out": 12, "above": 4, "above negatives": 7})
    assert "12 of 30 pairs have fewer than 5 negatives and are left out" in said
    assert "rows=triplets keeps" in said
    assert "warning: 7 of 90 negatives score above their positive (in 4 of 30 pairs) and may be relevant" in said


def test_rows_of_pairs_need_one_negative():
    counts = {"examples": 30, "lists": 30, "left out": 12} | dict.fromkeys(("rows", "without scores", "above"), 0)
    counts |= {"above negatives": 0, "promoted": 0}
    for rows in ("triplets", "labelled_pairs"):
        said = "\n".join(remarks(counts, pl.DataFrame([ROW]), "pair", "out", 5, rows))
        assert "12 of 30 pairs have no negative and are left out: for them no document was found" in said
        assert "count=" not in said
        assert "rows=triplets" not in said


@pytest.mark.parametrize(
    ("guard", "scores", "said"),
    [
        (Guard(), "function", "guard.relative=0.05 drops such negatives"),
        (Guard(), "ranker", "guard.ranker='a b' guard.relative=0.05 drops such negatives"),
        (Guard(relative=0.05), "ranker", "guard.ranker='a b' compares by these scores"),
        (Guard(relative=0.05, positive="best"), "function", "guard.positive=own compares with it"),
        (Guard(relative=0.05), "function", ""),
        (Guard(ceiling=3.0), "function", "guard.relative=0.05 drops such negatives"),
        (Guard(relative=0.05, ranker=object()), "function", None),
        (Guard(relative=0.05, ranker=object(), positive="best"), "ranker", "guard.positive=own compares with it"),
    ],
)
def test_advice_is_for_the_scores_that_are_written(guard, scores, said):
    assert above_advice(guard, scores, "a b") == said
    counts = dict.fromkeys(("lists", "rows", "left out", "without scores", "promoted"), 0)
    counts |= {"examples": 30, "above": 4, "above negatives": 7}
    lines = remarks(counts, pl.DataFrame([ROW]), above=above_advice(guard, scores, "a b"))
    warnings = [line for line in lines if line.startswith("warning: 7 of 90")]
    assert len(warnings) == (said is not None)
    assert all(line.endswith(f"may be relevant{f'; {said}' if said else ''}") for line in warnings)


def test_pairs_that_no_margin_guards_are_counted():
    row = {**ROW, "without a limit": 8}
    counts = dict.fromkeys(("lists", "rows", "left out", "without scores", "above", "above negatives", "promoted"), 0)
    said = remarks({**counts, "examples": 30}, pl.DataFrame([row]), guarded="pair")
    assert (
        "bm25: for 8 pairs the guard dropped nothing by its margins: bm25 gives the positive no score; "
        "guard.ranker=FOLDER scores every pair"
    ) in said


@pytest.mark.parametrize(("guarded", "lists"), [("pair", 30), ("query", 10)])
def test_what_a_guard_drops_is_per_list(guarded, lists):
    """With `guard.positive=lowest` a query has one list for all of its pairs."""
    row = {**ROW, "guarded": 60, "without a limit": 2}
    counts = dict.fromkeys(("rows", "left out", "without scores", "above", "above negatives", "promoted"), 0)
    said = "\n".join(remarks({**counts, "examples": 30, "lists": lists}, pl.DataFrame([row]), guarded))
    assert f"the guard dropped {60 // lists} documents per {guarded};" in said
    assert f"for 2 {'queries' if guarded == 'query' else 'pairs'} the guard dropped nothing" in said


def test_a_pooled_document_that_nobody_judged_may_be_promoted():
    """It has the grade −1."""
    dropped = {"query_id": ["q"] * 3, "document_id": ["a", "b", "c"], "function": ["bm25"] * 3}
    guarded = pl.DataFrame({**dropped, "reason": ["scores above the positive"] * 3})
    judgements = pl.DataFrame({"query": ["q", "q"], "document": ["a", "b"], "grade": [-1, 0]})
    config = {"function": {"bm25": {}}, "encoding": {"relevant_from": 2}}
    assert _promoted(guarded, config, judgements).rows() == [("q", "a", 2), ("q", "c", 2)]
