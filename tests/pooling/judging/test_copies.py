"""Documents with the same text: which are shown, in the runs and in the export."""

import polars as pl
import pytest

from pyrite.pooling.judging.copies import COPIES, NO_COPIES, find_copies, merged_runs, spread, with_firsts
from pyrite.pooling.pool import make_pool
from pyrite.pooling.runs import Runs

TEXTS = pl.DataFrame({
    "id": ["c", "a", "b", "e1", "e2", "none"],
    "text": ["Cafe\u0301  au lait", "tea", "caf\u00e9 au\nLAIT ", " ", "\u200b", None],
})  # fmt: skip


def runs(**lists: list[str]) -> Runs:
    rows = [
        (number, "1", document, place)
        for number, documents in enumerate(lists.values())
        for place, document in enumerate(documents)
    ]
    schema = {"run": pl.UInt32, "topic": pl.String, "document": pl.String, "place": pl.UInt32}
    return Runs([*lists], [*lists], ["1"], pl.DataFrame(rows, schema, orient="row"))


def test_the_first_of_the_collection_is_shown():
    pool = make_pool(runs(a=["a", "b", "e1", "e2", "none"], b=["c"]), None)
    assert find_copies(pool, TEXTS).rows() == [("1", "b", "c")]
    assert find_copies(pool, TEXTS, [("1", "b")]).rows() == [("1", "c", "b")]
    assert find_copies(pool, TEXTS, [("1", "b"), ("1", "c")]).is_empty()
    assert find_copies(pool, TEXTS, [("2", "b")]).rows() == [("1", "b", "c")]
    assert find_copies(pool, TEXTS).schema == pl.Schema(COPIES)


def test_texts_that_are_nearly_the_same_are_copies_if_asked_for():
    words = [f"word{number}" for number in range(100)]
    changed, more = [*words[:50], "other", *words[51:]], [*words[:-1], "end"]
    texts = pl.DataFrame({
        "id": ["long", "changed", "end", "half", "short", "brief", "none"],
        "text": [
            *map(" ".join, (words, changed)), ", ".join(more).upper(), " ".join(words[:60]), "a tea", "a tea!", ""
        ],
    })  # fmt: skip
    pool = make_pool(runs(a=texts["id"].to_list()), None)
    assert find_copies(pool, texts).is_empty()
    # 98 runs of three words: one changed word changes three of them, 95 / 101; the last one, one, 97 / 99
    assert find_copies(pool, texts, near=True).rows() == [("1", "changed", "long"), ("1", "end", "long")]
    # seen from `changed`, `end` differs in four: 94 / 102
    begun = find_copies(pool, texts, [("1", "changed")], near=True)
    assert begun.rows() == [("1", "long", "changed"), ("1", "end", "changed")]
    same = texts.with_columns(pl.when(id="half").then(pl.lit(" ".join(words))).otherwise("text").alias("text"))
    assert ("1", "half", "long") in find_copies(pool, same, near=True).rows()


def test_no_chain_of_small_differences_joins_texts():
    words = [f"word{number}" for number in range(60)]
    chain = [" ".join([*words[number * 2 :], *(f"new{index}" for index in range(number * 2))]) for number in range(6)]
    texts = pl.DataFrame({"id": [f"d{number}" for number in range(6)], "text": chain})
    pool = make_pool(runs(a=texts["id"].to_list()), None)
    assert find_copies(pool, texts, near=True).rows() == [("1", "d1", "d0"), ("1", "d3", "d2"), ("1", "d5", "d4")]


def test_near_copies_stay_those_of_the_document_that_they_began_with():
    words = [f"word{number}" for number in range(100)]
    ends = [f"end{number}" for number in range(5)]
    # of 98 runs of three words, `between` shares 93 with each of the others, 93 / 103; they share 88, 88 / 108
    lists = {"first": [*words[:-5], *ends], "other": [*ends, *words[5:]], "between": words}
    texts = pl.DataFrame({"id": [*lists], "text": [*map(" ".join, lists.values())]})
    pool = make_pool(runs(a=["other", "between", "first"]), None)
    before = find_copies(pool, texts, near=True)
    assert before.rows() == [("1", "between", "first")]
    shown = [("1", "other")]
    assert find_copies(pool, texts, shown, near=True).rows() == [("1", "between", "other")]
    assert find_copies(pool, texts, shown, before, near=True).rows() == [("1", "between", "first")]
    # a document that comes later joins the one that stands for others, though it precedes it in the collection
    later = pl.concat([pl.DataFrame({"id": ["new"], "text": [" ".join(lists["first"])]}), texts])
    grown = make_pool(runs(a=["other", "between", "first"], b=["new"]), None)
    assert find_copies(grown, later, shown, before, near=True).rows() == [
        ("1", "between", "first"),
        ("1", "new", "first"),
    ]
    # nothing stands for a document that is shown itself, or is one that is gone
    assert find_copies(pool, texts, [*shown, ("1", "between")], before, near=True).is_empty()
    fewer = make_pool(runs(a=["other", "between"]), None)
    assert find_copies(fewer, texts, shown, before, near=True).rows() == [("1", "between", "other")]


def test_only_documents_of_one_topic_are_copies():
    assert find_copies(make_pool(runs(a=["a", "b"]), None), TEXTS).is_empty()


def test_a_run_has_each_text_once_at_its_best_place():
    copies = pl.DataFrame([("1", "b", "c")], COPIES, orient="row")
    merged = merged_runs(runs(x=["b", "a", "c", "d"], y=["a", "c"], z=["b"]), copies)
    lists = merged.table.sort("run", "place").group_by("run", maintain_order=True).agg("document", "place")
    assert lists["document"].to_list() == [["c", "a", "d"], ["a", "c"], ["c"]]
    assert lists["place"].to_list() == [[0, 1, 2], [0, 1], [0]]


def test_grades_are_those_of_the_document_that_is_shown():
    copies = pl.DataFrame([("1", "b", "c"), ("1", "d", "c"), ("2", "b", "c")], COPIES, orient="row")
    grades = {("1", "c"): [1, 0], ("1", "d"): [0], ("2", "b"): [2]}
    assert spread(grades, copies) == grades | {("1", "b"): [1, 0], ("2", "c"): [2]}
    assert spread(grades, NO_COPIES) == grades


@pytest.mark.parametrize("topic", ["topic", "query"])
def test_rows_have_the_document_that_is_shown(topic):
    copies = pl.DataFrame([("1", "b", "c")], COPIES, orient="row")
    rows = pl.DataFrame({topic: ["2", "1", "1"], "document": ["b", "b", "a"], "grade": [1, 2, 3]})
    assert with_firsts(rows, copies, topic).rows() == [("2", "b", 1), ("1", "c", 2), ("1", "a", 3)]
