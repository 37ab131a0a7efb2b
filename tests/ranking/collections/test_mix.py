"""Mixtures of collections: what trains, in which proportion, with which prompts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pyrite
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.build import ABOUT
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.mix import LEAKS, Mix
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.encoding import Encoder
from pyrite.ranking.errors import BadInput
from pyrite.sampling.relevant_pairs import RelevantPairs
from tests.made_up import write_texts


def pairs(folder: Path, name: str, count: int, **columns: str) -> str:
    """Write so many rows of a query, its positive and a negative."""
    file = folder / f"{name}.jsonl"
    rows = [
        {
            "query": f"{name} question {number}",
            "positive": f"{name} answer {number}",
            "negative": f"{name} other {number}",
        }
        | columns
        for number in range(count)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


@pytest.fixture
def files(tmp_path) -> tuple[str, str]:
    return pairs(tmp_path, "birds", 100), pairs(tmp_path, "stones", 40)


def trained(collection) -> dict[str, int]:
    rows = collection.queries.filter(split="train") if collection.queries["split"].count() else collection.queries
    owners = rows["id"].str.split("/").list.first()
    return {name: int((owners == name).sum()) for name in sorted(owners.unique())}


def opened(tmp_path: Path, *mix: object, **options: object):
    return open_collection(Mix(mix=list(mix), **options), tmp_path / "cache")


def test_all_are_taken_without_shares(files, tmp_path):
    collection = opened(tmp_path, *files)
    assert collection.name == "birds+stones"
    assert collection.queries["id"].str.starts_with("birds/").sum() == 100
    assert len(collection.queries) == 140
    assert collection.source["mixed"] == ["birds", "stones"]
    assert set(collection.queries["split"]) == {"train", "dev", "test"}


@pytest.mark.parametrize(("shares", "ratio"), [((1, 1), 1.0), ((2, 1), 2.0), ((1, 3), 1 / 3)])
def test_queries_are_drawn_in_proportion_to_the_shares(shares, ratio, files, tmp_path):
    entries = [{"path": path, "share": share} for path, share in zip(files, shares, strict=True)]
    collection = opened(tmp_path, *entries)
    learned = collection.queries.filter(collection.queries["split"] != "test")
    owners = learned["id"].str.split("/").list.first()
    assert (owners == "birds").sum() / (owners == "stones").sum() == pytest.approx(ratio, rel=0.04)
    assert (collection.queries["split"] == "test").sum() == 14  # a tenth of each, whatever the shares
    assert "90" in collection.facts["queries of each collection that train"]


def split_pairs(folder: Path, **counts: int) -> str:
    """Write a folder of pairs with a file per split."""
    folder.mkdir()
    for split, count in counts.items():
        Path(pairs(folder, f"{folder.name}_{split}", count)).rename(folder / f"{split}.jsonl")
    return str(folder)


def test_each_collection_has_the_splits_that_it_has_alone(tmp_path):
    hidden, usual = split_pairs(tmp_path / "marco", train=20, dev=6), split_pairs(tmp_path / "quora", train=30, test=5)
    trained, untrained = split_pairs(tmp_path / "nq", train=40), split_pairs(tmp_path / "fever", dev=20, test=3)
    collection = opened(tmp_path, hidden, usual, trained, untrained)
    owners = collection.queries.with_columns(owner=pl.col("id").str.split("/").list.first())
    counts = {tuple(row[:2]): row[2] for row in owners.group_by("owner", "split").len().iter_rows()}
    assert {owner: counts[owner, "test"] for owner in ("marco", "quora", "nq", "fever")} == {
        "marco": 6, "quora": 5, "nq": 4, "fever": 3}  # fmt: skip
    assert [counts[owner, "dev"] for owner in ("marco", "quora", "fever")] == [2, 3, 2]
    assert collection.facts["queries of dev that are the test for lack of others (marco)"] == "6"
    assert collection.facts["queries of dev that train for lack of others (fever)"] == "20"
    alone = open_collection(Pairs(path=hidden), tmp_path / "cache").queries
    mixed = dict(owners.filter(owner="marco").select(pl.col("id").str.strip_prefix("marco/"), "split").iter_rows())
    assert dict(alone.select("id", "split").iter_rows()) == mixed


def test_a_collection_that_only_tests_is_refused(files, tmp_path):
    with pytest.raises(BadInput, match="nano has no training queries; give it to evaluate= instead"):
        opened(tmp_path, files[0], split_pairs(tmp_path / "nano", test=9))


def test_the_seed_draws_and_the_same_seed_draws_the_same(files, tmp_path):
    entries = [{"path": files[0], "share": 1}, {"path": files[1], "share": 1}]
    same = [opened(tmp_path / name, *entries).fingerprint for name in ("one", "two")]
    assert same[0] == same[1] != opened(tmp_path / "three", *entries, seed=1).fingerprint


def test_a_prompt_for_a_collection_and_per_row(tmp_path):
    plain, prompted = pairs(tmp_path, "birds", 30), pairs(tmp_path, "stones", 30, prompt="find: ")
    collection = opened(tmp_path, {"path": plain, "prompt": "Instruct: answer\nQuery:"}, prompted)
    prompts = dict(collection.queries.select("id", "prompt").iter_rows())
    assert {prompt for name, prompt in prompts.items() if name.startswith("birds/")} == {"Instruct: answer\nQuery: "}
    assert {prompt for name, prompt in prompts.items() if name.startswith("stones/")} == {"find: "}
    assert collection.facts["queries with a prompt of their own"] == "60 of 60"
    assert "prompt" not in opened(tmp_path / "plain", plain, pairs(tmp_path, "moss", 30)).queries.columns


@pytest.mark.parametrize(
    ("mix", "says"),
    [
        (["birds"], "mixes fewer than two"),
        ([{"path": "birds", "weight": 2}, "stones"], "an entry has no weight; choose of path, share, prompt, name, or"),
        (
            [{"path": "birds", "qrels_repeated": "stop"}, "stones"],
            "an entry has no qrels_repeated; set it on the mixture",
        ),
        ([{"path": "birds", "self": "keep"}, "stones"], "an entry has no self; set it on the mixture, for all"),
        ([{"path": "birds", "prompt": 3}, "stones"], "the prompt of .* is 3, and no text; put it in quotes"),
        ([{"path": "birds", "relevant_from": "high"}, "stones"], "an option of .* is 'high'; input should be a"),
        ([{"path": "birds", "share": 0}, "stones"], "the share of .* is 0; give a number above 0"),
        ([{"path": "birds", "share": float("inf")}, "stones"], "the share of .* is inf; give a number above 0"),
        ([{"path": "birds", "share": True}, "stones"], "the share of .* is True; give a number above 0"),
        (
            [{"path": "birds", "name": "nano/nq"}, "stones"],
            "a collection is called nano/nq, with a slash; give it another",
        ),
        (["birds", "birds"], "two collections are called birds; give one another name"),
        ([{"share": 1}, "stones"], "an entry has no path"),
    ],
)
def test_wrong_entries_are_refused(mix, says, files, tmp_path):
    places = {"birds": files[0], "stones": files[1]}

    def placed(entry):
        return {**entry, "path": places[entry["path"]]} if isinstance(entry, dict) and "path" in entry else (
            entry if isinstance(entry, dict) else places[entry])  # fmt: skip

    with pytest.raises(BadInput, match=says):
        opened(tmp_path, *map(placed, mix))


def test_a_text_is_no_mixture(tmp_path):
    with pytest.raises(BadInput, match=r"is 'birds,stones', and no list; name them, as \[A,B\]"):
        open_collection(Mix(mix="birds,stones"), tmp_path / "cache")
    with pytest.raises(BadInput, match=r"\['birds', 2\] is no entry; name them, as"):
        open_collection(Mix(mix=[["birds", 2], "stones"]), tmp_path / "cache")


def test_each_collection_has_the_options_of_its_format(files, tmp_path):
    file = tmp_path / "rated.csv"
    file.write_text("ask,say,stars\n" + "".join(f"ask {n},say {n},{5 - 4 * (n % 2)}\n" for n in range(20)))
    rated = {"path": str(file), "query": "ask", "positive": "say", "label": "stars", "relevant_from": 4}
    collection = opened(tmp_path, rated, files[1])
    assert collection.judgements.filter(pl.col("grade") > 0)["query"].str.starts_with("rated/").sum() == 10
    with pytest.raises(BadInput, match=r"name it by query:COLUMN,positive:COLUMN in its entry of collection\.mix"):
        opened(tmp_path, str(file), files[1])


def test_names_tell_files_of_one_name_apart(files, tmp_path):
    (tmp_path / "more").mkdir()
    collection = opened(tmp_path, files[0], {"path": pairs(tmp_path / "more", "birds", 20), "name": "again"})
    assert collection.name == "birds+again"


def test_a_training_is_measured_on_each(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mix = f"collection.mix=[{{path:'{files[0]}',share:2}},{{path:'{files[1]}',share:1}}]"
    result = pyrite.train(
        [mix, "ranker=static", "ranker.preset=tiny", "vectors=random", "function=in_batch", "training.max_epochs=1",
         "measures=[AP@10]", f"cache={tmp_path / 'cache'}", "out=out", "encoding.min_count=1"]
    )  # fmt: skip
    table = result.frame("data_sets")
    assert table.select("collection", "queries").unique(maintain_order=True).rows() == [("birds", 10), ("stones", 4)]
    assert table["value"].is_between(0, 1).all()


def test_a_mixture_is_read_again_by_another_version_of_a_members_reader(files, tmp_path, monkeypatch):
    opened(tmp_path, *files)
    monkeypatch.setattr(Pairs, "version", Pairs.version + 1)
    opened(tmp_path, *files)
    assert len([*(tmp_path / "cache").rglob(ABOUT)]) == 2


SHARED = {
    "mine tests, other trains": ("test", "train"),
    "mine validates, other trains": ("dev", "train"),
    "both train": ("train", "train"),
    "both test": ("test", "test"),
}
"""Splits of texts in both collections."""


def overlapping(folder: Path, name: str, which: int) -> str:
    """Write a collection with the queries of `SHARED` and others, one relevant document per query."""
    texts = {text: splits[which] for text, splits in SHARED.items()}
    texts |= {f"{name} {split} {number}": split for split in ("train", "dev", "test") for number in range(5)}
    documents = [{"_id": f"d{row}", "title": "", "text": f"{name} about {row}"} for row in range(len(texts))]
    # Of one text within a collection there is one query, in the test.
    texts |= {f"{name}  TEST 0": "train"}
    written = [{"_id": f"q{row}", "text": text} for row, text in enumerate(texts)]
    rows = enumerate(texts.values())
    qrels = [(split, (f"q{row}", f"d{row % len(documents)}", 1)) for row, split in rows]
    judged = {split: [row for own, row in qrels if own == split] for split in ("train", "dev", "test")}
    write_texts(folder / name, documents, written, judged)
    return str(folder / name)


def test_queries_are_joined_within_a_collection_alone_and_texts_that_others_test_do_not_train(tmp_path):
    mine, other = overlapping(tmp_path, "mine", 0), overlapping(tmp_path, "other", 1)
    mixed = opened(tmp_path, {"path": mine, "prompt": "a:"}, {"path": other, "prompt": "b:"})
    rows = dict(mixed.queries.select("id", "split").iter_rows())
    for path in (mine, other):
        alone = open_collection(Beir(path), tmp_path / "cache")
        name = alone.name
        left_out = ["q0", "q1"] if name == "other" else []
        kept = alone.queries.filter(~pl.col("id").is_in(left_out))
        assert {f"{name}/{query}": split for query, split in kept.select("id", "split").iter_rows()} == {
            query: split for query, split in rows.items() if query.startswith(f"{name}/")
        }
        own = mixed.judgements.filter(pl.col("query").str.starts_with(f"{name}/"))
        assert own.select(pl.col("query", "document").str.strip_prefix(f"{name}/")).rows() == [
            pair for pair in alone.judgements.select("query", "document").rows() if pair[0] not in left_out
        ]
    assert mixed.queries["prompt"].value_counts().sort("prompt").rows() == [("a: ", 19), ("b: ", 17)]
    assert mixed.facts["queries of each collection that train"] == "mine 6 of 6; other 6 of 8"
    assert mixed.facts["queries that another collection tests or validates (other)"] == "2 left out of training"
    assert mixed.facts["queries with the text of another"] == "2 joined to it, with their judgements"


def test_what_is_relevant_for_a_text_in_one_collection_is_no_negative_in_another(tmp_path):
    mixed = opened(tmp_path, overlapping(tmp_path, "mine", 0), overlapping(tmp_path, "other", 1))
    encoded = Encoder(min_count=1).encode(mixed)[0]
    both = np.flatnonzero((mixed.queries["text"] == "both train").to_numpy())
    answers = mixed.document_rows(pl.Series(["mine/d2", "other/d2"])).to_numpy()
    for part, queries in ((encoded, both), (encoded.with_queries(both), np.arange(2))):
        pairs = RelevantPairs(part)
        assert pairs.among(queries, np.tile(answers, (2, 1))).all()
        assert not pairs.among(queries, np.tile(answers + 1, (2, 1))).any()
        assert pairs.counts[queries].tolist() == [2, 2]
        assert pairs.contents_of(queries[:1]).tolist() == sorted(answers)
        assert not pairs.only_judged


def test_a_query_that_becomes_dev_trains_in_no_other_collection(tmp_path):
    for name in ("one", "two"):
        queries = [{"_id": f"{name}{n}", "text": f"question {n}"} for n in range(60)]
        documents = [{"_id": f"d{n}", "title": "", "text": f"{name} answer {n}"} for n in range(60)]
        judged = {"train": [(f"{name}{n}", f"d{n}", 1) for n in range(50)]}
        judged["test"] = [(f"{name}{n}", f"d{n}", 1) for n in range(50, 60)]
        write_texts(tmp_path / name, documents, queries, judged)
    mixed = opened(tmp_path, str(tmp_path / "one"), str(tmp_path / "two"))
    of_texts = dict(mixed.queries.group_by("text").agg("split").iter_rows())
    dev = [splits for splits in of_texts.values() if "dev" in splits]
    assert len(dev) > 5  # of 5 in each
    assert all("train" not in splits for splits in dev)
    lost = 10 - sum(splits.count("dev") == 2 for splits in dev) * 2
    assert len(mixed.queries) == 120 - lost
    assert lost == sum(int(fact.split()[0]) for what, fact in mixed.facts.items() if what.startswith(LEAKS))


def test_a_query_that_one_collection_tests_chooses_no_epoch_in_another(tmp_path):
    for name, splits in (("one", "test dev train"), ("two", "dev test train")):
        queries = [{"_id": f"{name}{n}", "text": f"question {n}"} for n in range(30)]
        documents = [{"_id": f"d{n}", "title": "", "text": f"{name} answer {n}"} for n in range(30)]
        judged = {split: [(f"{name}{n}", f"d{n}", 1) for n in range(10 * at, 10 * at + 10 - (split == "dev"))]
                  for at, split in enumerate(splits.split())}  # fmt: skip
        write_texts(tmp_path / name, documents, [query for query in queries if query["text"] != "question 2"], {
            split: [row for row in rows if row[1] != "d2"] for split, rows in judged.items()
        })  # fmt: skip
    mixed = opened(tmp_path, str(tmp_path / "one"), str(tmp_path / "two"))
    of_texts = dict(mixed.queries.group_by("text").agg("split").iter_rows())
    assert not any({"dev", "test"} <= set(splits) for splits in of_texts.values())
    left_out = {what: fact for what, fact in mixed.facts.items() if fact.endswith(" left out of dev")}
    assert left_out == {
        "queries that another collection tests (one)": "9 left out of dev",
        "queries that another collection tests (two)": "8 left out of dev",
    }


def test_a_collection_whose_training_queries_another_tests_is_refused(tmp_path):
    rows = [json.dumps({"query": f"question {n}", "positive": f"answer {n}"}) + "\n" for n in range(20)]
    for name, split in (("tested", "test"), ("trained", "train")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{split}.jsonl").write_text("".join(rows[:15]))
        other = {"test": "train", "train": "test"}[split]
        (tmp_path / name / f"{other}.jsonl").write_text("".join(rows[15:]).replace("question", f"{name} question"))
    with pytest.raises(BadInput, match="trained has no training queries that no other collection tests or validates"):
        opened(tmp_path, str(tmp_path / "tested"), str(tmp_path / "trained"))
