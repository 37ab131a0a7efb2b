"""Pairs, triplets and tuples in every form of file, and broken ones."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.errors import BadInput
from pyrite.ranking.given import given_lists
from tests.ranking.collections.animals import write_lines

ROWS = [
    {"anchor": "who digs?", "positive": "Moles dig", "negative_1": "Bats hang", "negative_2": "Quartz is hard"},
    {"anchor": "who hangs?", "positive": "Bats hang", "negative_1": "Moles dig", "negative_2": None},
    {"anchor": "Who  DIGS? ", "positive": "Badgers dig, too", "negative_1": " Bats hang ", "negative_2": "Owls fly"},
    {"anchor": "12", "positive": "twelve", "negative_1": "13", "negative_2": "thirteen\nor so"},
]


def parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    pl.DataFrame(rows).write_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def csv(folder: Path, rows: list[dict[str, Any]]) -> Path:
    pl.DataFrame(rows).write_csv(folder / "rows.csv")
    return folder / "rows.csv"


def json_lines(folder: Path, rows: list[dict[str, Any]]) -> Path:
    return write_lines(folder / "rows.jsonl", rows)


def saved(folder: Path, rows: list[dict[str, Any]]) -> Path:
    datasets = pytest.importorskip("datasets", reason="datasets is in the dev extra")
    datasets.Dataset.from_list(rows).save_to_disk(str(folder / "rows"))
    return folder / "rows"


def texts(collection: Collection) -> dict[str, set[str]]:
    """The texts that stand with each query."""
    document = dict(zip(collection.documents["id"], collection.documents["text"], strict=True))
    query = dict(zip(collection.queries["id"], collection.queries["text"], strict=True))
    found: dict[str, set[str]] = {}
    for row in collection.given.iter_rows(named=True):
        found.setdefault(query[row["query"]], set()).add(document[row["document"]])
    return found


@pytest.mark.by_day(2)
@pytest.mark.parametrize("write", [parquet, csv, json_lines, saved])
def test_every_form_gives_the_same(tmp_path, cache, write):
    collection = open_collection(Pairs(write(tmp_path, ROWS), test=0), cache)
    assert collection.name == "rows"
    assert sorted(collection.documents["text"]) == [
        "13", "Badgers dig, too", "Bats hang", "Moles dig", "Owls fly", "Quartz is hard", "thirteen\nor so", "twelve",
    ]  # fmt: skip
    assert collection.queries["text"].to_list() == ["who digs?", "who hangs?", "12"]
    assert len(collection.judgements) == 4
    assert texts(collection) == {
        "who digs?": {"Moles dig", "Bats hang", "Quartz is hard", "Badgers dig, too", "Owls fly"},
        "who hangs?": {"Bats hang", "Moles dig"},
        "12": {"twelve", "13", "thirteen\nor so"},
    }
    again = open_collection(Pairs(write(tmp_path, ROWS), test=0), cache)
    assert again.given.equals(collection.given)
    assert again.fingerprint == collection.fingerprint


def test_columns_by_name_and_lists_with_scores(tmp_path, cache):
    rows = [
        {"ask": "who digs?", "good": ["Moles", "Badgers"], "bad": ["Bats"], "teacher": [9.0, 8.0, 1.5]},
        {"ask": "who hangs?", "good": ["Bats"], "bad": ["Moles", "Owls"], "teacher": [0.5, 2.0]},
    ]
    options = {"query": "ask", "positive": "good", "negatives": "bad", "scores": "teacher", "test": 0.0}
    collection = open_collection(Pairs(json_lines(tmp_path, rows), **options), cache)
    lists = given_lists(collection)
    order = collection.documents["text"].to_list()
    assert [[order[each] for each in row if each >= 0] for row in lists.documents] == [
        ["Moles", "Badgers", "Bats"], ["Owls", "Moles", "Bats"],
    ]  # fmt: skip
    assert lists.scores[0].tolist() == [9.0, 8.0, 1.5]
    assert lists.scores[1, :2].tolist() == [2.0, 0.5]
    assert lists.scores[1, 2] != lists.scores[1, 2]  # the positive has none
    assert collection.judgements.group_by("query").len()["len"].sort().to_list() == [1, 2]


def test_labelled_pairs_keep_their_grades(tmp_path, cache):
    rows = [
        {"query": "who digs?", "answer": "Moles", "label": 2},
        {"query": "who digs?", "answer": "Bats", "label": 0},
        {"query": "who hangs?", "answer": "Bats", "label": 1},
    ]
    collection = open_collection(Pairs(csv(tmp_path, rows), test=0), cache)
    assert sorted(collection.judgements["grade"]) == [0, 1, 2]
    assert texts(collection) == {"who digs?": {"Moles", "Bats"}, "who hangs?": {"Bats"}}


def test_files_are_splits_and_what_is_one_is_cut(tmp_path, cache):
    rows = [{"query": f"question {number}", "positive": f"answer {number}"} for number in range(40)]
    for name, part in (("train", rows[:20]), ("validation", rows[20:30]), ("test", rows[30:])):
        pl.DataFrame(part).write_parquet(tmp_path / f"{name}-0.parquet")
    splits = open_collection(Pairs(tmp_path), cache).queries["split"].value_counts().sort("split").rows()
    assert splits == [("dev", 10), ("test", 10), ("train", 20)]
    whole = open_collection(Pairs(tmp_path / "train-0.parquet", test=0.2), cache)
    assert whole.queries["split"].value_counts().sort("split").rows() == [("dev", 2), ("test", 4), ("train", 14)]
    assert whole.given.height == 20


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (0.5, "a label is no whole number"),
        (-(2**31), "a label is out of range (-2147483648)"),
        ("1_000", "the label '1_000' is not a number"),
    ],
)
def test_a_label_that_is_no_whole_number_is_named(tmp_path, faulty, label, said):
    rows = [{"query": "c", "positive": "d", "label": 1}, {"query": "a", "positive": "b", "label": label}]
    collection = faulty(Pairs(json_lines(tmp_path, rows), test=0), "rows.jsonl:2", "broken line", said)
    assert collection.queries["text"].to_list() == ["c"]


def test_what_is_not_there_is_said(tmp_path, cache):
    with pytest.raises(BadInput, match="no such file or folder"):
        open_collection(Pairs(tmp_path / "none"), cache)
    path = parquet(tmp_path, [{"left": "a", "right": "b"}])
    with pytest.raises(BadInput, match="has no column 'middle'; it has left, right"):
        open_collection(Pairs(path, query="left", positive="right", negatives=["middle"]), cache)
    (tmp_path / "torn.parquet").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match=r"torn\.parquet: can't be read"):
        open_collection(Pairs(tmp_path / "torn.parquet"), cache)


def test_columns_of_a_usual_name_that_are_not_read_are_named(tmp_path, cache):
    rows = [{"question": f"who digs {n}?", "answer": "yes", "document": f"Moles {n}"} for n in range(3)]
    said = "columns that are not read"
    facts = open_collection(Pairs(csv(tmp_path, rows)), cache).facts
    assert facts[said] == "document (collection.positive= chooses it)"
    chosen = open_collection(Pairs(csv(tmp_path, rows), positive="document"), cache)
    assert said not in chosen.facts
    assert chosen.source["columns"] == ["question", "document"]


def test_repeated_pairs_are_counted_also_in_rows_with_several_positives(tmp_path, cache):
    rows = [{"query": "who digs?", "positive": ["Moles", "Badgers"]}, {"query": "who hangs?", "positive": ["Bats"]}]
    assert open_collection(Pairs(json_lines(tmp_path, [*rows, rows[0]]), test=0), cache).source["joined"] == 2
    broken = [*rows, {"query": "", "positive": ["Owls"]}]
    collection = open_collection(Pairs(json_lines(tmp_path, broken), test=0), cache, strict=False)
    assert collection.skipped == {"empty text": 1}
    assert collection.source["joined"] == 0


def test_a_query_with_most_pairs_is_named(tmp_path):
    rows = [("one question", f"answer {number}") for number in range(400)] + [
        (f"question {number}", f"other answer {number}") for number in range(40)
    ]
    file = tmp_path / "rows.tsv"
    file.write_text("query\tpositive\n" + "".join(f"{query}\t{text}\n" for query, text in rows))
    fact = open_collection(Pairs(file), tmp_path / "cache").facts["queries with a quarter of the relevant pairs"]
    assert "400 of 440" in fact
    assert "batches=distinct" in fact


def test_an_object_has_one_score(tmp_path, cache):
    row = {"query": "who digs?", "positive": {"text": "Moles dig", "score": [0.5, 0.2]}}
    with pytest.raises(BadInput, match=r"rows.jsonl:1: .*an object with 2 scores for one text"):
        open_collection(Pairs(write_lines(tmp_path / "rows.jsonl", [row])), cache)


def test_rows_have_the_name_of_the_folder_that_one_is_in(tmp_path, monkeypatch, read):
    json_lines(tmp_path, ROWS)
    monkeypatch.chdir(tmp_path)
    assert read(Pairs(".", test=0)).source["name"] == tmp_path.name


def test_rows_and_their_ids_are_as_many_in_each_file(tmp_path, read):
    """Otherwise all rows after one that was removed would have the ids of others."""
    for folder in ("data", "ids"):
        (tmp_path / folder).mkdir()
    tables = {"train-00000": ROWS[:2], "train-00001": ROWS[2:]}
    for name, rows in tables.items():
        ids = [{"query_id": f"{name}-{n}", "document_ids": [f"d{n}"], "scores": [1.0]} for n in range(len(rows))]
        write_lines(
            tmp_path / "data" / f"{name}.jsonl", [{"query": row["anchor"], "positive": row["positive"]} for row in rows]
        )
        pl.DataFrame(ids).write_parquet(tmp_path / "ids" / f"{name}.parquet")
    first = tmp_path / "data" / "train-00000.jsonl"
    lines = first.read_text().splitlines(keepends=True)
    for kept, says in ((lines[1:], "has fewer rows than"), (lines * 2, "has more rows than")):
        first.write_text("".join(kept))
        with pytest.raises(BadInput, match=rf"train-00000\.jsonl: {says} its table in `ids`; mine it again, or delete"):
            read(Pairs(tmp_path), strict=False)
    first.rename(tmp_path / "data" / "all.jsonl")
    with pytest.raises(BadInput, match=r"all\.jsonl: no table in the folder `ids` has its name"):
        read(Pairs(tmp_path))
    (tmp_path / "data" / "all.jsonl").unlink()  # with its ids left there: the others have theirs
    pl.DataFrame([{"id": "1"}] * 2).write_parquet(tmp_path / "ids" / "train-00000.parquet")
    ids = ["train-00001-0", "train-00001-1"]
    assert read(Pairs(tmp_path, test=0)).queries["id"].to_list() == ids
    write_lines(tmp_path / "data" / "train-00000.jsonl", [{"query": "a", "positive": "b"}] * 2)
    with pytest.raises(BadInput, match=r"train-00000\.parquet: has no column query_id"):
        read(Pairs(tmp_path))


def test_prompts_that_are_not_read_are_counted(pairs):
    rows = [ROWS[0] | {"prompt": prompt} for prompt in ("find: ", "search: ", "", None, ["find"])]
    collection = pairs(rows)
    assert collection.queries["prompt"].to_list() == ["find: "]
    assert collection.facts["rows with another prompt than the first of their query"] == "1, which is not read"
    assert collection.facts["rows whose prompt is no text"] == "1, which is not read"


def test_the_index_of_pandas_is_no_prompt(tmp_path, cache):
    (tmp_path / "rows.csv").write_text(",query,positive\n0,who digs?,Moles dig\n1,who hangs?,Bats hang\n")
    assert "prompt" not in open_collection(Pairs(tmp_path / "rows.csv"), cache).queries.columns


def test_all_that_a_table_lacks_is_asked_at_once(tmp_path):
    file = csv(tmp_path, [{"frage": "who digs?", "antwort": "Moles dig", "score": 0.7}])
    names = (
        r"name it by collection\.query=COLUMN collection\.positive=COLUMN, and say .* collection\.relevant_from=SCORE"
    )
    with pytest.raises(BadInput, match=names):
        open_collection(Pairs(file), tmp_path / "cache")
    assert open_collection(Pairs(file, "frage", "antwort", relevant_from=0.5), tmp_path / "cache").size == 1
