"""Reads how a late-interaction checkpoint's texts become tokens, without its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrite.ranking.hub_tokenizers import local_root, read_tokenizer
from pyrite.ranking.packing import Packing
from pyrite.ranking.rankers.sentence_folder import (
    DECLARED,
    UNLIMITED,
    SentenceFolder,
    positions_of,
    read_json,
    read_object,
)
from pyrite.ranking.tokenization import Prompts, count_subwords

MARKS = Prompts("[Q] ", "[D] ")
"""PyLate's, which are added to a plain checkpoint."""
SPECIALS = 4
"""The most tokens of a text besides its subwords."""
LENGTH = 32
"""Length of a query, if a folder fills up queries and does not say to what length, and in a new ranker (ColBERT's)."""
STANFORD: dict[str, Any] = {
    "query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_maxlen": LENGTH,
}  # fmt: skip
"""The settings of Stanford's ColBERT that a folder of it may leave out."""


@dataclass(frozen=True)
class ColbertFolder:
    """The description of the texts' tokens in a folder of sentence-transformers, PyLate or Stanford's ColBERT.

    Args:
        transformer: the folder or name of the transformer.
        late: whether it is a late-interaction checkpoint. Others get marks and a projection.
        marks: the texts before queries and documents.
        tokens: the numbers of tokens of a query and of a document, with special ones and marks; empty if unspecified.
        longest: the maximum number of tokens of any text; `UNLIMITED` if unspecified.
        source: the folder as sentence-transformers describes it.
    """

    transformer: str
    late: bool
    marks: Prompts = MARKS
    tokens: Mapping[str, int] = field(default_factory=dict)
    longest: int = UNLIMITED
    source: SentenceFolder = field(default_factory=lambda: SentenceFolder("", ""))

    @classmethod
    def read(cls, checkpoint: str) -> ColbertFolder:
        """Read a folder, or a name at the hub.

        Raises:
            BadInput: if it can't be read.
        """
        source = SentenceFolder.read(checkpoint)
        root = local_root(checkpoint)
        if "HF_ColBERT" in read_object(root, "config.json").get("architectures", []):
            return cls._of_stanford(read_object(root, "artifact.metadata"), source)
        declared = read_object(root, DECLARED)
        modules = read_json(root, "modules.json") or []
        kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
        is_stack = kinds[:1] == ["Transformer"] and {*kinds[1:]} <= {"Dense"}
        if is_stack or declared.get("model_type") in ("ColBERT", "MultiVectorEncoder"):
            return cls._of_library(declared, source)
        return cls(source.document, False, longest=source.longest, source=source)

    @classmethod
    def _of_stanford(cls, metadata: Mapping[str, Any], source: SentenceFolder) -> ColbertFolder:
        """Return a folder of Stanford's ColBERT."""
        settings = STANFORD | _filled(metadata)
        marks = Prompts(f"{settings['query_token_id']} ", f"{settings['doc_token_id']} ")
        lengths = {"query": settings["query_maxlen"], "document": settings.get("doc_maxlen", source.longest)}
        return cls(source.root, True, marks, _known(lengths), source.longest, source)

    @classmethod
    def _of_library(cls, declared: Mapping[str, Any], source: SentenceFolder) -> ColbertFolder:
        """Return a folder of PyLate or sentence-transformers."""
        settings = _filled(declared) | _filled(read_object(source.document, "sentence_bert_config.json"))
        marks, lengths = {}, {}
        for kind in ("query", "document"):
            prefix = settings.get(f"{kind}_prefix", "")
            marks[kind] = prefix + getattr(source.prompts, kind).removeprefix(prefix)
            lengths[kind] = settings.get(f"{kind}_length", source.longest)
        expansion = settings.get("query_expansion", {})
        if expansion.get("strategy") == "fixed":
            lengths["query"] = expansion.get("length") or lengths["query"]
        return cls(source.document, True, Prompts(**marks), _known(lengths), source.longest, source)

    def lengths(self) -> dict[str, int]:
        """Return the subwords read of a query and of a document, as options of the ranker.

        Those that the folder does not specify are `LENGTH` for a query, which is filled up to it, and as many as there
        are positions for a document.
        """
        most = UNLIMITED if self.longest == UNLIMITED else max(1, self.longest - SPECIALS)
        lengths = {"max_query": min(LENGTH, most), "max_document": most}
        if not self.tokens:
            return lengths
        tokenizer, positions = read_tokenizer(self.transformer), positions_of(self.transformer)
        specials, texts = Packing.of(tokenizer, pair=False).specials, vars(self.prompts(tokenizer))
        for name, tokens in self.tokens.items():
            mark = mark_of(tokenizer, getattr(self.marks, name)) or ()
            rest = specials + len(mark) + count_subwords(tokenizer, texts[name])
            lengths[f"max_{name}"] = max(1, min(tokens, positions) - rest)
        return lengths

    def prompts(self, tokenizer: Any) -> Prompts:
        """Return those marks that are texts, and no single token."""
        texts = {name: mark for name, mark in vars(self.marks).items() if mark_of(tokenizer, mark) is None}
        return Prompts(**texts) if self.late else Prompts()


def mark_of(tokenizer: Any, mark: str) -> tuple[int, ...] | None:
    """Return the token of a mark; empty if there is no mark, None if the mark is not one token."""
    if not mark.strip():
        return ()
    vocabulary = tokenizer.get_vocab()
    known = [vocabulary[name] for name in (mark, mark.strip()) if name in vocabulary]
    return tuple(known[:1]) or None


def _filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that have a value."""
    return {name: value for name, value in settings.items() if value}


def _known(lengths: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(length) for name, length in lengths.items() if length < UNLIMITED}
