"""Adapters of peft that users bring: read as their base model with the adapter merged into it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from pyrite.cluster.runs.trained import ranker_overrides, read_ranker
from pyrite.ranking import adapters
from pyrite.ranking.adapters import merged_adapter
from pyrite.ranking.digest import files_of
from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub_tokenizers import local_root
from pyrite.ranking.scoring import score_candidates
from tests.ranking.trained import LISTS, QUERIES

peft = pytest.importorskip("peft")
library = pytest.importorskip("sentence_transformers")


@pytest.fixture(autouse=True)
def own_models(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("pyrite.ranking.adapters.default_cache", lambda: tmp_path / "cache")


def adapted(base: str, folder: Path, kind: str = "AutoModel", **options: Any) -> str:
    """Write an adapter of a base model, with weights other than none."""
    lora = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False, **options)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = peft.get_peft_model(getattr(transformers, kind).from_pretrained(base), lora)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return str(folder)


def scores(folder: str, tiny: Any, encoded: Any) -> np.ndarray:
    trained = read_ranker(folder, gpu=False)
    return score_candidates(trained.ranker, trained.read(tiny, encoded), QUERIES, LISTS)


def embedded(folder: str, tiny: Any) -> np.ndarray:
    model = library.SentenceTransformer(folder, device="cpu", local_files_only=True)
    queries, documents = (model.encode(frame["text"].to_list()) for frame in (tiny.queries, tiny.documents))
    return 20 * np.take_along_axis(np.asarray(model.similarity(queries[:4], documents)), LISTS.astype(np.int64), 1)


@pytest.mark.parametrize("saved_by", ["peft", "sentence-transformers"])
def test_an_adapter_scores_as_the_library_has_it(saved_by, made_up, tiny, tiny_encoded, tmp_path):
    folder = adapted(made_up(), tmp_path / "adapter")
    if saved_by == "sentence-transformers":
        model = library.SentenceTransformer(made_up(), device="cpu", local_files_only=True)
        with torch.random.fork_rng():
            torch.manual_seed(2)
            model.add_adapter(peft.LoraConfig(r=4, target_modules=["query"], init_lora_weights=False))
        folder = str(tmp_path / "saved")
        model.save(folder, create_model_card=False)
    assert ranker_overrides(folder) == ["ranker=bi_encoder"]
    found = scores(folder, tiny, tiny_encoded)
    np.testing.assert_allclose(found, embedded(folder, tiny), atol=1e-4)
    assert np.abs(found - scores(made_up(), tiny, tiny_encoded)).max() > 1e-3


def test_an_adapter_of_a_cross_encoder_keeps_its_head(made_up, tiny, tiny_encoded, tmp_path):
    folder = adapted(made_up(), tmp_path / "adapter", "AutoModelForSequenceClassification", task_type="SEQ_CLS")
    assert ranker_overrides(folder) == ["ranker=cross_encoder"]
    found = scores(folder, tiny, tiny_encoded)
    model = library.CrossEncoder(local_root(folder), device="cpu", local_files_only=True)
    pairs = [(tiny.queries["text"][q], tiny.documents["text"][int(d)]) for q, row in enumerate(LISTS) for d in row]
    expected = model.predict(pairs, activation_fn=torch.nn.Identity()).reshape(LISTS.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - scores(made_up(), tiny, tiny_encoded)).max() > 1e-4


def test_another_base_model_in_its_folder_is_another_checkpoint(made_up, tmp_path):
    base = shutil.copytree(made_up(), tmp_path / "base")
    folder = adapted(str(base), tmp_path / "adapter")
    merged, digests = merged_adapter(Path(folder)), files_of({"checkpoint": folder})
    assert files_of({"checkpoint": folder}) == digests
    weights = base / "model.safetensors"
    tensors = {name: 1.5 * tensor for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, {"format": "pt"})  # trained further
    assert files_of({"checkpoint": folder}) != digests
    assert merged_adapter(Path(folder)) != merged


def test_it_is_merged_once_and_again_if_it_changes(made_up, tmp_path, caplog):
    folder = Path(adapted(made_up(), tmp_path / "adapter"))
    first = merged_adapter(folder)
    assert "the adapter is merged into its base model" in caplog.text
    assert merged_adapter(folder) == first
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 99}))
    assert merged_adapter(folder) != first


def test_it_is_merged_again_if_the_tokenizer_of_its_base_changes(made_up, tmp_path):
    base = Path(shutil.copytree(made_up(), tmp_path / "base"))
    folder = Path(adapted(str(base), tmp_path / "adapter"))
    first = merged_adapter(folder)
    config = json.loads((base / "tokenizer_config.json").read_text())
    (base / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": 17}))
    adapters._merged.cache_clear()  # as in another process
    assert merged_adapter(folder) != first


def test_two_processes_may_merge_it_at_once(made_up, tmp_path, monkeypatch):
    folder = Path(adapted(made_up(), tmp_path / "adapter"))
    write, places = adapters._write_whole, []

    def second(adapter: Path, base: Path, config: dict[str, Any], made: Path) -> None:
        write(adapter, base, config, made)
        if not places:  # the other process is done meanwhile
            places.append("this one writes")
            adapters._merged.cache_clear()
            places[0] = merged_adapter(folder)

    monkeypatch.setattr(adapters, "_write_whole", second)
    assert merged_adapter(folder) == places[0]
    assert read_ranker(str(places[0]), gpu=False)


def test_the_base_model_may_be_next_to_it(made_up, tmp_path):
    shutil.copytree(made_up(), tmp_path / "base")
    folder = adapted(str(tmp_path / "base"), tmp_path / "adapter")
    shutil.copytree(tmp_path, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("elsewhere", "cache"))
    shutil.rmtree(tmp_path / "base")
    assert merged_adapter(tmp_path / "elsewhere" / "adapter").is_dir()
    with pytest.raises(BadInput, match=r"its base model .*/base is not here; put it there") as caught:
        merged_adapter(Path(folder))
    shutil.copytree(tmp_path / "elsewhere" / "base", str(caught.value).rpartition(" as ")[2])  # the remedy
    assert merged_adapter(Path(folder)).is_dir()


def test_what_is_no_whole_adapter_is_one_line(made_up, tmp_path):
    folder = Path(adapted(made_up(), tmp_path / "adapter"))
    weights = folder / "adapter_model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(b"nothing")
    with pytest.raises(BadInput, match="can't be merged"):
        merged_adapter(folder)
    weights.unlink()
    with pytest.raises(BadInput, match="pickles are not read"):
        merged_adapter(folder)
    weights.write_bytes(whole)
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(BadInput, match="names no base model"):
        merged_adapter(folder)
