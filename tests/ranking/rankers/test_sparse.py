"""Learned sparse vectors are the library's, are searched exactly, and are kept sparse."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pyrite.ranking.embedding import embed_sparse
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.full_ranking import rank_all
from pyrite.ranking.objectives.distillation import Distillation
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.sparse import Sparse, flops
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.sparse_products import SparseIndex, sparse_products
from tests.ranking.trained import NEGATIVES, Reader, generator, in_training, losses

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")


@pytest.fixture(scope="module")
def masked(made_up, tmp_path_factory) -> str:
    """A masked language model."""
    folder = str(tmp_path_factory.mktemp("masked"))
    config = transformers.AutoConfig.from_pretrained(made_up())
    with torch.random.fork_rng():
        torch.manual_seed(2)
        transformers.BertForMaskedLM(config).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(made_up()).save_pretrained(folder)
    return folder


def ours(folder: str, read_as: Reader, **options: Any) -> tuple[Sparse, EncodedCollection, np.ndarray, np.ndarray]:
    made = Sparse(folder, **options).start(RankerInputs(generator())).eval()
    texts = read_as(Sparse.tokenization(checkpoint=folder))
    with torch.no_grad():
        vectors = [made.represent_queries(texts.queries), made.represent_documents(texts.documents)]
    return made, texts, vectors[0].numpy(), vectors[1].numpy()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["plain", "sum", "autoencoder"])
def test_vectors_are_those_of_the_library_there_and_back(name, masked, made_up, read_as, tiny, tmp_path):
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder, SpladePooling

    folder = str(tmp_path / "theirs")
    if name == "plain":
        folder = masked
    else:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            reader = Transformer(masked, transformer_task="fill-mask")
            modules = [reader, SpladePooling("sum", activation_function="log1p_relu")]
            if name == "autoencoder":
                modules = [Transformer(made_up()), Pooling(16), SparseAutoEncoder(16, 32, k=5, k_aux=8)]
            library.SparseEncoder(modules=modules, device="cpu").save(folder)
    made, _, *found = ours(folder, read_as)
    assert not made.drawn
    made.save_pretrained(str(tmp_path / "ours"))
    texts = tiny.queries["text"].to_list(), tiny.documents["text"].to_list()
    for place in (folder, str(tmp_path / "ours")):
        model = library.SparseEncoder(place, device="cpu", local_files_only=True)
        theirs = model.encode_query(texts[0]).to_dense(), model.encode_document(texts[1]).to_dense()
        for vectors, wanted in zip(found, theirs, strict=True):
            np.testing.assert_allclose(vectors, wanted.numpy(), atol=1e-6)
    again = ours(str(tmp_path / "ours"), read_as)[2:]
    assert all(np.allclose(one, other, atol=1e-6) for one, other in zip(again, found, strict=True))
    assert found[0].min() == 0
    assert found[0].shape[1] == made.dimension


def test_a_head_that_is_missing_is_named(made_up):
    assert any("predictions" in name for name in Sparse(made_up()).start(RankerInputs(generator())).drawn)


def test_the_inverted_index_finds_what_all_products_say(masked, read_as):
    made, texts, queries, documents = ours(masked, read_as)
    wanted = queries.astype(np.float64) @ documents.astype(np.float64).T
    np.testing.assert_allclose(
        sparse_products(torch.from_numpy(queries), torch.from_numpy(documents)), wanted, rtol=1e-6
    )
    lists = rank_all(made, texts, np.arange(4), 5)
    np.testing.assert_allclose(lists.scores, -np.sort(-wanted[:4])[:, :5], rtol=1e-6)
    every = np.tile(np.arange(12, dtype=np.int32), (4, 1))
    np.testing.assert_allclose(score_candidates(made, texts, np.arange(4), every), wanted[:4], rtol=1e-5)
    index = SparseIndex(embed_sparse(made, texts.documents, np.arange(12)))
    found, scores = index.search(embed_sparse(made, texts.queries, np.arange(4), queries=True), 5)
    np.testing.assert_array_equal(scores, lists.scores)
    np.testing.assert_allclose(np.take_along_axis(wanted[:4], found.astype(np.int64), 1), scores, rtol=1e-6)
    some = np.array([[3, -1], [0, 1], [2, 11], [5, 6]])
    asked = index.scores(embed_sparse(made, texts.queries, np.arange(4), queries=True), some)
    assert asked[0, 1] == -np.inf
    np.testing.assert_allclose(asked[1:], np.take_along_axis(wanted[:4], some, 1)[1:], rtol=1e-6)
    by_hand = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.5, 3.0]])
    assert sparse_products(by_hand, by_hand).tolist() == [[4.0, 1.0], [1.0, 10.25]]


def test_the_regularizer_is_in_the_loss_and_makes_vectors_sparser(masked, read_as, tiny_sources):
    assert flops(torch.tensor([[1.0, 0.0], [3.0, 2.0]])).item() == 5  # 2² + 1²
    first, sums = {}, {}
    for weight in (0.0, 1.0):
        made, texts, *_ = ours(masked, read_as, query_flops=weight, document_flops=weight, warmup=0)
        first[weight] = losses(in_training(made, texts, tiny_sources, lr=0.05), 4)[0]
        with torch.no_grad():
            sums[weight] = float(made.represent_documents(texts.documents).sum())
        assert made.penalty(0) is None, "a penalty counts once"
    assert first[1.0] > first[0.0]
    assert sums[1.0] < sums[0.0]
    made, texts, *_ = ours(masked, read_as, query_flops=1.0, document_flops=1.0, warmup=10)
    still = in_training(made, texts, tiny_sources, lr=0.0)
    assert still.update(still.next_batch(), NEGATIVES).loss == still.loss_now()
    growing = Sparse(masked, warmup=10).start(RankerInputs(generator()))
    growing.train()._note(torch.ones(2, 3), torch.ones(2, 3))
    assert growing.penalty(4).item() == pytest.approx(0.25 * 3 * (3e-4 + 1e-4))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("options", [{}, {"chunk": 2}])
def test_it_learns_a_teachers_scores(options, masked, read_as, tiny_sources):
    made, texts, *_ = ours(masked, read_as)
    pairs = np.repeat(np.arange(8), 12), np.tile(np.arange(12), 8)
    training = in_training(made, texts, tiny_sources, lr=0.02, objective=Distillation(), **options)
    training.teacher = PairScores.of(*pairs, np.linspace(3, -3, 96), 12)
    first, *_, last = losses(training, 8)
    assert last < first
