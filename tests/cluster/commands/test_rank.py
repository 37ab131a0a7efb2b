"""`pyrite rank`: what a run has learned ranks any collection, and pools read what it leaves."""

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import pyrite
from pyrite.cluster.commands.rank import _output
from pyrite.cluster.runs.trained import read_ranker
from pyrite.pooling.runs import read_runs
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.encoding import Encoder
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.measures import Evaluator
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.trec_files import read_qrels, read_run
from tests.cluster.command_line import command
from tests.made_up import WORDS, write_beir, write_texts


@pytest.fixture(scope="module", params=["static", "dssm"])
def training(request, base, tmp_path_factory) -> pyrite.TrainingResult:
    """One that reads our words, and one with tokens of its own."""
    folder = tmp_path_factory.mktemp("rank") / request.param
    options = ["function=random", f"ranker={request.param}", "origin=[bm25,full]", "training.max_epochs=1"]
    return pyrite.train([*base, *options, f"out={folder}"])


@pytest.fixture
def of_rank(beir_folder, own_cache) -> list[str]:
    return ["collection=beir", f"collection.path={beir_folder}", "measures=[AP@10]"]


def average_precision(run: pl.DataFrame, folder: Path, cache: Path) -> float:
    """AP@10 of a run's lines, in their order."""
    collection = open_collection(Beir(folder), cache)
    grades = {(query, document): grade for query, document, grade in collection.judgements.rows()}
    queries = collection.queries.filter(pl.col("split") == "test")["id"].to_list()
    judged = [[grade for (query, _), grade in grades.items() if query == each] for each in queries]
    ranked = np.zeros((len(queries), 100), np.int32)
    for row, query in enumerate(queries):
        listed = run.filter(pl.col("query") == query).sort("rank")["document"].to_list()[:100]
        ranked[row, : len(listed)] = [grades.get((query, document), 0) for document in listed]
    return float(Evaluator(["AP@10"], judged)(ranked)["AP@10"].mean())


@pytest.mark.by_day(2)
@pytest.mark.parametrize("origin", ["bm25", "full"])
def test_it_ranks_as_the_training_measured(training, of_rank, beir_folder, tmp_path, origin):
    with pytest.raises(BadInput, match="no Sparse; leave ranker= out"):
        pyrite.rank(training.folder, [*of_rank, "ranker=sparse"])
    out = tmp_path / "runs" / f"{origin}.run.gz"
    assert command("rank", training.folder, *of_rank, f"origin={origin}", f"out={out}") == 0
    run = read_run(out)
    assert set(run["tag"]) == {origin}
    measured = training.measures[f"{origin}:AP@10"]
    assert average_precision(run, beir_folder, tmp_path / "cache") == pytest.approx(measured)
    ordered = run.sort("query", "score", "document", descending=[False, True, True], maintain_order=True)
    assert ordered.equals(run.sort("query", "rank"))  # trec_eval's order is the file's
    with pytest.raises(BadInput, match="already exists"):
        pyrite.rank(training.folder, [*of_rank, f"out={out}"])


def test_the_judgements_beside_a_run_evaluate_it_with_others(small_bert, own_cache, tmp_path, capsys, monkeypatch):
    rows = [{"question": f"{word} of the wing", "answer": f"{word} answers {n}"} for n, word in enumerate(WORDS[:12])]
    (tmp_path / "mine.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    options = ["collection.path=mine.jsonl", "queries=all", "origin=full", "measures=[RR@10]"]
    assert command("rank", small_bert, *options, "out=runs/a.run") == 0
    printed = capsys.readouterr().out
    table = next(line for line in printed.splitlines() if "RR@10" in line).split()
    line = printed.splitlines()[-1]
    assert printed.splitlines()[-2:] == ["judgements: runs/a.qrels", "  pyrite evaluate runs/a.run runs/a.qrels"]
    assert len(read_qrels("runs/a.qrels")) == 12
    assert command(*shlex.split(line)[1:], "measures=[RR@10]") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["a"])
    assert float(row.split()[-1]) == pytest.approx(float(table[1]), abs=1e-4)
    assert command("rank", small_bert, *options, "depth=3", "out=runs/b.run.gz") == 0
    assert read_runs("runs").names == read_runs("runs/*").names == ["a", "b"]
    assert command("evaluate", "runs", "runs/b.qrels", "baseline=a") == 0
    # Judgements of the user's are kept.
    Path("runs/c.qrels").write_text("a 0 b 1\n")
    with pytest.raises(BadInput, match=r"c\.qrels: already exists, with other judgements; choose another out="):
        pyrite.rank(small_bert, [*options, "out=runs/c.run"])
    assert not Path("runs/c.run").exists()
    Path("topics.tsv").write_text("1\twing\n")
    assert command("rank", small_bert, *options[:1], *options[2:], "topics=topics.tsv", "out=runs/d.run") == 0
    assert not Path("runs/d.qrels").exists()


