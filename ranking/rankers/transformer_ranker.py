"""Defines the bases of rankers that read subwords with a pretrained transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.errors import refuse
from pyrite.ranking.hub_tokenizers import local_root
from pyrite.ranking.rankers.pair_form import PairForm, cut
from pyrite.ranking.rankers.pretrained import Pretrained
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.rankers.sentence_folder import NO_PROMPTS, SentenceFolder, read_json, write_json
from pyrite.ranking.texts import Texts

LENGTHS = "text_lengths.json"
"""A file of ours next to the checkpoint's, with max_query and max_document: none of its fields has a query's length."""


class TransformerRanker(Ranker):
    """A ranker whose texts are the subwords of a pretrained transformer, which is read whole.

    Args:
        checkpoint: a folder, or a name at the hub.
        layers: the number of layers to keep, from the input. None keeps all.
        max_query: subwords read of a query. None takes the checkpoint's number, or else as many as it has positions.
        max_document: subwords read of a document, in the same way.
        precision: auto, float32, bfloat16 or float16, see `pyrite.ranking.rankers.pretrained.Pretrained`.
        gradient_checkpointing: whether to compute activations twice, to hold fewer.
        compiled: whether to run the transformer through torch.compile.
        budget: tokens per forward pass, with padding. None suits the device.
        frozen_layers: the number of layers, from the input, that are not trained, with the embeddings. Each text is
            read once by them, and what they make of it is kept in memory, so a step costs the layers above.

    Raises:
        BadInput: if the checkpoint can't be read or an option is out of its range.
    """

    max_query: int
    max_document: int
    lengths: tuple[int, int]
    """The subwords read of a query and of a document, not counting prompts."""
    query_room: float = float("inf")
    """The subwords of a query, with its prompt, for which there are positions."""

    def read_of(self, queries: Texts) -> int | NDArray[np.int64]:
        """Return the subwords read of queries, with the prompt: of all, or of each if they have prompts of their own.

        The ranker's own prompt was put into `max_query`, and that of a row may be of another length.
        """
        if queries.added is None:
            return self.max_query
        return np.minimum(self.lengths[0] + queries.added, self.query_room).astype(np.int64)

    def running(self, model: Any) -> Pretrained:
        """Return a transformer with the options by which it is run."""
        options = self.options
        names = ("precision", "gradient_checkpointing", "compiled", "budget", "frozen_layers")
        return Pretrained(model, **{name: value for name, value in vars(options).items() if name in names})

    @classmethod
    def lengths_of(
        cls, checkpoint: str, max_query: int | None, max_document: int | None, source: SentenceFolder | None = None
    ) -> tuple[int, int]:
        """Return the subwords read of a query and of a document: the options, or else all that the checkpoint reads.

        A ranker that learned from short texts is worse at long ones, so a checkpoint's lengths are those of its
        training, if its folder specifies them, and otherwise the tokens that its tokenizer and its positions allow.

        Args:
            checkpoint, max_query, max_document: options of the constructor.
            source: the description of the checkpoint's texts. None reads it.

        Raises:
            BadInput: if the checkpoint's file does not hold lengths.
        """

        def declared() -> Mapping[str, int]:
            return read_lengths(checkpoint) or (source or SentenceFolder.read(checkpoint)).lengths()

        return chosen_lengths(max_query, max_document, declared)

    def save_lengths(self, folder: str, lengths: tuple[int, int]) -> None:
        """Write the lengths of its texts into its folder, unless the folder reads no more anyhow.

        Args:
            lengths: subwords read of a query and of a document, not counting prompts.
        """
        names = dict(zip(("max_query", "max_document"), lengths, strict=True))
        if names != replace(SentenceFolder.read(folder), prompts=NO_PROMPTS).lengths():
            write_json(Path(folder) / LENGTHS, names)

    def check_reach(self, checkpoint: str, specials: int, reach: float, typed: Mapping[str, int | None]) -> None:
        """Refuse typed lengths that exceed the `reach` of the transformer, with `specials` tokens around each text."""
        for name, length in typed.items():
            what = f"{getattr(self, name)} subwords are more than its {reach} positions"
            remedy = f"lower ranker.{name} (of function=embedding, function.embedding.{name})"
            refuse(length and getattr(self, name) + specials > reach, what, checkpoint, remedy)


class PairRanker(TransformerRanker):
    """A ranker whose transformer reads query and document together: a text is represented by its subwords."""

    pairs = 4096
    reads_apart = False
    form: PairForm

    def represent_queries(self, queries: Texts) -> Tensor:
        return self._subwords(queries, self.read_of(queries), self.form.query.tail)

    def represent_documents(self, documents: Texts) -> Tensor:
        return self._subwords(documents, self.max_document, self.form.document.tail)

    def _subwords(self, texts: Texts, length: int | NDArray[np.int64], tail: Sequence[int]) -> Tensor:
        """Return the first subwords of each text, as many as the longest has and at most `length` (of all or each)."""
        most = max(1, int(texts.lengths.max(initial=1)))
        longest = min(int(np.max(length, initial=1)), most)
        padded = torch.from_numpy(texts.padded(min(longest + 1, most)))
        kept = torch.from_numpy(np.broadcast_to(np.minimum(length, most), len(padded)).copy())[:, None]
        return cut(padded, kept, tail)[:, :longest].to(self.device)


def chosen_lengths(
    max_query: int | None, max_document: int | None, declared: Callable[[], Mapping[str, int]]
) -> tuple[int, int]:
    """Return the subwords read of a query and of a document: the options, or else those that are declared.

    Args:
        declared: returns those of the checkpoint, by option. It is not asked if both are given.
    """
    if max_query is not None and max_document is not None:
        return max_query, max_document
    lengths = declared()
    return max_query or lengths["max_query"], max_document or lengths["max_document"]


def read_lengths(checkpoint: str) -> dict[str, int]:
    """Return the text lengths in a checkpoint's folder; empty if there is no such file.

    Raises:
        BadInput: if its file does not hold lengths.
    """
    content = read_json(local_root(checkpoint), LENGTHS)
    if content is None:
        return {}
    usable = all(type(number) is int and number > 0 for number in content.values())
    wrong = not usable or set(content) != {"max_query", "max_document"}
    remedy = f'write {{"max_query": 32, "max_document": 256}}, or delete {LENGTHS}'
    refuse(wrong, f"{LENGTHS} does not hold two lengths", checkpoint, remedy)
    return content
