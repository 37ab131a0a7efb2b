"""Checkpoints small enough to be made in a test."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

KINDS = ("bert", "roberta", "modernbert")
TEMPLATE = "Query: {query}\nDocument: {document}\nRelevant:"
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,
}


def tokenizer_of(kind: str, words: Iterable[str]) -> Any:
    """Words as tokens, with the special tokens of an architecture around them."""
    roberta = kind == "roberta"
    first, last, pad = ("<s>", "</s>", "<pad>") if roberta else ("[CLS]", "[SEP]", "[PAD]")
    specials = [first, pad, last, "[UNK]"] if roberta else [pad, "[UNK]", first, last]
    vocabulary = {word: place for place, word in enumerate([*specials, *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    second = 1 if kind == "bert" else 0
    inner.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last}{f' {last}' if roberta else ''} $B:{second} {last}:{second}",
        special_tokens=[(token, vocabulary[token]) for token in (first, last)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",
        pad_token=pad,
        cls_token=first,
        sep_token=last,
        model_input_names=["input_ids", "attention_mask", *(["token_type_ids"] if kind == "bert" else [])],
    )


def config_of(kind: str, tokenizer: Any, dropout: float) -> Any:
    """A configuration of the architecture, a few numbers wide."""
    sizes = SIZES | {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "num_labels": 1}
    if kind == "modernbert":
        ends = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
        drops = dict.fromkeys(("attention_dropout", "mlp_dropout", "embedding_dropout"), dropout)
        return transformers.ModernBertConfig(**sizes, **ends, **drops, local_attention=8)
    made = {"bert": transformers.BertConfig, "roberta": transformers.RobertaConfig}[kind]
    drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return made(**sizes, **drops, type_vocab_size=2 if kind == "bert" else 1)


def write_checkpoint(folder: Path, kind: str, words: Iterable[str], dropout: float = 0.0) -> str:
    """Write a checkpoint with weights by chance and a head for one score."""
    tokenizer = tokenizer_of(kind, words)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = transformers.AutoModelForSequenceClassification.from_config(config_of(kind, tokenizer, dropout))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
