"""`pyrite mine`: what it picks, how it goes on, and that other libraries read what it leaves."""

import gzip
import inspect
import json
import platform
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import pyrite
from pyrite.cluster.mining import data_card, miner
from pyrite.cluster.mining.miner import promoted
from pyrite.ranking.batch import Batch
from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.encoding import Judgements
from pyrite.ranking.errors import BadInput
from pyrite.ranking.relabel import relabelled
from pyrite.sampling.guarded_documents import GuardedDocuments
from tests.cluster.command_line import command
from tests.made_up import write_texts


@pytest.fixture
def of_mine(beir_folder, own_cache) -> list[str]:
    """Overrides of minings that take a fraction of a second."""
    return ["collection=beir", f"collection.path={beir_folder}", "vectors=random", "encoding.min_count=1", "shard=7"]


def files(folder: Path) -> dict[str, bytes]:
    names = ("data", "ids", "guarded")
    return {str(file.relative_to(folder)): file.read_bytes() for name in names for file in (folder / name).glob("*")}


def test_rows_are_bm25s_best_without_relevant_documents(of_mine, beir_folder, tmp_path):
    mined = pyrite.mine([*of_mine, "count=2", f"out={tmp_path / 'mined'}"])
    collection = open_collection(Beir(beir_folder), tmp_path / "cache")
    place = {name: row for row, name in enumerate(collection.queries["id"])}
    relevant = set(collection.judgements.select("query", "document").rows())
    lists, _ = Bm25(collection, Bm25Options()).search(np.arange(len(place)), 5)
    assert mined.rows.columns == ["query", "positive", "negative_1", "negative_2"]
    assert len(mined.rows) == len(mined.ids) == 24  # the train queries, one positive each
    for texts, ids in zip(mined.rows.rows(), mined.ids.iter_rows(named=True), strict=True):
        query = ids["query_id"]
        names = [collection.documents["id"][int(each)] for each in lists.documents[place[query]]]
        best = [name for name in names if (query, name) not in relevant][:2]
        assert ids["document_ids"][1:] == best
        assert (query, ids["document_ids"][0]) in relevant
        assert ids["ranks"] == [0, 1, 2]
        assert ids["functions"] == [None, "bm25", "bm25"]
        expected = [float(lists.scores[place[query], names.index(name)]) for name in ids["document_ids"]]
        assert ids["scores"] == pytest.approx(expected)
        known = dict(zip(collection.documents["id"], collection.documents["text"], strict=True))
        assert list(texts[1:]) == [known[name] for name in ids["document_ids"]]
    assert mined.summary.row(0, named=True)["negatives"] == 48


def test_positives_have_a_score_where_any_function_has(of_mine, tmp_path):
    def scores(functions: str) -> dict[str, float]:
        options = [f"function={functions}", "selector=uniform", "count=2", f"out={tmp_path / str(len(functions))}"]
        ids = pyrite.mine([*of_mine, *options]).ids
        return dict(zip(ids["query_id"], ids["scores"].list.first(), strict=True))

    assert scores("[random,bm25]") == scores("bm25")
    assert set(scores("random").values()) == {None}


def test_the_guard_drops_what_scores_close_to_the_positive(of_mine, tmp_path):
    mined = pyrite.mine([*of_mine, "guard.relative=0.3", "rows=triplets", f"out={tmp_path / 'mined'}"])
    assert len(mined.guarded) > 0
    assert (mined.guarded["score"] > 0.7 * mined.guarded["positive"] - 1e-5).all()
    dropped = set(mined.guarded.select("query_id", "document_id").rows())
    for ids in mined.ids.iter_rows(named=True):
        assert (ids["query_id"], ids["document_ids"][1]) not in dropped
        assert ids["scores"][1] <= 0.7 * ids["scores"][0] + 1e-5
    assert mined.summary["guarded"].sum() >= len(mined.guarded)


