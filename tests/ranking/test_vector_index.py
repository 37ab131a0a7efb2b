"""Vectors of texts, indexes of them, and versions of an index in folders."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from pyrite.ranking import embedding, torch_topk
from pyrite.ranking import inner_products as products_module
from pyrite.ranking.embedding import block_starts, embed
from pyrite.ranking.errors import BadInput
from pyrite.ranking.index import IndexOptions, VectorIndex, describe_footprint, footprint
from pyrite.ranking.index_versions import (
    DOCUMENTS,
    FAISS,
    QUERIES,
    RECORD,
    IndexVersion,
    create_vectors,
    finish_version,
    in_precision,
    open_version,
    start_version,
    weights_digest,
    write_block,
)
from pyrite.ranking.inner_products import exact_topk, inner_products, max_norm
from pyrite.ranking.query_lists import Listed, QueryLists
from pyrite.ranking.ranges import shard_ranges
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained import read_in, transformers_of
from pyrite.ranking.shards import ShardedIndex
from pyrite.ranking.texts import Texts
from tests.ranking.checkpoints import write_checkpoint
from tests.ranking.trained import Bag, equal


def truth(
    queries: NDArray[np.float32], vectors: NDArray[np.float32], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """By sorting all products, in float64."""
    products = np.einsum("qd,nd->qn", queries.astype(np.float64), vectors.astype(np.float64))
    documents = np.broadcast_to(np.arange(products.shape[1]), products.shape)
    order = np.lexsort((documents, -products), axis=1)[:, :depth]
    return order, np.take_along_axis(products, order, 1)


def whole_numbers(seed: int, rows: int, dimension: int, span: int = 3) -> NDArray[np.float32]:
    """Vectors of small whole numbers: products without rounding and with many ties."""
    return np.random.default_rng(seed).integers(-span, span + 1, (rows, dimension)).astype(np.float32)


@pytest.mark.parametrize("memory", ["ram", "mapped"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_flat_index_is_exact_with_ties(precision, memory, tmp_path, monkeypatch):
    monkeypatch.setattr(torch_topk, "CHUNK", 37)
    monkeypatch.setattr(torch_topk, "ASKED", 9)
    monkeypatch.setattr(products_module, "ASKED", 9)
    vectors, queries = whole_numbers(0, 300, 6), whole_numbers(1, 40, 6)
    vectors[200:250] = vectors[:50]  # documents that are alike
    kept: Any = vectors.astype(precision)
    if memory == "mapped":
        np.save(tmp_path / "vectors.npy", kept)
        kept = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = VectorIndex.build(kept, IndexOptions(precision=precision, memory=memory))
    for depth in (1, 7, 100, 290):
        documents, scores = index.search(queries, depth)
        expected, products = truth(queries, vectors, depth)
        assert documents.tolist() == expected.tolist()
        assert scores.tolist() == products.tolist()
    assert (documents.dtype, scores.dtype) == (np.int32, np.float32)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 120), st.integers(1, 12), st.integers(1, 60), st.sampled_from([0, 1, 60])
)
def test_any_search_gives_the_order_of_the_float64_products(seed, count, dimension, depth, alike):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dimension)).astype(np.float32)
    # Copies, and neighbours that differ in the last bit of one number: nearer than float32 products can tell.
    vectors[: alike // 2] = vectors[-1]
    vectors[alike // 2 : alike] = np.nextafter(vectors[0], np.float32(9))
    queries = rng.normal(size=(3, dimension)).astype(np.float32)
    documents, scores = VectorIndex.build(vectors, IndexOptions()).search(queries, depth)
    products = inner_products(queries, vectors, np.broadcast_to(np.arange(count), (3, count)))
    order = np.lexsort((np.broadcast_to(np.arange(count), (3, count)), -products), axis=1)[:, :depth]
    assert documents[:, :count].tolist() == order.tolist()
    assert (documents[:, count:] == -1).all()
    assert np.isneginf(scores[:, count:]).all()
    assert products == pytest.approx(queries.astype(np.float64) @ vectors.T.astype(np.float64), abs=1e-12)


def test_candidates_that_rounding_has_misled_are_found_again():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(500, 32)).astype(np.float32)
    vectors[:] = vectors[0] + rng.integers(-2, 3, vectors.shape).astype(np.float32) * np.float32(2**-22)
    queries = rng.normal(size=(5, 32)).astype(np.float32)
    norm = max_norm(vectors)
    share = 32 * 2.0**-24 / (1 - 32 * 2.0**-24)
    error = share * norm * np.linalg.norm(queries, axis=1)

    def worst(queries: NDArray[np.float32], width: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """As wrong as float32 arithmetic may be: the truly best are scored low, the rest high."""
        exact = queries.astype(np.float64) @ vectors.T.astype(np.float64)
        best = exact >= np.sort(exact, axis=1)[:, [-10]]
        scores = np.where(best, exact - error[:, None], exact + error[:, None])
        rows = np.argsort(-scores, axis=1)[:, :width]
        return np.take_along_axis(scores, rows, 1).astype(np.float32), rows

    everything = np.broadcast_to(np.arange(500), (5, 500))
    products = inner_products(queries, vectors, everything)
    expected = np.lexsort((everything, -products), axis=1)[:, :10]
    assert not any(set(row) <= set(got) for row, got in zip(expected, worst(queries, 26)[1], strict=True))
    assert exact_topk(queries, vectors, 10, norm, worst)[0].tolist() == expected.tolist()


def test_products_do_not_depend_on_what_is_computed_beside_them(monkeypatch):
    rng = np.random.default_rng(5)
    vectors, queries = rng.normal(size=(50, 33)).astype(np.float32), rng.normal(size=(9, 33)).astype(np.float32)
    rows = rng.integers(-1, 50, (9, 20))
    whole = inner_products(queries, vectors, rows)
    alone = [[inner_products(queries[[q]], vectors, rows[[q]][:, [m]])[0, 0] for m in range(20)] for q in range(9)]
    assert whole.tolist() == alone
    monkeypatch.setattr(products_module, "GATHERED", 33 * 20 * 2)
    assert inner_products(queries, vectors, rows).tolist() == alone
    assert (np.isneginf(whole) == (rows < 0)).all()


@pytest.mark.parametrize("factory", ["Flat", "IVF4,Flat", "HNSW8"])
def test_an_empty_collection_and_no_queries(factory):
    empty = VectorIndex.build(np.zeros((0, 4), np.float32), IndexOptions(factory=factory))
    documents, scores = empty.search(np.ones((2, 4), np.float32), 3)
    assert documents.tolist() == [[-1] * 3] * 2
    assert np.isneginf(scores).all()
    assert np.isneginf(empty.scores(np.ones((2, 4), np.float32), np.full((2, 1), -1))).all()
    some = VectorIndex.build(whole_numbers(0, 200, 4), IndexOptions(factory=factory))
    assert some.search(np.zeros((0, 4), np.float32), 3)[0].shape == (0, 3)


@pytest.mark.parametrize("options", [
    IndexOptions("IVF8,Flat", probes=8), IndexOptions("HNSW16", probes=200), IndexOptions("IVF8,SQfp16", probes=8),
    IndexOptions("PCA8,IVF4,Flat", probes=4),
])  # fmt: skip
def test_approximate_indexes_find_nearly_all_and_score_exactly(options):
    rng = np.random.default_rng(6)
    vectors, queries = rng.normal(size=(800, 8)).astype(np.float32), rng.normal(size=(20, 8)).astype(np.float32)
    documents, scores = VectorIndex.build(vectors, options).search(queries, 10)
    expected, _ = truth(queries, vectors, 10)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(documents, expected, strict=True)]) > 0.95
    assert (scores == inner_products(queries, vectors, documents).astype(np.float32)).all()
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (VectorIndex.build(vectors, options).search(queries, 10)[0] == documents).all()


@pytest.mark.parametrize(("options", "said"), [
    ({"factory": "Nonsense"}, "faiss makes no index 'Nonsense' of 8 dimensions"),
    ({"factory": "PQ3"}, "multiple of the number of subquantizers"),
    ({"factory": "SQ8", "probes": 3}, "nothing to probe"),
    ({"factory": ""}, "index.factory: factory is empty"), ({"probes": 4}, "index.probes: a Flat index has no probes"),
])  # fmt: skip
def test_options_that_make_no_index_are_refused_in_one_line(options, said):
    with pytest.raises(BadInput, match=said) as caught:
        IndexOptions(**options).check(8)
    assert "\n" not in str(caught.value)
    assert "/" not in str(caught.value).split(";")[0]  # no place in faiss's source


def test_too_few_vectors_for_the_cells_are_refused():
    with pytest.raises(BadInput, match=r"'IVF64,Flat' can't be built from 10 vectors .*; choose Flat, or fewer cells"):
        VectorIndex.build(np.ones((10, 4), np.float32), IndexOptions("IVF64,Flat"))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(value):
    vectors = np.ones((5, 3), np.float32)
    vectors[3, 1] = value
    with pytest.raises(FloatingPointError, match="not finite"):
        VectorIndex.build(vectors, IndexOptions())


def test_the_footprint_by_hand():
    flat = footprint(100_000, 384, IndexOptions(), 1000)
    vectors, queries = 100_000 * 384 * 4, 1000 * 384 * 4
    assert flat["serving"] == flat["disk"] == vectors + queries
    assert flat["swapping"] == 2 * flat["serving"]
    assert footprint(100_000, 384, IndexOptions(precision="float16"), 1000)["disk"] == vectors // 2 + queries
    mapped = footprint(10_000_000, 384, IndexOptions(memory="mapped"), 1000)
    assert mapped["serving"] == queries + (1 << 16) * 384 * 4
    assert mapped["disk"] == 100 * vectors + queries
    coded = footprint(100_000, 384, IndexOptions("IVF64,PQ48", memory="mapped"), 1000)
    assert coded["disk"] == vectors + queries + 100_000 * (48 + 1 + 8)
    assert describe_footprint(flat) == "0.16 GB of memory, 0.31 GB while a new version takes over, 0.16 GB on disk"


def test_the_footprint_of_a_graph_is_about_its_file(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(2000, 32)).astype(np.float32)
    VectorIndex.build(vectors, IndexOptions("HNSW16")).save(tmp_path / "graph")
    estimate = footprint(2000, 32, IndexOptions("HNSW16"), 0)["disk"] - vectors.nbytes
    assert (tmp_path / "graph").stat().st_size == pytest.approx(estimate, rel=0.1)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_row_that_is_not_there_is_refused(kind):
    vectors = np.ones((3, 4), kind)
    assert inner_products(np.ones((1, 4), np.float32), vectors, np.array([[2, -1]])).tolist() == [[4, -np.inf]]
    with pytest.raises(IndexError, match="no vector 3"):
        inner_products(np.ones((1, 4), np.float32), vectors, np.array([[0, 3]]))


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 50))
def test_every_document_is_in_one_shard(documents, shards, block):
    ranges = shard_ranges(documents, shards, block)
    assert len(ranges) == max(1, min(shards, -(-documents // block)))  # no more shards than blocks
    assert [document for held in ranges for document in held] == list(range(documents))
    assert all(held.start % block == 0 for held in ranges)
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 2 * block


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Each of 3,000 vectors twice over, far apart, so that there are ties between shards."""
    drawn = np.random.default_rng(3).standard_normal((3000, 7)).astype(np.float32)
    return np.concatenate([drawn, drawn, drawn])