@pytest.mark.parametrize("origin", ["bm25", "full"])
def test_a_run_names_the_judged_one_of_merged_documents(small_bert, origin, own_cache, tmp_path, capsys):
    """So that other programs, which know judgements by id, measure what its table says."""
    texts = {"d0": "wing tip", "d1": "Wing  tip", "d2": "air flow", "d3": "air flow", "d4": "wing span"}
    documents = [{"_id": name, "title": "", "text": text} for name, text in texts.items()]
    write_texts(tmp_path / "own", documents, [{"_id": "q", "text": "wing flow"}], {"test": [("q", "d1", 1)]})
    options = ["collection=beir", f"collection.path={tmp_path / 'own'}", "collection.duplicates=merge", "queries=all"]
    out = tmp_path / "r"
    assert command("rank", small_bert, *options, f"origin={origin}", "measures=[RR]", f"out={out}") == 0
    run = read_run(out)
    assert sorted(run["document"]) == ["d1", "d2", "d4"]  # and neither d0 nor d3
    assert run.equals(run.sort("score", "document", descending=True, maintain_order=True))
    row = next(line for line in capsys.readouterr().out.splitlines() if "RR" in line)
    assert float(row.split()[1]) == pytest.approx(1 / (1 + run["document"].to_list().index("d1")), abs=1e-4)


def test_the_first_stage_is_measured_in_the_order_of_its_scores(training, own_cache, tmp_path, capsys):
    """The candidates of `origin=random` begin with the relevant document, which BM25 has behind the other three."""
    texts = ["air flow", "wing tip", "wing root", "wing span"]
    documents = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    known = {"train": [], "dev": [], "test": [("q", "d0", 1)]}
    write_texts(tmp_path / "own", documents, [{"_id": "q", "text": "wing"}], known)
    options = ["collection=beir", f"collection.path={tmp_path / 'own'}", "origin=random", "queries=all"]
    assert command("rank", training.folder, *options, f"out={tmp_path / 'r'}") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "AP@100" in line)
    assert float(row.split()[2]) == 0.25


@pytest.mark.parametrize("ranker", ["static", "dssm"])
def test_what_is_relevant_is_what_the_training_took_as_relevant(ranker, base, own_cache, tmp_path, capsys):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 8)) for _ in range(40)]
    documents = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
    graded = {  # the last test query has nothing from grade 2 on
        split: [(f"q{n}", f"d{n + k}", grade - (n == 29)) for n in numbers for k, grade in ((0, 1), (5, 2))]
        for split, numbers in (("train", range(16)), ("dev", range(16, 20)), ("test", range(20, 30)))
    }
    queries = [{"_id": f"q{n}", "text": " ".join(texts[n].split()[:3])} for n in range(30)]
    write_texts(tmp_path / "own", documents, queries, graded)
    collection = [f"collection.path={tmp_path / 'own'}", "measures=[AP@10]"]
    options = ["function=random", f"ranker={ranker}", "training.max_epochs=1", "encoding.relevant_from=2"]
    training = pyrite.train([*base, *collection, *options, "origin=bm25", f"out={tmp_path / 'trained'}"])
    capsys.readouterr()

    def measured(*more: str) -> tuple[list[float], str]:
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.run"
        assert command("rank", training.folder, "collection=beir", *collection, *more, f"out={out}") == 0
        printed = capsys.readouterr().out
        row = next(line for line in printed.splitlines() if "AP@10" in line)
        return list(map(float, re.findall(r" ([01]\.\d+)", row))), printed

    of_training = [training.measures["bm25:AP@10"], training.measures["bm25:AP@10:bm25"]]
    values, printed = measured()
    assert values == pytest.approx(of_training, abs=1e-4)
    assert "relevant from grade 2 on" in printed
    assert "queries without a relevant document (not measured): 1" in printed
    others, printed = measured("relevant_from=1")
    assert others != values
    assert "relevant from" not in printed


def test_another_collection_is_read_with_the_words_of_the_training(training, own_cache, tmp_path):
    folder = write_beir(tmp_path / "other", seed=5, documents=50)
    weights = training.weights
    out = pyrite.rank(weights, ["collection=beir", f"collection.path={folder}", "origin=full", f"out={tmp_path / 'r'}"])
    collection = open_collection(Beir(folder), tmp_path / "cache")
    trained = read_ranker(weights)
    read = trained.read(collection, Encoder(min_count=1).encode(collection)[0])
    run = read_run(out)
    place = {name: row for row, name in enumerate(collection.documents["id"])}
    for row, query in enumerate(collection.queries["id"]):
        lines = run.filter(pl.col("query") == query)
        if len(lines):  # the test queries
            shown = np.array([[place[name] for name in lines["document"]]])
            assert sorted(shown[0].tolist()) == list(range(50))
            scores = score_candidates(trained.ranker, read, np.array([row]), shown)
            np.testing.assert_allclose(scores[0], lines["score"], rtol=1e-4, atol=1e-5)


