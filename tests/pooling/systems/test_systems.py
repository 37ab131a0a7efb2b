"""The runs that are made where nobody has runs: complete, different, the same every time, never half."""

import logging
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from pyrite.cluster.runs.rerank import rerank
from pyrite.pooling.pool import make_pool
from pyrite.pooling.runs import read_runs
from pyrite.pooling.systems import models, systems
from pyrite.pooling.systems.inputs import SystemInputs
from pyrite.pooling.systems.systems import SYSTEMS, Systems, make_systems, pydocs_systems
from pyrite.pooling.systems.term_index import TermIndex, character_grams, counts_of, pair_counts
from pyrite.ranking.bm25 import Bm25, Bm25Options
from pyrite.ranking.collections.beir import Beir
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pydocs import Pydocs
from pyrite.ranking.errors import BadInput
from pyrite.ranking.splits import Split
from pyrite.ranking.trec_files import read_qrels, read_run

NEED_EXTRAS = {"bag_idf"}


@pytest.fixture(scope="module")
def collection(beir_folder, tmp_path_factory) -> Collection:
    return open_collection(Beir(str(beir_folder)), tmp_path_factory.mktemp("collections"))


@pytest.fixture(scope="module")
def made(collection, tmp_path_factory) -> Systems:
    return make_systems(collection, tmp_path_factory.mktemp("made"), topics=6, depth=20, rerank=rerank)


def contents(made: Systems) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in [*made.runs.iterdir(), made.qrels]}


def test_every_system_has_a_run_of_its_own(made):
    assert set(made.left_out) <= NEED_EXTRAS
    assert made.names == [name for name in SYSTEMS if name not in made.left_out]
    assert len(SYSTEMS) == 8
    assert sorted(path.name for path in made.runs.iterdir()) == sorted(f"{name}.run" for name in made.names)
    topics = set(read_qrels(made.qrels)["query"])
    for name in made.names:
        run = read_run(made.runs / f"{name}.run")
        assert run["tag"].unique().to_list() == [name]
        assert 0 < len(run) <= 20 * len(topics)
        assert set(run["query"]) <= topics
        assert not run.select("query", "document").is_duplicated().any()
        for _, lines in run.group_by("query"):
            assert lines["rank"].to_list() == list(range(1, len(lines) + 1))
            assert lines["score"].is_sorted(descending=True)


def test_any_order_reads_the_same_ranking(made):
    by_score, by_rank, as_written = (read_runs(str(made.runs), order).table for order in ("score", "rank", "file"))
    assert by_score.equals(by_rank)
    assert by_score.sort("run", "topic", "place").equals(as_written.sort("run", "topic", "place"))


@pytest.mark.nightly
def test_over_real_text_no_two_are_alike_and_families_differ(tmp_path):
    collection = open_collection(Pydocs(queries="topics", folders=[Path(np.__file__).parent]), tmp_path)
    made = make_systems(collection, tmp_path / "systems", rerank=rerank)
    runs = read_runs(str(made.runs))
    lists = [set(lines.select("topic", "document", "place").iter_rows()) for _, lines in runs.table.group_by("run")]
    assert len({frozenset(one) for one in lists}) == len(made.names)
    assert len(set(runs.teams)) == len(made.names)

    top = runs.table.filter(pl.col("place") < 10).sort("run").partition_by("run")
    tops = [set(lines.select("topic", "document").iter_rows()) for lines in top]
    shared = [
        len(tops[one] & tops[other]) / max(len(tops[one]), len(tops[other]))
        for one in range(len(tops))
        for other in range(one)
    ]
    assert np.mean(shared) < 0.7


def test_judgements_are_those_of_the_topics_and_are_pooled(collection, made):
    qrels = read_qrels(made.qrels)
    topics = qrels["query"].unique()
    assert len(topics) == 6
    theirs = collection.judgements.filter(pl.col("query").is_in(topics.implode()))
    assert qrels.sort("query").equals(theirs.select("query", "document", "grade").sort("query"))
    split = collection.queries.filter(pl.col("id").is_in(topics.implode()))["split"]
    assert set(split) == {"test"}  # the trained systems take all train and dev queries of so small a collection
    pool = make_pool(read_runs(str(made.runs)), qrels, depth=10)
    assert pool.notes["topics of the judgements that the runs lack"] == 0
    assert sum(pool.is_relevant(topic).sum() for topic in pool.topics) >= 5  # of 6: a topic shares rare words with its