def test_no_row_has_the_text_of_its_positive_and_pairs_are_guarded_by_theirs(tmp_path, own_cache, capsys):
    folder = tmp_path / "twice"
    animals = ["otter", "heron", "badger", "stoat"]
    texts = {f"d{n}": f"the {animal} eats fish near lake {n}" for n, animal in enumerate(animals)}
    texts |= {f"{name}-again": text.upper() for name, text in texts.items()}
    texts |= {f"e{n}": f"where otter heron and badger eat, story {n} of the lake" for n in range(6)}
    texts["e5"] += ", with many more words about the long cold winter, snow, ice and wind"
    corpus = [{"_id": name, "text": text} for name, text in texts.items()]
    queries = [{"_id": f"q{n}", "text": f"what does the {name} eat"} for n, name in enumerate(animals)]
    train = [("q0", "d0", 1), ("q0", "e5", 1), ("q1", "d1", 1)]
    write_texts(folder, corpus, queries, {"train": train, "dev": [("q2", "d2", 1)], "test": [("q3", "d3", 1)]})
    options = ["mine", "collection=beir", f"collection.path={folder}", "function=bm25", "count=2"]
    options.append("rows=labelled_pairs")
    assert command(*options, f"out={tmp_path / 'plain'}") == 0
    shown = capsys.readouterr().out
    assert "left out" in shown
    assert "negatives score above their positive (in" in shown
    assert re.search(r"  query +what does the otter eat\n  bm25, rank \d +\S", shown)
    mined = pyrite.MiningResult(str(tmp_path / "plain"))
    assert mined.summary["same text"][0] > 0
    ranks = [rank for row in mined.ids["ranks"] for rank in row if rank]
    for column, part in (("median rank", 0.5), ("rank of 90%", 0.9)):
        assert mined.summary[column][0] == np.quantile(ranks, part, method="inverted_cdf")
    positives = {text.lower() for text in mined.rows.filter(label=1)["document"]}
    assert not positives & {text.lower() for text in mined.rows.filter(label=0)["document"]}
    assert command(*options, "guard.relative=0.0", f"out={tmp_path / 'guarded'}") == 0
    assert "negatives score above their positive" not in capsys.readouterr().out
    ids = pyrite.MiningResult(str(tmp_path / "guarded")).ids
    assert ids["ranks"].list.max().max() > 2  # as they are without the guard


def test_a_trained_ranker_guards_scores_and_is_searched(base, of_mine, tmp_path, own_cache):
    asked = ["ranker=static", "function=random", "training.max_epochs=1", f"out={tmp_path / 'run'}"]
    run = pyrite.train([*base, *asked]).folder
    options = ["count=2", "guard.relative=0.1", "scores=ranker", "rows=triplets", f"checkpoint={run}"]
    kept = {*own_cache.glob("vectors/*.npy")}
    for name, more in (
        ("dense", ["function=dense"]),
        ("again", ["function=dense", "function.dense.depth=50"]),
        ("bm25", ["function=bm25", f"guard.ranker={run}"]),
    ):
        mined = pyrite.mine([*of_mine, *options, *more, "selector=top", f"out={tmp_path / name}"])
        assert len(mined.ids) > 20
        scores = np.array(mined.ids["scores"].to_list())
        limit = mined.ids.select(pl.col("scores").list.first().max().over("query_id")).to_series().to_numpy()
        assert (scores[:, 1] <= limit - 0.1 * np.abs(limit) + 1e-4).all()
        assert len(mined.guarded) > 0
        assert len({*own_cache.glob("vectors/*.npy")} - kept) == 1  # the documents' vectors, for every depth


