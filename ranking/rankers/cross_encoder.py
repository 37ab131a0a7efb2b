"""Defines the cross-encoder: a transformer that reads query and document together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from pyrite.ranking.bounds import AtLeast, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.precision import AUTO, Precision
from pyrite.ranking.quiet import quiet
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pair_reading import PairReading
from pyrite.ranking.rankers.pretrained import score_in_float32, trim_last_layer
from pyrite.ranking.rankers.pretrained_weights import downloaded
from pyrite.ranking.rankers.sentence_folder import SentenceFolder, read_object
from pyrite.ranking.rankers.sentence_library import library
from pyrite.ranking.rankers.sentence_models import Head, check_text_transformer, load_cross_encoder
from pyrite.ranking.rankers.transformer_ranker import PairRanker, read_lengths
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Subwords, Tokenization

YES_AND_NO = (["yes", "no"], [" yes", " no"])
"""Answers of a language model that judges by them; the first pair in which both are single tokens is used."""


class CrossEncoder(PairRanker):
    """A cross-encoder: a pretrained transformer that reads a query and a document together and gives one score.

    Nogueira and Cho 2019. Checkpoints are read as sentence-transformers' `CrossEncoder` reads them, and saved as such:
    encoders with a head for one score (BERT, MiniLM, ModernBERT, …), language models with such a head over the last
    token (RankLLaMA, Ma et al. 2024), and language models that answer yes or no, whose score is the difference of the
    two logits (Nogueira et al. 2020 for T5; Qwen3-Reranker). A query and a document are packed as two texts, or by the
    checkpoint's chat template. Its default prompt comes before the query, or is the template's system message. A head
    that a checkpoint lacks is drawn.
    Of a pair that is longer than the checkpoint reads the longer text loses its end (by a template, the document), or
    the document is read in passages whose best score counts (FirstP and MaxP, Dai and Callan 2019). The cost of a pair
    depends on its length, so pairs of similar length are read together.

    Args:
        max_document: subwords read of a document, in the same way; those of a passage are always given.
        passages: the maximum number of passages of a document, with pooling=max.
        pooling: first (the score of the document's beginning) or max (that of its best passage).
        label: the label, by number or name, whose log-probability is the score of a checkpoint whose head has several;
            `new` replaces the head by one for a score. None if the checkpoint has a head for one score, or none.
        query_prompt: the text before each query, or the name of one of the checkpoint's prompts. None takes the
            checkpoint's default prompt, "" none.
        words: one or two words of a language model whose logits are the score, e.g. [" yes"," no"]. None takes the
            checkpoint's.
        template: a prompt with `{query}` and `{document}`, instead of the checkpoint's chat template.
    """

    @checked
    def __init__(
        self,
        checkpoint: str,
        *,
        layers: int | None = None,
        max_query: Annotated[int, AtLeast(1)] | None = None,
        max_document: Annotated[int, AtLeast(1)] | None = None,
        passages: Annotated[int, AtLeast(1)] = 4,
        pooling: Literal["first", "max"] = "first",
        precision: Precision = AUTO,
        gradient_checkpointing: bool = False,
        compiled: bool = False,
        budget: Annotated[int, AtLeast(1)] | None = None,
        frozen_layers: Annotated[int, AtLeast(0)] = 0,
        label: int | str | None = None,
        query_prompt: str | None = None,
        words: list[str] | None = None,
        template: str | None = None,
    ) -> None:
        super().__init__()

    def make(self, inputs: RankerInputs) -> None:
        options, generator = self.options, inputs.generator
        checkpoint, max_query, max_document = options.checkpoint, options.max_query, options.max_document
        reading = PairReading.of(downloaded(checkpoint), options.query_prompt, options.template)
        source, self.form, self.tokenizer = reading.source, reading.form, reading.tokenizer
        what = "its shorter texts begin later, so their layers can't be read apart"
        apart_from_left = options.frozen_layers and self.form.packing.left
        refuse(apart_from_left, what, f"{checkpoint}, ranker.frozen_layers", "leave it out")
        self.label, head = chosen_head(source, self.tokenizer, options.label, options.words)
        self.lengths = self.lengths_of(checkpoint, max_query, max_document, source)
        self.passages = passages_of(options.passages, options.pooling, checkpoint, max_document)
        self.max_query = self.lengths[0] + self.form.query.added
        self.max_document = self.lengths[1] + self.form.document.added
        self.document_reach = self.max_document * self.passages
        model, self.drawn = load_cross_encoder(source, options.layers, generator, head)
        reader, *rest = library().modules(model)
        check_text_transformer(reader, checkpoint, "a cross-encoder reads a query and a document together", None)
        what = f"has {model.num_labels} scores per pair, not one"
        several = self.label is None and model.num_labels != 1
        refuse(several, what, checkpoint, "train a new head with ranker.label=new")
        reading.declare(model)
        self._library = [model]  # kept out of the modules, so that each weight has one name
        self._run(reader, rest)
        self.reach = min(self.pretrained.reach, source.longest)
        query, document = max_query or 1, max_document or 1
        what = f"{query} subwords of a query and {document} of a document exceed {self.reach} positions"
        remedy = "lower ranker.max_query or ranker.max_document, or read passages with ranker.pooling=max"
        refuse(query + self.form.specials + document > self.reach, what, checkpoint, remedy)
        reader.tokenizer.model_max_length = int(self.reach)  # so that what is exported reads as much

    def _run(self, reader: Any, rest: list[Any]) -> None:
        """Take the transformer that reads pairs, and the modules after it, which are none if it has the head."""
        self._output: tuple[Any, str] = library().result(reader), library().output(reader)
        transformer = library().transformer(reader)
        if not rest:
            trim_last_layer(transformer)
        score_in_float32(transformer)
        self.pretrained, self.head = self.running(transformer), nn.Sequential(*rest)
        self._pads = transformer.config.pad_token_id
        if self.form.packing.left and self._pads is None:  # the last token is then in the last column
            transformer.config.pad_token_id = -1
        self.needs_grad_scaler = self.options.precision == "float16"

    @classmethod
    def tokenization(cls, **options: Any) -> Tokenization:
        checkpoint, typed = options["checkpoint"], options.get("max_document")
        reading = PairReading.of(checkpoint, options.get("query_prompt"), options.get("template"))
        max_query, max_document = cls.lengths_of(checkpoint, options.get("max_query"), typed, reading.source)
        passages = passages_of(options.get("passages", 4), options.get("pooling", "first"), checkpoint, typed)
        room = reading.room if passages == 1 else None
        frames = (reading.form.query, reading.form.document)
        return Subwords(checkpoint, max_query, max_document * passages, room=room, frames=frames)

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
        queries, passages = self.form.fitted(queries, passages, self.reach)
        lengths = (queries > 0).sum(1) + (passages > 0).sum(1) + self.form.packing.specials
        name, output = self._output

        def read(rows: Tensor) -> Tensor:
            packed = self.form.pack(queries[rows], passages[rows])
            features: dict[str, Any] = {name: value for name, value in packed.items() if name != "position_ids"}
            features[name] = self.pretrained(packed | {"logits_to_keep": 1})[output].float()
            for module in self.head:
                features = module(features)
            return features["scores"]

        scores = self.pretrained.in_passes(lengths, read)
        return scores[:, 0] if self.label is None else scores.log_softmax(1)[:, self.label]

    def layers(self) -> list[nn.Module]:
        return [*self.pretrained.blocks(), *(module for module in self.head if list(module.parameters()))]

    def save_pretrained(self, folder: str) -> None:
        """Write it as sentence-transformers' `CrossEncoder`: safetensors, the tokenizer and the prompts."""
        [model] = self._library
        installed = library()
        installed.replace_transformer(installed.modules(model)[0], self.pretrained.model)
        config: Any = self.pretrained.model.config
        before, config.pad_token_id = config.pad_token_id, self._pads
        try:
            with quiet():
                installed.save(model, folder)
        finally:
            config.pad_token_id = before
        self.save_lengths(folder, self.lengths)


def passages_of(passages: int, pooling: str, checkpoint: str, max_document: int | None) -> int:
    """Return the number of passages that are read of a document.

    Raises:
        BadInput: if there are several, and neither an option nor the checkpoint's training specifies how long one is.
    """
    if pooling != "max":
        return 1
    is_unknown = max_document is None and not read_lengths(checkpoint)
    what, remedy = (
        "reads passages, and their length is not given",
        "set ranker.max_document, the subwords of one, as 256",
    )
    refuse(is_unknown, what, "ranker.pooling=max", remedy)
    return passages


def chosen_head(
    source: SentenceFolder, tokenizer: Any, label: int | str | None, words: list[str] | None
) -> tuple[int | None, Head]:
    """Return the label whose probability is the score (None for a head with one score), and the head.

    Raises:
        BadInput: if the checkpoint's head has several labels and none is chosen, or it has no such label or words.
    """
    kind, names = architecture_of(source), label_names(source)
    what, remedy = "is no language model, which could answer", "leave it out"
    refuse(words is not None and kind != "language", what, f"{source.root}, ranker.words", remedy)
    what, remedy = "has no head with several labels", "leave ranker.label=null"
    refuse(not names and label not in (None, "new"), what, f"{source.root}, ranker.label", remedy)
    usual = {"language": "text-generation", "body": "sequence-classification"} if source.plain else {}
    task = "sequence-classification" if label == "new" else usual.get(kind)
    if words is not None or task == "text-generation":
        return None, Head("text-generation", tuple(answers(tokenizer, words, source.root)))
    if task == "sequence-classification":
        return None, Head(task, options={"num_labels": 1})
    return _number_of(label, names, source.root) if names else None, Head()


def _number_of(label: int | str | None, names: Mapping[int, str], where: str) -> int:
    """Return the number of the label whose probability is the score.

    Args:
        label: its number or name.
        names: the names of the head's labels, by number.
    """
    known = ", ".join(f"{number} ({name})" for number, name in names.items())
    choice = f"name the one whose probability is the score, ranker.label={known} (of a teacher, teacher.label)"
    remedy = f"{choice}, or train a new head with ranker.label=new"
    refuse(label is None, f"its head has {len(names)} labels, not one score", where, remedy)
    number: Any = {name: number for number, name in names.items()}.get(str(label), label)
    refuse(number not in names, f"its head has no label {label!r}", f"{where}, ranker.label", f"choose one of {known}")
    return int(number)


def architecture_of(source: SentenceFolder) -> str:
    """Return whether a checkpoint is a transformer with a head (`headed`), a `language` model, or neither (`body`)."""
    architectures = [*read_object(source.query, "config.json").get("architectures", []), ""]
    ends = {"ForSequenceClassification": "headed", "ForCausalLM": "language"}
    return next((kind for end, kind in ends.items() if str(architectures[0]).endswith(end)), "body")


def label_names(source: SentenceFolder) -> dict[int, str]:
    """Return the labels of a checkpoint's head by number; none if it has no head, or a head for one score."""
    config = read_object(source.query, "config.json")
    names = {int(number): str(name) for number, name in config.get("id2label", {}).items()}
    names = names or dict.fromkeys(range(int(config.get("num_labels", 2))), "unnamed")
    return names if architecture_of(source) == "headed" and len(names) > 1 else {}


def answers(tokenizer: Any, words: list[str] | None, where: str) -> list[int]:
    """Return the tokens of one or two words, or of yes and no, each written with a blank before it or without.

    Raises:
        BadInput: if they are more, or no single tokens.
    """
    if words is None:
        found = (tokens for choice in YES_AND_NO if len(tokens := _single_tokens(tokenizer, choice)) == len(choice))
        tokens = next(found, [])
        remedy = "name its answers, ranker.words=[A,B], or train a head with ranker.label=new"
        refuse(not tokens, "is a language model in which neither yes nor no is one token", where, remedy)
        return tokens
    remedy = 'name one or two, e.g. [" yes"," no"], or null'
    refuse(len(words) not in (1, 2), f"words are {words!r}", "ranker.words", remedy)
    wrong = [repr(word) for word in words if not _single_tokens(tokenizer, [word])]
    remedy = "choose a word that is one token; most language models want a space before it"
    refuse(wrong, "{} is no single token, or an unknown one", f"{where}, ranker.words", remedy)
    return _single_tokens(tokenizer, words)


def _single_tokens(tokenizer: Any, words: list[str]) -> list[int]:
    """Return the tokens of words, as the vocabulary has them or as they are written; none for a word of several."""
    known = tokenizer.get_vocab()
    ids = ([known[word]] if word in known else tokenizer(word, add_special_tokens=False)["input_ids"] for word in words)
    return [tokens[0] for tokens in ids if len(tokens) == 1 and tokens[0] != tokenizer.unk_token_id]
