"""Vectors and their search on a GPU: what a CPU gives."""

import numpy as np
import pytest
import torch

from pyrite.ranking.embedding import embed
from pyrite.ranking.faiss_index import import_faiss
from pyrite.ranking.index import IndexOptions, VectorIndex
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.static import Static

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")]


def made_up(count: int, dimension: int = 48) -> np.ndarray:
    """Vectors in heaps, each twice, so that there are ties."""
    rng = np.random.default_rng(2)
    drawn = rng.standard_normal((50, dimension), np.float32)[rng.integers(50, size=count // 2)]
    drawn += 0.5 * rng.standard_normal(drawn.shape, np.float32)
    return np.concatenate([drawn, drawn])


def without_gpu(vectors: np.ndarray, options: IndexOptions, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        return VectorIndex.build(vectors, options).search(queries, 100)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_exact_lists_are_those_of_a_cpu_to_the_bit(precision):
    vectors = made_up(100_000).astype(precision)
    queries = made_up(400)[:64]
    index = VectorIndex.build(vectors, IndexOptions(precision=precision))
    found, expected = index.search(queries, 100), without_gpu(vectors, IndexOptions(), queries)
    assert index._searched.is_cuda
    assert found[0].tobytes() == expected[0].tobytes()
    assert found[1].tobytes() == expected[1].tobytes()


@pytest.mark.parametrize("factory", ["IVF64,Flat"])
def test_faiss_on_a_gpu_finds_what_it_finds_on_a_cpu(factory):
    if not getattr(import_faiss(), "get_num_gpus", int)():
        pytest.skip("needs FAISS for a GPU: make install FAISS=gpu")
    vectors, queries = made_up(20_000), made_up(400)[:64]
    index = VectorIndex.build(vectors, IndexOptions(factory, probes=16))
    exact = without_gpu(vectors, IndexOptions(), queries)[0]
    on_gpu = index.search(queries, 100)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyrite.ranking.index.on_gpu", lambda searched: searched)
        on_cpu = VectorIndex(vectors, index.options, index.index, index.norm).search(queries, 100)[0]
    shares = [
        np.mean([len({*a} & {*b}) / 100 for a, b in zip(found, exact, strict=True)]) for found in (on_gpu, on_cpu)
    ]
    assert abs(shares[0] - shares[1]) < 0.02
    assert shares[0] > 0.5


def test_texts_get_the_same_vectors_and_memory_stays_bounded(tiny_sources):
    table = tiny_sources.vectors.filled(np.random.default_rng(0))
    ranker = Static().start(RankerInputs(torch.Generator().manual_seed(0), table))
    rows = np.tile(np.arange(12), 2000)
    expected = embed(ranker, tiny_sources.encoded.documents, rows)
    ranker.to("cuda")
    torch.cuda.reset_peak_memory_stats()
    found = embed(ranker, tiny_sources.encoded.documents, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert torch.cuda.max_memory_allocated() < 256 << 20
