"""Reads a checkpoint's form of pairs from its files, without its weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyrite.ranking.errors import refuse
from pyrite.ranking.lazy import transformers
from pyrite.ranking.rankers.pair_form import Chat, PairForm, template_of
from pyrite.ranking.rankers.sentence_folder import NO_PROMPTS, SentenceFolder, read_object
from pyrite.ranking.rankers.sentence_library import library
from pyrite.ranking.tokenization import read_tokenizer


@dataclass(frozen=True)
class PairReading:
    """The way in which a cross-encoder's checkpoint reads pairs.

    Args:
        source: the description of its files.
        tokenizer: its tokenizer, with the chat template in use.
        form: the form of its pairs.
        prompt: the text before queries, or the system's message.
        templated: whether the template is not the checkpoint's.
    """

    source: SentenceFolder
    tokenizer: Any
    form: PairForm
    prompt: str
    templated: bool = False

    @classmethod
    def of(cls, checkpoint: str, query_prompt: str | None = None, template: str | None = None) -> PairReading:
        """Read it.

        Args:
            checkpoint: a folder, or a name at the hub.
            query_prompt, template: options of the ranker.

        Raises:
            BadInput: if it can't be read, or the template does not show query and document once each.
        """
        source = SentenceFolder.read(checkpoint)
        typed_both = template is not None and query_prompt
        refuse(typed_both, "goes into the template", "ranker.query_prompt", "write it into ranker.template")
        given = source.default_prompt if query_prompt is None else source.with_prompts(query_prompt, None).prompts.query
        prompt = "" if template is not None else given
        tokenizer = read_tokenizer(source.query)
        if template is not None:
            tokenizer.chat_template = template_of(tokenizer, template)
        left = reads_from_left(source)
        chat = chat_of(source, tokenizer) if template is None else Chat()
        if chat is None:
            form = PairForm.of_texts(tokenizer, prompt, left)
        else:
            form = PairForm.of_chat(tokenizer, chat, prompt, left, checkpoint)
        return cls(replace(source, prompts=NO_PROMPTS), tokenizer, form, prompt, template is not None)

    def declare(self, model: Any) -> None:
        """Make a model of sentence-transformers read pairs in this way, so that it is saved with its files."""
        if self.templated:
            library().needs_6("a template")
            model[0].tokenizer.chat_template = self.tokenizer.chat_template
            model[0].modality_config["message"] = {**model[0].modality_config["text"], "format": "flat"}
        if self.prompt == self.source.default_prompt:
            model.prompts, model.default_prompt_name = dict(self.source.named), self.source.default_name
        else:
            library().needs_6("a prompt of a cross-encoder")
            model.prompts = {**self.source.named, "query": self.prompt}
            model.default_prompt_name = "query" if self.prompt else None

    def room(self) -> int:
        """Return the subwords of a query and a document together at most."""
        return self.source.longest - self.form.specials


def chat_of(source: SentenceFolder, tokenizer: Any) -> Chat | None:
    """Return how sentence-transformers renders pairs by a chat template; None if it reads two texts."""
    config = read_object(source.query, "sentence_bert_config.json")
    modalities = config.get("modality_config", {"message": {}})
    if tokenizer.chat_template is None or "message" not in modalities:
        return None
    library().needs_6("a checkpoint with a chat template")
    from sentence_transformers.base.modality import InputFormatter

    kind = read_object(source.query, "config.json").get("model_type", "")
    declared = modalities["message"].get("format", "auto")
    form = InputFormatter(kind, declared, tokenizer).message_format
    return Chat(form == "structured", config.get("processing_kwargs", {}).get("chat_template", {}))


def reads_from_left(source: SentenceFolder) -> bool:
    """Return whether a checkpoint is of a decoder, whose last token is the only one that has seen the whole text."""
    return is_decoder(read_object(source.query, "config.json").get("model_type"))


def is_decoder(kind: str | None) -> bool:
    """Return whether a type of transformers is a decoder: it continues texts, and does not fill gaps in them."""
    known = transformers.models.auto.modeling_auto
    return kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