def test_topics_that_nobody_judged_over_the_candidates_of_a_run(small_bert, of_rank, tmp_path, capsys):
    (tmp_path / "topics.tsv").write_text("a\tBären\nb\towls b\nc\t\nbroken\n", encoding="latin-1")
    (tmp_path / "first.run").write_text("a Q0 d3 1 9 x\na Q0 d13 2 8 x\nb Q0 d5 1 7 x\n")
    options = [f"topics={tmp_path / 'topics.tsv'}", "encoding=latin-1"]
    with pytest.raises(BadInput, match="topics: are the queries; leave queries= out"):
        pyrite.rank(small_bert, [*of_rank, *options, "queries=dev", f"out={tmp_path / 'second.run'}"])
    options += ["origin=run_file", f"origin.run_file.path={tmp_path / 'first.run'}"]
    with pytest.raises(BadInput, match=r"topics.tsv:4: broken line"):
        pyrite.rank(small_bert, [*of_rank, *options, f"out={tmp_path / 'second.run'}"])
    options += ["strict=false", "tag=bert", f"out={tmp_path / 'second.run'}"]
    assert command("rank", small_bert, *of_rank, *options) == 0
    run = read_run(tmp_path / "second.run")
    output = capsys.readouterr().out
    assert "topics without a text: 1" in output
    assert "queries without a candidate, which get no line: 1" in output
    assert set(run.select("query", "document").rows()) == {("a", "d3"), ("a", "d13"), ("b", "d5")}
    assert set(run["tag"]) == {"bert"}
    (tmp_path / "first.run").write_text("z Q0 d3 1 9 x\n")
    with pytest.raises(BadInput, match="origin: none of 3 queries has a candidate, so the run would be empty"):
        pyrite.rank(small_bert, [*of_rank, *options[:-1], f"out={tmp_path / 'third.run'}"])
    assert not (tmp_path / "third.run").exists()


def test_measures_that_see_more_than_the_run_has_are_named(small_bert, of_rank, tmp_path, capsys):
    options = ["measures=[AP,AP@3,RR@10]", "origin=full"]
    for depth, said in ((5, "depth=5: of the run, the first 5 documents count for AP, RR@10\n"), (60, "")):
        assert command("rank", small_bert, *of_rank, *options, f"depth={depth}", f"out={tmp_path / str(depth)}") == 0
        assert re.findall(r"depth=.*\n", capsys.readouterr().out) == [said] * bool(said)


def test_a_run_may_be_at_the_root_of_the_file_system():
    storage, name = _output("/second.run")
    assert os.path.samefile(storage.path(""), "/")
    assert name == "second.run"


def test_what_is_no_ranker_is_refused(base, of_rank, tmp_path):
    (tmp_path / "empty").mkdir()
    for place, said in (("nowhere", "no such run or "), (tmp_path / "empty", "neither a run nor a checkpoint")):
        with pytest.raises(BadInput, match=said):
            pyrite.rank(str(place), [*of_rank, f"out={tmp_path / 'r'}"])
    assert command("rank", "nowhere", *of_rank) == 2
    with pytest.raises(BadInput, match=r"there is no ranker to rank with.*name it first"):
        pyrite.rank("collection=beir", of_rank[1:])
    with pytest.raises(BadInput, match="there is no option vectors here; see `pyrite options --for rank`"):
        pyrite.rank("nowhere", [*of_rank, "vectors=random"])


def test_a_checkpoint_is_read_as_the_ranker_that_is_named(small_bert, of_rank, tmp_path):
    """Without a word it is a bi-encoder. The class alone is enough, and so is the option's name, with its options."""
    asked = {
        "by itself": [],
        "class": ["ranker={_target_: pyrite.ranking.rankers.bi_encoder.BiEncoder, pooling: cls, scale: 1}"],
        "name": ["ranker=bi_encoder", "ranker.pooling=cls", "ranker.scale=1"],
        "scaled": ["ranker=bi_encoder", "ranker.pooling=cls", "ranker.scale=2"],
    }
    scores = {
        name: read_run(pyrite.rank(small_bert, [*of_rank, *options, "depth=5", f"out={tmp_path / f'{name}.run'}"]))
        for name, options in asked.items()
    }
    assert scores["name"].equals(scores["class"].with_columns(scores["name"]["tag"]))
    np.testing.assert_allclose(scores["scaled"]["score"], 2 * scores["name"]["score"].to_numpy(), rtol=1e-5)
    assert not scores["name"]["score"].equals(scores["by itself"]["score"])
    with pytest.raises(BadInput, match=r"has no projection\.weight: its scores would be random"):
        pyrite.rank(small_bert, [*of_rank, "ranker=late_interaction", f"out={tmp_path / 'random.run'}"])
