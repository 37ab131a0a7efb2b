"""Defines late interaction: a transformer reads query and document separately, and their tokens are compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ranking.bounds import AtLeast, Positive, checked
from ranking.errors import BadInput
from ranking.packing import Packing, buckets
from ranking.rankers.colbert_folder import ColbertFolder
from ranking.rankers.pretrained import PRESETS, Pretrained, read_model
from ranking.rankers.ranker import Ranker, linear
from ranking.texts import Texts
from ranking.tokenization import Subwords, Tokenization, read_tokenizer

MARKS = 1
"""Tokens per text that mark queries and documents."""
PRODUCTS = 1 << 25
"""Products of two tokens that are held at once when many documents are compared."""


class LateInteraction(Ranker):
    """Late interaction: the sum over the query's tokens of the highest cosine with a token of the document.

    ColBERT (Khattab and Zaharia 2020). It re-ranks, and trains and measures on a first stage's candidates. Reads plain
    checkpoints and the folders of PyLate, and writes the latter.

    Args:
        generator: draws the weights that the checkpoint lacks.
        checkpoint: a folder, or a name at the hub.
        vectors: ignored; every ranker is offered them.
        preset: `paper`, `small` (2 layers, 24 + 64 subwords) or `tiny` (1 layer, 12 + 32): layers and lengths that
            neither the next three options nor the folder specify.
        layers: the number of layers to keep, from the input. None keeps all.
        max_query: subwords read of a query; mask tokens fill up a shorter one (query augmentation). None takes the
            checkpoint's number, or else the preset's.
        max_document: subwords read of a document, in the same way.
        dimension: the length of a token's vector. None takes the checkpoint's, or else 128.
        expansion: whether mask tokens fill up queries. None takes the folder's choice, or else fills up.
        scale: the factor of the scores.
        precision: float32, bfloat16 or float16, see `ranking.rankers.pretrained.Pretrained`.
        gradient_checkpointing: whether to compute activations twice, to hold fewer.
        compiled: whether to run the transformer through torch.compile.
        budget: tokens per forward pass, with padding. None suits the device.

    Raises:
        BadInput: if the checkpoint can't be read or an option is out of its range.
    """

    presets = PRESETS
    skipped: Tensor
    pairs = 256
    held = 1 << 12

    @checked
    def __init__(
        self,
        generator: torch.Generator,
        checkpoint: str,
        vectors: NDArray[np.float32] | None = None,
        preset: str = "paper",
        layers: int | None = None,
        max_query: int | None = None,
        max_document: int | None = None,
        dimension: Annotated[int, AtLeast(1)] | None = None,
        expansion: bool | None = None,
        scale: Annotated[float, Positive] = 1.0,
        precision: str = "float32",
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: int | None = None,
    ) -> None:
        super().__init__()
        widths = _widths(checkpoint, preset, layers, max_query, max_document)
        source = ColbertFolder.read(checkpoint)
        self.scale = scale
        self.tokenizer = read_tokenizer(source.transformer)
        model, drawn = read_model("AutoModel", source.transformer, widths["layers"], generator)
        self.drawn = [name for name in drawn if not name.startswith("pooler.")]
        if hasattr(model, "pooler"):
            model.pooler = None  # type: ignore[assignment]
        self._add_marks(model, (source.query_prefix, source.document_prefix), generator)
        plain = Packing.of(self.tokenizer, pair=False)
        filler = self.tokenizer.mask_token_id
        if filler is None:
            filler = self.tokenizer.eos_token_id if self.tokenizer.eos_token_id is not None else plain.padding
        marks = [self.tokenizer.convert_tokens_to_ids(mark) for mark in (source.query_prefix, source.document_prefix)]
        self.for_queries, self.for_documents = (
            replace(plain, before=(*plain.before[:1], mark, *plain.before[1:]), padding=filler) for mark in marks
        )
        self.max_query, self.max_document = widths["max_query"], widths["max_document"]
        specials = self.for_queries.specials
        self.folder = replace(
            source,
            projection=None,
            query_length=self.max_query + specials,
            document_length=self.max_document + specials,
            expansion=source.expansion if expansion is None else expansion,
        )
        skipped = [self.tokenizer.convert_tokens_to_ids(word) for word in source.skipped]
        self.register_buffer(
            "skipped", torch.tensor(sorted(set(skipped) - {None}), dtype=torch.int64), persistent=False
        )
        self.pretrained = Pretrained(model, precision, gradient_checkpointing, compiled, budget)
        self.has_dropout, self.needs_grad_scaler = self.pretrained.has_dropout, precision == "float16"
        for name, length in (("max_query", self.max_query), ("max_document", self.max_document)):
            if length + specials > self.pretrained.reach:
                what = f"{length} subwords are more than its {self.pretrained.reach} positions"
                raise BadInput(what, checkpoint, f"lower ranker.{name}")
        self.projection = self._projection(source, dimension, generator)

    def _add_marks(self, model: Any, marks: tuple[str, str], generator: torch.Generator) -> None:
        """Add the two marks to the tokenizer and the model."""
        self.tokenizer.add_tokens([mark for mark in marks if mark not in self.tokenizer.get_vocab()])
        table = model.get_input_embeddings().weight
        known = len(table)
        if len(self.tokenizer) > known:
            with torch.random.fork_rng(devices=[]):
                model.resize_token_embeddings(len(self.tokenizer), mean_resizing=False)
            deviation = getattr(model.config, "initializer_range", 0.02)
            with torch.no_grad():
                model.get_input_embeddings().weight[known:].normal_(0, deviation, generator=generator)

    def _projection(self, source: ColbertFolder, dimension: int | None, generator: torch.Generator) -> nn.Linear:
        config: Any = self.pretrained.model.config
        if source.projection is None:
            self.drawn.append("projection.weight")
            return linear(config.hidden_size, dimension or 128, generator, bias=False)
        weight = source.projection["weight"]
        if weight.shape[1] != config.hidden_size or (dimension is not None and dimension != len(weight)):
            what = f"its projection is {tuple(weight.shape)}, not {(dimension or len(weight), config.hidden_size)}"
            raise BadInput(what, source.transformer, "set ranker.dimension=null, or choose a folder that is whole")
        outputs, inputs = weight.shape
        layer = linear(inputs, outputs, generator, bias="bias" in source.projection)
        layer.load_state_dict(dict(source.projection))
        return layer

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        given = {name: options.get(name) for name in ("layers", "max_query", "max_document")}
        widths = _widths(options["checkpoint"], options.get("preset", "paper"), **given)
        source = ColbertFolder.read(options["checkpoint"])
        return Subwords(source.transformer, widths["max_query"], widths["max_document"])

    def represent_queries(self, queries: Texts) -> Tensor:
        """Return unit vectors of the queries' tokens [queries, tokens, dimension], 0 after the last one."""
        length = self.max_query + self.for_queries.specials
        return self._vectors(queries, self.for_queries, self.max_query, length, expanded=self.folder.expansion)

    def represent_documents(self, documents: Texts) -> Tensor:
        """Return unit vectors of the documents' tokens [documents, tokens, dimension], 0 for skipped tokens."""
        length = self.max_document + self.for_documents.specials
        return self._vectors(documents, self.for_documents, self.max_document, length)

    def _vectors(self, texts: Texts, packing: Packing, most: int, length: int, expanded: bool = False) -> Tensor:
        """Return token vectors of texts [n, length, dimension]; texts of similar length are read together."""
        size = (len(texts), length, self.projection.out_features)
        if not len(texts) and self.pretrained.sharding is None:
            return torch.zeros(size, device=self.device)
        padded = torch.from_numpy(texts.padded(most))
        lengths = (padded > 0).sum(1) + packing.specials
        if expanded:
            lengths = torch.full_like(lengths, length)
        places = self.pretrained.even(list(buckets(lengths, self.pretrained.budget)))
        parts = []
        for rows in places:
            packed = {name: tensor.to(self.device) for name, tensor in packing.pack(padded[rows]).items()}
            if expanded:
                packed = self._expanded(packed, length, packing.padding)
            compared = torch.ones_like(packed["input_ids"]) if expanded else packed["attention_mask"]
            if packing is self.for_documents:
                compared = compared * ~torch.isin(packed["input_ids"], self.skipped)
            states = self.pretrained(packed).last_hidden_state.float()
            vectors = F.normalize(self.projection(states), dim=-1) * compared[..., None]
            parts.append(F.pad(vectors, (0, 0, 0, length - vectors.shape[1])))
        return torch.cat(parts)[torch.argsort(torch.cat(places)).to(self.device)]

    def _expanded(self, packed: dict[str, Tensor], length: int, filler: int) -> dict[str, Tensor]:
        """Fill sequences up to `length` with mask tokens."""
        more = length - packed["input_ids"].shape[1]
        values = {"input_ids": filler, "attention_mask": int(self.folder.attended), "token_type_ids": 0}
        filled = {name: F.pad(tensor, (0, more), value=values[name]) for name, tensor in packed.items()}
        if self.folder.attended:
            filled["attention_mask"] = torch.ones_like(filled["attention_mask"])
        return filled

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        present = (documents != 0).any(-1)
        cosines = torch.einsum("bxqd,bmtd->bmqt", queries, documents)
        return self.scale * cosines.masked_fill(~present[:, :, None], -torch.inf).amax(-1).sum(-1)

    def compare(self, queries: Tensor, documents: Tensor, places: Tensor) -> Tensor:
        places = places.to(queries.device)
        if len(documents) > places.shape[1]:
            return super().compare(queries, documents, places)
        # Few documents in many columns: each query with all of them, and no vector copied.
        present = (documents != 0).any(-1)
        rows = max(1, PRODUCTS // max(1, queries.shape[1] * documents[..., 0].numel()))
        parts = []
        for some in queries.split(rows):
            cosines = torch.einsum("bqd,mtd->bmqt", some, documents)
            parts.append(cosines.masked_fill(~present[None, :, None], -torch.inf).amax(-1).sum(-1))
        return self.scale * torch.cat(parts).gather(1, places)

    def layers(self) -> list[nn.Module]:
        return [*self.pretrained.blocks(), self.projection]

    def save_pretrained(self, folder: str) -> None:
        """Write it as PyLate's `ColBERT` reads it: safetensors, the tokenizer with both marks, the modules."""
        self.folder.write(folder, self.pretrained.model, self.projection, self.tokenizer)


def _widths(
    checkpoint: str, preset: str, layers: int | None, max_query: int | None, max_document: int | None
) -> dict[str, Any]:
    """Return layers and lengths: the options, or else the folder's, or else the preset's."""
    source = ColbertFolder.read(checkpoint)
    if source.query_length is not None and source.document_length is not None:
        specials = Packing.of(read_tokenizer(source.transformer), pair=False).specials + MARKS
        max_query = source.query_length - specials if max_query is None else max_query
        max_document = source.document_length - specials if max_document is None else max_document
    return LateInteraction.resolve_preset(preset, layers=layers, max_query=max_query, max_document=max_document)
