"""Every collection ends with three splits or with none, and with queries that differ (`collections.checks`)."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.checks import join_repeats, known_ids, sound
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.reader import GIVEN
from pyrite.ranking.collections.reader import JUDGEMENTS as READ
from pyrite.ranking.collections.splits import folds, usable
from pyrite.ranking.encoding import EncodedCollection, Judgements
from pyrite.ranking.errors import BadInput
from pyrite.ranking.splits import Split, split_queries
from pyrite.ranking.texts import Texts


def queries(**counts: int) -> pl.DataFrame:
    rows = [(f"{split}{i}", None if split == "none" else split) for split, n in counts.items() for i in range(n)]
    return pl.DataFrame(rows, {"id": pl.String, "split": pl.String}, orient="row")


def counts(frame: pl.DataFrame) -> dict[str | None, int]:
    return dict(frame["split"].value_counts().iter_rows())


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ({"train": 8, "dev": 1, "test": 1}, {"train": 8, "dev": 1, "test": 1}),
        ({"train": 100, "test": 7}, {"train": 90, "dev": 10, "test": 7}),
        ({"train": 100, "dev": 7}, {"train": 90, "dev": 10, "test": 7}),  # dev is the test if there is no other
        ({"dev": 100, "test": 7}, {"train": 90, "dev": 10, "test": 7}),  # and trains if nothing else does
        ({"train": 3, "test": 1}, {"train": 2, "dev": 1, "test": 1}),
        ({"test": 9}, {None: 9}),
        ({"train": 9}, {None: 9}),
        ({"none": 5}, {None: 5}),
        ({"none": 1, "train": 4, "test": 4}, {None: 9}),
        ({"train": 1, "test": 3}, {None: 4}),
    ],
)
def test_there_are_three_splits_or_none(present, expected):
    cut = usable(queries(**present))
    assert counts(cut) == expected
    if None not in expected:
        assert set(cut.filter(pl.col("id").str.starts_with(list(present)[-1]))["split"]) == {"test"}


def test_the_cut_goes_by_the_id_and_not_by_the_order():
    frame = queries(train=50, test=5)
    assert usable(frame).sort("id").equals(usable(frame.reverse()).sort("id"))


def test_too_few_queries_are_told_what_would_help():
    with pytest.raises(BadInput, match="5 folds; take fewer folds"):
        folds(queries(none=4), 5)
    with pytest.raises(BadInput, match="2 queries cannot be cut into 3 folds; 3 is the fewest folds"):
        folds(queries(none=2), 3)
    with pytest.raises(BadInput, match="no queries to train on"):
        folds(queries(none=9), 2)


def test_folds_repeat_and_depend_on_nothing_but_ids():
    frame = queries(none=20)
    first = folds(frame, 4)
    assert all(a.equals(b) for a, b in zip(first, folds(frame, 4), strict=True))
    assert all(a.sort("id").equals(b.sort("id")) for a, b in zip(first, folds(frame.reverse(), 4), strict=True))


QUERIES = {"id": pl.String, "text": pl.String, "split": pl.String}
JUDGEMENTS = {"query": pl.String, "document": pl.String, "grade": pl.Int32, "split": pl.String}


def test_queries_of_one_text_are_one_query_in_the_dearest_split():
    queries = pl.DataFrame(
        [
            ("a", "What is  gold?", "train"),
            ("b", "what is silver?", "train"),
            ("c", "what is gold?", "dev"),
            ("d", " WHAT is\tgold? ", "test"),
            ("e", "what is tin?", "dev"),
        ],
        QUERIES,
        orient="row",
    )
    judgements = pl.DataFrame(
        [("a", "x", 1, "train"), ("b", "x", 1, "train"), ("c", "x", 2, "dev"), ("c", "y", 0, "dev"), 
         ("d", "z", 1, "test"), ("e", "x", 0, "dev")],
        JUDGEMENTS,
        orient="row",
    )  # fmt: skip
    given = pl.DataFrame([("c", "y", 2.0), ("b", "x", None), ("a", "y", 1.0)], GIVEN, orient="row")
    found, judged, given, joined = join_repeats(queries, judgements, given)
    assert joined == 2
    assert given.rows() == [("a", "y", 2.0), ("b", "x", None)]
    assert found.rows() == [
        ("a", "What is  gold?", "test"),
        ("b", "what is silver?", "train"),
        ("e", "what is tin?", "dev"),
    ]
    assert judged.select("query", "document", "grade").rows() == [
        ("a", "x", 2), ("b", "x", 1), ("a", "y", 0), ("a", "z", 1), ("e", "x", 0),
    ]  # fmt: skip


def test_queries_without_splits_stay_without():
    queries = pl.DataFrame([("a", "x", None), ("b", "X", None)], QUERIES, orient="row")
    judgements = pl.DataFrame([("b", "d", 1, None)], JUDGEMENTS, orient="row")
    found, judged, _, joined = join_repeats(queries, judgements, pl.DataFrame(schema=GIVEN))
    assert (found.rows(), judged.rows(), joined) == ([("a", "x", None)], [("a", "d", 1, None)], 1)


@pytest.mark.parametrize("strict", [True, False])
def test_a_reader_counts_what_it_joins(write_beir, tmp_path, strict):
    folder = write_beir(
        queries=[
            {"_id": f"q{n}", "text": text} for n, text in enumerate(("who digs?", "Who  digs?", "what?", "why?"), 1)
        ],
        qrels={"train": [("q1", "d1", 1), ("q4", "d1", 1)], "dev": [("q2", "d2", 2)], "test": [("q3", "d3", 1)]},
    )
    collection = open_collection(Beir(folder), tmp_path / "cache", strict)
    assert collection.queries.select("id", "split").rows() == [("q1", "dev"), ("q3", "test"), ("q4", "train")]
    assert collection.facts == {"queries with the text of another": "1 joined to it, with their judgements"}
    assert collection.skipped == {}


def test_known_ids_are_each_once_in_the_documents_order():
    documents = pl.DataFrame({"id": ["c", "a", "b"], "text": ["", "", ""]})
    assert known_ids(documents, pl.Series("document", ["b", "nowhere", "c", "b", None])).to_list() == ["c", "b"]
    assert known_ids(documents, pl.Series("document", [], dtype=pl.String)).to_list() == []


@pytest.mark.parametrize(("repeated", "grade"), [("max", 3), ("mean", 2)])
def test_a_document_that_was_pooled_and_not_judged_has_no_part_in_its_grade(repeated, grade):
    ids = pl.DataFrame({"id": ["a", "d", "e"]})
    rows = [("d", -1), ("d", 3), ("d", 1), ("e", -1), ("e", -1)]
    judgements = pl.DataFrame(
        [("a", document, given, "test", "qrels", line) for line, (document, given) in enumerate(rows, 1)],
        READ,
        orient="row",
    )
    merged, again = sound(judgements, ids, ids, Faults(), repeated)
    assert (merged["document"].to_list(), merged["grade"].to_list(), again) == (["d", "e"], [grade, -1], 3)


ALL = {"train": None, "dev": None, "test": None}
PARTS = ("train", "dev", "test")


def some(count: int, without: tuple[int, ...] = ()) -> tuple[Collection, EncodedCollection]:
    """Queries without a split; those of `without` have a judgement that is not relevant."""
    queries = pl.DataFrame({"id": [f"query {i}" for i in range(count)]})
    grades = np.array([0 if query in without else 1 for query in range(count)], np.int32)
    judgements = Judgements(np.arange(count + 1), np.zeros(count, np.int32), grades)
    texts = Texts.of([[1]] * count)
    encoded = EncodedCollection(
        texts, texts, np.ones(2, np.float32), judgements, np.full(count, -1, np.int8), np.zeros(count, np.int32)
    )
    return Collection("some", "", pl.DataFrame(), queries, pl.DataFrame()), encoded


def assert_disjoint(split: Split) -> None:
    together = np.concatenate([getattr(split, part) for part in PARTS])
    assert len(np.unique(together)) == len(together)
    for part in PARTS:
        queries = getattr(split, part)
        assert queries.dtype == np.int64
        assert (np.diff(queries) > 0).all()


@given(st.integers(3, 40), st.integers(3, 6), st.sets(st.integers(0, 39)))
def test_folds_test_each_query_once(count, folds, without):
    usable = sorted(set(range(count)) - without)
    if len(usable) < folds:
        with pytest.raises(BadInput, match="folds" if usable else "no judgement is above 0"):
            split_queries(*some(count, tuple(without)), folds, ALL)
        return
    splits = split_queries(*some(count, tuple(without)), folds, ALL)
    assert len(splits) == folds
    assert sorted(np.concatenate([split.test for split in splits]).tolist()) == usable
    assert sorted(np.concatenate([split.dev for split in splits]).tolist()) == usable
    for split, following in zip(splits, [*splits[1:], splits[0]], strict=True):
        assert_disjoint(split)
        assert split.dev.tolist() == following.test.tolist()
        assert sum(len(getattr(split, part)) for part in PARTS) == len(usable)
        assert len(split.test) in (len(usable) // folds, -(-len(usable) // folds))


def test_queries_without_a_relevant_document_are_not_cut_into_folds():
    with pytest.raises(BadInput, match=r"collection: no judgement is above 0, so no document is relevant; check"):
        split_queries(*some(4, (0, 1, 2, 3)), 3, ALL)


@pytest.mark.parametrize("folds", [5, None])
def test_limits_nest(folds, tiny, tiny_encoded):
    pair = some(50) if folds else (tiny, tiny_encoded)
    previous = split_queries(*pair, folds or 5, {"train": 0, "dev": 0, "test": 0})
    for limit in (1, 2, 3, 7, None):
        now = split_queries(*pair, folds or 5, {"train": limit, "dev": limit, "test": limit})
        for before, split in zip(previous, now, strict=True):
            assert_disjoint(split)
            for part in PARTS:
                assert set(getattr(before, part)) <= set(getattr(split, part))
                assert limit is None or len(getattr(split, part)) <= limit
        previous = now


def test_limits_are_taken_part_by_part():
    (split, *_) = split_queries(*some(50), 5, {"train": 3, "dev": None, "test": 1})
    assert [len(getattr(split, part)) for part in PARTS] == [3, 10, 1]


def test_the_collections_own_split(tiny, tiny_encoded):
    (split,) = split_queries(tiny, tiny_encoded, 5, ALL)
    assert [getattr(split, part).tolist() for part in PARTS] == [[0, 1, 2, 3], [4, 5], [6, 7]]


def test_a_query_without_a_relevant_document_is_in_no_split(tiny, encoded_of):
    encoded = encoded_of([[1]], [[1]] * 8, {query: {0: int(query != 2)} for query in range(7)})
    (split,) = split_queries(tiny, replace(encoded, split=np.array([0, 0, 0, 0, 1, 1, 2, 2], np.int8)), 5, ALL)
    assert [getattr(split, part).tolist() for part in PARTS] == [[0, 1, 3], [4, 5], [6]]
