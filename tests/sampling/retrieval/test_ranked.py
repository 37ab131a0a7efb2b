import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from scipy.stats import chisquare
from transformers import AutoModel, AutoTokenizer

from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.pairs import Pairs
from pyrite.ranking.digest import files_of
from pyrite.ranking.embedding import embed
from pyrite.ranking.encoding import EncodedCollection, Encoder
from pyrite.ranking.errors import BadInput
from pyrite.ranking.given import given_lists
from pyrite.ranking.sources import Sources
from pyrite.ranking.vectors import RandomVectors
from pyrite.sampling.guard import Guard, negatives_lists
from pyrite.sampling.retrieval import embedding
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.category import CategoryFunction, OtherCategory, SameSubcategory
from pyrite.sampling.retrieval.category import SameCategory as WholeCategory
from pyrite.sampling.retrieval.embedding import Embedding
from pyrite.sampling.retrieval.given import Given
from pyrite.sampling.retrieval.judged import Judged
from pyrite.sampling.retrieval.ranked import draw_positions
from pyrite.sampling.retrieval.run_file import RunFile
from pyrite.sampling.retrieval.tfidf import TfIdf
from pyrite.sampling.teacher import teacher_scores
from tests.examples import few
from tests.made_up import write_files
from tests.ranking.collections.animals import write_lines
from tests.sampling.batches import batch_of, listed, prepared


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 8), st.integers(0, 2**32))
def test_places_are_distinct_and_inside(counts, count, seed):
    places = draw_positions(np.array(counts), count, np.random.default_rng(seed))
    assert places.shape == (len(counts), count)
    for row, there in zip(places, counts, strict=True):
        drawn = row[:there].tolist()
        assert len(set(drawn)) == len(drawn) == min(count, there)
        assert all(0 <= place < there for place in drawn)


@pytest.mark.parametrize(("there", "count"), [(7, 1), (7, 3), (7, 6), (5, 5)])
def test_every_set_of_places_is_as_probable_as_another(there, count):
    places = draw_positions(np.full(40_000, there), count, np.random.default_rng(4))
    sets, frequencies = np.unique((1 << places).sum(axis=1), return_counts=True)
    assert len(sets) == len([n for n in range(2**there) if n.bit_count() == count])
    assert len(sets) == 1 or chisquare(frequencies).pvalue > 0.01


def test_places_of_long_lists_stay_inside():
    class AlmostOne:
        def random(self, shape: tuple[int, int]) -> np.ndarray:
            return np.full(shape, np.nextafter(1, 0))

    for there in (3, 1000, 2**31 - 1, 2**40 + 1):
        places = draw_positions(np.array([there]), 2, AlmostOne())
        assert places.max() == there - 1


LISTS = [[9, 3, 5, 1, 7], [4, 2], []]


def test_samples_are_distinct_documents_of_the_list_with_their_scores():
    function, rng = listed(LISTS), np.random.default_rng(0)
    for _ in range(50):
        candidates = function.sample(batch_of(0, 1, 2), 3, rng)
        first = candidates.documents[0].tolist()
        assert len(set(first)) == 3
        assert candidates.scores[0].tolist() == [-LISTS[0].index(document) for document in first]
        assert sorted(candidates.documents[1]) == [-1, 2, 4]
        assert candidates.documents[1, 2] == -1
        assert candidates.scores[1, 2] == -np.inf
        assert (candidates.documents[2] == -1).all()
        assert (candidates.documents.dtype, candidates.scores.dtype) == (np.int32, np.float32)


def test_the_top_is_the_lists_head():
    function, rng = listed(LISTS), np.random.default_rng(0)
    assert function.top(batch_of(1, 0, 2), 4, rng).documents.tolist() == [[4, 2, -1, -1], [9, 3, 5, 1], [-1] * 4]
    assert function.top(batch_of(0), 7, rng).documents.tolist() == [[9, 3, 5, 1, 7, -1, -1]]
    assert function.top(batch_of(0), 0, rng).documents.shape == (1, 0)


def test_a_ranked_function_needs_lists(encoded_of):
    with pytest.raises(ValueError, match="received no lists"):
        BM25().prepare(encoded_of([[1]], [[1]], {}), None)