def test_what_was_lost_is_mined_again_alike(of_mine, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = [*of_mine, "function=[bm25,random]", "policy=mixture", "policy.per=negative", "selector=uniform"]
    pyrite.mine([*options, "guard.absolute=0.5", f"out={whole}"])
    shutil.copytree(whole, cut)
    for name in ("shards/train-00001.json", "data/train-00001.parquet", "ids/train-00001.parquet", "README.md"):
        (cut / name).unlink()
    before = (cut / "data" / "train-00002.parquet").stat().st_mtime_ns
    assert command("mine", "--resume", str(cut)) == 0
    assert files(cut) == files(whole)
    assert (cut / "README.md").is_file()
    assert (cut / "data" / "train-00002.parquet").stat().st_mtime_ns == before  # what was done is left alone
    with pytest.raises(BadInput, match=r"count=9 can't change on resume"):
        pyrite.mine(["count=9"], resume=str(cut))
    with pytest.raises(BadInput, match="holds results already, of `pyrite mine`"):
        pyrite.mine([*options, f"out={cut}"])


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_on_ray_it_is_the_same(of_mine, tmp_path):
    for workers in "12":
        assert command("mine", *of_mine, "selector=uniform", f"workers={workers}", f"out={tmp_path / workers}") == 0
    assert files(tmp_path / "1") == files(tmp_path / "2")


@pytest.mark.usefixtures("ray_session")
@pytest.mark.nightly
def test_a_shard_that_always_loses_its_process_ends_the_mining(of_mine, tmp_path, capsys):
    out = tmp_path / "mined"
    killing = ["function=[]", "+function.k._target_=tests.cluster.mining.killing.Killing", "+function.k.size=3"]
    assert command("mine", *of_mine, *killing, "selector=uniform", "workers=2", f"out={out}") == 2
    captured = capsys.readouterr()
    assert captured.out.count("the process of shard train-00003 was lost; the shard runs again") == 4
    (line,) = captured.err.strip().splitlines()
    assert "train-00003 ended its process 5 times without progress" in line
    assert f"pyrite mine --resume {out}" in line
    assert {file.stem for file in (out / "shards").iterdir()} == {"train-00000", "train-00001", "train-00002"}


def test_shards_of_other_data_or_code_are_mined_again(of_mine, tmp_path, capsys):
    out = tmp_path / "mined"
    assert command("mine", *of_mine, f"out={out}") == 0
    before = files(out)
    for changed in ("base", "code of sampling"):
        shard = out / "shards" / "train-00001.json"
        content = json.loads(shard.read_bytes())
        content["made_of"][changed] = "another"
        (out / "data" / "train-00001.parquet").write_bytes(b"of before")
        content["files"]["data/train-00001.parquet"] = zlib.crc32(b"of before")
        shard.write_text(json.dumps(content))
        capsys.readouterr()
        assert command("mine", "--resume", str(out)) == 0
        assert f"1 shards were built from another {changed} and are computed again" in capsys.readouterr().out
        assert files(out) == before
    (out / "ids" / "train-00002.parquet").unlink()
    assert command("mine", "--resume", str(out)) == 0
    assert files(out) == before


def test_mined_sets_are_collections_with_the_same_ids(of_mine, beir_folder, tmp_path):
    source = open_collection(Beir(beir_folder), tmp_path / "cache")
    ids = dict(zip(source.documents["text"], source.documents["id"], strict=True))
    for form, format in (("tuples", "parquet"), ("triplets", "json"), ("labelled_pairs", "parquet")):
        folder = tmp_path / form
        mined = pyrite.mine([*of_mine, f"rows={form}", f"format={format}", f"out={folder}"])
        found = open_collection(Pairs(folder), tmp_path / "cache")
        assert all(ids[text] == name for name, text in found.documents.select("id", "text").rows())
        wanted = mined.ids.select("query_id", "document_ids", "scores").explode("document_ids", "scores").unique()
        assert set(found.given.select("query", "document").rows()) == set(wanted.select(pl.nth(0, 1)).rows())
        assert found.given["score"].null_count() == 0
        assert set(found.queries["split"]) == {"train", "dev", "test"}


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_every_configuration_of_the_card_loads(of_mine, tmp_path, format):
    datasets = pytest.importorskip("datasets", reason="datasets is in the dev extra")
    out = str(tmp_path / "m")
    mined = pyrite.mine([*of_mine, "guard.relative=0.01", f"format={format}", f"out={out}"])
    names = datasets.get_dataset_config_names(out)
    assert names == (["default"] if format == "json" else ["default", "ids", "guarded"])
    for name in names:
        loaded = datasets.load_dataset(out, name, cache_dir=str(tmp_path / "hf"))["train"]
        assert len(loaded) == len(mined.guarded if name == "guarded" else mined.ids)


@pytest.mark.nightly
def test_sentence_transformers_loads_and_trains(of_mine, tmp_path):
    datasets = pytest.importorskip("datasets", reason="datasets is in the dev extra")
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")
    from sentence_transformers import losses, models
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    options = [*of_mine, "with_scores=true", "count=2", "format=dataset", "guard.relative=0.01"]
    mined = pyrite.mine([*options, f"out={tmp_path / 'm'}"])
    loaded = datasets.load_dataset(str(tmp_path / "m"), cache_dir=str(tmp_path / "hf"))
    assert loaded["train"].column_names == ["query", "positive", "negative_1", "negative_2", "scores"]
    assert loaded["train"]["positive"] == mined.rows["positive"].to_list()
    beside = datasets.load_dataset(str(tmp_path / "m"), "ids", cache_dir=str(tmp_path / "hf"))["train"]
    assert beside["query_id"] == mined.ids["query_id"].to_list()
    saved = datasets.load_from_disk(str(tmp_path / "m" / "dataset"))
    assert saved.to_dict() == loaded["train"].to_dict()

    words = sorted({word for column in mined.rows.columns[:2] for text in mined.rows[column] for word in text.split()})
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(["[UNK]", *words])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    static = models.StaticEmbedding(tokenizer, embedding_dim=8)
    before = static.embedding.weight.detach().clone()
    model = library.SentenceTransformer(modules=[static], device="cpu")
    arguments: Any = library.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "st"), max_steps=2, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True
    )
    loss = losses.MultipleNegativesRankingLoss(model)
    library.SentenceTransformerTrainer(model, arguments, train_dataset=loaded["train"], loss=loss).train()
    assert not np.allclose(before.numpy(), static.embedding.weight.detach().numpy())


