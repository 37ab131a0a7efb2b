"""Reads and writes static token vectors as folders of sentence-transformers and model2vec."""

from __future__ import annotations

import hashlib
import json
import posixpath
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import refuse
from pyrite.ranking.hub_tokenizers import local_root, refused
from pyrite.ranking.lazy import safetensors, tokenizers
from pyrite.ranking.rankers.sentence_folder import (
    DECLARED,
    MODULE,
    checkpoint_file,
    prompts_of,
    read_json,
    read_object,
    write_json,
)
from pyrite.ranking.reading import WORD
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import CHUNK, Prompts, Tokenization, Tokens

SILENT = -20.0
"""The logarithm of the weight of a token that does not count next to any other."""


@dataclass(frozen=True)
class StaticFolder:
    """Token vectors and their tokenizer.

    Args:
        vectors: float32 [tokens, dimension], by the tokenizer's ids.
        log_weights: float32 [tokens], the logarithm of each token's weight in a mean.
        tokenizer: the content of a `tokenizer.json`.
        declared: the texts before queries and documents, and other declarations, to be written again.
    """

    vectors: NDArray[np.float32]
    log_weights: NDArray[np.float32]
    tokenizer: str
    declared: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, checkpoint: str) -> StaticFolder:
        """Read a folder of `StaticEmbedding` or of model2vec, or a name at the hub.

        Raises:
            BadInput: if it can't be read, or has other modules.
        """
        root, path = _place(checkpoint)
        declared = read_object(root, DECLARED)
        similarity = declared.get("similarity_fn_name", "cosine")
        refuse(similarity != "cosine", f"compares texts by {similarity}", root, "a static ranker does so by cosine")
        with refused(root):
            state = safetensors.numpy.load_file(_file(root, path, "model.safetensors"))
            tokenizer = Path(_file(root, path, "tokenizer.json")).read_text()
        vectors: Any = state.get("embedding.weight", state.get("embeddings"))
        remedy = "choose a folder of StaticEmbedding or of model2vec"
        refuse(vectors is None, "holds no token vectors", root, remedy)
        vectors = vectors.astype(np.float32, copy=False)[:, : declared.get("truncate_dim")]
        if "mapping" in state:  # a quantized vocabulary: the row of each token
            vectors = vectors[state["mapping"].astype(np.int64)]
        weights = np.maximum(state["weights"].astype(np.float32), 1e-9) if "weights" in state else np.ones(len(vectors))
        logs = np.log(weights).astype(np.float32)
        unknown = _unknown(json.loads(tokenizer))
        if "embeddings" in state and unknown is not None:
            logs[unknown] = SILENT  # model2vec skips it
        prompts = {name: text for name, text in declared.get("prompts", {}).items() if text}
        default = {"default_prompt_name": declared.get("default_prompt_name")}
        return cls(vectors, logs, tokenizer, {"prompts": prompts} | default if prompts else {})

    def write(self, folder: str) -> None:
        """Write it as `SentenceTransformer` reads it: the normalized plain mean of vectors that carry their weights.

        A weighted mean is a multiple of that, and cosines are the same.
        """
        root = Path(folder)
        (root / "1_Normalize").mkdir(parents=True, exist_ok=True)
        weighted = self.vectors * np.exp(self.log_weights)[:, None]
        safetensors.numpy.save_file({"embedding.weight": np.ascontiguousarray(weighted)}, root / "model.safetensors")
        (root / "tokenizer.json").write_text(self.tokenizer)
        modules = [("", "StaticEmbedding"), ("1_Normalize", "Normalize")]
        write_json(
            root / "modules.json",
            [{"idx": n, "name": str(n), "path": path, "type": MODULE + kind} for n, (path, kind) in enumerate(modules)],
        )
        write_json(root / DECLARED, {"similarity_fn_name": "cosine"} | dict(self.declared))


@dataclass(frozen=True)
class Vocabulary:
    """The words of `pyrite.ranking.encoding` by number, padding and unknown first, and the number of words read of a
    text.
    """

    words: Sequence[str]
    longest: int

    def tokenizer(self) -> str:
        """Return the `tokenizer.json` that reads texts in the same way: lowercase words of letters and digits."""
        numbers = {word or "<padding>": number for number, word in enumerate(self.words)}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token=self.words[1]))
        tokenizer.normalizer = tokenizers.normalizers.Sequence(
            [tokenizers.normalizers.NFC(), tokenizers.normalizers.Lowercase()]
        )
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(WORD), "removed", invert=True)
        tokenizer.enable_truncation(self.longest)
        return str(tokenizer.to_str())