def word_vectors(sources: Sources) -> list[np.ndarray]:
    """The weighted sums of the words of all queries and all documents, of unit length, a word at a time."""

    def unit(tokens: np.ndarray) -> np.ndarray:
        total = sum(float(sources.encoded.idf[token]) * sources.vectors.table[token].astype(float) for token in tokens)
        return total / max(float(np.linalg.norm(total)), 1e-12)

    both = (sources.encoded.queries, sources.encoded.documents)
    return [np.array([unit(texts.take(np.array([row])).tokens) for row in range(len(texts))]) for texts in both]


@torch.no_grad()
def mean_vectors(checkpoint: str, texts: pl.Series) -> np.ndarray:
    """Mean of the last layer, of unit length, by transformers alone."""
    tokenizer, model = AutoTokenizer.from_pretrained(checkpoint), AutoModel.from_pretrained(checkpoint).eval()
    means = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0) for text in texts]
    return np.stack([mean / mean.norm() for mean in means])


@pytest.mark.parametrize("embeds", [False, True])
def test_lists_and_own_scores_are_the_cosines(embeds, small_bert, tiny_sources, monkeypatch):
    """Those of an encoder are 20 times the cosines, as the scores of a ranker that compares by them."""
    monkeypatch.setattr(embedding, "CHUNK", 3)
    texts = [each["text"] for each in (tiny_sources.collection.queries, tiny_sources.collection.documents)]
    queries, documents = [mean_vectors(small_bert, each) for each in texts] if embeds else word_vectors(tiny_sources)
    function = Embedding(checkpoint=small_bert, depth=7) if embeds else TfIdf(depth=7)
    cosines = (20 if embeds else 1) * queries @ documents.T
    lists, error = function.rank(tiny_sources), 2e-4 if embeds else 1e-6
    assert lists.documents.shape == (8, 7)
    assert (lists.documents.dtype, lists.scores.dtype) == (np.int32, np.float32)
    np.testing.assert_allclose(lists.scores, -np.sort(-cosines, axis=1)[:, :7], atol=error)
    np.testing.assert_allclose(np.take_along_axis(cosines, lists.documents, 1), lists.scores, atol=error)
    asked, given = np.array([3, 0]), np.array([[0, -1, 11], [4, 5, -1]])
    expected = np.where(given < 0, -np.inf, np.take_along_axis(cosines[asked], np.maximum(given, 0), 1))
    np.testing.assert_allclose(function.own_scores(tiny_sources, asked, given), expected, atol=error)
    assert (function.rank(tiny_sources).scores == lists.scores).all()


@pytest.mark.parametrize("embeds", [False, True])
def test_a_short_collection_is_listed_whole_and_documents_alike_in_its_order(embeds, small_bert, tiny_sources):
    lists = (Embedding(checkpoint=small_bert, depth=100) if embeds else TfIdf(depth=100)).rank(tiny_sources)
    assert (np.sort(lists.documents[:, :12], axis=1) == np.arange(12)).all()
    assert (lists.documents[:, 12:] == -1).all()
    for row in lists.documents.tolist():
        assert row.index(11) == row.index(10) + 1  # the last two documents of `tiny`


def test_word_vectors_that_nobody_trained_are_bad_input(tiny_sources):
    words = [""] * len(tiny_sources.encoded.idf)
    with pytest.raises(BadInput, match="vectors=glove"):
        TfIdf().rank(replace(tiny_sources, vectors=RandomVectors(4).read(words)))


def test_options_reach_the_encoder(small_bert, tiny_sources, tmp_path):
    (tmp_path / "short").mkdir()
    for file in Path(small_bert).iterdir():
        (tmp_path / "short" / file.name).symlink_to(file)
    (tmp_path / "short" / "text_lengths.json").write_text('{"max_query": 32, "max_document": 2}')
    short = [
        Embedding(checkpoint=small_bert, depth=12, max_document=2),
        Embedding(checkpoint=str(tmp_path / "short"), depth=12),
    ]
    assert (short[0].rank(tiny_sources).scores == short[1].rank(tiny_sources).scores).all()
    whole = Embedding(checkpoint=small_bert, depth=12).rank(tiny_sources)
    for other in ({"layers": 1}, {"pooling": "cls"}, {"similarity": "dot"}, {"max_document": 2}):
        assert (Embedding(checkpoint=small_bert, depth=12, **other).rank(tiny_sources).scores != whole.scores).any()


