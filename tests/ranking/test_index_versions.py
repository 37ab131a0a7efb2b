import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ranking.embedding import embed
from ranking.errors import BadInput
from ranking.index import IndexOptions, VectorIndex
from ranking.index_versions import (
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
from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.pretrained import read_in, transformers_of
from ranking.texts import Texts
from tests.ranking.checkpoints import write_checkpoint


def drawn(rows: int, dimension: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)


def written(folder: Path, documents: NDArray[np.float32], options: IndexOptions, version: int = 3) -> IndexVersion:
    queries = drawn(6, documents.shape[1], 1)
    building = start_version(folder, len(documents), 6, documents.shape[1], options)
    write_block(building / DOCUMENTS, 0, documents)
    write_block(building / QUERIES, 0, queries)
    return finish_version(building, folder, version, 70, "ab" * 32, options)


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
    one = written(tmp_path / "v3", documents, options)
    assert [path.name for path in tmp_path.iterdir()] == ["v3"]
    again = open_version(tmp_path / "v3")
    assert (again.version, again.step, again.digest, again.index.options) == (3, 70, "ab" * 32, options)
    assert isinstance(again.index.vectors, np.memmap) == (memory == "mapped")
    assert again.index.vectors.dtype == np.float16
    asked = np.array([5, 0, 0])
    in_memory = VectorIndex.build(documents.astype(np.float16), options)
    expected = in_memory.search(drawn(6, 8, 1)[asked], 9)
    for version in (one, again):
        found = version.search(asked, 9)
        assert (found[0] == expected[0]).all()
        assert (found[1] == expected[1]).all()
        assert (version.scores(asked, found[0]) == found[1]).all()
        others = drawn(3, 8, 2)
        assert (version.search(asked, 4, others)[0] == in_memory.search(others, 4)[0]).all()
        assert (version.scores(asked, found[0], others) == in_memory.scores(others, found[0])).all()


def test_versions_may_differ_in_dimension_and_replace_each_other(tmp_path):
    written(tmp_path / "v", drawn(20, 8), IndexOptions(), 0)
    written(tmp_path / "v", drawn(30, 5), IndexOptions(memory="mapped"), 1)
    opened = open_version(tmp_path / "v")
    assert (opened.version, opened.index.vectors.shape) == (1, (30, 5))


@pytest.mark.parametrize("memory", ["ram", "mapped"])
def test_an_empty_version(tmp_path, memory):
    version = written(tmp_path / "v", np.zeros((0, 4), np.float32), IndexOptions(memory=memory))
    assert version.search(np.array([1]), 2)[0].tolist() == [[-1, -1]]


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


def test_what_is_being_built_is_no_version_yet(tmp_path):
    building = start_version(tmp_path / "v", 10, 6, 4, IndexOptions())
    write_block(building / DOCUMENTS, 0, drawn(10, 4))
    assert open_version(building) is None
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
    with pytest.raises(BadInput, match="can't be written"):
        create_vectors(tmp_path / "nowhere" / "v.npy", 1, 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="can't be written"):
        start_version(tmp_path / "file" / "v", 1, 1, 1, IndexOptions())


def test_float16_keeps_what_it_can():
    kept = in_precision(np.array([[1.0, 2049.0, 65504.0]], np.float32), "float16")
    assert kept.dtype == np.float16
    assert kept.tolist() == [[1.0, 2048.0, 65504.0]]


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
    ranker = BiEncoder(torch.Generator(), checkpoint, max_query=12, max_document=12).eval()
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
