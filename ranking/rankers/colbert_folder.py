"""Reads how a late-interaction checkpoint's texts become tokens, without its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrite.ranking.hub_tokenizers import local_root, read_tokenizer
from pyrite.ranking.packing import Packing
from pyrite.ranking.rankers.sentence_folder import DECLARED, UNLIMITED, SentenceFolder, positions_of, read_json
from pyrite.ranking.tokenization import Prompts, count_subwords

MARKS = Prompts("[Q] ", "[D] ")
"""PyLate's, which are added to a plain checkpoint."""
STANFORD = Prompts("[unused0] ", "[unused1] ")
SPECIALS = 4
"""The most tokens of a text besides its subwords."""
LENGTH = 32
"""Length of a query, if a folder fills up queries and does not say to what length, and in a new ranker (ColBERT's)."""


@dataclass(frozen=True)
class ColbertFolder:
    """The description of the texts' tokens in a folder of sentence-transformers, PyLate or Stanford's ColBERT.

    Args:
        transformer: the folder or name of the transformer.
        late: whether it is a late-interaction checkpoint. Others get marks and a projection.
        marks: the texts before queries and documents.
        tokens: the numbers of tokens of a query and of a document, with special ones and marks; empty if unspecified.
        longest: the maximum number of tokens of any text. None if unspecified.
        source: the folder as sentence-transformers describes it.
    """

    transformer: str
    late: bool
    marks: Prompts = MARKS
    tokens: Mapping[str, int] = field(default_factory=dict)
    longest: int | None = None
    source: SentenceFolder | None = None

    @classmethod
    def read(cls, checkpoint: str) -> ColbertFolder:
        """Read a folder, or a name at the hub.

        Raises:
            BadInput: if it can't be read.
        """
        root = local_root(checkpoint)
        source = SentenceFolder.read(checkpoint)
        declared = read_json(root, DECLARED) or {}
        if "HF_ColBERT" in ((read_json(root, "config.json") or {}).get("architectures") or []):
            stanford = read_json(root, "artifact.metadata") or {}
            marks = {name: f"{stanford[key]} " for name, key in (("query", "query_token_id"),
                     ("document", "doc_token_id")) if stanford.get(key)}  # fmt: skip
            lengths = {
                "query": stanford.get("query_maxlen") or LENGTH,
                "document": stanford.get("doc_maxlen") or source.longest,
            }
            known = _known(lengths)
            return cls(root, True, Prompts(**(vars(STANFORD) | marks)), known, source.longest, source)
        modules = read_json(root, "modules.json") or []
        kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
        named = declared.get("model_type") in ("ColBERT", "MultiVectorEncoder")
        if not named and (kinds[:1] != ["Transformer"] or not {"Dense"} >= set(kinds[1:])):
            return cls(source.document, False, longest=source.longest, source=source)
        config = read_json(source.document, "sentence_bert_config.json") or {}
        prefixes = {name: declared.get(f"{name}_prefix") for name in ("query", "document")}
        texts = {name: (prefix or "") + getattr(source.prompts, name).removeprefix(prefix or "")
                 for name, prefix in prefixes.items()}  # fmt: skip
        expansion = config.get("query_expansion") or {}
        filled = expansion.get("length") if expansion.get("strategy") == "fixed" else None
        lengths = {
            "query": filled or config.get("query_length") or declared.get("query_length") or source.longest,
            "document": config.get("document_length") or declared.get("document_length") or source.longest,
        }
        return cls(source.document, True, Prompts(**texts), _known(lengths), source.longest, source)

    def lengths(self) -> dict[str, int]:
        """Return the subwords read of a query and of a document, as options of the ranker.

        Those that the folder does not specify are `LENGTH` for a query, which is filled up to it, and as many as there
        are positions for a document.
        """
        most = UNLIMITED if self.longest is None else max(1, self.longest - SPECIALS)
        lengths = {"max_query": min(LENGTH, most), "max_document": most}
        if not self.tokens:
            return lengths
        tokenizer, positions = read_tokenizer(self.transformer), positions_of(self.transformer)
        specials, texts = Packing.of(tokenizer, pair=False).specials, vars(self.prompts(tokenizer))
        for name, tokens in self.tokens.items():
            mark = mark_of(tokenizer, getattr(self.marks, name)) or ()
            rest = specials + len(mark) + count_subwords(tokenizer, texts[name])
            lengths[f"max_{name}"] = max(1, min(tokens, tokens if positions is None else positions) - rest)
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


def _known(lengths: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(length) for name, length in lengths.items() if length}