def test_an_encoder_reads_a_collection_once_for_all_guards_and_depths(small_bert, tiny_sources, tmp_path, monkeypatch):
    read: list[int] = []

    def counting(encoder, texts, rows, queries=False):
        read.append(len(rows))
        return embed(encoder, texts, rows, queries)

    monkeypatch.setattr(embedding, "embed", counting)
    plain = Embedding(checkpoint=small_bert, depth=7).rank(tiny_sources)
    kept = replace(tiny_sources, folder=tmp_path)
    for depth in (7, 5):
        lists = Embedding(checkpoint=small_bert, depth=depth).rank(kept)
        assert (lists.documents == plain.documents[:, :depth]).all()
        assert (lists.scores == plain.scores[:, :depth]).all()
    assert read == [12, 8] * 2
    Embedding(checkpoint=small_bert, max_document=2).rank(kept)
    model = tmp_path / "other"
    shutil.copytree(small_bert, model)
    Embedding(checkpoint=str(model)).rank(kept)
    weights = load_file(model / "model.safetensors")
    save_file({name: tensor * 0.5 for name, tensor in weights.items()}, model / "model.safetensors", {"format": "pt"})
    other = Embedding(checkpoint=str(model), depth=7).rank(kept)
    assert read == [12, 8] * 5
    assert (other.scores != plain.scores).any()
    before = files_of({"checkpoint": str(model)})
    (model / "2_Dense").mkdir()
    (model / "2_Dense" / "model.safetensors").write_bytes(b"weights")
    assert files_of({"checkpoint": str(model)}) != before


def test_a_checkpoint_that_is_not_there_is_one_line(tiny_sources, tmp_path):
    with pytest.raises(BadInput) as caught:
        Embedding(checkpoint=str(tmp_path)).rank(tiny_sources)
    assert str(tmp_path) in str(caught.value)


def names(sources: Sources, row: np.ndarray) -> list[str]:
    return [sources.collection.documents["id"][int(each)] for each in row if each >= 0]


def test_lists_are_by_score_and_cut(tiny_sources):
    lists = given_lists(tiny_sources.collection)
    assert lists.documents.shape == (8, 4)
    assert names(tiny_sources, lists.documents[0]) == ["d1", "d5", "d7", "d9"]
    found = Given(depth=2).rank(tiny_sources, np.array([3, 0]))
    assert names(tiny_sources, found.documents[1]) == ["d1", "d5"]
    scores = Given().own_scores(tiny_sources, np.array([0]), found.documents[1:])
    assert scores.tolist() == [[-1.0, -5.0]]


def test_all_that_is_given_is_offered_unless_a_depth_is_named(tmp_path, tiny_vectors):
    """The hard negatives of MS MARCO are several hundred per query."""
    negatives = [f"stone {number}" for number in range(150)]
    rows = [{"query": f"who {n}?", "positive": f"it is {n}", "negatives": negatives} for n in range(4)]
    collection = open_collection(Pairs(write_lines(tmp_path / "rows.jsonl", rows)), tmp_path / "cache")
    sources = Sources(collection, Encoder(min_count=1).encode(collection)[0], tiny_vectors)
    for function, count in ((Given(), 150), (Given(depth=100), 100)):
        lists, *_ = negatives_lists(function, sources, Guard())
        assert lists is not None
        assert lists.counts.tolist() == 4 * [count]


def test_without_scores_the_file_says_the_order_and_it_can_t_teach(tiny, tiny_sources):
    given = tiny.given.with_columns(score=pl.lit(None, pl.Float32))
    sources = replace(tiny_sources, collection=replace(tiny, given=given))
    assert names(sources, given_lists(sources.collection).documents[0]) == ["d7", "d5", "d1", "d9"]
    assert Given().own_scores(sources, np.arange(8), np.zeros((8, 1), np.int32)) is None
    with pytest.raises(BadInput, match=r"teacher: Given has no scores of pairs; name the column of scores"):
        teacher_scores(Given(), sources, np.arange(4), [Given().rank(sources)])


def test_queries_without_scores_stand_beside_others_with(tiny, tiny_sources):
    """As where a file that was mined and one of bare pairs are read together."""
    bare = pl.when(pl.col("query") == "q1").then(None).otherwise(pl.col("score"))
    sources = replace(tiny_sources, collection=replace(tiny, given=tiny.given.with_columns(score=bare)))
    found = Given(depth=2).rank(sources, np.array([3]))
    scores = Given().own_scores(sources, np.array([0]), found.documents)
    assert scores.tolist() == [[-np.inf, -np.inf]]
    known = teacher_scores(Given(), sources, np.arange(4), [Given().rank(sources)])
    assert np.isnan(known.lookup(np.array([0]), found.documents)).all()
    assert known.lookup(np.array([3]), found.documents).tolist() == [[-1.0, -5.0]]


