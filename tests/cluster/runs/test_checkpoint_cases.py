"""Checkpoints that users bring, opened as `pyrite rank` opens them: read as their library means them, or refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.ranker_teacher import RankerTeacher
from pyrite.cluster.runs.trained import ranker_overrides, read_ranker
from pyrite.models import as_ranker
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.part import options_of
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.scoring import score_candidates
from tests.ranking.checkpoints import write_checkpoint

library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is in the dev extra")
CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "data"
QUERIES = np.arange(4)
EVERY = np.tile(np.arange(12), (4, 1))
SAVED = {
    "SentenceTransformer": "bi_encoder", "SparseEncoder": "sparse", "MultiVectorEncoder": "late_interaction",
    "CrossEncoder": "cross_encoder",
}  # fmt: skip


def words_of(tiny: Collection) -> list[str]:
    return sorted({word for text in [*tiny.documents["text"], *tiny.queries["text"]] for word in text.split()})


@pytest.fixture
def bert(tiny, tmp_path) -> str:
    """A BERT with a head for one score, and a token for masks."""
    folder = write_checkpoint(tmp_path / "bert", "bert", [*words_of(tiny), "[unused0]", "[unused1]"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.mask_token = "[UNK]"
    tokenizer.save_pretrained(folder)
    return folder


def ours(folder: Path | str, tiny: Collection, encoded: EncodedCollection, **options: Any) -> np.ndarray:
    trained = read_ranker(str(folder), {"_target_": options.pop("kind"), **options} if options else None, gpu=False)
    return score_candidates(trained.ranker, trained.read(tiny, encoded), QUERIES, EVERY)


def theirs(kind: str, folder: Path | str, tiny: Collection) -> np.ndarray:
    model = getattr(library, kind)(str(folder), device="cpu", local_files_only=True)
    queries, documents = tiny.queries["text"].to_list()[:4], tiny.documents["text"].to_list()
    if kind == "CrossEncoder":
        pairs = [(query, document) for query in queries for document in documents]
        return model.predict(pairs, activation_fn=torch.nn.Identity()).reshape(4, 12, -1)
    return model.similarity(model.encode_query(queries), model.encode_document(documents)).numpy()


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("kind", "name"), SAVED.items())
def test_what_the_library_saves_is_opened_by_its_kind(kind, name, bert, tiny, tiny_encoded, tmp_path):
    folder = str(tmp_path / "saved")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        if kind == "SparseEncoder":
            transformers.BertForMaskedLM.from_pretrained(bert).save_pretrained(bert)
        getattr(library, kind)(bert, device="cpu", local_files_only=True).save(folder)
    assert ranker_overrides(folder) == [f"ranker={name}"]
    scale = 20 if name == "bi_encoder" else 1
    expected = theirs(kind, folder, tiny).reshape(4, 12)
    np.testing.assert_allclose(ours(folder, tiny, tiny_encoded) / scale, expected, atol=3e-6, rtol=1e-6)


def test_a_model_of_the_library_is_a_ranker(bert, tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.models.default_cache", lambda: tmp_path / "cache")
    models = [library.SentenceTransformer(bert, device="cpu", local_files_only=True) for _ in range(2)]
    one, same = map(as_ranker, models)
    assert type(one) is type(same) is BiEncoder
    assert options_of(one) == options_of(same)
    assert Path(options_of(one)["checkpoint"]).parent == tmp_path / "cache" / "models"
    with torch.no_grad():
        next(models[0].parameters()).add_(1)
    assert options_of(as_ranker(models[0])) != options_of(one)
    assert read_ranker(options_of(one)["checkpoint"], gpu=False).ranker.drawn == []
    model = library.CrossEncoder(bert, device="cpu", local_files_only=True)
    assert type(as_ranker(model)) is CrossEncoder


@pytest.mark.by_day(1)
@pytest.mark.parametrize("labels", [["no", "yes"], ["contradiction", "entailment", "neutral"], list("abcde")])
def test_a_head_with_several_labels_needs_a_choice(labels, bert, tiny, tiny_sources, tmp_path):
    config = transformers.AutoConfig.from_pretrained(bert, id2label=dict(enumerate(labels)))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = transformers.AutoModelForSequenceClassification.from_config(config)
    shutil.copytree(bert, tmp_path / "labels")
    model.save_pretrained(tmp_path / "labels")
    with pytest.raises(BadInput, match=rf"{len(labels)} labels.*ranker\.label=0 \({labels[0]}\)"):
        read_ranker(str(tmp_path / "labels"))
    kind = "pyrite.ranking.rankers.cross_encoder.CrossEncoder"
    logits = torch.from_numpy(theirs("CrossEncoder", tmp_path / "labels", tiny))
    for label in (1, labels[1]):
        found = ours(tmp_path / "labels", tiny, tiny_sources.encoded, kind=kind, label=label)
        np.testing.assert_allclose(found, logits.log_softmax(-1)[..., 1].numpy(), atol=3e-6)
        teacher = RankerTeacher(str(tmp_path / "labels"), label=label)
        np.testing.assert_array_equal(teacher.own_scores(tiny_sources, QUERIES, EVERY), found)
    for label, says in (("maybe", "no label 'maybe'"), (len(labels), "no label"), ("new", "classifier.weight")):
        with pytest.raises(BadInput, match=says):
            ours(tmp_path / "labels", tiny, tiny_sources.encoded, kind=kind, label=label)


@pytest.mark.parametrize("name", ["cross_encoder.CrossEncoder", "late_interaction.LateInteraction", "sparse.Sparse"])
def test_a_checkpoint_without_a_head_is_refused(name, bert, tmp_path):
    shutil.copytree(bert, tmp_path / "body")
    transformers.AutoModel.from_pretrained(bert).save_pretrained(tmp_path / "body")
    with pytest.raises(BadInput, match=r"has no .*random.*pyrite train"):
        read_ranker(str(tmp_path / "body"), {"_target_": f"pyrite.ranking.rankers.{name}"})


@pytest.mark.parametrize("metadata", [None, {"doc_maxlen": 200, "mask_punctuation": False}, {"query_maxlen": 12}])
def test_stanfords_colbert_keeps_its_projection(metadata, bert, tiny, tiny_encoded):
    from safetensors.torch import load_file, save_file

    folder = Path(bert)
    weights = load_file(folder / "model.safetensors")
    projection = torch.randn(6, 16, generator=torch.Generator().manual_seed(1))
    save_file(weights | {"linear.weight": projection}, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["HF_ColBERT"]}))
    if metadata is not None:
        (folder / "artifact.metadata").write_text(json.dumps(metadata))
    assert ranker_overrides(bert) == ["ranker=late_interaction"]
    expected = theirs("MultiVectorEncoder", bert, tiny)
    np.testing.assert_allclose(ours(bert, tiny, tiny_encoded), expected, atol=1e-5, rtol=1e-6)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["mt5", "umt5", "sentence-t5"])
def test_encoders_of_encoder_decoders(name, bert, tiny, tiny_encoded, tmp_path):
    sizes: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    made = {"mt5": transformers.MT5Config, "umt5": transformers.UMT5Config}.get(name, transformers.T5Config)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    folder = str(tmp_path / name)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = made(vocab_size=len(tokenizer), decoder_start_token_id=0, **sizes)
        transformers.AutoModel.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if name == "sentence-t5":
            from sentence_transformers.base.modules import Dense, Normalize, Transformer
            from sentence_transformers.sentence_transformer.modules import Pooling

            modules = [Transformer(folder), Pooling(16), Dense(16, 8, bias=False), Normalize()]
            folder = str(tmp_path / "modules")
            library.SentenceTransformer(modules=modules, device="cpu").save(folder)
    expected = theirs("SentenceTransformer", folder, tiny)
    np.testing.assert_allclose(ours(folder, tiny, tiny_encoded) / 20, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["mpnet", "t5enc", "st_trunc", "stanford_colbert", "bert_ce3"])
def test_cases_kept_outside(name, tiny, tiny_encoded):
    folder = CASES / f"checkpoint_{name}"
    if not folder.is_dir():
        pytest.skip("needs the checkpoints in ../shared/cases, which are not on this machine")
    if name == "bert_ce3":
        with pytest.raises(BadInput, match="3 labels"):
            read_ranker(str(folder))
        return
    kind, scale, error = ("MultiVectorEncoder", 1, 1e-5) if "colbert" in name else ("SentenceTransformer", 20, 1e-6)
    np.testing.assert_allclose(ours(folder, tiny, tiny_encoded) / scale, theirs(kind, folder, tiny), atol=error)


def quantized(folder: Path) -> None:
    change(folder, {"quantization_config": {"load_in_4bit": True, "quant_method": "bitsandbytes"}})


def own_code(folder: Path) -> None:
    change(folder, {"model_type": "mybert", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}})


def change(folder: Path, content: dict[str, Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | content))


def more_tokens(folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"further{number}" for number in range(9)])
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (quantized, r"its weights are quantized \(bitsandbytes\); save it in float32"),
        (own_code, "its architecture mybert is code in its folder, which is not run; choose a checkpoint of an arch"),
        (more_tokens, r"its tokenizer has \d+ tokens and its table \d+; save it with the tokenizer"),
    ],
)
@pytest.mark.parametrize("kind", ["cross_encoder.CrossEncoder", "bi_encoder.BiEncoder"])
def test_what_no_ranker_can_run_is_one_line(kind, harm, says, bert):
    harm(Path(bert))
    with pytest.raises(BadInput, match=says):
        read_ranker(bert, {"_target_": f"pyrite.ranking.rankers.{kind}"})


def test_a_folder_with_two_towers_is_read_with_two(bert, tiny, tiny_encoded, tmp_path):
    from sentence_transformers.base.modules import Normalize, Router, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    router = Router.for_query_document(
        [Transformer(bert), Pooling(16, "cls")], [Transformer(bert), Pooling(16, "mean")]
    )
    library.SentenceTransformer(modules=[router, Normalize()], device="cpu").save(str(tmp_path / "two"))
    assert ranker_overrides(str(tmp_path / "two")) == ["ranker=bi_encoder"]
    expected = theirs("SentenceTransformer", tmp_path / "two", tiny)
    np.testing.assert_allclose(ours(tmp_path / "two", tiny, tiny_encoded) / 20, expected, atol=1e-6)


def test_a_stack_of_dense_layers_of_pylate_is_late_interaction(bert, tiny, tiny_encoded, tmp_path):
    from safetensors.torch import save_file

    folder = Path(bert)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    generator = torch.Generator().manual_seed(1)
    for number, (wide, narrow) in enumerate(((16, 12), (12, 6)), 1):
        place = folder / f"{number}_Dense"
        place.mkdir()
        names = ["linear.weight"] + ["residual.weight"] * (number == 2)
        save_file({name: torch.randn(narrow, wide, generator=generator) for name in names}, place / "model.safetensors")
        content = {
            "in_features": wide, "out_features": narrow, "bias": False, "use_residual": number == 2,
            "activation_function": "torch.nn.modules.linear.Identity",
        }  # fmt: skip
        (place / "config.json").write_text(json.dumps(content))
        modules.append({"idx": number, "name": str(number), "path": place.name, "type": "pylate.models.Dense.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 38, "do_lower_case": False}))
    declared = {"similarity_fn_name": "MaxSim", "query_length": 16, "document_length": 30, "do_query_expansion": True}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(declared))
    assert ranker_overrides(bert) == ["ranker=late_interaction"]
    expected = theirs("MultiVectorEncoder", bert, tiny)
    np.testing.assert_allclose(ours(bert, tiny, tiny_encoded), expected, atol=1e-5, rtol=1e-6)


def test_declared_prompts_that_are_not_used_are_named(bert, tiny, tiny_encoded, tmp_path, caplog):
    prompts = {"retrieval.query": "gold ", "retrieval.passage": "owls "}
    model = library.SentenceTransformer(bert, device="cpu", local_files_only=True, prompts=prompts)
    model.save(str(tmp_path / "named"), create_model_card=False)
    plain = ours(tmp_path / "named", tiny, tiny_encoded)
    assert "declares the prompts retrieval.passage, retrieval.query, and none of them is used" in caplog.text
    kind = "pyrite.ranking.rankers.bi_encoder.BiEncoder"
    caplog.clear()
    named = ours(tmp_path / "named", tiny, tiny_encoded, kind=kind, query_prompt="retrieval.query")
    assert "none of them is used" not in caplog.text
    assert np.abs(named - plain).max() > 1e-3
    options = compose(["checkpoint=x", "collection=pydocs", "ranker.query_prompt=retrieval.query"], "rank")["ranker"]
    trained = read_ranker(str(tmp_path / "named"), options, gpu=False)  # as the line says
    again = score_candidates(trained.ranker, trained.read(tiny, tiny_encoded), QUERIES, EVERY)
    np.testing.assert_array_equal(again, named)
    pairs = {"query": "gold ", "other": "owls "}
    library.CrossEncoder(bert, device="cpu", local_files_only=True, prompts=pairs).save(str(tmp_path / "pairs"))
    ours(tmp_path / "pairs", tiny, tiny_encoded)
    assert "declares the prompts other, query, and none of them is used: ranker.query_prompt=NAME" in caplog.text


def test_a_router_with_other_routes_is_refused(bert, tmp_path):
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    towers = {name: [Transformer(bert), Pooling(16, "mean")] for name in ("question", "answer")}
    model = library.SentenceTransformer(modules=[Router(towers, default_route="answer")], device="cpu")
    model.save(str(tmp_path / "two"), create_model_card=False)
    with pytest.raises(BadInput, match=r"Router has no route document \(it has question, answer\); save it by"):
        read_ranker(str(tmp_path / "two"))
