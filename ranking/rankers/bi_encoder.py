"""Defines the bi-encoder: a transformer that reads query and document separately, so that an index can search it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ranking.errors import BadInput
from ranking.labels import LabelCounts
from ranking.packing import Packing, buckets
from ranking.rankers.category_input import CategoryInput
from ranking.rankers.dense import DenseRanker
from ranking.rankers.pretrained import PRESETS, Pretrained, read_model
from ranking.rankers.sentence_folder import POOLINGS, SIMILARITIES, SentenceFolder, write
from ranking.rankers.text_lengths import resolve_widths, write_lengths
from ranking.texts import Texts
from ranking.tokenization import Subwords, Tokenization, count_subwords, read_tokenizer


class BiEncoder(DenseRanker):
    """A bi-encoder: one vector per text, pooled from a pretrained encoder's last layer.

    Reimers and Gurevych 2019; Xiong et al. 2021. Reads plain checkpoints and the folders of sentence-transformers with
    their prompts, and writes the latter. A long text is cut.

    Args:
        generator: draws the weights that the checkpoint lacks.
        checkpoint: a folder, or a name at the hub.
        vectors: ignored; every ranker is offered them.
        preset: `paper`, `small` (2 layers, 24 + 64 subwords) or `tiny` (1 layer, 12 + 32): layers and lengths that
            neither the next three options nor the folder specify.
        layers: the number of layers to keep, from the input. None keeps all.
        max_query: subwords read of a query, not counting the checkpoint's prompt. None takes the checkpoint's number,
            or else the preset's.
        max_document: subwords read of a document, in the same way.
        pooling: mean (of all tokens), cls (the first token) or last (the last token, for decoders, in which only that
            one has seen the whole text). None takes the checkpoint's, or else mean.
        similarity: cosine or dot. None takes the checkpoint's, or else cosine.
        tied: whether one tower reads queries and documents. Otherwise the document tower starts as a copy of the query
            tower, unless the checkpoint has two.
        frozen: `documents` keeps the document tower fixed: its vectors stay the same while the query tower learns
            (ADORE, Zhan et al. 2021). Needs two towers.
        scale: the factor of the scores. None is 20 for cosine, which alone spans no more than 2, and 1 for dot.
        precision: float32, bfloat16 or float16, see `ranking.rankers.pretrained.Pretrained`.
        gradient_checkpointing: whether to compute activations twice, to hold fewer.
        compiled: whether to run the transformer through torch.compile.
        budget: tokens per forward pass, with padding. None suits the device.
        categories: whether a vector of category and subcategory is added to the pooled vector. It starts at 0, so the
            checkpoint scores as before.
        labels: the numbers of categories and subcategories.
        query_prompt: the text before each query, or the name of one of the checkpoint's prompts. None takes the
            checkpoint's prompt for queries, "" none.
        document_prompt: the text before each document, in the same way.

    Raises:
        BadInput: if the checkpoint can't be read or an option is out of its range.
    """

    presets = PRESETS

    def __init__(
        self,
        generator: torch.Generator,
        checkpoint: str,
        vectors: NDArray[np.float32] | None = None,
        preset: str = "paper",
        layers: int | None = None,
        max_query: int | None = None,
        max_document: int | None = None,
        pooling: str | None = None,
        similarity: str | None = None,
        tied: bool = True,
        frozen: str | None = None,
        scale: float | None = None,
        precision: str = "float32",
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: int | None = None,
        categories: bool = False,
        labels: LabelCounts | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ) -> None:
        super().__init__()
        widths = resolve_widths(type(self), checkpoint, preset, layers, max_query, max_document)
        source = SentenceFolder.read(checkpoint).with_prompts(query_prompt, document_prompt)
        self.pooling = pooling or source.pooling or "mean"
        self.similarity = similarity or source.similarity or "cosine"
        for name, value, known in (("pooling", self.pooling, POOLINGS), ("similarity", self.similarity, SIMILARITIES)):
            if value not in known:
                raise BadInput(f"no {name} {value!r}", f"ranker.{name}", f"choose {' or '.join(known)}")
        if frozen not in (None, "documents"):
            raise BadInput(f"nothing called {frozen!r} can be frozen", "ranker.frozen", "choose documents or null")
        if frozen and tied:
            raise BadInput("one tower reads queries and documents", "ranker.frozen", "set ranker.tied=false")
        if frozen and categories:
            remedy = "set ranker.categories=false, or ranker.frozen=null"
            raise BadInput("what categories add would change the documents' vectors", "ranker.frozen", remedy)
        if tied and not source.tied:
            raise BadInput("has a tower for queries and one for documents", checkpoint, "set ranker.tied=false")
        self.scale = {"cosine": 20.0, "dot": 1.0}[self.similarity] if scale is None else scale
        if not self.scale > 0:
            raise BadInput(f"scale is {scale}", "ranker.scale", "choose a number above 0")
        self.tokenizer = read_tokenizer(source.query)
        self.prompts, self._declared = source.prompts, dict(source.declared)
        self.lengths = (widths["max_query"], widths["max_document"])
        self.max_query = widths["max_query"] + count_subwords(self.tokenizer, source.prompts.query)
        self.max_document = widths["max_document"] + count_subwords(self.tokenizer, source.prompts.document)
        self.packing = Packing.of(self.tokenizer, pair=False)
        self.drawn: list[str] = []

        def tower(checkpoint: str) -> Pretrained:
            model, drawn = read_model("AutoModel", checkpoint, widths["layers"], generator)
            if hasattr(model, "pooler"):
                # Vectors come from the last layer, so nothing would train it.
                model.pooler = None  # type: ignore[assignment]
            self.drawn += [name for name in drawn if not name.startswith("pooler.")]
            return Pretrained(model, precision, gradient_checkpointing, compiled, budget)

        self.query_tower = tower(source.query)
        if tied:
            self.document_tower = self.query_tower
        elif source.tied:
            self.document_tower = copy.deepcopy(self.query_tower)
        else:
            if read_tokenizer(source.document).get_vocab() != self.tokenizer.get_vocab():
                raise BadInput("its two towers read different subwords", checkpoint, "choose one whose towers agree")
            self.document_tower = tower(source.document)
        self.has_dropout, self.needs_grad_scaler = self.query_tower.has_dropout, precision == "float16"
        reach = min(self.query_tower.reach, self.document_tower.reach)
        for name, length in (("max_query", self.max_query), ("max_document", self.max_document)):
            if length + self.packing.specials > reach:
                raise BadInput(
                    f"{length} subwords are more than its {reach} positions", checkpoint, f"lower ranker.{name}"
                )

        self.frozen, self.fixed_documents = frozen, frozen == "documents"
        if frozen:
            self.document_tower.requires_grad_(False)

        self.categories: CategoryInput | None = None
        if categories:
            self.categories = CategoryInput(labels, self.dimension, 0.0, generator)

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        given = {name: options.get(name) for name in ("layers", "max_query", "max_document")}
        widths = resolve_widths(cls, options["checkpoint"], options.get("preset", "paper"), **given)
        source = SentenceFolder.read(options["checkpoint"])
        source = source.with_prompts(options.get("query_prompt"), options.get("document_prompt"))
        return Subwords(source.query, widths["max_query"], widths["max_document"], source.prompts)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.frozen:
            self.document_tower.eval()  # dropout would change its vectors
        return self

    @property
    def dimension(self) -> int:
        config: Any = self.query_tower.model.config
        return int(config.hidden_size)

    def represent_queries(self, queries: Texts) -> Tensor:
        return self._vectors(self.query_tower, [(queries, self.max_query)])

    def represent_documents(self, documents: Texts) -> Tensor:
        return self._vectors(self.document_tower, [(documents, self.max_document)])

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        if self.document_tower is not self.query_tower:
            return super().represent(queries, documents)
        both = self._vectors(self.query_tower, [(queries, self.max_query), (documents, self.max_document)])
        return both[: len(queries)], both[len(queries) :]

    def _vectors(self, tower: Pretrained, kinds: Sequence[tuple[Texts, int]]) -> Tensor:
        """Return vectors [n, dimension] of texts, each kind cut at its length; similar lengths are read together."""
        width = max(length for _, length in kinds)
        parts = [np.pad(texts.padded(length), ((0, 0), (0, width - length))) for texts, length in kinds]
        padded = torch.from_numpy(np.concatenate(parts))  # packed here, so that no length is asked of a device
        if not len(padded) and tower.sharding is None:
            return torch.zeros(0, self.dimension, device=self.device)
        places = tower.even(list(buckets((padded > 0).sum(1) + self.packing.specials, tower.budget)))
        passes = [
            {name: tensor.to(self.device) for name, tensor in self.packing.pack(padded[rows]).items()}
            for rows in places
        ]
        pooled = [
            self._pooled(states.float(), packed["attention_mask"])
            for states, packed in zip(tower.last_states(passes), passes, strict=True)
        ]
        vectors = torch.cat(pooled)[torch.argsort(torch.cat(places)).to(self.device)]
        if self.categories:
            vectors = vectors + torch.cat([self.categories(texts) for texts, _ in kinds])
        return F.normalize(vectors, dim=1) if self.similarity == "cosine" else vectors

    def _pooled(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return one vector per text from the states [n, tokens, dimension] of its tokens, which the mask shows."""
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "last":
            return states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def layers(self) -> list[nn.Module]:
        if self.document_tower is self.query_tower:
            return self.query_tower.blocks()
        pairs = zip(self.query_tower.blocks(), self.document_tower.blocks(), strict=True)
        return [nn.ModuleList(pair) for pair in pairs]

    def save_pretrained(self, folder: str) -> None:
        """Write it as sentence-transformers' `SentenceTransformer` reads it: safetensors, the tokenizer, the modules.

        Two towers become its `Router`, whose `encode_query` and `encode_document` choose between them. One tower has
        one length there, that of documents. Other declarations of the checkpoint (prompts, versions, keys that we do
        not know) are kept.
        """
        specials = self.packing.specials
        towers = {"document": self.document_tower.model}
        if self.document_tower is not self.query_tower:
            towers = {"query": self.query_tower.model} | towers
        tokens = {"query": self.max_query + specials, "document": self.max_document + specials}
        write(folder, towers, self.tokenizer, self.pooling, self.similarity, tokens, self.prompts, self._declared)
        write_lengths(folder, *self.lengths)