@pytest.mark.by_day(2)
@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_what_is_found_does_not_depend_on_shards(vectors, shards, precision):
    kept = vectors.astype(precision)
    whole, parts = VectorIndex.build(kept, IndexOptions()), ShardedIndex.build(kept, IndexOptions(), shards)
    assert len(parts.shards) == shards
    queries = np.random.default_rng(4).standard_normal((20, 7)).astype(np.float32)
    for depth in (0, 1, 50, 9000):
        assert equal(parts.search(queries, depth), whole.search(queries, depth))
    asked = np.random.default_rng(5).integers(-1, 9000, (20, 40))
    assert equal(parts.scores(queries, asked), whole.scores(queries, asked))
    assert (parts.scores(queries, asked) == -np.inf).sum() == (asked == -1).sum()


def test_lists_hold_what_a_search_would_find(vectors, tmp_path):
    index = ShardedIndex.build(vectors, IndexOptions(), 3)
    queries = np.random.default_rng(6).standard_normal((30, 7)).astype(np.float32)
    lists = QueryLists.search(index, queries, Listed(np.array([2, 3, 17, 29]), 40))
    asked = np.array([29, 2, 2])
    assert QueryLists.opened(tmp_path) is None
    lists.save(tmp_path)
    again = QueryLists.opened(tmp_path)
    assert again is not None
    for found in (lists, again):
        assert equal(found.of(asked, 25), index.search(queries[asked], 25))
        assert found.of(np.array([2, 4]), 5) is None  # not all of them are there
        assert found.of(np.array([2]), 41) is None
        assert found.of(np.array([30]), 1) is None


