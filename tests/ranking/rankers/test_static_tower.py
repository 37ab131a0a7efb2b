"""Checkpoints whose queries are read by a table, and documents by a transformer, as sentence-transformers does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import transformers

from pyrite.cluster.runs.trained import ranker_overrides
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.sparse import Sparse
from tests.ranking.checkpoints import tokenizer_of
from tests.ranking.trained import generator

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")
WORDS = ["moles", "dig", "gold", "the", "owls", "of", "a", "in", "tunnels", "under", "night"]
PROMPTS = {"prompts": {"query": "moles dig ", "document": "gold "}}


def queries_by(name: str, bert: str) -> Any:
    """A table of one of the tokenizers: the documents' or another one."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = transformers.AutoTokenizer.from_pretrained(bert) if name == "same" else tokenizer_of("bert", WORDS)
    weights = torch.randn(len(tokenizer), 16, generator=torch.Generator().manual_seed(3))
    return StaticEmbedding(tokenizer, embedding_weights=weights)


def dense(name: str, bert: str, folder: Path) -> Path:
    from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    queries = {"dense": [Dense(16, 5)]}.get(name, [])
    documents = {"dense": [Dense(16, 5)], "one unit": [Normalize()]}.get(name, [])
    after = [Normalize()] if name == "unit, dot" else []
    options: dict[str, Any] = {"prompts": PROMPTS, "unit, dot": {"similarity_fn_name": "dot"}}.get(name, {})
    router = Router.for_query_document(
        [queries_by(name, bert), *queries], [Transformer(bert), Pooling(16, "mean"), *documents]
    )
    library.SentenceTransformer(modules=[router, *after], device="cpu", **options).save(str(folder))
    return folder


def sparse(name: str, bert: str, folder: Path) -> Path:
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    idf = torch.rand(len(tokenizer), generator=torch.Generator().manual_seed(2))
    documents = [Transformer(bert, transformer_task="fill-mask"), SpladePooling("max")]
    queries = SparseStaticEmbedding(tokenizer, idf, frozen=name == "frozen")
    router = Router.for_query_document([queries], documents)
    library.SparseEncoder(modules=[router], device="cpu", similarity_fn_name="dot").save(str(folder))
    return folder


FORMS = {
    **dict.fromkeys(("same", "other", "dense", "one unit", "unit, dot", "prompts"), (BiEncoder, dense)),
    **dict.fromkeys(("sparse", "frozen"), (Sparse, sparse)),
}


def scores(kind: Any, folder: Path | str, tiny: Any) -> tuple[Any, np.ndarray]:
    tokens = kind.tokenization(checkpoint=str(folder)).encode(tiny)
    ranker = kind(str(folder), precision="float32").start(RankerInputs(generator())).eval()
    with torch.no_grad():
        queries, documents = ranker.represent_queries(tokens.queries), ranker.represent_documents(tokens.documents)
        return ranker, (ranker.interact(queries[:, None], documents[None]) / ranker.scale).numpy()


def theirs(kind: Any, folder: Path | str, tiny: Any) -> np.ndarray:
    model = getattr(library, kind.library_class)(str(folder), device="cpu", local_files_only=True)
    queries, documents = tiny.queries["text"].to_list(), tiny.documents["text"].to_list()
    return model.similarity(model.encode_query(queries), model.encode_document(documents)).to_dense().numpy()


@pytest.fixture
def bert(made_up) -> str:
    return str(made_up())


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", FORMS)
def test_scores_are_the_librarys(name, bert, tiny, tmp_path):
    kind, make = FORMS[name]
    folder = make(name, bert, tmp_path / "theirs")
    assert ranker_overrides(str(folder)) == [f"ranker={'sparse' if kind is Sparse else 'bi_encoder'}"]
    ranker, found = scores(kind, folder, tiny)
    np.testing.assert_allclose(found, theirs(kind, folder, tiny), atol=1e-5)
    assert np.abs(found).max() > 1e-3
    ranker.save_pretrained(str(tmp_path / "ours"))
    np.testing.assert_allclose(theirs(kind, tmp_path / "ours", tiny), found, atol=1e-5)
    np.testing.assert_allclose(scores(kind, tmp_path / "ours", tiny)[1], found, atol=1e-6)


@pytest.mark.parametrize("name", ["other", "sparse", "frozen"])
def test_both_towers_are_trained_unless_one_is_fixed(name, bert, tiny, tmp_path):
    kind, make = FORMS[name]
    folder = make(name, bert, tmp_path / "theirs")
    tokens = kind.tokenization(checkpoint=str(folder)).encode(tiny)
    ranker = kind(str(folder), precision="float32").start(RankerInputs(generator())).train()
    found = ranker(tokens.queries.take(np.arange(2)), tokens.documents.take(np.arange(4)))
    (found.sum() + sum(filter(None, [ranker.penalty(9)]))).backward()
    moved = {each.split(".")[0] for each, weight in ranker.named_parameters() if weight.grad is not None}
    assert moved == {"document_tower"} | ({"query_tower"} if name != "frozen" else set())
    trained = [id(weight) for layer in ranker.layers() for weight in layer.parameters() if weight.requires_grad]
    assert sorted(trained) == sorted(id(weight) for weight in ranker.parameters() if weight.requires_grad)
    assert getattr(ranker, "weights", (0.0,))[0] == 0


def test_prompts_of_rows_stand_before_their_queries(bert, tiny, tmp_path):
    folder = str(dense("prompts", bert, tmp_path / "theirs"))
    queries = tiny.queries.with_columns(prompt=pl.lit(None, pl.String))
    tokenization = BiEncoder.tokenization(checkpoint=folder)
    same = tokenization.of_queries(replace(tiny, queries=queries))
    assert np.array_equal(same.tokens, tokenization.encode(tiny).queries.tokens)
    other = queries.with_columns(prompt=pl.lit("owls "))
    moved = tokenization.of_queries(replace(tiny, queries=other))
    assert not np.array_equal(moved.tokens[:3], same.tokens[:3])


def test_a_prompt_of_rows_takes_nothing_from_queries_of_a_table(bert, tiny, tmp_path):
    folder, prompt, found = str(dense("prompts", bert, tmp_path / "theirs")), "owls owls dig ", []
    rows = tiny.queries.with_columns(prompt=pl.lit(prompt))
    for queries, typed in ((tiny.queries, prompt), (rows, None)):
        options = {"checkpoint": folder, "query_prompt": typed, "max_query": 2, "max_document": 9}
        texts = BiEncoder.tokenization(**options).of_queries(replace(tiny, queries=queries))
        found.append(BiEncoder(**options).start(RankerInputs(generator())).represent_queries(texts))
    torch.testing.assert_close(*found)


def test_documents_read_by_a_table_are_one_line(bert, tmp_path):
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    both = Router.for_query_document([queries_by("same", bert)], [queries_by("other", bert)])
    swapped = Router.for_query_document([Transformer(bert), Pooling(16)], [queries_by("same", bert)])
    for number, router in enumerate((both, swapped)):
        folder = str(tmp_path / str(number))
        library.SentenceTransformer(modules=[router], device="cpu").save(folder)
        with pytest.raises(BadInput, match="choose a checkpoint whose documents are read by a transformer"):
            BiEncoder(folder).start(RankerInputs(generator()))


def test_one_tower_for_both_is_refused(bert, tmp_path):
    folder = str(dense("same", bert, tmp_path / "theirs"))
    with pytest.raises(BadInput, match=r"has a tower for queries and one for documents; set ranker\.tied=null"):
        BiEncoder(folder, tied=True).start(RankerInputs(generator()))