def test_the_same_files_again(collection, made, tmp_path):
    again = make_systems(collection, tmp_path, topics=6, depth=20, rerank=rerank)
    assert again.runs != made.runs
    assert contents(again) == contents(made)


def test_what_is_there_is_reused(collection, made, monkeypatch):
    monkeypatch.setattr(systems, "_inputs", None)
    assert make_systems(collection, made.runs.parents[1], topics=6, depth=20, rerank=rerank) == made


@pytest.fixture
def few(monkeypatch) -> None:
    """Three systems, so that a test takes no time."""
    kept = ("bm25_k12_b75", "lsi_100", "broken")
    broken = {"broken": lambda inputs: np.ones(inputs.shape) * inputs.made("bm25").scores}
    monkeypatch.setattr(systems, "SYSTEMS", {name: (SYSTEMS | broken)[name] for name in kept})


@pytest.mark.nightly
@pytest.mark.usefixtures("few")
def test_other_options_are_another_folder(collection, tmp_path):
    folders = {
        make_systems(collection, tmp_path).runs,
        make_systems(collection, tmp_path, topics=3).runs,
        make_systems(collection, tmp_path, depth=5).runs,
        make_systems(replace(collection, fingerprint="0" * 16), tmp_path).runs,
    }
    assert len(folders) == 4


@pytest.mark.usefixtures("few")
def test_a_smaller_sample_is_part_of_a_larger(collection, tmp_path):
    three, six = (set(read_qrels(make_systems(collection, tmp_path, topics=n).qrels)["query"]) for n in (3, 6))
    assert len(three) == 3
    assert three < six


@pytest.mark.usefixtures("few")
def test_progress_is_told_and_what_builds_on_nothing_left_out(collection, tmp_path):
    told: list[tuple[str, int, int]] = []
    made = make_systems(collection, tmp_path, on_system=lambda *one: told.append(one))
    assert told == [("bm25_k12_b75", 1, 3), ("lsi_100", 2, 3), ("broken", 3, 3)]
    assert made.names == ["bm25_k12_b75", "lsi_100"]
    assert "builds on bm25" in made.left_out["broken"]
    assert not (made.runs / "broken.run").exists()