RANKER = "checkpoint=THAT"
"""Stands for a ranker that is there."""


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["selector=shared", "guard.relative=0.1"], "no guard has compared with its positive"),
        (["selector=dynamic"], "asks a ranker for scores"),
        (["selector=adversarial"], "selector: Adversarial learns while a ranker is trained"),
        (["policy=curriculum"], "policy: Curriculum learns while a ranker is trained"),
        (["policy=aligned"], "policy: this policy compares actions while a ranker is trained"),
        (["selector=margin_balanced"], "a teacher's margins are for a training"),
        (["function=dense"], "no ranker whose vectors could be searched"),
        (["scores=ranker"], "no ranker to score with"),
        (["checkpoint=nowhere"], "no such run or checkpoint"),
        (["function=[bm25,random]", "policy=random", "negatives.dense=2"], "no function dense"),
        (["count=0"], "count is 0"),
        (["count=200"], "function.bm25.depth: 200 negatives are asked of bm25, and its list has 100 documents"),
        (["count=5", "selector=window", "selector.first=2", "selector.last=5"], "its window has 4 ranks; raise it"),
        (["function=[random,bm25]", "policy=schedule"], "policy: Schedule moves while a ranker is trained"),
        (["function=judged", "with_scores=true"], "with_scores: judged gives relevant documents no scores"),
        (["function=[bm25,tfidf]", "with_scores=true"], "the scores of bm25 and tfidf can't be compared"),
        (["function=random", "guard.relative=0.1"], "guard: random has no ranked list whose documents could be"),
        (["guard.ranker=nowhere"], "^guard.ranker: a ranker without a margin drops nothing"),
        (["ranker=cross_encoder"], "ranker: says what a checkpoint is, and none is named; give checkpoint= too"),
        ([RANKER, "function=memory"], "function=memory: the documents of earlier batches are remembered while"),
        ([RANKER, "function=dense", "function.dense.refresh.every=3"], "^function.dense.refresh: mining trains no"),
        ([RANKER, "function=dense", "function.dense.index.factory=X"], "^function.dense.index.factory: faiss makes no"),
        ([RANKER], "checkpoint: nothing here asks the ranker; choose scores=ranker"),
    ],
)
def test_what_makes_no_sense_is_said(of_mine, small_bert, tmp_path, overrides, said):
    given = [text.replace(RANKER, f"checkpoint={small_bert}") for text in overrides]
    with pytest.raises(BadInput, match=said):
        pyrite.mine([*of_mine, *given, f"out={tmp_path / 'none'}"])
    assert not (tmp_path / "none" / "config.yaml").exists()