def drawn(rows: int, dimension: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)


def written(folder: Path, documents: NDArray[np.float32], options: IndexOptions, version: int = 3) -> IndexVersion:
    building = start_version(folder, len(documents), 6, documents.shape[1], options)
    write_block(building / DOCUMENTS, 0, documents)
    write_block(building / QUERIES, 0, drawn(6, documents.shape[1], 1))
    finish_version(building, folder, version, 70, "ab" * 32, options)
    return open_version(folder)


@pytest.mark.parametrize("workers", [1, 4])
def test_blocks_from_any_number_of_writers_make_the_same_file(tmp_path, workers):
    vectors = drawn(101, 5)
    create_vectors(tmp_path / "shared.npy", 101, 5)
    with ThreadPoolExecutor(workers) as pool:
        starts = np.random.default_rng(workers).permutation(np.arange(0, 101, 10)).tolist()
        list(pool.map(lambda s: write_block(tmp_path / "shared.npy", s, vectors[s : s + 10]), starts))
    assert (np.load(tmp_path / "shared.npy") == vectors).all()
    create_vectors(tmp_path / "once.npy", 101, 5)
    write_block(tmp_path / "once.npy", 0, vectors)
    assert (tmp_path / "shared.npy").read_bytes() == (tmp_path / "once.npy").read_bytes()


