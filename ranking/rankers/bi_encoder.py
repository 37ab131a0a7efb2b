"""Defines the bi-encoder: a transformer that reads query and document separately, so that an index can search it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast, Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.packing import Packing
from pyrite.ranking.precision import AUTO, Precision
from pyrite.ranking.rankers.category_input import CategoryInput
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained import Pretrained
from pyrite.ranking.rankers.pretrained_weights import downloaded
from pyrite.ranking.rankers.sentence_folder import UNLIMITED, SentenceFolder
from pyrite.ranking.rankers.sentence_library import library
from pyrite.ranking.rankers.sentence_models import HEADS, check_heads, check_text_transformer, load_model, save_model
from pyrite.ranking.rankers.static_tower import StaticQueryTokens, StaticTower, is_table
from pyrite.ranking.rankers.transformer_ranker import TransformerRanker
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Subwords, Tokenization, count_subwords

PoolingName = Literal["mean", "cls", "last", "max", "weightedmean", "mean_sqrt_len_tokens"]
LAST = {"last": "lasttoken"}
"""The pooling that has another name in sentence-transformers."""
SimilarityName = Literal["cosine", "dot"]
Kind = tuple[Texts, int | NDArray[np.int64]]
"""Texts, and the tokens read of all or of each."""
UNIT = "sentence_embedding"
"""What a `Normalize` gives unit length, unless it declares something else."""


class BiEncoder(TransformerRanker, DenseRanker):
    """A bi-encoder: one vector per text, pooled from a pretrained encoder's last layer.

    Reimers and Gurevych 2019; Xiong et al. 2021. Reads plain checkpoints and the models of sentence-transformers with
    all that follows their transformer (pooling, dense layers, normalization, a shorter vector) and their prompts, and
    writes the latter. A long text is cut.

    Args:
        max_query: subwords read of a query, not counting the checkpoint's prompt. None takes the checkpoint's number,
            or else as many as it has positions.
        pooling: mean (of all tokens), cls (the first token), last (the last token, for decoders, in which only that
            one has seen the whole text), max, weightedmean (by position) or mean_sqrt_len_tokens. None takes the
            checkpoint's, or else mean, and last for a language model.
        similarity: cosine or dot. None takes the checkpoint's, or else cosine.
        tied: whether one tower reads queries and documents. Otherwise the document tower starts as a copy of the query
            tower, unless the checkpoint has two. None takes as many towers as the checkpoint has.
        frozen: `documents` keeps the document tower fixed: its vectors stay the same while the query tower learns
            (ADORE, Zhan et al. 2021). Needs two towers.
        scale: the factor of the scores. None is 20 for cosine, which alone spans no more than 2, and 1 for dot.
        categories: whether a vector of category and subcategory is added to the pooled vector. It starts at 0, so the
            checkpoint scores as before.
        labels: the numbers of categories and subcategories.
        query_prompt: the text before each query, or the name of one of the checkpoint's prompts. None takes the
            checkpoint's prompt for queries, "" none.
        document_prompt: the text before each document, in the same way.
        truncate_dim: the number of a vector's first dimensions that are used. None takes the checkpoint's number, or
            all.
    """

    library_class: ClassVar[str] = "SentenceTransformer"
    heads: ClassVar[set[str]] = HEADS
    keeps_documents = True

    @checked
    def __init__(
        self,
        checkpoint: str,
        *,
        layers: int | None = None,
        max_query: Annotated[int, AtLeast(1)] | None = None,
        max_document: Annotated[int, AtLeast(1)] | None = None,
        pooling: PoolingName | None = None,
        similarity: SimilarityName | None = None,
        tied: bool | None = None,
        frozen: Literal["documents"] | None = None,
        scale: Annotated[float, Positive] | None = None,
        precision: Precision = AUTO,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
        frozen_layers: Annotated[int, AtLeast(0)] = 0,
        categories: bool = False,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        truncate_dim: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        super().__init__()
        refuse(
            frozen and categories,
            "what categories add would change the documents' vectors",
            "ranker.frozen",
            "set ranker.categories=false, or ranker.frozen=null",
        )

    def make(self, inputs: RankerInputs) -> None:
        options, generator = self.options, inputs.generator
        checkpoint = options.checkpoint
        source = SentenceFolder.read(downloaded(checkpoint)).with_prompts(options.query_prompt, options.document_prompt)
        tied = self._is_tied(source)
        model, self.drawn = self._load(source, options.layers, generator)
        routes = [_route(model, name, checkpoint, self.heads) for name in ("query", "document")]
        self._compare_by(model, routes)
        heads = [_head(route, options.pooling, self.unit or options.similarity == "dot") for route in routes]
        self._declared, self._default_prompt = dict(model.prompts), model.default_prompt_name
        self._read_by(routes[1][0].tokenizer, source)
        self._set_towers([route[0] for route in routes], heads, tied, copied=source.tied)
        self.needs_grad_scaler = options.precision == "float16"
        reach = min(self.query_tower.reach, self.document_tower.reach)
        typed = {"max_query": options.max_query, "max_document": options.max_document}
        self.check_reach(checkpoint, self.packing.specials, reach, typed)
        self.query_room = self.query_tower.reach - self.packing.specials
        self._set_dimension()

        self.frozen, self.fixed_documents = options.frozen, options.frozen == "documents"
        if self.fixed_documents:
            self.document_tower.requires_grad_(False)
            self.document_head.requires_grad_(False)

        self.categories: CategoryInput | None = None
        if options.categories:
            self.categories = CategoryInput(inputs.labels, self.dimension, 0.0, generator)

    def _is_tied(self, source: SentenceFolder) -> bool:
        """Return whether one tower reads queries and documents, by the options or the checkpoint."""
        options = self.options
        what, where = "has a tower for queries and one for documents", f"{options.checkpoint}, ranker.tied"
        refuse(options.tied and not source.tied, what, where, "set ranker.tied=null")
        tied = bool(source.tied if options.tied is None else options.tied)
        what, remedy = "one tower reads queries and documents", "set ranker.tied=false"
        refuse(options.frozen and tied, what, "ranker.frozen", remedy)
        return tied

    def _read_by(self, tokenizer: Any, source: SentenceFolder) -> None:
        """Take the tokenizer, and the tokens that are read of a query and of a document with their prompts."""
        options, self.tokenizer, self.prompts = self.options, tokenizer, source.prompts
        self.packing = Packing.of(tokenizer, pair=False)
        self.lengths = self.lengths_of(options.checkpoint, options.max_query, options.max_document, source)
        prompts = [count_subwords(tokenizer, prompt) for prompt in (source.prompts.query, source.prompts.document)]
        self.max_query, self.max_document = (n + prompt for n, prompt in zip(self.lengths, prompts, strict=True))
        self.document_reach = self.max_document
        # Tokens before the text, which some poolings leave out.
        self._lead = tuple(len(self.packing.before) + prompt if prompt else 0 for prompt in prompts)

    def _compare_by(self, model: Any, routes: Sequence[Any]) -> None:
        """Take similarity, length of vectors and scale from the options or the checkpoint."""
        options, checkpoint = self.options, self.options.checkpoint
        self.similarity = options.similarity or model.similarity_fn_name
        refuse(
            self.similarity not in get_args(SimilarityName),
            f"compares texts by {self.similarity}",
            checkpoint,
            "choose one that does so by cosine or dot, or name ranker.similarity",
        )
        declared = getattr(model, "truncate_dim", None)
        self.truncate_dim = declared if options.truncate_dim is None else options.truncate_dim
        unit, *others = map(_last_is_unit, routes)
        differ = others != [unit] and self.similarity != "cosine"
        refuse(differ, "normalizes only some of its vectors", checkpoint, "choose a checkpoint that does not")
        # A shorter vector is normalized again only for a cosine.
        is_cosine = self.similarity == "cosine"
        self.unit = is_cosine or (unit and options.similarity is None and self.truncate_dim is None)
        by_default = 20.0 if is_cosine or unit else 1.0
        self.scale = by_default if options.scale is None else options.scale

    def _set_towers(self, readers: list[Any], heads: Sequence[nn.Sequential], tied: bool, copied: bool) -> None:
        """Take the transformers and heads of queries and documents: one, one and a copy of it, or two."""
        self._readers = readers
        self._output = library().output(readers[1])
        self.query_tower, self.query_head = self._tower(readers[0]), heads[0]
        if tied:
            self.document_tower, self.document_head = self.query_tower, self.query_head
            return
        if copied:
            self._readers[1] = copy.deepcopy(readers[0])
        differ = not is_table(readers[0]) and readers[0].tokenizer.get_vocab() != self.tokenizer.get_vocab()
        what, remedy = "its two towers read different subwords", "choose one whose towers agree"
        refuse(differ, what, self.options.checkpoint, remedy)
        self.document_tower = self._tower(self._readers[1])
        self.document_head = copy.deepcopy(self.query_head) if copied else heads[1]

    def _tower(self, reader: Any) -> Any:
        if is_table(reader):
            return StaticTower(reader)
        model = library().transformer(reader)
        if hasattr(model, "pooler"):
            model.pooler = None  # vectors come from the last layer, so nothing would train it
        return self.running(model)

    def _set_dimension(self) -> None:
        """Set the number of a vector's dimensions that are used."""
        sizes = [library().dimension(module) for module in (self._readers[1], *self.document_head)]
        changed = [size for size in sizes if size is not None]
        config: Any = self.document_tower.model.config
        size = changed[-1] or config.vocab_size  # SPLADE's pooling learns it from its first text
        asked = self.options.truncate_dim or 0
        refuse(asked > size, f"is {asked}, and vectors have {size} dimensions", "ranker.truncate_dim", "lower it")
        self._dimension = min(size, self.truncate_dim or size)

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        source = SentenceFolder.read(options["checkpoint"])
        source = source.with_prompts(options.get("query_prompt"), options.get("document_prompt"))
        typed = options.get("max_query"), options.get("max_document")
        lengths = cls.lengths_of(options["checkpoint"], *typed, source)
        return (
            StaticQueryTokens(source, *lengths) if source.static else Subwords(source.query, *lengths, source.prompts)
        )

    def _load(self, source: SentenceFolder, layers: int | None, generator: torch.Generator) -> tuple[Any, list[str]]:
        """Return the library's model, and the names of the weights that its checkpoint lacks."""
        return load_model(self.library_class, source, layers, generator)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.frozen:
            self.document_tower.eval()  # dropout would change its vectors
            self.document_head.eval()
        return self

    @property
    def dimension(self) -> int:
        return int(self._dimension)

    @property
    def pooling(self) -> str | None:
        """The pooling of the token vectors; None if there are several, or none."""
        modes = [mode for mode in map(library().pooling, self.query_head) if mode is not None]
        return next((name for name in get_args(PoolingName) if modes == [LAST.get(name, name)]), None)

    @property
    def _leaves_out(self) -> bool:
        """Whether a pooling leaves out the tokens of prompts."""
        return not all(getattr(module, "include_prompt", True) for module in self.query_head)

    def represent_queries(self, queries: Texts) -> Tensor:
        if queries.added is None or not self._leaves_out:
            return self._vectors(self.query_tower, self.query_head, [(queries, self.read_of(queries))], self._lead[0])
        # A pooling that leaves prompts out takes one length for all that it pools at once.
        vectors = torch.zeros(len(queries), self.dimension, device=self.device)
        for added in np.unique(queries.added):
            rows = np.flatnonzero(queries.added == added)
            part, lead = queries.take(rows), len(self.packing.before) + int(added) if added else 0
            read = self._vectors(self.query_tower, self.query_head, [(part, self.read_of(part))], lead)
            vectors = vectors.index_copy(0, torch.from_numpy(rows).to(self.device), read)
        return vectors

    def represent_documents(self, documents: Texts) -> Tensor:
        return self._vectors(self.document_tower, self.document_head, [(documents, self.max_document)], self._lead[1])

    def represent(self, queries: Texts, documents: Texts) -> tuple[Tensor, Tensor]:
        differ = queries.added is not None or self._lead[0] != self._lead[1]
        if self.document_tower is not self.query_tower or (self._leaves_out and differ):
            return super().represent(queries, documents)
        kinds = [(queries, self.read_of(queries)), (documents, self.max_document)]
        both = self._vectors(self.query_tower, self.query_head, kinds, self._lead[0])
        return both[: len(queries)], both[len(queries) :]

    def _vectors(self, tower: Pretrained, head: nn.Module, kinds: Sequence[Kind], lead: int) -> Tensor:
        """Return vectors [n, dimension] of texts, each kind cut at its length; similar lengths are read together."""
        padded = _padded(kinds)
        if not len(padded):
            return torch.zeros(0, self.dimension, device=self.device)
        if isinstance(tower, StaticTower):
            return self._unit(self._through(head, tower(padded.to(self.device))))
        places = tower.cut((padded > 0).sum(1) + self.packing.specials)
        passes = [
            {name: tensor.to(self.device) for name, tensor in packed.items()}
            for packed in (self.packing.pack(padded[rows], multiple=tower.cost.multiple) for rows in places)
        ]
        pooled = [
            self._pooled(head, output, packed, lead)
            for output, packed in zip(tower.outputs(passes), passes, strict=True)
        ]
        vectors = torch.cat(pooled)[torch.argsort(torch.cat(places)).to(self.device)]
        if self.categories:
            vectors = vectors + torch.cat([self.categories(texts) for texts, _ in kinds])
        return self._unit(vectors)

    def _unit(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=1) if self.unit else vectors

    def _pooled(self, head: nn.Module, output: Any, packed: dict[str, Tensor], lead: int) -> Tensor:
        """Return one vector per text [texts, dimension] from the transformer's output."""
        features: dict[str, Any] = {name: packed[name] for name in ("input_ids", "attention_mask")}
        features["token_embeddings"] = output[self._output].float()
        if lead:
            features["prompt_length"] = lead
        if output.get("hidden_states") is not None:
            features["all_layer_embeddings"] = output.hidden_states
        return self._through(head, features)

    def _through(self, head: nn.Module, features: dict[str, Any]) -> Tensor:
        """Return the vectors that the modules after a transformer or a table make of its features."""
        for module in head.children():
            features = module(features)
        return features["sentence_embedding"][:, : self.truncate_dim]

    def layers(self) -> list[nn.Module]:
        def of(tower: Any, head: nn.Module) -> list[nn.Module]:
            return [*tower.blocks(), *(module for module in head.children() if list(module.parameters()))]

        blocks = of(self.query_tower, self.query_head)
        if self.document_tower is self.query_tower:
            return blocks
        documents = of(self.document_tower, self.document_head)
        if isinstance(self.query_tower, StaticTower):
            return [nn.ModuleList(blocks), *documents]
        return [nn.ModuleList(pair) for pair in zip(blocks, documents, strict=True)]

    def save_pretrained(self, folder: str) -> None:
        """Write it as sentence-transformers' `SentenceTransformer`.

        Two towers become its `Router`, whose `encode_query` and `encode_document` choose between them. Queries and
        documents keep their lengths; `encode` reads as many tokens as of a document.
        """
        installed = library()
        tokens = [length + self.packing.specials for length in (self.max_query, self.max_document)]
        towers, heads = (self.query_tower, self.document_tower), (self.query_head, self.document_head)
        routes: list[list[Any]] = []
        for reader, tower, head in zip(self._readers, towers, heads, strict=True):
            if not is_table(reader):
                installed.replace_transformer(reader, tower.model)
                installed.set_lengths(reader, *(None if n >= UNLIMITED else n for n in tokens))
                reader.tokenizer.model_max_length = tokens[1]
            routes.append([reader, *head.children(), *([installed.module("Normalize")] if self.unit else [])])
        modules = routes[1] if towers[0] is towers[1] else [installed.router(routes[0], routes[1])]
        options: dict[str, Any] = {"similarity_fn_name": self.similarity}
        if self.truncate_dim is not None:
            options["truncate_dim"] = self.truncate_dim
        prompts = {"prompts": self._declared | vars(self.prompts), "default_prompt_name": self._default_prompt}
        save_model(self.library_class, folder, modules, **options, **prompts)