def test_negatives_from_outside_the_category_and_rows_without_scores_are_counted(tmp_path, own_cache, capsys):
    """Of q0's category two others are left, and q1 has none: 1 and 3 of the negatives come from elsewhere."""
    corpus = [{"_id": f"d{n}", "text": f"lake {n}", "metadata": {"category": "ab"[n > 2]}} for n in range(6)]
    queries = [{"_id": f"q{n}", "text": f"lake {n}" if n else "heron lake"} for n in range(4)]
    queries[0]["metadata"] = {"category": "a"}
    corpus[0]["text"] = "heron"
    judged = {"train": [("q0", "d0", 1), ("q1", "d0", 1)], "dev": [("q2", "d2", 1)], "test": [("q3", "d3", 1)]}
    write_texts(tmp_path / "labelled", corpus, queries, judged)
    options = ["mine", "collection=beir", f"collection.path={tmp_path / 'labelled'}", "encoding.min_count=1"]
    assert command(*options, "function=category", "count=3", f"out={tmp_path / 'category'}") == 0
    assert "category: 4 of 6 negatives are from elsewhere" in capsys.readouterr().out
    assert pyrite.MiningResult(str(tmp_path / "category")).summary["fallback"].to_list() == [4]
    scored = ["function=bm25", "with_scores=true", "count=2", "format=json"]
    assert command(*options, *scored, f"out={tmp_path / 'scored'}") == 0
    assert "warning: 1 of 2 rows lack a score" in capsys.readouterr().out  # q1 and d0 share no word
    head = (tmp_path / "scored" / "README.md").read_text().split("---")[1]
    assert re.findall(r"path: (.*)", head) == ["data/train-*.jsonl"]  # `load_dataset` reads one format


def lakes(folder: Path, grade: int, **splits: Sequence[int]) -> list[str]:
    """Overrides of a collection of six lakes, with the numbers of each split's queries."""
    corpus, queries = (
        [{"_id": f"{name}{n}", "text": f"lake {n}{more}"} for n in range(6)]
        for name, more in (("d", " otter heron"), ("q", ""))
    )
    write_texts(folder, corpus, queries, {k: [(f"q{n}", f"d{n}", grade) for n in v] for k, v in splits.items()})
    return ["collection=beir", f"collection.path={folder}", "vectors=random", "encoding.min_count=1"]


def test_a_negative_is_compared_with_its_functions_score_of_the_positive(tmp_path, own_cache, capsys):
    """The run gives each positive .9, one other document .95 and the rest .3."""
    options = lakes(tmp_path / "lakes", 1, train=(0, 1, 2), dev=(3,), test=(4,))
    lines = [
        f"q{query} Q0 d{n} 1 {0.9 if n == query else 0.95 if n == query + 3 else 0.3} tag"
        for query in range(3) for n in range(6)
    ]  # fmt: skip
    (tmp_path / "r.run").write_text("\n".join(lines))
    options += ["function=[bm25,run_file]", f"function.run_file.path={tmp_path / 'r.run'}", "rows=triplets"]
    options += ["negatives.bm25=1", "negatives.run_file=2", f"out={tmp_path / 'mined'}"]
    assert command("mine", *options) == 0
    assert "3 of 9 negatives score above their positive (in 3 of 3 pairs)" in " ".join(capsys.readouterr().out.split())
    mined = pyrite.MiningResult(str(tmp_path / "mined"))
    of_positives = dict(mined.summary.select("function", "score of positives").rows())
    assert of_positives["run_file"] == pytest.approx(0.9)
    rows = mined.ids.explode("document_ids", "scores", "functions", "positive_scores", "comparable")
    own = {row["query_id"]: row["scores"] for row in rows.filter(pl.col("functions").is_null()).iter_rows(named=True)}
    assert of_positives["bm25"] == pytest.approx(np.mean([*own.values()]))
    assert of_positives["bm25"] != pytest.approx(0.9)
    for row in rows.filter(pl.col("functions").is_not_null()).iter_rows(named=True):
        of_bm25 = row["functions"] == "bm25"
        assert row["comparable"] == of_bm25
        assert row["positive_scores"] == pytest.approx(own[row["query_id"]] if of_bm25 else 0.9)
    # What is read back as a teacher's scores is BM25's alone, of any version.
    for version in ("now", "before"):
        if version == "before":
            file = tmp_path / "mined" / "ids" / "train-00000.parquet"
            pl.read_parquet(file).drop("positive_scores", "comparable").write_parquet(file)
        reader = Pairs(tmp_path / "mined", test=0)
        given = open_collection(reader, tmp_path / "cache").given
        left = rows.filter("comparable") if version == "now" else rows.clear()
        assert given["score"].count() == left.select("query_id", "document_ids").n_unique()
        (fact,) = [fact for name, fact in reader.facts().items() if name.startswith("scores of several functions")]
        assert fact.startswith("6, " if version == "now" else "18, ")
    (tmp_path / "mined" / "README.md").write_text("- seed: 0\n- scores: ranker\n")  # one ranker has given all
    assert open_collection(Pairs(tmp_path / "mined", test=0), tmp_path / "other").given["score"].null_count() == 0


