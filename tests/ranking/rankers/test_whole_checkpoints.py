"""A checkpoint scores as sentence-transformers has it, whatever the scale: nothing but an option cuts it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import group_options
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.part import options_of
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.scoring import score_candidates

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")
SCALES = sorted(group_options()["scale"])
QUERIES = np.arange(8)
LISTS = np.tile(np.arange(12, dtype=np.int32), (8, 1))


def lengthened(tiny: Collection, queries: int, documents: int) -> Collection:
    """Queries and documents followed by others, of so many words at most: a few are as short as before."""

    def longer(frame: pl.DataFrame, words: int) -> pl.DataFrame:
        every = " ".join(frame["text"]).split()
        texts = [
            text if row % 4 == 3 else " ".join((text.split() + every[row:])[: max(8, words - row)])
            for row, text in enumerate(frame["text"])
        ]
        return frame.with_columns(text=pl.Series(texts))

    return tiny.changed(queries=longer(tiny.queries, queries), documents=longer(tiny.documents, documents))


@pytest.fixture(scope="module")
def long(tiny) -> Collection:
    """Queries and documents of up to 60 words, where the checkpoints have 40 positions."""
    return lengthened(tiny, 60, 60)


def saved(modules: list[Any], kind: str, folder: str, **options: Any) -> str:
    getattr(library, kind)(modules=modules, device="cpu", **options).save(folder)
    return folder


def bi_encoder(checkpoint: str, folder: str, collection: Collection) -> tuple[str, np.ndarray]:
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    place = saved([Transformer(checkpoint), Pooling(16)], "SentenceTransformer", folder)
    model = library.SentenceTransformer(place, device="cpu")
    vectors = (
        model.encode_query(collection.queries["text"].to_list()),
        model.encode_document(collection.documents["text"].to_list()),
    )
    return place, 20 * model.similarity(*vectors).numpy()


def sparse(checkpoint: str, folder: str, collection: Collection) -> tuple[str, np.ndarray]:
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    with torch.random.fork_rng():
        torch.manual_seed(3)
        reader = Transformer(checkpoint, transformer_task="fill-mask")
    place = saved([reader, SpladePooling("max")], "SparseEncoder", folder)
    model = library.SparseEncoder(place, device="cpu")
    queries, documents = (frame["text"].to_list() for frame in (collection.queries, collection.documents))
    return place, model.similarity(model.encode_query(queries), model.encode_document(documents)).numpy()


def late_interaction(checkpoint: str, folder: str, collection: Collection) -> tuple[str, np.ndarray]:
    from sentence_transformers.base.modules import Dense, Normalize, Transformer

    with torch.random.fork_rng():
        torch.manual_seed(3)
        dense = Dense(16, 6, bias=False, module_input_name="token_embeddings")
    after = [dense, Normalize(module_input_name="token_embeddings")]
    place = saved([Transformer(checkpoint), *after], "MultiVectorEncoder", folder)
    model = library.MultiVectorEncoder(place, device="cpu")
    queries, documents = (frame["text"].to_list() for frame in (collection.queries, collection.documents))
    return place, np.asarray(model.similarity(model.encode_query(queries), model.encode_document(documents)))


def cross_encoder(checkpoint: str, folder: str, collection: Collection) -> tuple[str, np.ndarray]:
    model = library.CrossEncoder(checkpoint, device="cpu")
    pairs = [(query, text) for query in collection.queries["text"] for text in collection.documents["text"]]
    return checkpoint, model.predict(pairs, activation_fn=torch.nn.Identity()).reshape(8, 12)


THEIRS: dict[str, Callable[[str, str, Collection], tuple[str, np.ndarray]]] = {
    each.__name__: each for each in (bi_encoder, cross_encoder, late_interaction, sparse)
}
"""Makes or takes a checkpoint, and returns it with the library's scores of every query with every document."""


def node_of(kind: str, checkpoint: str, *overrides: str) -> dict[str, Any]:
    return dict(compose([f"ranker={kind}", f"ranker.checkpoint={checkpoint}", *overrides])["ranker"])


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kind", THEIRS)
def test_the_untrained_ranker_scores_as_the_library_at_every_scale(kind, made_up, long, tiny_encoded, tmp_path):
    folder, expected = THEIRS[kind](made_up(), str(tmp_path), long)
    nodes = [node_of(kind, folder, f"scale={scale}") for scale in SCALES]
    assert all(node == nodes[0] for node in nodes)
    made = build(nodes[0], "ranker", trust="composed")
    reads = made.tokenization(**options_of(made))
    tokens = reads.encode(long)
    ranker = made.start(RankerInputs(torch.Generator().manual_seed(0))).eval()
    encoded = replace(tiny_encoded, documents=tokens.documents, queries=tokens.queries)
    found = score_candidates(ranker, encoded, QUERIES, LISTS)
    assert expected.std() > 1e-3
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert reads.cut(tokens)  # they are longer than the checkpoint reads
    fewer = node_of(kind, folder, "ranker.layers=2")  # two of three layers score otherwise
    cut = build(fewer, "ranker", trust="composed").start(RankerInputs(torch.Generator().manual_seed(0))).eval()
    assert np.abs(score_candidates(cut, encoded, QUERIES, LISTS) - expected).max() > 1e-3


@pytest.mark.parametrize("kind", THEIRS)
def test_a_preset_of_a_checkpoint_is_refused(kind, made_up):
    with pytest.raises(BadInput, match=r"no option ranker\.preset any more: a checkpoint is read whole"):
        node_of(kind, made_up(), "ranker.preset=tiny")


def test_what_starts_from_nothing_is_narrower_at_a_smaller_scale():
    for kind in ("dssm", "feed_forward", "match_pyramid", "static"):
        presets = [
            compose([f"ranker={kind}", f"scale={scale}"])["ranker"]["preset"] for scale in ("tiny", "small", "paper")
        ]
        assert presets == ["tiny", "small", "paper"]


def test_a_whole_real_checkpoint_at_scale_small(minilm, tiny, tiny_encoded):
    model = library.SentenceTransformer(minilm, device="cpu", local_files_only=True)
    collection = lengthened(tiny, 40, 300)  # more than the 256 tokens that the folder declares
    queries, documents = (frame["text"].to_list() for frame in (collection.queries, collection.documents))
    expected = 20 * model.similarity(model.encode_query(queries), model.encode_document(documents)).numpy()
    made = build(node_of("bi_encoder", minilm, "scale=small"), "ranker", trust="composed")
    tokens = made.tokenization(**options_of(made)).encode(collection)
    ranker = made.start(RankerInputs(torch.Generator())).eval()
    encoded = replace(tiny_encoded, documents=tokens.documents, queries=tokens.queries)
    np.testing.assert_allclose(score_candidates(ranker, encoded, QUERIES, LISTS), expected, atol=2e-5)