class StaticTokens(Tokenization):
    """The tokens of a folder's tokenizer, plus one, without special ones.

    Args:
        checkpoint: a folder, or a name at the hub.
        max_query: tokens read of a query. None reads all.
        max_document: tokens read of a document. None reads all.
    """

    def __init__(self, checkpoint: str, max_query: int | None = None, max_document: int | None = None) -> None:
        self.checkpoint, self.max_query, self.max_document = checkpoint, max_query, max_document

    def key(self) -> list[Any]:
        root, path = _place(self.checkpoint)
        content = Path(_file(root, path, "tokenizer.json")).read_bytes()
        prompts, _ = prompts_of(root, read_object(root, DECLARED))
        texts = [vars(prompts)] if prompts != Prompts() else []
        return ["static", hashlib.sha256(content).hexdigest(), self.max_query, self.max_document, *texts]

    def encode(self, collection: Collection) -> Tokens:

        root, path = _place(self.checkpoint)
        file = _file(root, path, "tokenizer.json")
        prompts, _ = prompts_of(root, read_object(root, DECLARED))
        return Tokens(
            encoded(
                tokenizers.Tokenizer.from_file(file), collection.documents["text"], self.max_document, prompts.document
            ),
            encoded(tokenizers.Tokenizer.from_file(file), collection.queries["text"], self.max_query, prompts.query),
        )

    def cut(self, tokens: Tokens) -> str:
        limits = {"queries": (tokens.queries, self.max_query), "documents": (tokens.documents, self.max_document)}
        parts = [
            f"{count:,} of {len(texts):,} {name} have {limit:,} or more"
            for name, (texts, limit) in limits.items()
            if limit is not None and (count := int((texts.lengths >= limit).sum()))
        ]
        return f"tokens: {' and '.join(parts)}, and no more of them is read" if parts else ""


def encoded(tokenizer: Any, texts: pl.Series, limit: int | None, prompt: str) -> Texts:
    """Return the tokens of each text; a text without any gets one unknown token."""
    tokenizer.no_padding()
    if limit is not None:
        spare = len(tokenizer.encode(prompt, add_special_tokens=False).ids) if prompt else 0
        tokenizer.enable_truncation(limit + spare)
    nothing = [_unknown(json.loads(tokenizer.to_str())) or 0]
    ids, offsets = array("i"), [0]  # grows in place: a collection's tokens are never in memory twice
    for start in range(0, len(texts), CHUNK):
        some = [prompt + text for text in texts.slice(start, CHUNK)]
        for text in tokenizer.encode_batch_fast(some, add_special_tokens=False):
            ids.extend(text.ids or nothing)
            offsets.append(len(ids))
    tokens = np.frombuffer(ids, np.int32)
    tokens += 1
    return Texts(tokens, np.array(offsets, np.int64))


def _place(checkpoint: str) -> tuple[str, str]:
    """Return the root of a checkpoint, and the folder in it that holds the vectors."""
    root = local_root(checkpoint)
    modules = read_json(root, "modules.json")
    if modules is None:
        return root, ""
    with refused(root):
        listed = [(module["type"].rpartition(".")[2], module["path"]) for module in modules]
    kinds = [kind for kind, _ in listed]
    is_static = kinds in (["StaticEmbedding"], ["StaticEmbedding", "Normalize"])
    refuse(not is_static, f"reads texts by {', '.join(kinds)}", root, "a static ranker is StaticEmbedding, Normalize")
    return root, listed[0][1]


def _file(root: str, path: str, name: str) -> str:
    with refused(root):
        return str(checkpoint_file(root, posixpath.join(path, name)))


def _unknown(tokenizer: dict[str, Any]) -> int | None:
    """Return the number of the unknown token of a `tokenizer.json`; None if it has none."""
    model = tokenizer["model"]
    if isinstance(model.get("vocab"), dict) and model.get("unk_token") is not None:
        return model["vocab"].get(model["unk_token"])
    return model.get("unk_id")
