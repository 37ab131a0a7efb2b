"""Weights go to sentence-transformers and come back, with the same numbers on both sides."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from ranking.collections.collection import Collection
from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.cross_encoder import CrossEncoder
from ranking.tokenization import subwords
from tests.ranking.trained import generator

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")
CHECKPOINTS = [("small_bert", None), ("minilm", 2)]
"""Fixture of a real checkpoint, and how many of its layers."""


@pytest.fixture(params=CHECKPOINTS, ids=["two-layer BERT", "two layers of MiniLM"])
def real(request) -> dict[str, Any]:
    """Options of a ranker."""
    name, layers = request.param
    return {"checkpoint": request.getfixturevalue(name), "layers": layers, "max_query": 20, "max_document": 40}


@torch.no_grad()
def scores(ranker: CrossEncoder, tiny: Collection) -> np.ndarray:
    """Of each query with the documents 0, 3, 6 and 9."""
    queries = subwords(ranker.tokenizer, tiny.queries["text"], 20)
    documents = subwords(ranker.tokenizer, tiny.documents["text"], 40)
    shown = documents.take(np.tile([0, 3, 6, 9], len(queries)))
    return ranker(queries, shown).numpy()


def scores_there(folder: Path | str, tiny: Collection) -> np.ndarray:
    model = library.CrossEncoder(str(folder), device="cpu", local_files_only=True)
    pairs = [(query, tiny.documents["text"][row]) for query in tiny.queries["text"] for row in (0, 3, 6, 9)]
    return model.predict(pairs, activation_fn=torch.nn.Identity()).reshape(-1, 4)


@torch.no_grad()
def vectors(ranker: BiEncoder, texts: pl.Series, queries: bool = False) -> np.ndarray:
    read = ranker.represent_queries if queries else ranker.represent_documents
    return read(subwords(ranker.tokenizer, texts, 40)).numpy()


def assert_only_safetensors(folder: Path) -> None:
    endings = {Path(name).suffix for _, _, names in os.walk(folder) for name in names}
    assert endings <= {".json", ".safetensors", ".txt", ".md"}


def test_our_cross_encoder_there(real, tiny, tmp_path):
    ranker = CrossEncoder(generator(), **real)
    with torch.no_grad():  # what a head by chance makes of cut layers hardly differs from pair to pair
        ranker.pretrained.model.classifier.weight.mul_(40)
    ranker.save_pretrained(str(tmp_path))
    assert_only_safetensors(tmp_path)
    ours = scores(ranker, tiny)
    assert ours.std() > 1e-3
    np.testing.assert_allclose(scores_there(tmp_path, tiny), ours, atol=1e-5)
    again = CrossEncoder(generator(8), str(tmp_path), max_query=20, max_document=40)
    assert again.drawn == []
    assert len(again.layers()) == len(ranker.layers())
    assert all(torch.equal(weights, ranker.state_dict()[name]) for name, weights in again.state_dict().items())
    np.testing.assert_allclose(scores(again, tiny), ours, atol=1e-5)  # where weights lie moves last bits


def test_their_cross_encoder_here(small_bert, tiny, tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = library.CrossEncoder(small_bert, num_labels=1, device="cpu", local_files_only=True)
    model.save_pretrained(str(tmp_path))
    ranker = CrossEncoder(generator(), str(tmp_path), max_query=20, max_document=40)
    assert ranker.drawn == []
    ours = scores(ranker, tiny)
    assert ours.std() > 1e-3
    np.testing.assert_allclose(ours, scores_there(tmp_path, tiny), atol=1e-5)


def test_their_bi_encoder_here(minilm, tiny, tmp_path):
    """Both as it was published, with modules named in the old way, and as it is written today."""
    model = library.SentenceTransformer(minilm, device="cpu", local_files_only=True)
    model.save_pretrained(str(tmp_path))
    expected = model.encode(tiny.documents["text"].to_list())
    for folder in (minilm, str(tmp_path)):
        ranker = BiEncoder(generator(), folder)
        assert (ranker.pooling, ranker.similarity, ranker.dimension) == ("mean", "cosine", 384)
        np.testing.assert_allclose(vectors(ranker, tiny.documents["text"]), expected, atol=1e-5)


DECLARED = {
    "__version__": {"sentence_transformers": "2.2.2"},
    "prompts": {"query": "moles dig ", "passage": "gold ", "clustering": "rocks "},
    "default_prompt_name": "passage",
    "similarity_fn_name": "dot",
    "note": {"of": "its maker"},
}


@pytest.mark.parametrize("tied", [True, False])
def test_prompts_of_a_checkpoint_are_honoured_and_kept(tied, made_up, tiny, tmp_path):
    """Also where lengths cut the texts: prompts do not count (one tower has one length there, 5 + 2 = 6 + 1)."""
    BiEncoder(generator(), made_up(), similarity="dot", max_query=3, max_document=6).save_pretrained(str(tmp_path))
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(DECLARED))
    options: dict[str, Any] = {"max_query": 5 if tied else 3, "max_document": 6}
    ranker = BiEncoder(generator(), str(tmp_path), tied=tied, **options)
    tokens = BiEncoder.tokenization(checkpoint=str(tmp_path), **options).encode(tiny)
    with torch.no_grad():
        ours = ranker.represent_queries(tokens.queries).numpy(), ranker.represent_documents(tokens.documents).numpy()
    ranker.save_pretrained(str(tmp_path / "again"))
    said = json.loads((tmp_path / "again" / "config_sentence_transformers.json").read_text())
    prompts = DECLARED["prompts"] | {"document": "gold "}
    assert said["prompts"] == prompts
    assert (said["default_prompt_name"], said["similarity_fn_name"]) == ("passage", "dot")
    model = library.SentenceTransformer(str(tmp_path / "again"), device="cpu", local_files_only=True)
    queries, documents = tiny.queries["text"].to_list(), tiny.documents["text"].to_list()
    named = [("query", queries), ("passage", documents)] if tied else []
    for expected, (name, texts) in zip(ours, named, strict=False):
        np.testing.assert_allclose(model.encode(texts, prompt_name=name), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode_query(queries), ours[0], atol=1e-5)
    np.testing.assert_allclose(model.encode_document(documents), ours[1], atol=1e-5)
    assert np.abs(model.encode_query(queries, prompt="") - ours[0]).max() > 0.01