def test_a_split_that_is_not_there_is_not_made_of_the_others(tmp_path, own_cache):
    for split, others in (("train", ("dev", "test")), ("test", ("dev",))):
        options = lakes(tmp_path / split, 1, **{split: range(3)})
        for wanted in others:
            with pytest.raises(BadInput, match=f"has no {wanted} split|test split only"):
                pyrite.mine([*options, f"queries={wanted}", f"out={tmp_path / 'none'}"])
        mined = pyrite.mine([*options, f"queries={split}", "count=1", f"out={tmp_path / 'mined' / split}"])
        assert len(mined.rows) == 3


@pytest.mark.parametrize("verb", ["mine", "train"])
@pytest.mark.parametrize("grade", [0, 1])
def test_judgements_without_a_relevant_document_are_said_to_be_such(verb, grade, tmp_path, own_cache, capsys):
    options = lakes(tmp_path / "none", grade, train=(0, 1, 2, 3), dev=(4,), test=(5,))
    given = [*options, f"encoding.relevant_from={grade + 1}"]
    assert command(verb, *given, f"out={tmp_path / 'out'}") == 2
    assert f"no judgement is above {grade}, so no document is relevant; check its grades" in capsys.readouterr().err


def test_a_mining_without_a_row_fails_and_other_files_are_left_alone(of_mine, tmp_path):
    (tmp_path / "summary.csv").write_text("mine")
    with pytest.raises(BadInput, match=r"holds other files \(summary.csv\); choose another out="):
        pyrite.mine([*of_mine, f"out={tmp_path}"])
    assert [file.name for file in tmp_path.iterdir()] == ["summary.csv"]
    with pytest.raises(
        BadInput, match=r"no row was mined: of 24 pairs, each had too few negatives; start another with f.* guard$"
    ):
        pyrite.mine([*of_mine, "guard.ceiling=-1", f"out={tmp_path / 'none'}"])
    assert pyrite.MiningResult(str(tmp_path / "none")).summary["of negatives"].dtype == pl.Float64
    without_number = ["function=[in_batch,bm25]", "negatives.bm25=1", f"out={tmp_path / 'whole_batch'}"]
    with pytest.raises(BadInput, match=r"a number for in_batch: negatives.in_batch=2, or InBatch\(2\) in Python$"):
        pyrite.mine([*of_mine, *without_number])


@pytest.mark.parametrize("form", ["json", "flagembedding"])
def test_rows_are_read_in_the_format_in_which_they_are(of_mine, tmp_path, form):
    result = pyrite.mine([*of_mine, "shard=7", f"format={form}", f"out={tmp_path / 'out'}"])
    assert len(result.rows) == len(result.ids) > 7
    assert result.rows.columns[0] == "query"
    with pytest.raises(BadInput, match=r"nowhere: there is no ids/; name the folder of a finished mining"):
        pyrite.MiningResult("nowhere").ids  # noqa: B018