@pytest.mark.parametrize("memory", ["ram", "mapped"])
@pytest.mark.parametrize("factory", ["Flat", "IVF4,Flat", "HNSW8"])
def test_a_version_comes_back_as_it_was(tmp_path, factory, memory):
    options = IndexOptions(factory, precision="float16", memory=memory, probes=None if factory == "Flat" else 8)
    documents = drawn(200, 8)
    version = written(tmp_path / "v3", documents, options)
    assert [path.name for path in tmp_path.iterdir()] == ["v3"]
    assert (version.version, version.step, version.digest, version.index.options) == (3, 70, "ab" * 32, options)
    assert isinstance(version.index.vectors, np.memmap) == (memory == "mapped")
    assert version.index.vectors.dtype == np.float16
    asked = np.array([5, 0, 0])
    in_memory = VectorIndex.build(documents.astype(np.float16), options)
    expected, found = in_memory.search(drawn(6, 8, 1)[asked], 9), version.search(asked, 9)
    assert (found[0] == expected[0]).all()
    assert (found[1] == expected[1]).all()
    assert (version.scores(asked, found[0]) == found[1]).all()
    others = drawn(3, 8, 2)
    assert (version.search(asked, 4, others)[0] == in_memory.search(others, 4)[0]).all()
    assert (version.scores(asked, found[0], others) == in_memory.scores(others, found[0])).all()


