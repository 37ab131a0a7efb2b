"""`pyrite mine format=tevatron|flagembedding|swift|nemo`: rows as other trainers read them."""

import json

import polars as pl
import pytest

import pyrite
from pyrite import BM25, Top
from pyrite.cluster.mining.trainer_rows import FORMATS
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.ranking.collections.animals import write_lines

SHAPES = {
    "tevatron": {"query_id", "query", "positive_passages", "negative_passages"},
    "flagembedding": {"query", "pos", "neg"},
    "swift": {"messages", "positive_messages", "negative_messages"},
    "nemo": {"query", "pos_doc", "neg_doc"},
}


def lines(collection, folder, **options):
    mined = pyrite.mine(
        pyrite.Collection.from_beir(collection), BM25(2, pick=Top()), out=folder, options={"most_queries": 5, **options}
    )
    return [
        json.loads(line) for file in sorted((folder / "data").iterdir()) for line in file.read_text().splitlines()
    ], mined


@pytest.fixture(scope="module")
def plain(beir_folder, tmp_path_factory, own_cache):
    rows, _ = lines(beir_folder, tmp_path_factory.mktemp("mined") / "json", format="json")
    return rows


@pytest.mark.parametrize("form", sorted(SHAPES))
def test_each_format_has_the_texts_of_the_tuples(beir_folder, tmp_path, plain, form):
    assert FORMATS.keys() == SHAPES.keys()
    rows, _ = lines(beir_folder, tmp_path, format=form)
    assert all(set(row) == SHAPES[form] for row in rows)
    texts = {
        "tevatron": lambda row: [
            row["query"],
            *(each["text"] for each in row["positive_passages"] + row["negative_passages"]),
        ],
        "flagembedding": lambda row: [row["query"], *row["pos"], *row["neg"]],
        "swift": lambda row: [
            each[0]["content"] for each in [row["messages"], *row["positive_messages"], *row["negative_messages"]]
        ],
        "nemo": lambda row: [row["query"], row["pos_doc"], *row["neg_doc"]],
    }
    assert [texts[form](row) for row in rows] == [list(row.values()) for row in plain]


@pytest.mark.parametrize("form", [*sorted(SHAPES), "json"])
def test_each_format_is_read_back(beir_folder, tmp_path, plain, form):
    lines(beir_folder, tmp_path / "mined", format=form)
    collection = open_collection(Pairs(tmp_path / "mined"), tmp_path / "cache")
    assert len(collection.judgements) == len(plain)
    assert len(collection.given) == sum(len(row) - 1 for row in plain)
    assert collection.judgements["grade"].to_list() == [1] * len(plain)


def test_scores_are_for_flagembedding(beir_folder, tmp_path):
    rows, _ = lines(beir_folder, tmp_path / "mined", format="flagembedding", with_scores=True)
    assert all(len(row["pos_scores"]) == 1 and len(row["neg_scores"]) == 2 for row in rows)
    for options, message in (
        ({"format": "nemo", "with_scores": True}, "nemo has no scores"),
        ({"format": "tevatron", "rows": "triplets"}, "tevatron has one row per pair"),
    ):
        with pytest.raises(BadInput, match=message):
            lines(beir_folder, tmp_path / "refused", **options)


@pytest.mark.parametrize("form", ["parquet", "tevatron"])
def test_prompts_of_queries_are_kept(tmp_path, own_cache, capsys, form):
    """In `ids` for Pyrite, and before the query where nothing but texts is read."""
    kept = {f"who is {n}": f"Find {n % 2}: " for n in range(8)}
    rows = [
        {"query": text, "positive": f"it is {text[-1]}", "instruction": prompt.strip()} for text, prompt in kept.items()
    ]
    path, out = write_lines(tmp_path / "rows.jsonl", rows), tmp_path / "mined"
    options = ["collection=pairs", f"collection.path={path}", "function=random", "count=1", "queries=all"]
    assert command("mine", *options, f"format={form}", f"out={out}") == 0
    said = {"parquet": "in the column prompt of ids/", "tevatron": "before the queries, in their texts"}[form]
    assert f"prompts of queries: {said}" in " ".join(capsys.readouterr().out.split())
    assert f"- prompts: {said}" in (out / "README.md").read_text()
    queries = open_collection(Pairs(out), tmp_path / "cache").queries
    if form == "tevatron":
        assert set(queries["text"]) == {prompt + text for text, prompt in kept.items()}
        assert "prompt" not in queries.columns
    else:
        assert dict(queries.select("text", "prompt").iter_rows()) == kept
        assert pl.read_parquet(out / "data").columns == ["query", "positive", "negative"]
