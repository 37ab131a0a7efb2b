"""Words of other tools, each followed by what the message suggests until a command is accepted."""

import dataclasses
import importlib
import inspect
import re
import shlex

import pytest
import torch

from pyrite import Guard, mine
from pyrite.cluster.commands.verbs import parse
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.other_names import OF_STUDY, suggestion
from pyrite.cluster.config.other_tools import ADVICE, CONVERTED, FLAGS, LEFT_OUT, OF_VALUE, SAME_VALUE
from pyrite.cluster.config.override import key_of
from pyrite.ranking.errors import BadInput
from tests.examples import NIGHTLY

PAIRS = ["collection=pairs", "collection.path=pairs.csv"]
VERBS = {
    "study": ["ranker=bi_encoder", "ranker.checkpoint=FOLDER"],
    "train": ["ranker=static"],
    "mine": ["checkpoint=FOLDER"],
    "rank": ["checkpoint=FOLDER"],
}
"""Verbs in which the words are typed, and the beginning of their commands."""
SPECIAL = {"model", "seeds", "samples"}
"""Names that a rule reads, not a table."""
VALUES = {
    "adam_beta1": "0.8", "adam_beta2": "0.95", "anchor_column_name": "question", "positive_column_name": "answer",
    "cross_encoder": "/a/folder", "dtype": "bfloat16", "torch_dtype": "float16", "eval_strategy": "steps",
    "save_strategy": "steps", "index_factory": "HNSW32", "loss": "mnrl", "loss_function": "softmax",
    "lr_scheduler": "linear", "lr_scheduler_type": "cosine", "metric": "nDCG@10", "eval_metric": "nDCG@10",
    "early_stopping_metric": "nDCG@10", "metric_for_best_model": "nDCG@10", "metrics": "[nDCG@10]",
    "model": "/a/folder", "mrl_dims": "[128,64]", "optim": "adamw_torch", "output_format": "triplet",
    "sampler": "top", "sampling_strategy": "random", "seeds": "5", "num_seeds": "5", "tokenizer": "characters",
    "wandb": "wandb", "tracker": "wandb", "report_to": "wandb", "pooling": "cls", "pooling_method": "cls",
    "pooling_mode": "mean", "sentence_pooling_method": "cls", "torch_compile": "True",
    "gradient_checkpointing": "true", "activation_checkpointing": "true", "relative_margin": "0.05", "ratio": "0.95",
    "margin_ratio": "0.95", "percent": "0.95", "hn_filter_ratio": "0.95", "teacher_model": "/a/folder",
    "guide": "/a/folder", "model_type": "cross-encoder", "retrieval_method": "bm25", "precision": "bfloat16",
    "reranker_name_or_path": "/a/folder", "lora_target_modules": "q_proj,k_proj", "matryoshka_dims": "[128,64]",
    "query_pooling_strategy": "mean", "doc_pooling_strategy": "cls", "logger": "wandb",
    "range_for_sampling": "2-200", "warmup_ratio": "0.1", "learning_rate": "2e-5",
}  # fmt: skip
"""Values of words; of others `VALUE`, or true if they are switched on."""
ALSO_HERE = {
    "alpha", "beta", "eps", "gamma", "k", "mu", "sigma", "threshold", "scale", "size_average",
    "args", "kwargs", "self", "sentences", "distance_metric", "modules", "pool", "margin",
}  # fmt: skip
"""Parameters of losses with the names of options here, or that are no words."""
VALUE = "2"
WORDS = sorted({*SAME_VALUE, *ADVICE, *CONVERTED, *OF_VALUE, *LEFT_OUT, *SPECIAL})
HINT = re.compile(r"(?:did you mean|write|give) ((?:\+?[\w.]+=\S+ ?)+?)$")


def composed(verb: str, overrides: list[str]) -> None:
    """Compose a command as its verb does: a study's and a train's own options apart from those of their runs."""
    of_runs = verb in ("study", "train")
    own = [text for text in overrides if of_runs and key_of(text) in {*OF_STUDY} - SINGLE.get(verb, set())]
    compose([text for text in overrides if text not in own], "config" if of_runs else verb)
    compose(own, "study")


SINGLE = {"train": {"seeds", "samples"}}
"""Options of a study that a training lacks."""


def followed(verb: str, word: str) -> list[str]:
    """Return the overrides of a command that is accepted, from one with another tool's word."""
    overrides = [*PAIRS, *VERBS[verb], word]
    for _ in range(3):
        try:
            composed(verb, overrides)
            return overrides
        except BadInput as refused:
            said = str(refused)
        if of_study := re.search(r"`pyrite study ([^`]+)`", said):
            composed("study", [*(text for text in overrides if key_of(text) not in OF_STUDY), of_study[1]])
            return [of_study[1]]
        hint = HINT.search(said.removesuffix("?"))
        assert hint or "leave it out: " in said, said
        instead = shlex.split(hint[1].replace("FOLDER", "/a").replace("FILE", "/a.csv")) if hint else []
        chosen = {key_of(text) for text in instead} | {key_of(word)}
        overrides = [*(text for text in overrides if key_of(text) not in chosen), *instead]
    raise AssertionError(f"{word} leads to {overrides}: {said}")


@pytest.mark.by_day(2)
@pytest.mark.parametrize("verb", VERBS)
def test_each_word_leads_to_a_command_that_is_accepted(verb):
    """A quarter of them by day."""
    dead_ends = {}
    for name in WORDS if NIGHTLY else WORDS[::4]:
        word = f"{name}={VALUES.get(name, 'true' if name in FLAGS else VALUE)}"
        try:
            followed(verb, word)
        except AssertionError as error:
            dead_ends[word] = str(error)
    assert not dead_ends
    assert len(WORDS) > 250


