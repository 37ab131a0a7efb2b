"""Late interaction: scores as in sentence-transformers, folders of all kinds, and the contract of its neighbours."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.late_interaction import LateInteraction
from pyrite.ranking.ranks import ranks_in
from pyrite.ranking.scoring import score_candidates
from tests.ranking.trained import (
    LISTS,
    QUERIES,
    Reader,
    assert_in_layers,
    from_checkpoint,
    generator,
    gradients,
    in_training,
    losses,
    texts_for,
)

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")
ranker = partial(from_checkpoint, LateInteraction, dimension=6)
encoded = partial(texts_for, LateInteraction, dimension=6)


def theirs(folder: str, tiny: Collection) -> np.ndarray:
    """Scores by sentence-transformers."""
    model = library.MultiVectorEncoder(folder, device="cpu", local_files_only=True)
    queries = model.encode_query(tiny.queries["text"].to_list()[:4])
    documents = model.encode_document(tiny.documents["text"].to_list())
    return np.take_along_axis(model.similarity(queries, documents).numpy(), LISTS.astype(np.int64), 1)


def ours(folder: str, read_as: Reader, **options: Any) -> tuple[LateInteraction, np.ndarray]:
    made = LateInteraction(folder, **options).start(RankerInputs(generator(9)))
    texts = read_as(LateInteraction.tokenization(checkpoint=folder, **options))
    return made, score_candidates(made, texts, QUERIES, LISTS)


@pytest.mark.parametrize(("kind", "expansion"), [("bert", True), ("roberta", True), ("bert", False)])
def test_scores_are_those_of_the_library_and_a_folder_brings_them_back(
    kind, expansion, made_up, read_as, tiny, tmp_path
):
    made = ranker(made_up(kind), expansion=expansion)
    scores = score_candidates(made, encoded(read_as, made_up(kind)), QUERIES, LISTS)
    folder = str(tmp_path / "colbert")
    made.save_pretrained(folder)
    np.testing.assert_allclose(scores, theirs(folder, tiny), atol=2e-6)
    again, same = ours(folder, read_as)  # lengths, marks and projection are the folder's
    assert not again.drawn
    assert (again.max_query, again.max_document, again.expansion is not None) == (8, 12, expansion)
    np.testing.assert_allclose(same, scores, atol=1e-6)
    np.testing.assert_allclose(ours(folder, read_as, scale=3.0)[1], 3 * scores, rtol=1e-5, atol=1e-5)


FOLDERS: dict[str, dict[str, Any]] = {
    "prompts as text": {"prompts": {"query": "moles dig ", "document": "gold "}},
    "at least": {"query_expansion": {"strategy": "min", "attend": True, "length": 7, "token": "gold"}},
    "deep": {},
    "of tokens": {},
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_the_library_are_read(name, made_up, read_as, tiny, tmp_path):
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    options = dict(FOLDERS[name])
    reader = Transformer(made_up(), query_length=9, document_length=14)
    reader.query_expansion = options.pop("query_expansion", None)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        on: dict[str, Any] = {"module_input_name": "token_embeddings"}
        dense = {"deep": [Dense(16, 8, **on), Dense(8, 8, use_residual=True, **on)], "of tokens": []}.get(
            name, [Dense(16, 8, bias=False, activation_function=None, **on)]
        )
    modules = [reader, *dense, MultiVectorMask(skiplist_words=["gold", "dig"]), Normalize("token_embeddings")]
    library.MultiVectorEncoder(modules=modules, device="cpu", **options).save(str(tmp_path / "theirs"))
    made, scores = ours(str(tmp_path / "theirs"), read_as)
    np.testing.assert_allclose(scores, theirs(str(tmp_path / "theirs"), tiny), atol=2e-6)
    made.save_pretrained(str(tmp_path / "ours"))
    np.testing.assert_allclose(ours(str(tmp_path / "ours"), read_as)[1], scores, atol=1e-6)
    np.testing.assert_allclose(theirs(str(tmp_path / "ours"), tiny), scores, atol=2e-6)


@pytest.mark.parametrize("expansion", [True, False])
def test_a_prompt_of_rows_takes_nothing_from_their_queries(expansion, made_up, tiny, tmp_path):
    from sentence_transformers.base.modules import Normalize, Transformer

    prompt, found = "gold owls gold ", []
    rows = tiny.queries.with_columns(prompt=pl.lit(prompt))
    cases = (("one", prompt, tiny.queries), ("two", "moles dig ", rows), ("three", "dig " * 5, rows))
    for name, of_model, queries in cases:
        modules = [Transformer(made_up()), Normalize("token_embeddings")]
        model = library.MultiVectorEncoder(modules=modules, device="cpu", prompts={"query": of_model})
        model.save(str(tmp_path / name))
        options = {"max_query": 3, "max_document": 9}
        tokens = LateInteraction.tokenization(checkpoint=str(tmp_path / name), **options)
        made = LateInteraction(str(tmp_path / name), expansion=expansion, **options).start(RankerInputs(generator(9)))
        found.append(made.represent_queries(tokens.of_queries(tiny.changed(queries=queries))))
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def write_pylate(folder: Path, checkpoint: str) -> None:
    """A folder as PyLate 3 writes it: tokens as prefixes, a transformer and a projection."""
    shutil.copytree(checkpoint, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModel.from_pretrained(checkpoint)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    tokenizer.mask_token = "[UNK]"
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "1_Dense").mkdir()
    save_file({"linear.weight": torch.randn(6, 16)}, folder / "1_Dense" / "model.safetensors")
    sizes = {"in_features": 16, "out_features": 6, "bias": False, "use_residual": False}
    kind = {"activation_function": "torch.nn.modules.linear.Identity"}
    (folder / "1_Dense" / "config.json").write_text(json.dumps(sizes | kind))
    listed = [("", "sentence_transformers.models.Transformer"), ("1_Dense", "pylate.models.Dense.Dense")]
    modules = [{"idx": n, "name": str(n), "path": path, "type": kind} for n, (path, kind) in enumerate(listed)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 14, "do_lower_case": False}))
    declared = {"model_type": "ColBERT", "query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 9,
                "document_length": 14, "skiplist_words": ["gold"]}  # fmt: skip
    (folder / "config_sentence_transformers.json").write_text(json.dumps(declared))


def write_stanford(folder: Path, checkpoint: str) -> None:
    """A folder of Stanford's ColBERT: the projection is among the transformer's weights."""
    shutil.copytree(checkpoint, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    tokenizer.mask_token = "[UNK]"
    tokenizer.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors") | {"linear.weight": torch.randn(6, 16)}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    stanford = {"query_maxlen": 9, "doc_maxlen": 14, "query_token_id": "moles", "doc_token_id": "gold"}
    (folder / "artifact.metadata").write_text(json.dumps(stanford))


@pytest.mark.parametrize("write", [write_pylate, write_stanford])
def test_older_folders_keep_their_projection(write, made_up, read_as, tiny, tmp_path):
    folder = tmp_path / "theirs"
    with torch.random.fork_rng():
        torch.manual_seed(1)
        write(folder, made_up())
    made, scores = ours(str(folder), read_as)
    assert (made.drawn, made.dimension, made.max_query, made.max_document) == ([], 6, 6, 11)
    np.testing.assert_allclose(scores, theirs(str(folder), tiny), atol=2e-6)
    made.save_pretrained(str(tmp_path / "ours"))
    np.testing.assert_allclose(ours(str(tmp_path / "ours"), read_as)[1], scores, atol=1e-6)


def test_all_at_once_is_as_one_by_one(made_up, read_as):
    """Whatever is read together, and whether vectors are copied to their places or compared with all."""
    texts = encoded(read_as, made_up())
    made = ranker(made_up())
    with torch.no_grad():
        of_queries, of_documents = made.represent_queries(texts.queries), made.represent_documents(texts.documents)
        few = torch.tensor([[0, 1], [2, 3], [4, 5]])
        many = torch.arange(12).repeat(3, 1)
        one = made.compare(of_queries[:3], of_documents, few)
        whole = made.compare(of_queries[:3], of_documents, many)
    torch.testing.assert_close(one, whole.gather(1, few))
    for budget in (1, 30):
        torch.testing.assert_close(ranker(made_up(), budget=budget).represent_documents(texts.documents), of_documents)
    nothing = made.represent_documents(texts.documents.take(np.zeros(0, np.int64)))
    assert (len(nothing), nothing.shape[2]) == (0, 6)


def test_ranks_among_all_documents_are_those_of_its_scores(made_up, read_as):
    texts, made = encoded(read_as, made_up()), ranker(made_up())
    scores = score_candidates(made, texts, QUERIES[:2], np.tile(np.arange(12, dtype=np.int32), (2, 1)))
    ranks = ranks_in(made, texts, QUERIES[:2], LISTS[:2], np.arange(12), documents=5)
    for row, documents in enumerate(LISTS[:2]):
        for place, document in enumerate(documents):
            assert abs(int((scores[row] > scores[row, document] + 1e-5).sum()) + 1 - ranks[row, place]) <= int(
                (np.abs(scores[row] - scores[row, document]) < 1e-5).sum() - 1
            )


def test_no_weight_is_left_untrained_and_it_learns(made_up, read_as, tiny_sources):
    texts, made = encoded(read_as, made_up()), ranker(made_up())
    assert gradients(in_training(made, texts, tiny_sources)).keys() == {name for name, _ in made.named_parameters()}
    assert_in_layers(made)
    first, *_, last = losses(in_training(ranker(made_up()), texts, tiny_sources, lr=0.02), 12)
    assert last < 0.8 * first


def test_a_bi_encoder_gets_a_projection(made_up, tmp_path):
    BiEncoder(made_up(), max_query=8, max_document=12).start(RankerInputs(generator())).save_pretrained(
        str(tmp_path / "bi")
    )
    assert ranker(str(tmp_path / "bi")).drawn == ["projection.weight"]
    ranker(made_up()).save_pretrained(str(tmp_path / "colbert"))
    with pytest.raises(BadInput, match="dimension=null"):
        ranker(str(tmp_path / "colbert"), dimension=5)
