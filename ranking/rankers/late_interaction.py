"""Defines late interaction: a transformer reads query and document separately, and their tokens are compared."""

from __future__ import annotations

import string
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast, Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.packing import Packing
from pyrite.ranking.precision import AUTO, Precision
from pyrite.ranking.quiet import quiet
from pyrite.ranking.rankers.colbert_folder import MARKS, ColbertFolder, mark_of
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained_weights import downloaded
from pyrite.ranking.rankers.ranker import linear
from pyrite.ranking.rankers.sentence_folder import UNLIMITED
from pyrite.ranking.rankers.sentence_models import check_heads, check_text_transformer, load_model, save_model
from pyrite.ranking.rankers.transformer_ranker import TransformerRanker, chosen_lengths
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Subwords, Tokenization, count_subwords, read_tokenizer

HEADS = {"Dense", "Dropout", "LayerNorm", "MultiVectorMask", "Normalize"}
REMEDY = "a late-interaction ranker is a transformer and what follows it for each token"
PRODUCTS = 1 << 25
"""Products of two tokens that are held at once when many documents are compared."""


class LateInteraction(TransformerRanker):
    """Late interaction: the sum over the query's tokens of the highest cosine with a token of the document.

    ColBERT (Khattab and Zaharia 2020). It re-ranks, and trains and measures on a first stage's candidates. Reads plain
    checkpoints, and the folders of PyLate, of Stanford's ColBERT and of sentence-transformers' `MultiVectorEncoder`,
    which it writes.

    Args:
        max_query: subwords read of a query; mask tokens fill up a shorter one (query augmentation). None takes the
            checkpoint's number, or else 32, ColBERT's.
        dimension: the length of a token's vector. None takes the checkpoint's, or else 128.
        expansion: whether mask tokens fill up queries. None takes the folder's choice, or else fills up.
        scale: the factor of the scores.
    """

    pairs = 256
    held = 1 << 12

    @checked
    def __init__(
        self,
        checkpoint: str,
        *,
        layers: int | None = None,
        max_query: Annotated[int, AtLeast(1)] | None = None,
        max_document: Annotated[int, AtLeast(1)] | None = None,
        dimension: Annotated[int, AtLeast(1)] | None = None,
        expansion: bool | None = None,
        scale: Annotated[float, Positive] = 1.0,
        precision: Precision = AUTO,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        super().__init__()

    def make(self, inputs: RankerInputs) -> None:
        options, generator = self.options, inputs.generator
        checkpoint, dimension = options.checkpoint, options.dimension
        max_query, max_document = options.max_query, options.max_document
        source = ColbertFolder.read(downloaded(checkpoint))
        lengths = self.lengths = chosen_lengths(max_query, max_document, source.lengths)
        self.scale = options.scale
        model, self.drawn = load_model("MultiVectorEncoder", source.source, options.layers, generator)
        what = f"compares texts by {model.similarity_fn_name}"
        refuse(model.similarity_fn_name != "maxsim", what, checkpoint, "choose a checkpoint that does so by maxsim")
        reader, *after = model
        self._readers = [reader]  # in a list: as a child, its weights would be the ranker's twice
        check_text_transformer(self._readers[0], checkpoint, REMEDY)
        check_heads(after, HEADS, checkpoint, REMEDY)
        self.tokenizer, transformer = self._readers[0].tokenizer, self._readers[0].model
        if hasattr(transformer, "pooler"):
            transformer.pooler = None
        if not source.late:
            self._add_marks(transformer, generator)
            after = [self._new_projection(transformer, dimension or 128, generator), *_comparison(self.tokenizer)]
        self._project(after)
        what = f"its token vectors have {self.dimension} dimensions, not {dimension}"
        refuse(dimension not in (None, self.dimension), what, checkpoint, "set ranker.dimension=null")
        marks = [mark_of(self.tokenizer, mark) or () for mark in (source.marks.query, source.marks.document)]
        single = Packing.of(self.tokenizer, pair=False)
        self.for_queries, self.for_documents = (
            replace(single, before=(*single.before[:1], *mark, *single.before[1:]), types=_longer(single.types, mark))
            for mark in marks
        )
        self.prompts, self.marks = source.prompts(self.tokenizer), source.marks
        counts = [count_subwords(self.tokenizer, text) for text in (self.prompts.query, self.prompts.document)]
        self.max_query, self.max_document = lengths[0] + counts[0], lengths[1] + counts[1]
        self.document_reach = self.max_document
        self._fill(options.expansion, new=not source.late)
        self.pretrained = self.running(transformer)
        self.needs_grad_scaler = options.precision == "float16"
        typed = {"max_query": max_query, "max_document": max_document}
        self.check_reach(checkpoint, self.for_queries.specials, self.pretrained.reach, typed)
        self.query_room = self.pretrained.reach - self.for_queries.specials

    def _project(self, after: list[Any]) -> None:
        """Take the modules after the transformer, among them the layers that project a token's vector."""
        self._after: list[Any] = after
        dense = [module for module in after if type(module).__name__ == "Dense"]
        # One linear layer alone has the name that its weights have had here from the start.
        plain = len(dense) == 1 and not dense[0].use_residual
        self.projection = dense[0].linear if plain else nn.ModuleList(dense)
        self.dimension = int(dense[-1].out_features if dense else self._readers[0].get_embedding_dimension())

    def _add_marks(self, transformer: Any, generator: torch.Generator) -> None:
        """Add two tokens that mark queries and documents to the tokenizer and the transformer."""
        from transformers import AddedToken

        marks = [AddedToken(mark, normalized=False, special=True) for mark in (MARKS.query, MARKS.document)]
        self.tokenizer.add_tokens(marks, special_tokens=True)
        known = len(transformer.get_input_embeddings().weight)
        if len(self.tokenizer) > known:
            with torch.random.fork_rng(devices=[]):
                transformer.resize_token_embeddings(len(self.tokenizer), mean_resizing=False)
            deviation = getattr(transformer.config, "initializer_range", 0.02)
            with torch.no_grad():
                transformer.get_input_embeddings().weight[known:].normal_(0, deviation, generator=generator)

    def _new_projection(self, transformer: Any, dimension: int, generator: torch.Generator) -> Any:
        from sentence_transformers.base.modules import Dense

        self.drawn = [*self.drawn, "projection.weight"]
        inputs = self._readers[0].get_embedding_dimension()
        weight = linear(inputs, dimension, generator, bias=False).weight.detach()
        options: dict[str, Any] = {"activation_function": nn.Identity(), "module_input_name": "token_embeddings"}
        with torch.random.fork_rng(devices=[]):  # it draws weights, which are replaced
            return Dense(inputs, dimension, bias=False, init_weight=weight, **options)

    def _fill(self, expansion: bool | None, new: bool) -> None:
        """Decide how queries are filled up with mask tokens, and give the library's module all lengths."""
        reader, tokens = self._readers[0], self.max_query + self.for_queries.specials
        usual = reader.query_expansion is not None or new
        filled = dict(reader.query_expansion or {"strategy": "fixed"})
        fixed = filled["strategy"] == "fixed"
        if fixed:
            filled = {"attend": False, "token": self._filler} | filled | {"length": tokens}
        # The query's length and that of the expansion may not contradict each other.
        reader.query_expansion, reader.query_length = None, None
        fills = usual if expansion is None else expansion
        reader.query_expansion = filled if fills else None
        reader.query_length = None if fixed and fills else tokens
        reader.document_length = None if self.max_document >= UNLIMITED else self._document_tokens
        self.expansion = reader.query_expansion
        if self.expansion is not None:
            self.for_queries = replace(self.for_queries, padding=self._number_of(self.expansion["token"]))

    def _number_of(self, filler: str | None) -> int:
        """Return the number of the token with which queries are filled up; None is the mask, or else the end."""
        usual_ones = (self.tokenizer.mask_token_id, self.tokenizer.eos_token_id)
        fillers = usual_ones if filler is None else [self.tokenizer.convert_tokens_to_ids(filler)]
        return next(token for token in fillers if token is not None)

    @property
    def _filler(self) -> str | None:
        """The token with which queries are filled up; None for the mask, or the end, if there is one."""
        known = {self.tokenizer.mask_token_id, self.tokenizer.eos_token_id} - {None}
        return None if known else self.tokenizer.pad_token

    @property
    def _document_tokens(self) -> int:
        """The tokens of a document, with special ones and the mark."""
        return self.max_document + self.for_documents.specials

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        source = ColbertFolder.read(options["checkpoint"])
        lengths = chosen_lengths(options.get("max_query"), options.get("max_document"), source.lengths)
        prompts = source.prompts(read_tokenizer(source.transformer)) if source.late else None
        return Subwords(source.transformer, *lengths, prompts)

    def represent_queries(self, queries: Texts) -> Tensor:
        """Return unit vectors of the queries' tokens [queries, tokens, dimension], 0 after the last one."""
        return self._vectors(queries, self.for_queries, self.read_of(queries), "query")

    def represent_documents(self, documents: Texts) -> Tensor:
        """Return unit vectors of the documents' tokens [documents, tokens, dimension], 0 for skipped tokens."""
        return self._vectors(documents, self.for_documents, self.max_document, "document")

    def _vectors(self, texts: Texts, packing: Packing, most: int | NDArray[np.int64], task: str) -> Tensor:
        """Return token vectors of texts [n, longest, dimension]; texts of similar length are read together."""
        floors = self._floors(texts, most) if task == "query" else torch.zeros(len(texts), dtype=torch.long)
        fills = bool(floors.any())
        widest = max(1, min(int(np.max(most, initial=1)), int(texts.lengths.max(initial=1))))
        length = max(widest + packing.specials, int(floors.max()) if len(texts) else 0)
        if not len(texts):
            return torch.zeros(len(texts), length, self.dimension, device=self.device)
        padded = torch.from_numpy(texts.padded(np.minimum(most, widest)))
        lengths = (padded > 0).sum(1) + packing.specials

        def read(rows: Tensor) -> Tensor:
            packed = packing.pack(padded[rows])
            filled = None
            if fills:
                packed, filled = self._filled(packed, floors[rows])
            packed = {name: tensor.to(self.device) for name, tensor in packed.items()}
            states = self.pretrained(packed).last_hidden_state.float()
            features: dict[str, Any] = packed | {"token_embeddings": states}
            if filled is not None:
                features["query_expansion_positions"] = filled.to(self.device)
            for module in self._after:
                features = module(features, task=task) if "task" in module.forward_kwargs else module(features)
            vectors = features["token_embeddings"] * features["attention_mask"][..., None]
            return F.pad(vectors, (0, 0, 0, length - vectors.shape[1]))

        return self.pretrained.in_passes(lengths.maximum(floors), read)

    def _floors(self, queries: Texts, most: int | NDArray[np.int64]) -> Tensor:
        """Return the number of tokens up to which each query is filled; 0 if it is not."""
        filling = self.expansion or {"length": 0, "strategy": "none"}
        floors = np.full(len(queries), filling["length"])
        if filling["strategy"] == "fixed":
            floors += most - self.max_query  # the length holds the ranker's prompt, and not those of rows
        return torch.from_numpy(floors)

    def _filled(self, packed: dict[str, Tensor], floors: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Fill sequences up to `floors` tokens each with mask tokens; also return where these are."""
        more = max(0, int(floors.max()) - packed["input_ids"].shape[1])
        values = {"input_ids": self.for_queries.padding, "attention_mask": 0, "token_type_ids": 0}
        packed = {name: F.pad(tensor, (0, more), value=values[name]) for name, tensor in packed.items()}
        mask = packed["attention_mask"]
        filled = (mask == 0) & (torch.arange(mask.shape[1]) < floors[:, None])
        if self.expansion["attend"]:
            packed["attention_mask"] = mask.masked_fill(filled, 1)
        return packed, filled

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
        """Write it as sentence-transformers' `MultiVectorEncoder`."""
        self._readers[0].model = self.pretrained.model
        self._readers[0].tokenizer.model_max_length = self._document_tokens
        options: dict[str, Any] = {"prompts": vars(self.marks), "similarity_fn_name": "maxsim"}
        save_model("MultiVectorEncoder", folder, [self._readers[0], *self._after], **options)


def _comparison(tokenizer: Any) -> list[Any]:
    """Return the modules after a new projection: punctuation of documents is not compared, and vectors are unit."""
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    mask = MultiVectorMask(skiplist_words=list(string.punctuation))
    with quiet():  # it reports the words that are no token
        mask.resolve_with_tokenizer(tokenizer)
    return [mask, Normalize(module_input_name="token_embeddings")]


def _longer(types: tuple[tuple[int, ...], ...] | None, mark: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Return the token types with those of a mark after the first token."""
    return None if types is None else ((*types[0], *(types[0][:1] * len(mark))), *types[1:])