def test_a_collection_that_gives_nothing_or_positives_alone_is_refused(tiny, tiny_sources):
    positives = tiny.judgements.filter(pl.col("grade") > 0)
    for pairs in (tiny.given.clear(), positives.select("query", "document", score=pl.lit(1, pl.Float32))):
        sources = replace(tiny_sources, collection=replace(tiny, given=pairs))
        with pytest.raises(BadInput, match="lists no documents with its queries, other than relevant ones"):
            Given().rank(sources)


def test_what_was_judged_and_not_found_relevant(encoded_of):
    """Neither the relevant ones nor those that nobody has read (−1 is one of them); the nearly relevant first."""
    encoded = encoded_of([[1]] * 9, [[1]] * 3, {0: {0: 2, 1: 0, 4: -2, 6: -1, 8: 0}, 2: {5: 3, 7: 0}})
    function, rng = prepared(Judged(), encoded), np.random.default_rng(0)
    top = function.top(batch_of(0, 1, 2), 5, rng)
    assert top.documents.tolist() == [[1, 8, 4, -1, -1], [-1] * 5, [7, -1, -1, -1, -1]]
    assert top.scores.tolist() == [[0, 0, -2, *[-np.inf] * 2], [-np.inf] * 5, [0, *[-np.inf] * 4]]
    assert (top.documents.dtype, top.scores.dtype) == (np.int32, np.float32)
    drawn = function.sample(batch_of(np.zeros(12_000, int)), 2, rng).documents
    sets, frequencies = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)
    assert sets.tolist() == [[1, 4], [1, 8], [4, 8]]
    assert chisquare(frequencies).pvalue > 0.001
    few = function.sample(batch_of(2, 1), 3, rng).documents
    assert few.tolist() == [[7, -1, -1], [-1, -1, -1]]


def test_a_higher_threshold_makes_more_of_them_and_none_is_bad_input(encoded_of):
    encoded = encoded_of([[1]] * 4, [[1]], {0: {0: 2, 1: 1, 2: 0}})
    strict = replace(encoded, judgements=replace(encoded.judgements, relevant_from=2))
    top = prepared(Judged(), strict).top(batch_of(0), 4, np.random.default_rng(0))
    assert top.documents.tolist() == [[1, 2, -1, -1]]
    with pytest.raises(BadInput, match="no document was judged not relevant"):
        prepared(Judged(), encoded_of([[1]] * 3, [[1]], {0: {0: 1}}))


def test_queries_that_the_run_lacks_get_no_negatives(tmp_path, tiny_sources):
    run = tmp_path / "run"
    run.write_text("q1 Q0 d60 1 9 x\nq1 Q0 d9 2 8 x\nq1 Q0 d7 3 7 x\nother Q0 unheard 1 1 x\n")
    function = RunFile(path=str(run), depth=4)
    lists, guarded, _ = negatives_lists(function, tiny_sources, Guard())
    assert guarded.total == 0
    assert lists.documents[0].tolist() == [8, 10, -1, -1]  # d60 is judged not relevant; d9 is relevant
    function.prepare(tiny_sources.encoded, lists)
    candidates = function.sample(batch_of(np.arange(8)), 2, np.random.default_rng(0))
    assert sorted(candidates.documents[0]) == [8, 10]
    assert (candidates.documents[1:] == -1).all()


def test_several_runs(tmp_path, tiny_sources):
    write_files(tmp_path, {"run0": "q1 Q0 d60 1 9 x\n", "run1": "q2 Q0 d7 1 9 x\n"})
    paths = [str(tmp_path / name) for name in ("run0", "run1")]
    assert RunFile(path=paths, depth=1).rank(tiny_sources).documents[:3].tolist() == [[8], [10], [-1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("other Q0 d1 1 9 x\n", "ranks no document"),
        ("q1 Q0 unheard 1 9 x\n", "'unheard'"),
        ("", "run"),
        ("q1 d1\n", "run:1"),
    ],
)
def test_a_run_that_is_of_no_use_is_bad_input(tmp_path, tiny_sources, text, message):
    (tmp_path / "run").write_text(text)
    with pytest.raises(BadInput, match=message):
        RunFile(path=str(tmp_path / "run")).rank(tiny_sources)
    with pytest.raises(BadInput):
        RunFile(path=str(tmp_path / "none")).rank(tiny_sources)


