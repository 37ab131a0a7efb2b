"""Defines the decoder as a reranker: a language model that judges whether a document answers a query."""

from __future__ import annotations

import re
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.packing import Packing
from pyrite.ranking.precision import AUTO
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained_weights import read_model
from pyrite.ranking.rankers.sentence_folder import UNLIMITED, SentenceFolder
from pyrite.ranking.rankers.transformer_ranker import PairRanker
from pyrite.ranking.tokenization import Prompts, Subwords, Tokenization, count_subwords, read_tokenizer

TEMPLATE = "Query: {query}\nDocument: {document}\nRelevant:"


class Decoder(PairRanker):
    """A decoder (Llama, Qwen, Mistral, …) as a reranker, with one score per pair from its last token.

    With `words` the score is the logit of the first word after the prompt, minus that of the second if there are two
    (Nogueira et al. 2020 for T5; Qwen3-Reranker), and no weight is new. Without, it is the output of a linear head over
    the last token's state (RankLLaMA, Ma et al. 2024), which transformers uses for sequence classification.

    Args:
        generator: draws the head if the checkpoint has none.
        words: one or two words whose logits are the score, e.g. [" yes"," no"]. None uses a head.
        template: the prompt, with `{query}` before `{document}`.
    """

    @checked
    def __init__(
        self,
        checkpoint: str,
        *,
        layers: int | None = None,
        max_query: int | None = None,
        max_document: int | None = None,
        words: list[str] | None = None,
        template: str = TEMPLATE,
        precision: str = AUTO,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
    ) -> None:
        super().__init__()

    def make(self, inputs: RankerInputs) -> None:
        options, generator = self.options, inputs.generator
        checkpoint, words = options.checkpoint, options.words
        max_query, max_document = options.max_query, options.max_document
        source = SentenceFolder.read(checkpoint)
        self.lengths = self.max_query, self.max_document = self.lengths_of(checkpoint, max_query, max_document, source)
        self.tokenizer = read_tokenizer(checkpoint)
        self.packing, lead = prompt(self.tokenizer, options.template)
        self.max_query += count_subwords(self.tokenizer, lead.query)
        self.max_document += count_subwords(self.tokenizer, lead.document)
        kind: str = "AutoModelForSequenceClassification" if words is None else "AutoModelForCausalLM"
        extra: dict[str, Any] = {"num_labels": 1} if words is None else {}
        model: Any
        model, self.drawn = read_model(kind, checkpoint, options.layers, generator, **extra)
        head: Any = getattr(model, "score", None) if words is None else model.get_output_embeddings()
        if not isinstance(head, nn.Linear):
            raise BadInput("has no head over its last token", checkpoint, "choose a decoder, or ranker=cross_encoder")
        self.body = self.running(model.base_model)
        tied = any(head.weight is weight for weight in model.base_model.parameters())
        # The whole model is kept out of the modules, and with it a head that is the table of tokens: each has one name.
        self._whole: list[Any] = [model, head]
        self.head = None if tied else head
        self.words = None if words is None else torch.tensor(_numbers(self.tokenizer, words))
        self.has_dropout, self.needs_grad_scaler = self.body.has_dropout, options.precision == "float16"
        self.document_reach = self.max_document
        self.reach = min(self.body.reach, source.longest or UNLIMITED)
        longest = (max_query or 1) + (max_document or 1) + self.packing.specials
        longest += sum(count_subwords(self.tokenizer, text) for text in (lead.query, lead.document))
        if longest > self.reach:
            what = f"{longest} subwords of prompt, query and document are more than its {self.reach} positions"
            raise BadInput(what, checkpoint, "lower ranker.max_query or ranker.max_document")

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        checkpoint = options["checkpoint"]
        lengths = cls.lengths_of(checkpoint, options.get("max_query"), options.get("max_document"))
        packing, lead = prompt(tokenizer := read_tokenizer(checkpoint), options.get("template", TEMPLATE))

        def room() -> int:
            prompts = sum(count_subwords(tokenizer, text) for text in (lead.query, lead.document))
            return (SentenceFolder.read(checkpoint).longest or UNLIMITED) - packing.specials - prompts

        return Subwords(checkpoint, *lengths, lead, room)

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(queries.shape[:-1], documents.shape[:-1])
        first, second = (texts.expand(*shape, -1).reshape(-1, texts.shape[-1]) for texts in (queries, documents))
        first, second = self.fitted(first, second)
        lengths = (first > 0).sum(1) + (second > 0).sum(1) + self.packing.specials

        def read(rows: Tensor) -> Tensor:
            states = self.body(self.packing.pack(first[rows], second[rows])).last_hidden_state
            last = lengths[rows] - 1  # padding comes after it, where a decoder does not see it
            return self._scores(states[torch.arange(len(rows), device=states.device), last].float())

        return self.body.in_passes(lengths, read).view(shape)

    def _scores(self, states: Tensor) -> Tensor:
        """Return scores of last tokens [n, width]."""
        head = self._whole[1]
        if self.words is None:
            return head(states)[:, 0]
        rows = self.words.to(states.device)
        logits = F.linear(states, head.weight[rows], None if head.bias is None else head.bias[rows])
        return logits[:, 0] if len(rows) == 1 else logits[:, 0] - logits[:, 1]

    def layers(self) -> list[nn.Module]:
        return [*self.body.blocks(), *([] if self.head is None else [self.head])]

    def save_pretrained(self, folder: str) -> None:
        """Write it as transformers reads it: safetensors and the tokenizer."""
        self.save_with_lengths(folder, self._whole[0], self.lengths)


def prompt(tokenizer: Any, template: str) -> tuple[Packing, Prompts]:
    """Split a template into the tokens before, between and after query and document, and the space before each.

    A space belongs to the word after it, as in most decoders' subwords.

    Raises:
        BadInput: if the template does not name query and document, once each and in this order.
    """
    parts = re.split(r"\{(query|document)\}", template)
    if len(parts) != 5 or parts[1::2] != ["query", "document"]:
        raise BadInput(f"template is {template!r}", "ranker.template", "write {query} once, and {document} behind it")
    begins = Packing.of(tokenizer, pair=False).before
    pieces = [tuple(tokenizer(text.rstrip(" "), add_special_tokens=False)["input_ids"]) for text in parts[::2]]
    lead = Prompts(*(" " if text.endswith(" ") else "" for text in parts[0:4:2]))
    ends = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return Packing((*begins, *pieces[0]), pieces[1], pieces[2], None, ends or 0), lead


def _numbers(tokenizer: Any, words: list[str]) -> list[int]:
    """Return the tokens of one or two words."""
    if isinstance(words, str) or not 1 <= len(words) <= 2:
        raise BadInput(f"words are {words!r}", "ranker.words", 'name one or two, e.g. [" yes"," no"], or null')
    numbers = [tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
    for word, tokens in zip(words, numbers, strict=True):
        if len(tokens) != 1 or tokens[0] == tokenizer.unk_token_id:
            what = f"{word!r} is {len(tokens)} tokens, or an unknown one"
            raise BadInput(
                what, "ranker.words", "choose a word that is one token; most decoders want a space before it"
            )
    return [tokens[0] for tokens in numbers]
