"""Reads how a checkpoint makes one sequence of a query and a document: as two texts, or by a chat template."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.frames import TextFrame, encode_whole
from pyrite.ranking.packing import Packing

PROBES = ("a", "A.", "1", "?", '!"', " a ", "\n", ")", "...", ",", "-", "é", "中", "<", "a?", "a\n\n", "#", ":")
"""Texts between which a template's subwords are compared: those that differ belong to the text next to them."""
MARKS = ("qzvquery", "qzvdocument")
"""Words that no template has."""
Subword = tuple[int, int, int]
"""A subword of a part of a template: where it begins and ends, and its number."""


@dataclass(frozen=True)
class Chat:
    """A chat template with the roles query and document, as sentence-transformers renders it.

    Args:
        structured: whether a message holds a list of parts, and not a text.
        options: further variables of the template.
    """

    structured: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def render(self, tokenizer: Any, prompt: str, query: str, document: str) -> str:
        """Return the text of a pair; a prompt is the system's message."""
        roles = [("system", prompt)] if prompt else []
        roles += [("query", query), ("document", document)]
        messages = [
            {"role": role, "content": [{"type": "text", "text": text}] if self.structured else text}
            for role, text in roles
        ]
        return str(tokenizer.apply_chat_template(messages, tokenize=False, **self.options))


