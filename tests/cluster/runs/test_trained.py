"""Which ranker a checkpoint is, by its files alone, and trained rankers as teachers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load, save
from tokenizers import Tokenizer, models, pre_tokenizers

import pyrite
from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.measure import kept_weights
from pyrite.cluster.runs.ranker_teacher import RankerTeacher
from pyrite.cluster.runs.trained import ranker_overrides, read_ranker
from pyrite.ranking.errors import BadInput
from pyrite.ranking.labels import LabelCounts
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.trec_files import read_run
from pyrite.sampling.retrieval.embedding import Embedding
from tests.ranking.trained import equal

MODULE = "sentence_transformers.models."


def checkpoint(folder: Path, model_type: str, architecture: str | None, words: tuple[str, ...] = ()) -> str:
    """A folder that says what it is, with a tokenizer where there are words."""
    folder.mkdir(exist_ok=True)
    said = {"model_type": model_type} | ({"architectures": [architecture]} if architecture else {})
    (folder / "config.json").write_text(json.dumps(said))
    if words:
        numbers = {word: number for number, word in enumerate(["<u>", *words])}
        inner = Tokenizer(models.WordLevel(numbers, unk_token="<u>"))
        inner.pre_tokenizer = pre_tokenizers.Whitespace()
        transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<u>").save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("model_type", "architecture", "wanted"),
    [
        ("bert", "BertForSequenceClassification", ["ranker=cross_encoder"]),
        ("roberta", "RobertaForSequenceClassification", ["ranker=cross_encoder"]),
        ("bert", "BertModel", ["ranker=bi_encoder"]),
        ("bert", None, ["ranker=bi_encoder"]),
        ("llama", "LlamaForSequenceClassification", ["ranker=cross_encoder"]),
        ("qwen3", "Qwen3Model", ["ranker=bi_encoder", "ranker.pooling=last"]),
        ("model2vec", None, ["ranker=static"]),
    ],
)
def test_a_config_says_it(model_type, architecture, wanted, tmp_path):
    assert ranker_overrides(checkpoint(tmp_path, model_type, architecture)) == wanted


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        (["StaticEmbedding"], "static"),
        (["Transformer", "Dense"], "late_interaction"),
        (["Transformer", "Pooling", "Normalize"], "bi_encoder"),
    ],
)
def test_modules_say_it_first(kinds, wanted, tmp_path):
    checkpoint(tmp_path, "llama", "LlamaForCausalLM")
    (tmp_path / "modules.json").write_text(json.dumps([{"type": MODULE + kind} for kind in kinds]))
    assert ranker_overrides(str(tmp_path)) == [f"ranker={wanted}"]


def test_a_language_model_without_yes_and_no_is_refused(tmp_path):
    with pytest.raises(BadInput, match="neither yes nor no is one token"):
        read_ranker(checkpoint(tmp_path / "mute", "llama", "LlamaForCausalLM", ("maybe",)))
    with pytest.raises(BadInput, match=r"holds rankers, and is none itself; name one, as .*/mute$"):
        ranker_overrides(str(tmp_path))
    with pytest.raises(BadInput, match=r"is a file, and a checkpoint is a folder; name the folder, as .*/mute$"):
        ranker_overrides(str(tmp_path / "mute" / "config.json"))
    with pytest.raises(BadInput, match="no such run"):
        ranker_overrides("nowhere")
    assert ranker_overrides("somebody/something") == ["ranker=bi_encoder"]  # at the hub


def test_a_language_model_ranks_by_yes_and_no(beir_folder, own_cache, tmp_path):
    folder = tmp_path / "llama"
    checkpoint(folder, "llama", "LlamaForCausalLM", ("yes", "no", "Query", "Document", "Relevant", ":", "gold", "owls"))
    sizes: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 9}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2)
        transformers.LlamaForCausalLM(config).save_pretrained(folder)
    ranker = read_ranker(str(folder), gpu=False).ranker
    assert isinstance(ranker, CrossEncoder)
    [score] = ranker.head
    assert (score.true_token_id, score.false_token_id) == (1, 2)
    options = ["collection=beir", f"collection.path={beir_folder}", "measures=[AP@10]", f"out={tmp_path / 'out.run'}"]
    assert read_run(pyrite.rank(str(folder), options))["score"].n_unique() > 1


def test_a_checkpoint_scores_as_it_does_elsewhere_and_guards_and_teaches_by_its_path(small_bert, tiny_sources):
    teacher, queries = RankerTeacher(small_bert), np.arange(3)
    documents = np.array([[0, 5, -1], [7, 1, 2], [3, 3, 4]], np.int32)
    found = teacher.own_scores(tiny_sources, queries, documents)
    expected = Embedding(checkpoint=small_bert).own_scores(tiny_sources, queries, documents)
    assert found[0, 2] == -np.inf
    np.testing.assert_allclose(found[documents >= 0], expected[documents >= 0], atol=1e-3)
    assert len(np.unique(found[documents >= 0])) > 4
    given = [f"guard.ranker={small_bert}", "guard.relative=0.1"]
    guard = build(compose(given)["guard"], "guard", trust="composed")
    assert isinstance(guard.ranker, RankerTeacher)
    assert guard.ranker.checkpoint == small_bert
    teacher = build(compose(["teacher=ranker", f"teacher.checkpoint={small_bert}"])["teacher"], trust="composed")
    assert isinstance(teacher, RankerTeacher)


def test_the_current_folder_may_be_the_checkpoint(small_bert, monkeypatch):
    monkeypatch.chdir(small_bert)
    assert read_ranker(".", gpu=False).name == Path(small_bert).name


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", '{"model_type":'),
        ("config.json", "[]"),
        ("modules.json", "{}"),
        ("w.json", "{"),
        ("w.json", "[]"),
    ],
)
def test_half_a_checkpoint_is_refused_in_one_line(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    (tmp_path / "w.safetensors").touch()
    place = tmp_path / "w.safetensors" if name == "w.json" else tmp_path
    with pytest.raises(BadInput, match=r"holds no checkpoint that can be read|w\.json: does not describe weights"):
        read_ranker(str(place))


def test_kept_weights_can_be_saved_and_do_not_change_with_the_ranker(small_bert):
    """Of two tied towers, which share their weights; categories make it no checkpoint of its own."""
    ranker = BiEncoder(small_bert, layers=1, categories=True).start(
        RankerInputs(torch.Generator(), labels=LabelCounts(2, 3))
    )
    kept = kept_weights(ranker)
    saved = load(save(kept))
    with torch.no_grad():
        for weight in ranker.parameters():
            weight += 1
    assert equal(kept, saved)
    ranker.load_state_dict(saved)


def test_the_remedy_for_a_place_without_a_ranker_names_one_that_can_be_there(tmp_path):
    (tmp_path / "minilm").mkdir()
    (tmp_path / "pairs.csv").write_text("query,passage\n")
    with pytest.raises(BadInput, match=r"no such run or checkpoint; did you mean .*/minilm\?$"):
        ranker_overrides(str(tmp_path / "mini-lm"))
    with pytest.raises(BadInput, match=r"a folder; name a folder of `pyrite train weights=true`, or that"):
        ranker_overrides(str(tmp_path / "pairs.csv"))