def test_the_guard_reads_the_scores_of_the_run(tmp_path, tiny_sources):
    """d9 is relevant for q1 and scores 8; nothing relevant for q2 is in the run, so nothing is known there."""
    lines = ["q1 Q0 d60 1 9", "q1 Q0 d9 2 8", "q1 Q0 d7 3 7.9", "q1 Q0 d5 4 5", "q2 Q0 d60 1 3"]
    (tmp_path / "run").write_text("".join(f"{line} x\n" for line in lines))
    function = RunFile(path=str(tmp_path / "run"), depth=1)
    ids = tiny_sources.collection.documents["id"].to_list()
    relevant = {ids[d] for d in tiny_sources.encoded.judgements.relevant().of(0)[0].tolist()}
    assert "d9" in relevant
    assert not relevant & {"d60", "d7", "d5"}
    lists, guarded, _ = negatives_lists(function, tiny_sources, Guard(absolute=0.5))
    assert [ids[d] for d in lists.documents[:2, 0].tolist()] == ["d5", "d60"]
    assert [ids[d] for d in guarded.documents.tolist()] == ["d60"]  # no more of a query than its list is long
    assert (guarded.total, guarded.scores.tolist(), guarded.positives.tolist()) == (2, [9], [8])
    asked = np.array([[ids.index("d9"), -1], [ids.index("d7"), -1]])
    scores = function.own_scores(tiny_sources, np.array([1, 0]), asked)
    assert scores.tolist() == [[-np.inf, -np.inf], [pytest.approx(7.9), -np.inf]]


EncodedOf = Callable[..., EncodedCollection]
Labels = Sequence[tuple[int, int]]


Kind = Callable[[], CategoryFunction]
SameCategory = partial(WholeCategory, whole=False)
"""The category without the subcategory."""
KINDS: list[Kind] = [SameSubcategory, SameCategory, OtherCategory]
# Category and subcategory, not in the order of categories. Subcategory 0 is of two categories; one document is alone in
# category 1.
DOCUMENTS = [(0, 0), (2, 0), (0, 0), (-1, -1), (0, 1), (1, 2), (0, -1), (2, 0), (0, 0), (-1, 1)]
QUERIES = {  # category and subcategory, relevant documents
    "both": ((0, 0), {2}),
    "category alone": ((0, -1), {4, 3}),
    "neither": ((-1, -1), {3}),
    "subcategory alone": ((-1, 0), set()),
    "a category of queries": ((3, 0), {0}),
    "a category of one document": ((1, 2), set()),
    "that one document": ((1, 2), {5}),
    "another category's subcategory": ((0, 2), {5}),
    "a subcategory of queries": ((2, 6), {1, 9}),
    "the last category": ((2, 0), {7, 0, 3}),
    "everything relevant": ((0, 0), set(range(10))),
}


def collection(
    encoded_of: EncodedOf, documents: Labels, queries: Labels, relevant: Sequence[set[int]]
) -> EncodedCollection:
    grades = {query: dict.fromkeys(of_query, 1) for query, of_query in enumerate(relevant)}
    encoded = encoded_of([[1]] * len(documents), [[1]] * len(queries), grades)
    return replace(
        encoded,
        documents=replace(encoded.documents, labels=np.array(documents, np.int32).reshape(-1, 2)),
        queries=replace(encoded.queries, labels=np.array(queries, np.int32).reshape(-1, 2)),
    )


@pytest.fixture
def made(encoded_of) -> EncodedCollection:
    rows = list(QUERIES.values())
    return collection(encoded_of, DOCUMENTS, [row[0] for row in rows], [row[1] for row in rows])


def regions_of(kind: Kind, documents: Labels, labels: tuple[int, int], relevant: set[int]) -> list[set[int]]:
    """A query's regions in the order in which the function takes them."""
    category, subcategory = labels
    left = set(range(len(documents))) - relevant
    whole = {document for document in left if category >= 0 and documents[document][0] == category}
    inner = {document for document in whole if subcategory >= 0 and documents[document][1] == subcategory}
    return {
        SameSubcategory: [inner, whole - inner, left - whole],
        SameCategory: [whole - inner, inner, left - whole],
        OtherCategory: [left - whole, whole - inner, inner],
    }[kind]


