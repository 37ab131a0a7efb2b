"""Fixtures of the transformer rankers' tests."""

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.tokenization import Tokenization
from tests.ranking.checkpoints import SIZES, TEMPLATE, write_checkpoint

DECODERS = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig}


@pytest.fixture(scope="session")
def made_up(tiny, tmp_path_factory) -> Callable[..., str]:
    """Makes a checkpoint (kind, dropout) that knows the words of `tiny`; the same one once."""
    texts = [*tiny.documents["text"], *tiny.queries["text"]]
    words = sorted({word for text in texts for word in re.findall(r"\w+", text)})

    @functools.cache
    def make(kind: str = "bert", dropout: float = 0.0) -> str:
        return write_checkpoint(tmp_path_factory.mktemp(f"checkpoint_{kind}"), kind, words, dropout)

    return make


@pytest.fixture(scope="session")
def read_as(tiny, tiny_encoded) -> Callable[[Tokenization | None], EncodedCollection]:
    """The collection `tiny` in the tokens of a tokenization."""

    def read(tokenization: Tokenization | None) -> EncodedCollection:
        tokens = tokenization.encode(tiny)
        return replace(tiny_encoded, documents=tokens.documents, queries=tokens.queries)

    return read


@pytest.fixture(scope="session")
def decoder_checkpoint(tiny, tmp_path_factory) -> Callable[..., str]:
    """Makes a decoder (kind, with a head, tied) that knows the words of `tiny`, yes and no; the same one once."""
    texts = [*tiny.documents["text"], *tiny.queries["text"], TEMPLATE.replace("{", "").replace("}", ""), "yes no"]
    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)})

    @functools.cache
    def make(kind: str = "llama", headed: bool = False, tied: bool = False) -> str:
        vocabulary = {word: place for place, word in enumerate(["<s>", "</s>", "<unk>", *words])}
        inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        inner.pre_tokenizer = pre_tokenizers.Whitespace()
        inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
        )
        config = DECODERS[kind](
            **(SIZES | {"max_position_embeddings": 64}), num_key_value_heads=2, vocab_size=len(vocabulary),
            num_labels=1, tie_word_embeddings=tied, bos_token_id=0, eos_token_id=1,
        )  # fmt: skip
        auto: Any = transformers.AutoModelForSequenceClassification if headed else transformers.AutoModelForCausalLM
        with torch.random.fork_rng():
            torch.manual_seed(7)
            model = auto.from_config(config)
        folder = str(tmp_path_factory.mktemp(kind))
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return make


TWINS = (0, 3, 11, 12, 31, 58, 59)


@pytest.fixture
def sixty(encoded_of) -> EncodedCollection:
    """Sixty documents of 1 to 40 words, those of `TWINS` alike, so that scores tie; seven queries, three judged."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(1, 50, rng.integers(1, 41)).tolist() for _ in range(60)]
    for twin in TWINS:
        documents[twin] = [7, 8, 9]
    queries = [rng.integers(1, 50, rng.integers(1, 9)).tolist() for _ in range(7)]
    grades = {0: {3: 1, 13: 1}, 1: {31: 1}, 2: {58: 1, 5: 1}}
    return encoded_of(documents, queries, grades, rng.permutation(60).tolist())
