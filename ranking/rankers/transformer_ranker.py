"""Defines the bases of rankers that read subwords with a pretrained transformer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub_tokenizers import local_root
from pyrite.ranking.rankers.pretrained import PRESETS, quiet
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.rankers.sentence_folder import SentenceFolder, read_json, write_json
from pyrite.ranking.texts import Texts

LENGTHS = "text_lengths.json"
"""A file of ours next to the checkpoint's, with max_query and max_document: none of its fields has a query's length."""


class TransformerRanker(Ranker):
    """A ranker whose texts are the subwords of a pretrained transformer.

    Args:
        generator: draws the weights that the checkpoint lacks.
        checkpoint: a folder, or a name at the hub.
        vectors: ignored; every ranker is offered them.
        preset: `paper`, `small` (2 layers, 24 + 64 subwords) or `tiny` (1 layer, 12 + 32): layers and lengths that
            neither the next three options nor the folder specify.
        layers: the number of layers to keep, from the input. None keeps all.
        max_query: subwords read of a query. None takes the checkpoint's number, or else the preset's.
        max_document: subwords read of a document, in the same way.
        precision: float32, bfloat16 or float16, see `pyrite.ranking.rankers.pretrained.Pretrained`.
        gradient_checkpointing: whether to compute activations twice, to hold fewer.
        compiled: whether to run the transformer through torch.compile.
        budget: tokens per forward pass, with padding. None suits the device.

    Raises:
        BadInput: if the checkpoint can't be read or an option is out of its range.
    """

    presets = PRESETS
    max_query: int
    max_document: int

    @classmethod
    def widths(
        cls,
        checkpoint: str,
        preset: str = "paper",
        layers: int | None = None,
        max_query: int | None = None,
        max_document: int | None = None,
        source: SentenceFolder | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """Return layers and lengths: the options, or else those of the checkpoint's training, or else the preset's.

        A ranker that learned from short texts is worse at long ones, so the checkpoint's lengths come before a
        preset's. The limit of a folder of sentence-transformers replaces the lengths of the preset `paper`, and bounds
        those of the smaller presets.

        Args:
            checkpoint, preset, layers, max_query, max_document: options of the constructor.
            source: the description of the checkpoint's texts, if it may have one.
            others: other options, which do not matter.

        Raises:
            BadInput: if an option is out of its range, or the checkpoint's file does not hold lengths.
        """
        given = {"max_query": max_query, "max_document": max_document}
        if None in given.values():
            trained, longest = ({}, {}) if source is None else source.lengths()
            trained = read_lengths(checkpoint) or trained
            of_preset = cls.resolve_preset(preset)
            whole = preset == "paper" and source is not None and not source.plain
            limits = longest if whole else {name: min(length, of_preset[name]) for name, length in longest.items()}
            known = limits | trained
            given = {name: known.get(name) if value is None else value for name, value in given.items()}
        return cls.resolve_preset(preset, layers=layers, **given)

    def check_reach(self, checkpoint: str, specials: int, reach: float) -> None:
        """Refuse lengths that exceed the `reach` of the transformer, with `specials` tokens around each text."""
        for name in ("max_query", "max_document"):
            length = getattr(self, name)
            if length + specials > reach:
                what = f"{length} subwords are more than its {reach} positions"
                remedy = f"lower ranker.{name} (of function=embedding, function.embedding.{name})"
                raise BadInput(what, checkpoint, remedy)


class PairRanker(TransformerRanker):
    """A ranker whose transformer reads query and document together: a text is represented by its subwords."""

    pairs = 4096
    reads_apart = False
    tokenizer: Any

    def represent_queries(self, queries: Texts) -> Tensor:
        return torch.from_numpy(queries.padded(self.max_query)).to(self.device)

    def represent_documents(self, documents: Texts) -> Tensor:
        return torch.from_numpy(documents.padded(self.max_document)).to(self.device)

    def save_with_lengths(self, folder: str, model: Any, max_query: int, max_document: int) -> None:
        """Write a model of transformers and the tokenizer into a folder, with the lengths of its texts.

        Args:
            model: the model, written as safetensors.
            max_query: subwords read of a query, not counting prompts.
            max_document: subwords read of a document, not counting prompts.
        """
        with quiet():
            model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_json(Path(folder) / LENGTHS, {"max_query": max_query, "max_document": max_document})


def read_lengths(checkpoint: str) -> dict[str, int]:
    """Return the text lengths in a checkpoint's folder; empty if there is no such file.

    Raises:
        BadInput: if its file does not hold lengths.
    """
    content = read_json(local_root(checkpoint), LENGTHS)
    if content is None:
        return {}
    usable = all(type(number) is int and number > 0 for number in content.values())
    if not usable or set(content) != {"max_query", "max_document"}:
        remedy = f'write {{"max_query": 32, "max_document": 256}}, or delete {LENGTHS}'
        raise BadInput(f"{LENGTHS} does not hold two lengths", checkpoint, remedy)
    return content