@dataclass(frozen=True)
class PairForm:
    """The way in which a query and a document become one sequence.

    Args:
        packing: the subwords around the two texts.
        query, document: the frames in which they are tokenized.
        reversed: whether the document comes first.
        cuts_document: whether a sequence that is too long loses the document's end, as one by a chat template does.
            Otherwise the longer text loses its end.
    """

    packing: Packing
    query: TextFrame
    document: TextFrame
    reversed: bool = False
    cuts_document: bool = False

    @classmethod
    def of_texts(cls, tokenizer: Any, prompt: str, left: bool) -> PairForm:
        """Return the form of two texts with the tokenizer's special tokens, the prompt before the query."""
        packing = replace(Packing.of(tokenizer), left=left)
        query = replace(TextFrame.of_prompt(tokenizer, prompt), filled=False)
        return cls(packing, query, TextFrame(filled=False))

    @classmethod
    def of_chat(cls, tokenizer: Any, chat: Chat, prompt: str, left: bool, where: str) -> PairForm:
        """Return the form of a chat template.

        Raises:
            BadInput: if the template does not render, or does not show query and document as they are, once each.
        """
        remedy = "write one, as ranker.template='Query: {query} Document: {document}'"
        try:
            rendered = chat.render(tokenizer, prompt, *(f" {mark} " for mark in MARKS))
        except Exception as error:  # of the template, whose author may raise any
            what = f"its chat template does not render a query and a document ({str(error).splitlines()[0]})"
            raise BadInput(what, where, remedy) from None
        strip = not all(f" {mark} " in rendered for mark in MARKS)
        shown = [mark if strip else f" {mark} " for mark in MARKS]
        refuse(
            any(rendered.count(mark) != 1 for mark in shown),
            "its chat template does not show query and document once each",
            where,
            remedy,
        )
        refuse(
            not tokenizer.is_fast, "has a chat template, and no fast tokenizer", where, "save it with tokenizer.json"
        )
        first, second = sorted(shown, key=rendered.index)
        head, _, rest = rendered.partition(first)
        middle, _, end = rest.partition(second)
        packing, (before, after) = _split(tokenizer, (head, middle, end), strip)
        turned = first != shown[0]
        packing = replace(packing, left=left)
        query, document = (after, before) if turned else (before, after)
        return cls(packing, query, document, reversed=turned, cuts_document=True)

    @property
    def specials(self) -> int:
        """The number of subwords of a sequence that are not of its two texts."""
        return self.packing.specials + self.query.added + self.document.added

    def pack(self, queries: Tensor, documents: Tensor) -> dict[str, Tensor]:
        """Return the sequences of pairs, see `Packing.pack`."""
        return self.packing.pack(documents, queries) if self.reversed else self.packing.pack(queries, documents)

    def fitted(self, queries: Tensor, documents: Tensor, reach: float) -> tuple[Tensor, Tensor]:
        """Return pairs [n, …] cut so that each sequence has at most `reach` subwords."""
        if queries.shape[1] + documents.shape[1] + self.packing.specials <= reach:
            return queries, documents
        room = int(reach) - self.packing.specials
        lengths = [(texts > 0).sum(1, keepdim=True) for texts in (queries, documents)]
        if self.cuts_document:
            kept_query = lengths[0].clamp(max=room - len(self.document.tail))
            kept = kept_query, torch.minimum(lengths[1], room - kept_query)
        else:  # as in transformers' `longest_first`: both get half if both are longer
            shorter = torch.minimum(*lengths).clamp(max=room // 2)
            longer = torch.maximum(*lengths).minimum(room - shorter)
            first = lengths[0] <= lengths[1]
            kept = torch.where(first, shorter, longer), torch.where(first, longer, shorter)
        return cut(queries, kept[0], self.query.tail), cut(documents, kept[1], self.document.tail)


def cut(texts: Tensor, kept: Tensor, tail: Sequence[int] = ()) -> Tensor:
    """Return texts [n, …] with `kept` [n, 1] subwords each; those that are cut end with `tail`."""
    columns = torch.arange(texts.shape[1], device=texts.device)
    if tail:
        ending = torch.tensor(tail, dtype=texts.dtype, device=texts.device) + 1
        place = columns - (kept - len(tail))
        inside = ((texts > 0).sum(1, keepdim=True) > kept) & (place >= 0) & (place < len(tail))
        texts = torch.where(inside, ending[place.clamp(0, len(tail) - 1)], texts)
    return texts.masked_fill(columns >= kept, 0)


def template_of(tokenizer: Any, template: str) -> str:
    """Return a prompt with `{query}` and `{document}` as a chat template, special tokens at its ends included.

    Raises:
        BadInput: if it does not name both, once each.
    """
    parts = re.split(r"\{(query|document)\}", template)
    what = f"template is {template!r}"
    refuse(
        len(parts) != 5 or set(parts[1::2]) != {"query", "document"},
        what,
        "ranker.template",
        "write {query} and {document} once each, with a text between them",
    )
    packing = Packing.of(tokenizer, pair=False)
    begins, ends = ("".join(tokenizer.convert_ids_to_tokens(list(ids))) for ids in (packing.before, packing.behind))
    parts = [begins + parts[0], *parts[1:4], parts[4] + ends]
    texts = [
        f'{{{{ (messages | selectattr("role", "eq", "{part}") | first)["content"] }}}}'
        if number % 2 else f"{{{{ {json.dumps(part, ensure_ascii=False)} }}}}"
        for number, part in enumerate(parts) if part
    ]  # fmt: skip
    return "".join(texts)


def _split(tokenizer: Any, parts: tuple[str, str, str], strip: bool) -> tuple[Packing, list[TextFrame]]:
    """Split a template's text before, between and after two texts into what is always the same and what is not."""
    renders = [_subwords_of(tokenizer, parts, probe) for probe in PROBES]
    before, between, behind = zip(*renders, strict=True)
    head = _shared_start(before)
    end = _shared_start([part[::-1] for part in behind])[::-1]
    middle = _shared_run(between)
    first = head[-1][1] if head else 0
    begin, stop = (middle[0][0], middle[-1][1]) if middle else (len(parts[1]), len(parts[1]))
    last = end[0][0] if end else len(parts[2])
    core = parts[1][begin:stop]
    around = [(parts[0][:first], parts[0][first:], parts[1][:begin], core),
              (core, parts[1][stop:], parts[2][:last], parts[2][last:])]  # fmt: skip
    frames = [TextFrame.between(tokenizer, pieces, strip) for pieces in around]
    ids = [tuple(number for *_, number in part) for part in (head, middle, end)]
    pads = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return Packing(ids[0], ids[1], ids[2], None, pads or 0), frames


def _subwords_of(tokenizer: Any, parts: tuple[str, str, str], probe: str) -> list[list[Subword]]:
    """Return the subwords that are within each part of a template with a text between them."""
    encoded = encode_whole(tokenizer, probe.join(parts))
    subwords = [(*span, number) for span, number in zip(encoded.offsets, encoded.ids, strict=True)]
    found, start = [], 0
    for part in parts:
        stop = start + len(part)
        inside = [each for each in subwords if start <= each[0] and each[1] <= stop and each[0] < each[1]]
        found.append([(begin - start, end - start, number) for begin, end, number in inside])
        start = stop + len(probe)
    return found


def _shared_start(lists: Sequence[Sequence[Subword]]) -> list[Subword]:
    """Return the subwords with which all lists begin."""
    same = itertools.takewhile(lambda subwords: len(set(subwords)) == 1, zip(*lists, strict=False))
    return [subwords[0] for subwords in same]


def _shared_run(lists: Sequence[Sequence[Subword]]) -> list[Subword]:
    """Return the longest run of subwords that is in all lists."""
    shared = set.intersection(*map(set, lists))
    runs = (list(run) for is_shared, run in itertools.groupby(lists[0], shared.__contains__) if is_shared)
    return max(runs, key=len, default=[])