@pytest.mark.usefixtures("few")
def test_an_interrupt_leaves_nothing_half_made(collection, tmp_path):
    def interrupt(name: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_systems(collection, tmp_path, on_system=interrupt)
    assert list(tmp_path.iterdir()) == []
    assert make_systems(collection, tmp_path).qrels.is_file()


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("lost", ["runs/lsi_100.run", "qrels.txt", "systems.json"])
def test_what_was_damaged_is_made_again(collection, tmp_path, lost):
    before = make_systems(collection, tmp_path)
    whole = contents(before)
    (before.qrels.parent / lost).unlink()
    assert contents(make_systems(collection, tmp_path)) == whole


def test_without_the_extras(collection, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    few = ("gram_5", "bm25_k12_b75", "neural_bm25", "bag_idf")
    monkeypatch.setattr(systems, "SYSTEMS", {name: SYSTEMS[name] for name in few})
    made = make_systems(collection, tmp_path)
    assert made.names == ["gram_5", "bm25_k12_b75"]
    assert "faiss is not installed" in made.left_out["bag_idf"]
    assert "nothing here trains one" in made.left_out["neural_bm25"]


def test_bad_input(collection, tmp_path):
    with pytest.raises(BadInput, match="has 2 relevant documents"):
        make_systems(collection, tmp_path, fewest=2)
    with pytest.raises(BadInput, match="depth=0"):
        make_systems(collection, tmp_path, depth=0)
    blank = replace(collection, documents=collection.documents.with_columns(id="a " + pl.col("id")))
    with pytest.raises(BadInput, match="'a d0' has a blank"):
        make_systems(blank, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        make_systems(collection, tmp_path / "file")


def test_the_built_in_collection(tmp_path, monkeypatch):
    asked: list[tuple[Collection, Path, int]] = []
    told: list[str] = []
    monkeypatch.setattr(systems, "Pydocs", partial(Pydocs, folders=[Path(logging.__file__).parent]))
    monkeypatch.setattr(
        systems,
        "make_systems",
        lambda collection, folder, fewest, rerank, on_system: asked.append((collection, folder, fewest)),
    )
    monkeypatch.setenv("PYRITE_CACHE", str(tmp_path))
    pydocs_systems(on_system=lambda name, done, total: told.append(name))
    pydocs_systems(tmp_path / "other")
    assert told == ["reading pydocs"]
    assert [folder for _, folder, _ in asked] == [tmp_path / "systems", tmp_path / "other" / "systems"]
    collection, _, fewest = asked[0]
    assert collection.name == "pydocs-topics"  # whose topics have several relevant documents
    assert fewest == 15


COUNTS = np.array([[2, 1, 0, 0], [1, 0, 3, 0], [0, 0, 1, 1]], float)  # documents × terms
TOPICS = np.array([[1, 0, 1, 0], [0, 2, 0, 0]], float)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def index() -> TermIndex:
    return TermIndex(csr_array(COUNTS), csr_array(TOPICS), COUNTS.sum(1))


def test_counts_of_words_and_of_pairs_which_stay_within_a_text():
    counts = counts_of([np.array([1, 0, 1]), np.array([], int), np.array([2])], 4)
    assert counts.toarray().tolist() == [[1, 2, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]
    documents, topics = pair_counts([np.array([5, 7, 5, 7]), np.array([7, 5])], [np.array([5, 7, 9])])
    assert topics.toarray().tolist() == [[1, 1]]  # 5 7 and 7 9
    assert documents.toarray().tolist() == [[2, 0], [0, 0]]  # neither 7 5 counts, nor 7 | 7 across documents


def test_character_grams():
    words = csr_array(np.array([[2.0, 1.0], [0.0, 1.0]]))
    grams = character_grams(TermIndex(words, csr_array(np.array([[1.0, 0.0]])), np.array([3.0, 1.0])), ["cat", "at"], 3)
    # _ca cat at_ are asked for, in byte order _ca at_ cat; "at" has _at and at_.
    assert grams.topics.toarray().tolist() == [[1, 1, 1]]
    assert grams.documents.toarray().tolist() == [[2, 3, 2], [0, 1, 0]]
    assert grams.lengths.tolist() == [8, 2]


@pytest.mark.parametrize(("k1", "b", "stop_words"), [(0.9, 0.4, True), (2.0, 1.0, True), (1.2, 0.0, False)])
def test_bm25_is_the_projects(tiny, tiny_encoded, k1, b, stop_words):
    queries = np.arange(len(tiny.queries))
    inputs = SystemInputs(tiny, tiny_encoded, [], Split(queries[:0], queries[:0], queries), 12)
    index = inputs.stems if stop_words else inputs.words
    scores = np.where(index.matches, models.bm25(index, k1, b), -np.inf)
    options = Bm25Options(k1, b, "english" if stop_words else None, stop_words)
    lists, _ = Bm25(tiny, options).search(queries, 12)
    assert (lists.counts == np.isfinite(scores).sum(1)).all()
    assert lists.counts.sum() > 20
    np.testing.assert_allclose(inputs.spread(lists), scores, rtol=1e-5)


def test_query_likelihood(index):
    background = COUNTS.sum(0) / COUNTS.sum()
    lengths = COUNTS.sum(1, keepdims=True)
    # What is left out is ln p(t|C) of each term of the topic, the same for all documents.
    smoothed = np.log((COUNTS + 50 * background) / (lengths + 50)) - np.log(background)
    np.testing.assert_allclose(models.dirichlet(index, 50), TOPICS @ smoothed.T)


def test_expansion(index):
    expanded = models.relevance_model(index, 50, feedback=1, terms=1).topics.toarray()
    # The best document of topic 0 is the second, 3/4 of it term 2; of topic 1 the first, 2/3 of it term 0.
    np.testing.assert_allclose(expanded, [[0.25, 0, 0.75, 0], [0.5, 0.5, 0, 0]])


def test_latent_semantics_in_all_dimensions_is_the_cosine_of_tf_idf(index):
    topics = replace(index, topics=csr_array(COUNTS[:2]))  # within the documents' space, where nothing is lost
    found = models.dense_cosine(*models.latent_semantics(topics, 3, np.random.default_rng(3)))
    idf = np.log(4 / np.array([2, 1, 2, 1]))
    with np.errstate(divide="ignore"):
        tf = np.where(COUNTS > 0, 1 + np.log(COUNTS), 0)
    np.testing.assert_allclose(found, unit(tf[:2] * idf) @ unit(tf * idf).T, atol=1e-9)


def test_a_topic_without_known_terms_is_near_nothing():
    assert models.dense_cosine(np.eye(2), np.array([[0.0, 0.0], [0.0, 2.0]])).tolist() == [[-np.inf] * 2, [0, 1]]