@pytest.mark.parametrize(
    ("verb", "word", "expected"),
    [
        ("study", "guard=.05", "guard.relative=0.05"),
        ("study", "ratio=.95", "guard.relative=0.05"),
        ("mine", "relative_margin=.05", "guard.relative=.05"),
        ("mine", "ratio=.95", "guard.relative=0.05"),
        ("mine", "model=/a/folder", "checkpoint=/a/folder"),
        ("mine", "ranker.checkpoint=/a/folder", "checkpoint=/a/folder"),
        ("mine", "collection.document=answer", "collection.positive=answer"),
        ("mine", "num_negatives=5", "count=5"),
        ("mine", "output_format=n-tuple-scores", "with_scores=true"),
        ("mine", "train_group_size=8", "count=7"),
        ("study", "train_group_size=8", "sampling.negatives=7"),
        ("study", "loss=mnrl", "function=[in_batch,bm25]"),
        ("study", "tokenizer=characters", "collection.tokenizer=characters"),
        ("study", "query_prefix=query:", "ranker.query_prompt=query:"),
        ("train", "adam_beta2=0.95", "optimizer.betas=[0.9,0.95]"),
        ("train", "lora_target_modules=q_proj,k_proj", "peft.modules=[q_proj,k_proj]"),
        ("study", "precision=bf16-mixed", "ranker.precision=bfloat16"),
        ("study", "document_regularizer_weight=3e-5", "ranker.document_flops=3e-5"),
        ("mine", "reranker_name_or_path=/a/folder", "checkpoint=/a/folder"),
        ("rank", "model_type=colbert", "checkpoint=/a"),
    ],
)
def test_what_some_words_lead_to(verb, word, expected):
    assert expected in followed(verb, word)


def test_two_words_of_other_tools_are_each_suggested():
    """One message names one word; the other one does not silence it."""
    with pytest.raises(BadInput, match=r"did you mean guard.relative=.05\?"):
        compose([*PAIRS, "relative_margin=.05", "num_negatives=5"], "mine")


@pytest.mark.parametrize(
    ("word", "option"), [("guard.max_score=0.5", "ceiling=0.5"), ("absolute_margin=0.2", "absolute=0.2")]
)
@pytest.mark.parametrize("verb", ["mine", "config"])
def test_a_limit_that_is_a_cosine_elsewhere_is_suggested_with_its_unit(verb, word, option):
    end = (
        rf"; limits are in scores, `scale` \(20\) times the cosine for a cosine ranker; did you mean guard.{option}\?$"
    )
    with pytest.raises(BadInput, match=end):
        compose([*PAIRS, word], verb)
    with pytest.raises(BadInput, match=r"; limits are in scores, .*; did you mean ceiling="):
        Guard(max_score=0.5)
    with pytest.raises(BadInput, match=r"; limits are in scores, .*; did you mean guard="):
        mine(absolute_margin=0.5)


def test_the_prefixes_of_other_command_lines_lead_to_options():
    with pytest.raises(BadInput, match="trains and measures nothing"):
        compose([*PAIRS, "trainer.max_epochs=3"], "mine")
    assert suggestion("data.train_batch_size=8") == "training.batch_size=8"


def test_flags_that_ask_for_nothing_are_left_out():
    with pytest.raises(BadInput, match="leave it out: that is so without it"):
        compose([*PAIRS, "bf16=False"])
    assert suggestion("bf16=True") == "ranker=bi_encoder ranker.checkpoint=FOLDER ranker.precision=bfloat16"


def test_every_option_of_sentence_transformers_is_in_the_table():
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.util import mine_hard_negatives

    mining = set(inspect.signature(mine_hard_negatives).parameters)
    training = {field.name for field in dataclasses.fields(library.SentenceTransformerTrainingArguments)}
    assert not (mining | training) - {*WORDS, "seed"}
    losses = {
        name
        for kind in ("sentence_transformer", "cross_encoder", "sparse_encoder")
        for loss in vars(importlib.import_module(f"sentence_transformers.{kind}.losses")).values()
        if inspect.isclass(loss) and issubclass(loss, torch.nn.Module)
        for name in inspect.signature(loss).parameters
    }
    models = {
        name
        for function in (library.SentenceTransformer, library.SentenceTransformer.encode, library.CrossEncoder.predict)
        for name in inspect.signature(function).parameters
    }
    assert not (losses | models) - {*WORDS, *ALSO_HERE}


@pytest.mark.parametrize(
    ("typed", "likely"), [("stride=10", "strict"), ("index_nam=x", "index="), ("sedd=abc", "seed")]
)
def test_an_option_of_a_like_name_is_suggested_only_if_it_takes_the_value(typed, likely):
    with pytest.raises(BadInput) as refused:
        compose([typed])
    assert likely not in str(refused.value)
    with pytest.raises(BadInput, match=r"did you mean seed=3\?"):
        compose(["sedd=3"])


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("study --seeds 5", "seeds=5"),
        ("study --learning_rate 2e-5", "optimizer.lr=2e-5"),
        ("mine --num-negatives=5", "count=5"),
        ("train --out x", "out=x"),
    ],
)
def test_options_with_dashes_are_written_as_options_here(typed, expected):
    with pytest.raises(BadInput, match=re.escape(f"options are written without dashes: {expected}") + "$"):
        parse(typed.split())


def test_a_misspelt_verb_is_suggested():
    with pytest.raises(BadInput, match=r"did you mean pyrite study\?"):
        parse(["studdy"])