MEMORY = """
import ctypes, platform, sys
import numpy as np
import psutil

process = psutil.Process()
if sys.argv[1] == "held":
    assert give_back()
np.ones(32 << 17)  # freed: from here on glibc has blocks of up to 32 MiB on the heap, unless it is told not to
kept, before = [], process.memory_info().rss
for _ in range(8):
    large = np.ones(24 << 17)
    kept.append(np.ones(1 << 13))  # a small result behind it
    del large
print(process.memory_info().rss - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_memory_that_small_results_stand_behind_is_given_back():
    constants = f"M_MMAP_THRESHOLD, THRESHOLD = {miner.M_MMAP_THRESHOLD}, {miner.THRESHOLD}\n"
    program = constants + inspect.getsource(miner.give_back) + MEMORY

    def left(how: str) -> int:
        return int(subprocess.check_output([sys.executable, "-c", program, how]))

    assert left("held") < left("as it is") / 2


def test_what_a_ranker_scores_above_the_positive_becomes_a_positive(base, of_mine, beir_folder, tmp_path, capsys):
    asked = ["ranker=static", "function=random", "training.max_epochs=1", f"out={tmp_path / 'run'}"]
    run = pyrite.train([*base, *asked]).folder
    options = [*of_mine, "guard.relative=0.0", f"guard.ranker={run}", "count=2", "rows=labelled_pairs"]
    plain = pyrite.mine([*options, f"out={tmp_path / 'plain'}"])
    capsys.readouterr()
    assert command("mine", *options, "promote=true", f"out={tmp_path / 'promoted'}") == 0
    shown = capsys.readouterr().out
    mined = pyrite.MiningResult(str(tmp_path / "promoted"))
    above = mined.guarded.filter(reason="scores above the positive").select("query_id", "document_id")
    pairs = set(above.rows())
    assert len(pairs) > 0
    assert f"promoted: {len(pairs)} of " in shown

    def shown_as(result: pyrite.MiningResult, label: int) -> set[tuple[str, str]]:
        ids = result.ids.with_columns(label=result.rows["label"]).filter(label=label)
        return set(zip(ids["query_id"], ids["document_ids"].list.first(), strict=True))

    assert shown_as(mined, 1) == shown_as(plain, 1) | pairs
    assert not shown_as(mined, 0) & (shown_as(plain, 1) | pairs)
    content = (tmp_path / "promoted" / "promoted.qrels").read_text().split("\n")
    assert {tuple(line.split()[::2]) for line in content if line} == pairs
    changed = relabelled(open_collection(Beir(beir_folder), tmp_path / "cache"), tmp_path / "promoted/promoted.qrels")
    assert pairs <= set(changed.judgements.select("query", "document").rows())
    # In the file as in the rows, a judged document keeps its grade, and others get the lowest relevant one.
    for judged in (set[tuple[str, str]](), pairs):
        graded, out = tmp_path / f"judged{len(judged)}", tmp_path / f"promoted{len(judged)}"
        shutil.copytree(beir_folder, graded)
        for path in (graded / "qrels").iterdir():
            path.write_text(path.read_text().replace("\t1\n", "\t2\n"))
        with (graded / "qrels" / "train.tsv").open("a") as lines:
            lines.writelines(f"{query}\t{document}\t0\n" for query, document in judged)
        given = [text.replace(str(beir_folder), str(graded)) for text in options]
        mined = pyrite.mine([*given, "encoding.relevant_from=2", "promote=true", f"out={out}"])
        written = {tuple(line.split()) for line in (out / "promoted.qrels").read_text().splitlines()}
        assert written == {(query, "0", document, "2") for query, document in pairs - judged}
        assert shown_as(mined, 1) == shown_as(plain, 1) | pairs - judged
    with pytest.raises(BadInput, match=r"no ranker says which documents are relevant; .*FOLDER guard.relative=0$"):
        pyrite.mine([*of_mine, "promote=true", f"out={tmp_path / 'refused'}"])
    remedy = [f"guard.ranker={run}", "guard.relative=0"]
    assert len(pyrite.mine([*of_mine, "promote=true", *remedy, f"out={tmp_path / 'as told'}"]).rows)


def documents_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((folder / "corpus.jsonl.gz").read_bytes()).splitlines()]


def test_promoted_documents_need_ids_that_their_file_can_hold(base, of_mine, beir_folder, tmp_path):
    run = pyrite.train([*base, "ranker=static", "function=random", "training.max_epochs=1", f"out={tmp_path / 'run'}"])
    folder = tmp_path / "blanks"
    shutil.copytree(beir_folder, folder)
    renamed = [json.dumps(row | {"_id": f"{row['_id']} a"}) for row in documents_of(folder)]
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress("\n".join(renamed).encode()))
    for path in (folder / "qrels").iterdir():
        path.write_text(re.sub(r"\t(d\d+)\t", r"\t\1 a\t", path.read_text()))
    options = [text.replace(str(beir_folder), str(folder)) for text in of_mine]
    guard = [f"guard.ranker={run.folder}", "guard.relative=0"]
    with pytest.raises(BadInput, match=r"has a blank in it .*a TREC file can't hold it"):
        pyrite.mine([*options, *guard, "promote=true", f"out={tmp_path / 'refused'}"])
    assert not (tmp_path / "refused" / "config.yaml").exists()
    assert len(pyrite.mine([*options, *guard, f"out={tmp_path / 'plain'}"]).rows)


@pytest.mark.parametrize("format", ["parquet", "json", "dataset"])
def test_a_split_without_a_row_stops_no_reader(of_mine, beir_folder, tmp_path, format):
    """All documents are relevant for the only dev query, which so has no negative."""
    datasets = pytest.importorskip("datasets", reason="datasets is in the dev extra")
    folder, out = tmp_path / "few", tmp_path / "mined"
    shutil.copytree(beir_folder, folder)
    head, first, *_ = (folder / "qrels" / "dev.tsv").read_text().splitlines()
    pairs = [f"{first.split()[0]}\t{row['_id']}\t1" for row in documents_of(folder)]
    (folder / "qrels" / "dev.tsv").write_text("\n".join([head, *pairs, ""]))
    options = [text.replace(str(beir_folder), str(folder)) for text in of_mine]
    pyrite.mine([*options, "queries=all", f"format={format}", f"out={out}"])
    assert set(datasets.load_dataset(str(out), cache_dir=str(tmp_path / "hf"))) == {"train", "test"}
    if format == "dataset":
        assert set(datasets.load_from_disk(str(out / "dataset"))) == {"train", "test"}
    found = open_collection(Pairs(out), tmp_path / "cache")
    assert set(found.queries["split"]) >= {"train", "test"}


def test_a_data_set_that_cannot_be_saved_is_refused_first(of_mine, tmp_path, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(data_card, "find_spec", lambda name: None)
        with pytest.raises(BadInput, match="the library datasets is not installed"):
            pyrite.mine([*of_mine, "format=dataset", f"out={tmp_path / 'm'}"])
    with pytest.raises(BadInput, match="can only be saved on a local disk"):
        pyrite.mine([*of_mine, "format=dataset", f"out=file://{tmp_path / 'm'}"])
    assert not (tmp_path / "m").exists()


def test_records_of_queries_are_those_of_each_alone():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 9, 50).astype(np.int32) for _ in range(2)]
    scores = [rng.random(50).astype(np.float32) for _ in range(2)]
    every = GuardedDocuments(*columns, *scores, rng.integers(0, 4, 50).astype(np.int8))
    records = every.by_query(np.array([3, 1, 3, 20]))
    assert [*records] == [1, 3, 20]
    for query, record in records.items():
        own = every.queries == query
        assert record.documents.tolist() == every.documents[own].tolist()
        assert record.reasons.tolist() == every.reasons[own].tolist()
        assert record.total == own.sum()


def test_promoted_pairs_by_hand():
    """Query 7 has two rows. Document 5 is judged not relevant; document 6 was dropped for another reason."""
    judgements = Judgements(
        np.array([0, 2, 4, 5]), np.array([1, 5, 1, 5, 2], np.int32), np.array([1, 0, 1, 0, 2], np.int32)
    )
    examples = Batch(np.arange(3), np.array([1, 1, 2], np.int32))
    dropped = GuardedDocuments(
        np.array([7, 7, 9, 7, 9], np.int32), np.array([4, 4, 4, 5, 6], np.int32), np.zeros(5, np.float32),
        np.zeros(5, np.float32), np.array([0, 0, 0, 0, 1], np.int8), 5,
    )  # fmt: skip
    changed, more = promoted(judgements, examples, np.array([7, 7, 9]), [dropped])
    assert [changed.of(row)[0].tolist() for row in range(3)] == [[1, 4, 5], [1, 4, 5], [2, 4]]
    assert [changed.of(row)[1].tolist() for row in range(3)] == [[1, 1, 0], [1, 1, 0], [2, 1]]
    assert list(zip(more.queries.tolist(), more.positives.tolist(), strict=True))[3:] == [(0, 4), (2, 4)]
    pooled = replace(judgements, grades=np.array([1, -1, 1, 0, 2], np.int32))  # −1 is no judgement
    changed, more = promoted(pooled, examples, np.array([7, 7, 9]), [dropped])
    assert [changed.of(row)[1].tolist() for row in range(3)] == [[1, 1, 1], [1, 1, 0], [2, 1]]
    assert list(zip(more.queries.tolist(), more.positives.tolist(), strict=True))[3:] == [(0, 4), (0, 5), (2, 4)]
    same, none = promoted(judgements, examples, np.array([7, 7, 9]), [GuardedDocuments.joined([])])
    assert same.documents.tolist() == judgements.documents.tolist()
    assert len(none) == 3
    # A promoted document has the list of its query's lowest positive, in which nothing is within that one's margin.
    of_lowest = promoted(judgements, examples, np.array([7, 7, 9]), [dropped], np.array([0.9, 0.2, 0.5]))[1]
    assert list(zip(of_lowest.queries.tolist(), of_lowest.positives.tolist(), strict=True))[3:] == [(1, 4), (2, 4)]
