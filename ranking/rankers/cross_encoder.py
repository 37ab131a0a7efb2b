"""Defines the cross-encoder: a transformer that reads query and document together."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub_tokenizers import local_root
from pyrite.ranking.packing import Packing
from pyrite.ranking.precision import AUTO
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained import score_in_float32, trim_last_layer
from pyrite.ranking.rankers.pretrained_weights import read_model
from pyrite.ranking.rankers.sentence_folder import DECLARED, UNLIMITED, SentenceFolder, read_json
from pyrite.ranking.rankers.transformer_ranker import PairRanker, read_lengths
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Subwords, Tokenization, read_tokenizer


class CrossEncoder(PairRanker):
    """A cross-encoder: a pretrained encoder (BERT, ELECTRA, MiniLM, ModernBERT, …) with one score per pair.

    Nogueira and Cho 2019. The head is the architecture's head for one label; a head that the checkpoint lacks is drawn.
    Of a pair that is longer than the checkpoint reads the longer text loses its end, or the document is read in
    passages whose best score counts (FirstP and MaxP, Dai and Callan 2019). The cost of a pair depends on its length,
    so pairs of similar length are read together.

    Args:
        generator: draws the head if the checkpoint has none.
        max_document: subwords read of a document, in the same way; those of a passage are always given.
        passages: the maximum number of passages of a document, with pooling=max.
        pooling: first (the score of the document's beginning) or max (that of its best passage).
        label: the label, by number or name, whose log-probability is the score of a checkpoint whose head has several;
            `new` replaces that head by one for a score. None if the checkpoint has a head for one score, or none.
    """

    @checked
    def __init__(
        self,
        checkpoint: str,
        *,
        layers: int | None = None,
        max_query: int | None = None,
        max_document: int | None = None,
        passages: Annotated[int, AtLeast(1)] = 4,
        pooling: Literal["first", "max"] = "first",
        precision: str = AUTO,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
        label: int | str | None = None,
    ) -> None:
        super().__init__()

    def make(self, inputs: RankerInputs) -> None:
        options, generator = self.options, inputs.generator
        checkpoint, max_query, max_document = options.checkpoint, options.max_query, options.max_document
        self.label, labels = chosen_label(checkpoint, options.label)
        source = SentenceFolder.read(checkpoint)
        self.max_query, self.max_document = self.lengths_of(checkpoint, max_query, max_document, source)
        self.document_reach = self.max_document
        self.passages = passages_of(options.passages, options.pooling, checkpoint, max_document)
        if self.passages > 1:
            self.document_reach = self.max_document * self.passages
        model, self.drawn = read_model(
            "AutoModelForSequenceClassification", checkpoint, options.layers, generator, num_labels=labels
        )
        trim_last_layer(model)
        score_in_float32(model)
        self.pretrained = self.running(model)
        self.has_dropout, self.needs_grad_scaler = self.pretrained.has_dropout, options.precision == "float16"
        self.tokenizer = read_tokenizer(checkpoint)
        self.packing = Packing.of(self.tokenizer)
        self.reach = min(self.pretrained.reach, source.longest or UNLIMITED)
        if (max_query or 1) + self.packing.specials + (max_document or 1) > self.reach:
            what = f"{max_query or 1} subwords of a query and {max_document or 1} of a document"
            remedy = "lower ranker.max_document, or read passages with ranker.pooling=max"
            raise BadInput(f"{what} exceed {self.reach} positions", checkpoint, remedy)

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        checkpoint, typed = options["checkpoint"], options.get("max_document")
        max_query, max_document = cls.lengths_of(checkpoint, options.get("max_query"), typed)
        passages = passages_of(options.get("passages", 4), options.get("pooling", "first"), checkpoint, typed)
        room = partial(room_of, checkpoint) if passages == 1 else None
        return Subwords(checkpoint, max_query, max_document * passages, room=room)

    def represent_documents(self, documents: Texts) -> Tensor:
        if self.passages == 1:
            return super().represent_documents(documents)
        return torch.from_numpy(documents.padded(self.max_document * self.passages)).to(self.device)

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(queries.shape[:-1], documents.shape[:-1])
        texts = queries.expand(*shape, -1).reshape(-1, queries.shape[-1])
        width = documents.shape[-1] // self.passages
        passages = documents.expand(*shape, -1).reshape(-1, width)
        texts = texts.repeat_interleave(self.passages, 0)
        present = passages[:, 0] > 0
        present[:: self.passages] = True  # the first passage is read even of an empty document
        scores = self._read(texts[present], passages[present])
        if self.passages == 1:
            return scores.view(shape)
        rows = torch.arange(len(present), device=present.device) // self.passages
        best = torch.full((len(present) // self.passages,), -torch.inf, dtype=scores.dtype, device=scores.device)
        return best.scatter_reduce(0, rows[present], scores, "amax").view(shape)

    def _read(self, queries: Tensor, passages: Tensor) -> Tensor:
        """Return scores of pairs [n]; pairs of similar length are read together."""
        queries, passages = self.fitted(queries, passages)
        lengths = (queries > 0).sum(1) + (passages > 0).sum(1) + self.packing.specials

        def read(rows: Tensor) -> Tensor:
            logits: Tensor = self.pretrained(self.packing.pack(queries[rows], passages[rows])).logits
            return logits.float()

        logits = self.pretrained.in_passes(lengths, read)
        return logits[:, 0] if self.label is None else logits.log_softmax(1)[:, self.label]

    def layers(self) -> list[nn.Module]:
        return self.pretrained.blocks()

    def save_pretrained(self, folder: str) -> None:
        """Write it as transformers and sentence-transformers' `CrossEncoder` read it: safetensors and the tokenizer."""
        self.save_with_lengths(folder, self.pretrained.model, (self.max_query, self.max_document))


def room_of(checkpoint: str) -> int:
    """Return the subwords of a query and a document together at most."""
    longest = SentenceFolder.read(checkpoint).longest
    return (longest or UNLIMITED) - Packing.of(read_tokenizer(checkpoint)).specials


def passages_of(passages: int, pooling: str, checkpoint: str, max_document: int | None) -> int:
    """Return the number of passages that are read of a document.

    Raises:
        BadInput: if there are several, and neither an option nor the checkpoint's training says how long one is.
    """
    if pooling != "max":
        return 1
    if max_document is None and not read_lengths(checkpoint):
        what = "reads passages, and their length is not given"
        raise BadInput(what, "ranker.pooling=max", "set ranker.max_document, the subwords of one, as 256")
    return passages


def chosen_label(checkpoint: str, label: int | str | None) -> tuple[int | None, int]:
    """Return the label whose probability is the score (None for a head with one score), and the number of labels.

    Raises:
        BadInput: if the checkpoint's head has several labels and none is chosen, or it has no such label.
    """
    root = local_root(checkpoint)
    modules = read_json(root, "modules.json") or []
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    declared = (read_json(root, DECLARED) or {}).get("model_type")
    if declared == "CrossEncoder" and kinds not in ([], ["Transformer"]):  # of another model its transformer is read
        what = f"scores pairs by {', '.join(kinds)}"
        raise BadInput(what, checkpoint, "a cross-encoder is a transformer with a head; see also ranker=decoder")
    config = read_json(root, "config.json") or {}
    names = {int(number): str(name) for number, name in (config.get("id2label") or {}).items()}
    count = len(names) or int(config.get("num_labels") or 2)
    headed = any(name.endswith("ForSequenceClassification") for name in config.get("architectures") or [])
    if not headed or count == 1 or label == "new":
        if label not in (None, "new"):
            raise BadInput("has no head with several labels", f"{checkpoint}, ranker.label", "leave ranker.label=null")
        return None, 1
    known = ", ".join(f"{number} ({names.get(number, 'unnamed')})" for number in range(count))
    if label is None:
        choice = f"name the one whose probability is the score, ranker.label={known} (of a teacher, teacher.label)"
        remedy = f"{choice}, or train a new head with ranker.label=new"
        raise BadInput(f"its head has {count} labels, not one score", checkpoint, remedy)
    number = {name: number for number, name in names.items()}.get(str(label), label)
    if not isinstance(number, int) or not 0 <= number < count:
        raise BadInput(f"its head has no label {label!r}", f"{checkpoint}, ranker.label", f"choose one of {known}")
    return number, count