def test_versions_may_differ_in_size_and_be_empty_and_replace_each_other(tmp_path):
    written(tmp_path / "v", drawn(20, 8), IndexOptions(), 0)
    opened = written(tmp_path / "v", drawn(30, 5), IndexOptions(memory="mapped"), 1)
    assert (opened.version, opened.index.vectors.shape) == (1, (30, 5))
    for memory in ("ram", "mapped"):
        empty = written(tmp_path / "v", np.zeros((0, 4), np.float32), IndexOptions(memory=memory))
        assert empty.search(np.array([1]), 2)[0].tolist() == [[-1, -1]]


HARMS = {
    "cut record": lambda folder: (folder / RECORD).write_text((folder / RECORD).read_text()[:50]),
    "other format": lambda folder: changed_record(folder, format=99),
    "other count": lambda folder: changed_record(folder, documents=199),
    "short": lambda folder: (folder / DOCUMENTS).write_bytes((folder / DOCUMENTS).read_bytes()[:-8]),
    "cut index": lambda folder: (folder / FAISS).write_bytes((folder / FAISS).read_bytes()[:300]),
    "no folder": shutil.rmtree,
} | {f"no {name}": lambda folder, name=name: (folder / name).unlink() for name in (RECORD, DOCUMENTS, QUERIES, FAISS)}


def changed_record(folder: Path, **entries: int) -> None:
    (folder / RECORD).write_text(json.dumps(json.loads((folder / RECORD).read_text()) | entries))


@pytest.mark.by_day(4)
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_half_version_is_refused(tmp_path, harm):
    written(tmp_path / "v", drawn(200, 8), IndexOptions("IVF4,Flat"))
    harm(tmp_path / "v")
    assert open_version(tmp_path / "v") is None


def test_blocks_that_do_not_fit_or_are_not_finite_are_refused(tmp_path):
    path = tmp_path / "v.npy"
    create_vectors(path, 10, 4, "float16")
    for start, block in ((8, drawn(3, 4)), (-1, drawn(1, 4)), (0, drawn(2, 5))):
        with pytest.raises(ValueError, match="do not fit"):
            write_block(path, start, block)
    with pytest.raises(FloatingPointError, match="not finite"):
        write_block(path, 0, np.full((1, 4), np.nan, np.float32))
    with pytest.raises(BadInput, match=r"index.precision: .*too large for float16; choose float32"):
        write_block(path, 0, np.full((1, 4), 1e5, np.float32))
    assert not np.load(path).any()
    write_block(path, 3, np.array([[1.0, 2049.0, 65504.0, 0.0]], np.float32))
    assert np.load(path)[3].tolist() == [1.0, 2048.0, 65504.0, 0.0]
    with pytest.raises(BadInput, match="can't be written"):
        create_vectors(tmp_path / "nowhere" / "v.npy", 1, 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="can't be written"):
        start_version(tmp_path / "file" / "v", 1, 1, 1, IndexOptions())


def test_the_digest_names_names_shapes_and_values():
    weights = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(1, dtype=torch.int64)}
    same = {"b": torch.tensor(1, dtype=torch.int64), "a": torch.tensor([[0.0, 3], [1, 4], [2, 5]]).T}
    assert weights_digest(weights) == weights_digest(same)
    assert len(weights_digest(weights)) == 64
    others = [
        weights | {"a": torch.arange(6.0).view(3, 2)},
        weights | {"a": torch.arange(6.0).view(2, 3).double()},
        weights | {"a": torch.arange(6.0).view(2, 3) + 1},
        {"c": weights["a"], "b": weights["b"]},
        {"a": weights["a"]},
        weights | {"a": torch.arange(6.0).view(2, 3).bfloat16()},
    ]
    assert len({weights_digest(each) for each in [weights, *others]}) == 7


HALF = "bfloat16", "float16"


def found(ranker: BiEncoder, documents: Texts, queries: Texts, precision: str) -> tuple[NDArray[np.int32], ...]:
    """The top 10 and the top 100 of each query, and the vectors' bytes apart from all that is kept in float32."""
    read_in(ranker, precision)
    of_documents = embed(ranker, documents, np.arange(len(documents)))
    asked = embed(ranker, queries, np.arange(len(queries)), queries=True)
    kept = "float32" if precision == "float32" else "float16"
    index = VectorIndex.build(in_precision(of_documents, kept), IndexOptions(precision=kept))
    return index.search(asked, 10)[0], index.search(asked, 100)[0]


