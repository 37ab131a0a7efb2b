"""Every form of a sentence-transformers model gives the library's vectors here, and goes back to it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.tokenization import subwords
from tests.ranking.checkpoints import tokenizer_of
from tests.ranking.trained import generator

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")
MODES = ("mean", "cls", "lasttoken", "max", "weightedmean", "mean_sqrt_len_tokens")


def bert_modules(checkpoint: str, *after: Any, **options: Any) -> list[Any]:
    """A transformer of 16 dimensions and the modules after it."""
    from sentence_transformers.base.modules import Transformer

    return [Transformer(checkpoint, **options), *after]


def form(name: str, checkpoint: str) -> tuple[list[Any], dict[str, Any]]:
    """The modules and the options of a model."""
    from sentence_transformers.base.modules import Dense, Normalize, Router
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling

    if name in MODES:
        return bert_modules(checkpoint, Pooling(16, name)), {}
    prompts = {"prompts": {"query": "moles dig ", "document": "gold "}}
    made: dict[str, Any] = {
        "two poolings": ([Pooling(16, ("cls", "mean"))], {}),
        "dense": ([Pooling(16), Dense(16, 10)], {}),
        "dense, norm": (
            [Pooling(16, "cls"), Dense(16, 12, bias=False, use_residual=True), LayerNorm(12), Normalize()],
            {},
        ),
        "dense of tokens": ([Dense(16, 8, module_input_name="token_embeddings"), Pooling(8)], {}),
        "truncated": ([Pooling(16), Normalize()], {"truncate_dim": 6}),
        "truncated, dot": ([Pooling(16), Normalize()], {"truncate_dim": 6, "similarity_fn_name": "dot"}),
        "dot": ([Pooling(16)], {"similarity_fn_name": "dot"}),
        "unit, dot": ([Pooling(16), Normalize()], {"similarity_fn_name": "dot"}),
        "prompts": ([Pooling(16)], prompts),
        "prompts left out": ([Pooling(16, "mean", include_prompt=False)], prompts),
        "prompt left out, cls": ([Pooling(16, "cls", include_prompt=False)], {"prompts": {"query": "moles "}}),
    }
    if name == "short":
        return bert_modules(checkpoint, Pooling(16), processor_kwargs={"model_max_length": 6}), {}
    if name == "two towers":
        towers = [bert_modules(checkpoint, Pooling(16), Dense(16, 5)) for _ in range(2)]
        with torch.no_grad():
            next(towers[0][0].parameters()).mul_(0.5)
        return [Router.for_query_document(*towers), Normalize()], {}
    after, options = made[name]
    return bert_modules(checkpoint, *after), options


FORMS = [*MODES, "two poolings", "dense", "dense, norm", "dense of tokens", "truncated", "truncated, dot", "dot",
         "unit, dot", "prompts", "prompts left out", "prompt left out, cls", "short", "two towers"]  # fmt: skip
BY_DAY = ("dense, norm", "prompts left out", "two towers")
"""Forms that have most modules and options between them."""


def ours(folder: str, tiny: Collection, **options: Any) -> tuple[BiEncoder, np.ndarray, np.ndarray]:
    """A ranker and its vectors of queries and documents."""
    tokens = BiEncoder.tokenization(checkpoint=folder, **options).encode(tiny)
    ranker = BiEncoder(folder, **options).start(RankerInputs(generator())).eval()
    with torch.no_grad():
        queries, documents = ranker.represent_queries(tokens.queries), ranker.represent_documents(tokens.documents)
    return ranker, queries.numpy(), documents.numpy()


def theirs(folder: str, tiny: Collection) -> tuple[Any, np.ndarray, np.ndarray]:
    model = library.SentenceTransformer(folder, device="cpu", local_files_only=True)
    queries, documents = tiny.queries["text"].to_list(), tiny.documents["text"].to_list()
    return model, model.encode_query(queries), model.encode_document(documents)


def assert_same(folder: str, tiny: Collection, **options: Any) -> BiEncoder:
    ranker, *vectors = ours(folder, tiny, **options)
    model, *expected = theirs(folder, tiny)
    cosine = ranker.similarity == "cosine"
    for found, wanted in zip(vectors, expected, strict=True):
        if cosine:
            wanted = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    scores = ranker.interact(torch.from_numpy(vectors[0])[:, None], torch.from_numpy(vectors[1])[None])
    np.testing.assert_allclose(scores.numpy() / ranker.scale, model.similarity(*expected).numpy(), atol=1e-6)
    assert ranker.dimension == vectors[0].shape[1]
    return ranker


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name not in BY_DAY)) for name in FORMS]
)
def test_a_form_is_read_and_written(name, made_up, tiny, tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        modules, options = form(name, made_up())
        library.SentenceTransformer(modules=modules, device="cpu", **options).save(str(tmp_path / "theirs"))
    towers = {"tied": False} if name == "two towers" else {}
    ranker = assert_same(str(tmp_path / "theirs"), tiny, **towers)
    assert not ranker.drawn
    ranker.save_pretrained(str(tmp_path / "ours"))
    again = assert_same(str(tmp_path / "ours"), tiny, **towers)
    assert again.lengths == ranker.lengths
    for one, other in zip(ours(str(tmp_path / "ours"), tiny, **towers)[1:], theirs(str(tmp_path / "theirs"), tiny)[1:],
                          strict=True):  # fmt: skip
        unit = np.linalg.norm(other, axis=1, keepdims=True) if again.similarity == "cosine" else 1
        np.testing.assert_allclose(one, other / unit, atol=1e-6)


def config_of(kind: str, size: int) -> Any:
    sizes: dict[str, Any] = {"vocab_size": size, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 24, "max_position_embeddings": 60, "pad_token_id": 0, "initializer_range": 0.3}
    made: dict[str, Callable[[], Any]] = {
        "mpnet": lambda: transformers.MPNetConfig(**sizes),
        "deberta": lambda: transformers.DebertaV2Config(**sizes, relative_attention=True, pos_att_type=["p2c", "c2p"]),
        "longformer": lambda: transformers.LongformerConfig(**sizes, attention_window=4),
        "distilbert": lambda: transformers.DistilBertConfig(
            vocab_size=size, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=60
        ),
        "xlnet": lambda: transformers.XLNetConfig(vocab_size=size, d_model=16, n_layer=2, n_head=2, d_inner=24),
        "t5": lambda: transformers.T5Config(
            vocab_size=size, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0
        ),
        "electra": lambda: transformers.ElectraConfig(**sizes, embedding_size=8),
    }
    return made[kind]()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kind", ["mpnet", "deberta", "longformer", "distilbert", "xlnet", "t5", "electra"])
def test_an_architecture_is_read_and_written(kind, tiny, tmp_path):
    """Also those without scaled dot-product attention, and the encoder of a model that has a decoder too."""
    words = sorted({word for text in [*tiny.documents["text"], *tiny.queries["text"]] for word in text.split()})
    tokenizer = tokenizer_of("roberta" if kind in ("mpnet", "longformer", "t5") else "bert", words)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.AutoModel.from_config(config_of(kind, len(tokenizer) + 4))
    plain = str(tmp_path / "plain")
    model.save_pretrained(plain)
    tokenizer.save_pretrained(plain)
    ranker = assert_same(plain, tiny, max_query=20, max_document=30)
    assert not ranker.drawn
    ranker.save_pretrained(str(tmp_path / "ours"))
    assert_same(str(tmp_path / "ours"), tiny)
    cut = BiEncoder(plain, layers=1, max_document=30).start(RankerInputs(generator()))
    assert len(cut.query_tower.blocks()) < len(ranker.query_tower.blocks()) or kind == "xlnet"


def test_lengths_come_from_the_folder(made_up, tmp_path):
    from sentence_transformers.sentence_transformer.modules import Pooling

    modules = bert_modules(made_up(), Pooling(16), processor_kwargs={"model_max_length": 17})
    folder = str(tmp_path / "theirs")
    library.SentenceTransformer(modules=modules, device="cpu", prompts={"query": "moles dig "}).save(folder)
    assert BiEncoder(folder).start(RankerInputs(generator())).lengths == (
        13,
        15,
    )  # two special tokens, and two of the prompt
    assert BiEncoder(folder, max_document=9).start(RankerInputs(generator())).lengths == (13, 9)


@pytest.mark.parametrize("name", ["static", "bag of words"])
def test_what_is_no_transformer_is_refused(name, made_up, tmp_path):
    from sentence_transformers.sentence_transformer.modules import BoW, StaticEmbedding

    tokenizer = transformers.AutoTokenizer.from_pretrained(made_up())
    modules = [StaticEmbedding(tokenizer, embedding_dim=4)] if name == "static" else [BoW(["moles", "dig"])]
    library.SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path))
    with pytest.raises(BadInput, match="reads texts by"):
        BiEncoder(str(tmp_path)).start(RankerInputs(generator()))


def test_pickled_weights_of_a_module_are_refused(made_up, tmp_path):
    modules, _ = form("dense", made_up())
    library.SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path))
    dense = tmp_path / "2_Dense"
    torch.save(modules[2].state_dict(), dense / "pytorch_model.bin")
    (dense / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="pickles"):
        BiEncoder(str(tmp_path)).start(RankerInputs(generator()))


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
    return ranker(queries, documents.take(np.tile([0, 3, 6, 9], len(queries)))).numpy()


def scores_there(folder: Path | str, tiny: Collection) -> np.ndarray:
    model = library.CrossEncoder(str(folder), device="cpu", local_files_only=True)
    pairs = [(query, tiny.documents["text"][row]) for query in tiny.queries["text"] for row in (0, 3, 6, 9)]
    return model.predict(pairs, activation_fn=torch.nn.Identity()).reshape(-1, 4)


def assert_only_safetensors(folder: Path) -> None:
    endings = {Path(name).suffix for _, _, names in os.walk(folder) for name in names}
    assert endings <= {".json", ".safetensors", ".txt", ".md"}


def test_our_cross_encoder_there(real, tiny, tmp_path):
    ranker = CrossEncoder(**real).start(RankerInputs(generator()))
    with torch.no_grad():  # what a head by chance makes of cut layers hardly differs from pair to pair
        ranker.pretrained.model.classifier.weight.mul_(40)
    ranker.save_pretrained(str(tmp_path))
    assert_only_safetensors(tmp_path)
    ours = scores(ranker, tiny)
    assert ours.std() > 1e-3
    np.testing.assert_allclose(scores_there(tmp_path, tiny), ours, atol=1e-5)
    again = CrossEncoder(str(tmp_path), max_query=20, max_document=40).start(RankerInputs(generator(8)))
    assert again.drawn == []
    assert len(again.layers()) == len(ranker.layers())
    assert all(torch.equal(weights, ranker.state_dict()[name]) for name, weights in again.state_dict().items())
    np.testing.assert_allclose(scores(again, tiny), ours, atol=1e-5)  # where weights lie moves last bits


def test_their_cross_encoder_here(small_bert, tiny, tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = library.CrossEncoder(small_bert, num_labels=1, device="cpu", local_files_only=True)
    model.save_pretrained(str(tmp_path))
    ranker = CrossEncoder(str(tmp_path), max_query=20, max_document=40).start(RankerInputs(generator()))
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
        ranker, _, found = ours(folder, tiny)
        assert (ranker.pooling, ranker.similarity, ranker.dimension) == ("mean", "cosine", 384)
        np.testing.assert_allclose(found, expected, atol=1e-5)


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
    BiEncoder(made_up(), similarity="dot", max_query=3, max_document=6).start(
        RankerInputs(generator())
    ).save_pretrained(str(tmp_path))
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(DECLARED))
    ranker, *vectors = ours(str(tmp_path), tiny, tied=tied, max_query=5 if tied else 3, max_document=6)
    ranker.save_pretrained(str(tmp_path / "again"))
    said = json.loads((tmp_path / "again" / "config_sentence_transformers.json").read_text())
    assert said["prompts"] == DECLARED["prompts"] | {"document": "gold "}
    assert (said["default_prompt_name"], said["similarity_fn_name"]) == ("passage", "dot")
    model, *found = theirs(str(tmp_path / "again"), tiny)
    queries, documents = tiny.queries["text"].to_list(), tiny.documents["text"].to_list()
    named = [("query", queries), ("passage", documents)] if tied else []
    for expected, (name, texts) in zip(vectors, named, strict=False):
        np.testing.assert_allclose(model.encode(texts, prompt_name=name), expected, atol=1e-5)
    np.testing.assert_allclose(found[0], vectors[0], atol=1e-5)
    np.testing.assert_allclose(found[1], vectors[1], atol=1e-5)
    assert np.abs(model.encode_query(queries, prompt="") - vectors[0]).max() > 0.01
