"""Defines the cross-encoder: a transformer that reads query and document together."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ranking.errors import BadInput
from ranking.packing import Packing, buckets
from ranking.rankers.pretrained import PRESETS, Pretrained, read_model, trim_last_layer
from ranking.rankers.ranker import Ranker
from ranking.rankers.text_lengths import resolve_widths, write_lengths
from ranking.texts import Texts
from ranking.tokenization import Subwords, Tokenization, read_tokenizer

POOLINGS = ("first", "max")


class CrossEncoder(Ranker):
    """A pretrained encoder (BERT, ELECTRA, MiniLM, ModernBERT, …) with one score a pair (Nogueira and Cho 2019).

    The head is the architecture's own for one label; where the checkpoint has none it is drawn. A long document is cut,
    or read in passages whose best score counts (Dai and Callan 2019: FirstP and MaxP). What a pair costs depends on its
    length, so pairs of like length are read together.

    Args:
        vectors: not read; every ranker is offered them.
        generator: draws the head where the checkpoint has none.
        checkpoint: folder, or name at the hub.
        preset: layers and lengths where neither the next three nor the folder say: `paper` (as published), `small`
            or `tiny`.
        layers: keep the first so many.
        max_query: subwords read of a query.
        max_document: subwords read of a document, or of each of its passages.
        passages: most passages of a document; with pooling=first just one is read.
        pooling: first (the document's beginning) or max (its best passage).
        precision, gradient_checkpointing, compiled, budget: see `Pretrained`.

    Raises:
        BadInput: where the checkpoint can't be read, or an option is out of its range.
    """

    presets = PRESETS
    pairs = 4096
    reads_apart = False

    def __init__(
        self,
        generator: torch.Generator,
        checkpoint: str,
        vectors: NDArray[np.float32] | None = None,
        preset: str = "paper",
        layers: int | None = None,
        max_query: int | None = None,
        max_document: int | None = None,
        passages: int = 4,
        pooling: str = "first",
        precision: str = "float32",
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: int | None = None,
    ) -> None:
        super().__init__()
        widths = resolve_widths(type(self), checkpoint, preset, layers, max_query, max_document)
        if pooling not in POOLINGS:
            raise BadInput(f"no pooling {pooling!r}", "ranker.pooling", f"choose {' or '.join(POOLINGS)}")
        if passages < 1:
            raise BadInput(f"passages is {passages}", "ranker.passages", "choose a whole number from 1 up")
        self.max_query, self.max_document = widths["max_query"], widths["max_document"]
        self.passages = passages if pooling == "max" else 1
        model, self.drawn = read_model(
            "AutoModelForSequenceClassification", checkpoint, widths["layers"], generator, num_labels=1
        )
        trim_last_layer(model)
        self.pretrained = Pretrained(model, precision, gradient_checkpointing, compiled, budget)
        self.has_dropout, self.needs_grad_scaler = self.pretrained.has_dropout, precision == "float16"
        self.tokenizer = read_tokenizer(checkpoint)
        self.packing = Packing.of(self.tokenizer)
        reach = self.pretrained.reach
        if self.max_query + self.max_document + self.packing.specials > reach:
            raise BadInput(
                f"{self.max_query} subwords of a query and {self.max_document} of a document exceed {reach} positions",
                checkpoint,
                "lower ranker.max_document, or read passages with ranker.pooling=max",
            )

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        given = {name: options.get(name) for name in ("layers", "max_query", "max_document")}
        widths = resolve_widths(cls, options["checkpoint"], options.get("preset", "paper"), **given)
        passages = options.get("passages", 4) if options.get("pooling", "first") == "max" else 1
        return Subwords(options["checkpoint"], widths["max_query"], widths["max_document"] * passages)

    def represent_queries(self, queries: Texts) -> Tensor:
        return torch.from_numpy(queries.padded(self.max_query)).to(self.device)

    def represent_documents(self, documents: Texts) -> Tensor:
        return torch.from_numpy(documents.padded(self.max_document * self.passages)).to(self.device)

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(queries.shape[:-1], documents.shape[:-1])
        asked = queries.expand(*shape, -1).reshape(-1, queries.shape[-1])
        passages = documents.expand(*shape, -1).reshape(-1, self.max_document)
        asked = asked.repeat_interleave(self.passages, 0)
        there = passages[:, 0] > 0
        there[:: self.passages] = True  # the first passage is read even of an empty document
        scores = self._read(asked[there], passages[there])
        if self.passages == 1:
            return scores.view(shape)
        rows = torch.arange(len(there), device=there.device) // self.passages
        best = torch.full((len(there) // self.passages,), -torch.inf, dtype=scores.dtype, device=scores.device)
        return best.scatter_reduce(0, rows[there], scores, "amax").view(shape)

    def _read(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Scores of pairs [n], those of like length read together."""
        lengths = (queries > 0).sum(1) + (passages > 0).sum(1) + self.packing.specials
        places = self.pretrained.even(list(buckets(lengths, self.pretrained.budget)))
        parts = [self.pretrained(self.packing.pack(queries[rows], passages[rows])).logits[:, 0] for rows in places]
        back = torch.argsort(torch.cat(places))
        return torch.cat(parts).float()[back]

    def layers(self) -> list[nn.Module]:
        return self.pretrained.blocks()

    def save_pretrained(self, folder: str) -> None:
        """Write it as transformers and sentence-transformers' `CrossEncoder` read it: safetensors and the tokenizer."""
        self.pretrained.model.save_pretrained(folder)  # type: ignore[operator]
        self.tokenizer.save_pretrained(folder)
        write_lengths(folder, self.max_query, self.max_document)