def shares(ranker: BiEncoder, documents: Texts, queries: Texts, precision: str) -> list[float]:
    """How many of the top 10 and 100 are those of float32, and in how many places."""
    whole, half = (found(ranker, documents, queries, each) for each in ("float32", precision))
    same = [
        float(np.mean([np.isin(a, b).mean() for a, b in zip(*lists, strict=True)]))
        for lists in zip(half, whole, strict=True)
    ]
    return [*same, float((half[1] == whole[1]).mean())]


@pytest.mark.parametrize("precision", HALF)
def test_most_negatives_of_a_random_transformer_stay(precision, tmp_path):
    rng = np.random.default_rng(0)
    checkpoint = write_checkpoint(tmp_path / "bert", "bert", [f"w{number}" for number in range(60)])
    ranker = BiEncoder(checkpoint, max_query=12, max_document=12).start(RankerInputs(torch.Generator())).eval()
    documents, queries = (
        Texts.of([rng.integers(4, 64, rng.integers(3, 12)).tolist() for _ in range(n)]) for n in (400, 20)
    )
    top10, top100, places = shares(ranker, documents, queries, precision)
    assert top10 >= 0.8
    assert top100 >= 0.9
    assert places < 1  # it did something
    assert ranker.query_tower.precision is {"bfloat16": torch.bfloat16, "float16": torch.float16}[precision]


def test_what_has_no_transformer_is_refused():
    with pytest.raises(BadInput, match=r"function.dense.precision: Linear has no transformer"):
        transformers_of(torch.nn.Linear(2, 2))
    read_in(torch.nn.Linear(2, 2), None)


class Words(Bag):
    """A document is the mean of its words' vectors, a query their sum; dropout where it trains."""

    def __init__(self, words: int, dimension: int) -> None:
        super().__init__(words, dimension)
        self.reads: list[int] = []

    def represent_queries(self, queries: Texts) -> Tensor:
        return nn.functional.dropout(super().represent_queries(queries), 0.5, self.training)

    def represent_documents(self, documents: Texts) -> Tensor:
        self.reads.append(len(documents))
        return self.represent_queries(documents) / torch.from_numpy(documents.lengths).float()[:, None]


@pytest.fixture
def texts() -> Texts:
    rng = np.random.default_rng(0)
    return Texts.of([rng.integers(1, 50, rng.integers(1, 9)).tolist() for _ in range(103)])


def test_vectors_are_the_rows_asked_for_in_their_order(texts):
    ranker = Words(50, 7)
    rows = np.array([90, 4, 4, 17])
    by_hand = [ranker.table.detach()[texts.tokens[texts.offsets[r] : texts.offsets[r + 1]]].mean(0) for r in rows]
    vectors = embed(ranker, texts, rows)
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(np.stack(by_hand), abs=1e-6)
    assert embed(ranker, texts, np.zeros(0, np.int64)).shape == (0, 7)


@pytest.mark.parametrize("workers", [1, 4])
def test_whoever_reads_a_block_gives_the_same_bytes(texts, workers, monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 10)
    rows = np.arange(len(texts))
    ranker = Words(50, 7)
    whole = embed(ranker, texts, rows)
    assert ranker.reads == [*[10] * 10, 3]
    with ThreadPoolExecutor(workers) as pool:
        parts = pool.map(lambda start: embed(Words(50, 7), texts, rows[start : start + 10]), block_starts(len(rows)))
        assert np.concatenate(list(parts)).tobytes() == whole.tobytes()


def test_there_is_no_dropout_in_it_and_the_mode_is_left_as_it_was(texts):
    ranker = Words(50, 7).train()
    first, second = (embed(ranker, texts, np.arange(5), queries=True) for _ in range(2))
    assert (first == second).all()
    assert (first != 0).all()
    assert ranker.training
    ranker.eval()
    embed(ranker, texts, np.arange(5))
    assert not ranker.training