ROUTED = "choose a checkpoint whose documents are read by a transformer"
REMEDY = "a bi-encoder is a transformer and what follows it; for StaticEmbedding choose ranker=static"


def _route(model: Any, name: str, checkpoint: str, heads: set[str]) -> list[Any]:
    """Return the modules that read queries or documents, the transformer first."""
    first, *rest = model
    remedy, table = REMEDY, False
    if hasattr(first, "sub_modules"):
        route = name if name in first.sub_modules else first.default_route
        refuse(route is None, f"has no route for a {name}", checkpoint, "choose a checkpoint with query and document")
        first, *before = first.sub_modules[route]
        rest, remedy, table = [*before, *rest], ROUTED, name == "query" and is_table(first)
    if not table:
        check_text_transformer(first, checkpoint, remedy)
    check_heads(rest, heads, checkpoint, REMEDY)
    return [first, *rest]


def _padded(kinds: Sequence[Kind]) -> Tensor:
    """Return texts of several kinds, each cut at its length, in one matrix on the CPU: no length is asked of a GPU."""
    width = max(min(int(np.max(length, initial=1)), int(texts.lengths.max(initial=1))) for texts, length in kinds)
    parts = [texts.padded(np.minimum(length, width)) for texts, length in kinds]
    return torch.from_numpy(np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts]))


def _last_is_unit(route: list[Any]) -> bool:
    """Return whether the last module gives vectors of unit length."""
    last = route[-1]
    return type(last).__name__ == "Normalize" and vars(last).get("module_output_name", UNIT) == UNIT


def _head(route: list[Any], pooling: str | None, bare: bool) -> nn.Sequential:
    """Return the modules after the transformer, without the last normalization if `bare`."""
    reader, *head = route
    if bare and _last_is_unit(route):
        head.pop()
    if pooling is not None:
        options = {"embedding_dimension": library().dimension(reader), "pooling_mode": LAST.get(pooling, pooling)}
        made = library().module("Pooling", **options)
        head = [made if isinstance(module, type(made)) else module for module in head]
    return nn.Sequential(*head)