LABEL = st.tuples(st.integers(-1, 2), st.integers(-1, 2))


@few(20)
@given(
    st.lists(LABEL, min_size=1, max_size=9).filter(lambda labels: max(labels)[0] >= 0),
    st.lists(st.tuples(LABEL, st.sets(st.integers(0, 8))), min_size=1, max_size=4),
    st.integers(1, 10),
    st.integers(0, 99),
)
@example(DOCUMENTS, list(QUERIES.values()), 13, 0)
@example(DOCUMENTS, list(QUERIES.values()), 5, 1)
@example(DOCUMENTS, list(QUERIES.values()), 2, 2)
def test_a_region_is_given_whole_before_the_next(encoded_of, documents, queries, count, seed):
    """Asked for all, the function gives region after region; for fewer, as much of the first ones as there is room."""
    relevant = [own & set(range(len(documents))) for _, own in queries]
    encoded = collection(encoded_of, documents, [labels for labels, _ in queries], relevant)
    every, rng = np.arange(len(queries)), np.random.default_rng(seed)
    for kind in KINDS:
        function = prepared(kind(), encoded)
        offered = function.sample(batch_of(every), count, rng)
        assert (offered.documents.dtype, offered.scores.dtype) == (np.int32, np.float32)
        assert offered.documents.shape == offered.scores.shape == (len(queries), count)
        assert np.isnan(offered.scores).all()
        for (labels, _), own, row, tiers in zip(
            queries, relevant, offered.documents.tolist(), offered.tier.tolist(), strict=True
        ):
            for tier, region in enumerate(regions_of(kind, documents, labels, own)):
                part, row = row[: len(region)], row[len(region) :]
                assert set(part) <= region
                assert len(set(part)) == len(part)
                assert tiers[: len(part)] == [tier] * len(part)
                tiers = tiers[len(part) :]
            assert set(row) <= {-1}
        assert offered.tier.tolist() == [function.top(batch_of(query), count, rng).tier[0].tolist() for query in every]
        assert function.sample(batch_of(every[:0]), 3, rng).documents.shape == (0, 3)
        assert function.sample(batch_of(every), 0, rng).documents.shape == (len(queries), 0)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SameSubcategory, "both"),
        (SameCategory, "both"),  # around a hole
        (SameCategory, "category alone"),
        (OtherCategory, "both"),
        (OtherCategory, "a category of one document"),
        (OtherCategory, "a subcategory of queries"),
        (OtherCategory, "neither"),
    ],
)
def test_uniform_within_a_region(kind, name, made):
    """All pairs of documents are as probable."""
    region = regions_of(kind, DOCUMENTS, *QUERIES[name])[0]
    count = 2 if len(region) > 2 else 1
    candidates = prepared(kind(), made).sample(
        batch_of(np.full(20_000, list(QUERIES).index(name))), count, np.random.default_rng(3)
    )
    sets, frequencies = np.unique(np.sort(candidates.documents, axis=1), axis=0, return_counts=True)
    assert [tuple(row) for row in sets.tolist()] == sorted(combinations(sorted(region), count))
    assert chisquare(frequencies).pvalue > 0.01


def test_uniform_in_what_it_falls_back_to(made):
    queries = np.full(20_000, list(QUERIES).index("both"))
    candidates = prepared(SameSubcategory(), made).sample(batch_of(queries), 6, np.random.default_rng(4))
    assert set(candidates.documents[:, 2:4].ravel().tolist()) == {4, 6}
    sets, frequencies = np.unique(np.sort(candidates.documents[:, 4:], axis=1), axis=0, return_counts=True)
    assert [tuple(row) for row in sets.tolist()] == list(combinations([1, 3, 5, 7, 9], 2))
    assert chisquare(frequencies).pvalue > 0.01


def test_a_collection_without_categories_is_bad_input(encoded_of):
    bare = encoded_of([[1]] * 3, [[1]], {0: {0: 1}})
    none = collection(encoded_of, [(-1, -1), (-1, 0)], [(0, 0)], [{0}])  # only queries have one
    for kind in KINDS:
        for encoded in (bare, none):
            with pytest.raises(BadInput, match="the collection has no categories"):
                prepared(kind(), encoded)
