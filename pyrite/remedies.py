"""Writes the remedies of errors as Python takes them: `guard=pyrite.Guard(relative=.05)` for `guard.relative=.05`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import yaml

from pyrite.cluster.config.grammar import parsed
from pyrite.cluster.config.groups import group_options, option
from pyrite.ranking.errors import BadInput

PAIR = r"[a-z_]+(?:\.\w+)*=(?:\[[^\]\s]*\]|[^\s,;?`\"')]+)"
COMMAND = re.compile(rf"`[^`]*`|\"[^\"]*\"|'[^']*'|(?<![\w.]){PAIR}(?: {PAIR})*")
"""A command or a quotation, which stays, or the overrides of a remedy."""
RANKERS = {
    "bi_encoder": "BiEncoder", "cross_encoder": "CrossEncoder", "late_interaction": "LateInteraction",
    "sparse": "Sparse",
}  # fmt: skip
"""Classes of `pyrite` that read a checkpoint, by the name of the ranker."""
OVERRIDES = "overrides"
"""The form of functions that take a list of overrides."""
ARGUMENTS: Mapping[str, dict[str, str]] = {
    "study": {
        **dict.fromkeys(("seeds", "out", "scale", "baseline"), "{name}={value}"),
        "function": 'negatives={{"…": {parts}}}',
        "objective": "objective={parts}",
    },
    "train": {
        **dict.fromkeys(("seed", "out", "scale"), "{name}={value}"),
        "function": "negatives={parts}",
        "objective": "objective={parts}",
    },
    "learn": {**dict.fromkeys(("out", "scale", "agent"), "{name}={value}"), "function": "negatives={parts}"},
    "mine": {
        "out": "{name}={value}",
        "checkpoint": "ranker={value}",
        "function": "negatives={parts}",
        "guard.": "guard=pyrite.Guard({given})",
    },
    "rank": {"out": "{name}={value}", "checkpoint": "ranker={value}"},
    "audit": dict.fromkeys(("out", "studies", "judgements"), "{name}={value}"),
    "evaluate": dict.fromkeys(("runs", "qrels", "measures", "baseline", "relevant_from"), "{name}={value}"),
    "collection": {"strict": "{name}={value}"},
    "negatives": {"function": "negatives={parts}", "guard.": "guard=pyrite.Guard({given})"},
}
"""Arguments of a verb's function by the option, or by the part whose options are given together."""
OF_COLLECTION = {
    "collection.path": "pyrite.Collection.from_path({value})",
    "collection.": "pyrite.Collection.from_pairs(…, {given})",
}
"""The place of a collection's options, for every verb."""


def in_python(error: BadInput, verb: str) -> BadInput:
    """Return an error with the overrides in its remedy as arguments of a verb's function.

    >>> print(in_python(BadInput("is too much", "guard", "give guard.relative=0.05"), "mine"))
    guard: is too much; give guard=pyrite.Guard(relative=0.05)
    """
    remedy = error.remedy and COMMAND.sub(lambda found: rendered(found[0], verb), error.remedy)
    return BadInput(error.what, error.where, remedy)


def rendered(overrides: str, verb: str) -> str:
    """Return overrides as arguments (see `as_arguments`); a command or a quotation stays as it is."""
    return overrides if overrides[0] in "`\"'" else as_arguments(overrides.split(" "), verb)


def as_arguments(overrides: Sequence[str], verb: str) -> str:
    """Return overrides as arguments.

    >>> as_arguments(["seeds=3", "guard.relative=0.1", "guard.ranker=FOLDER"], "study")
    'seeds=3, options={"guard.relative": 0.1, "guard.ranker": "FOLDER"}'

    Args:
        verb: the verb whose function takes them, `OVERRIDES` if as a list, or another form of `ARGUMENTS`.
    """
    if verb == OVERRIDES:
        return f"overrides={list(overrides)}"
    pairs = dict(text.split("=", 1) for text in overrides)
    ranker = pairs.pop("ranker", None)
    checkpoint = pairs.pop("ranker.checkpoint", None)
    written = [_ranker(ranker, checkpoint, verb)] if ranker or checkpoint else []
    for form, group in groupby(pairs.items(), lambda pair: _form(pair[0], verb)):
        written.append(_filled(form, dict(group)))
    return ", ".join(written)


def _form(key: str, verb: str) -> str:
    """Return the argument that takes an option: one of the function, the collection's, or `options`."""
    forms, (root, dot, _) = ARGUMENTS.get(verb, {}) | OF_COLLECTION, key.partition(".")
    return forms.get(key) or forms.get(f"{root}{dot}", "options={options}")


def _filled(form: str, pairs: Mapping[str, str]) -> str:
    name, value = next(iter(pairs.items()))
    given = ", ".join(f"{key.partition('.')[2]}={value_of(text)}" for key, text in pairs.items())
    options = "{" + ", ".join(f"{json.dumps(key)}: {value_of(text)}" for key, text in pairs.items()) + "}"
    parts = " + ".join(f"pyrite.{class_named(name, each)}()" for each in _names(name, value))
    return form.format(name=name, value=value_of(value), given=given, options=options, parts=parts)


def _names(group: str, value: str) -> list[str]:
    """Return the names of parts of a group that a value gives."""
    return [name for name in re.split(r"[\[\], ]+", value) if name in group_options().get(group, ())]


def class_named(group: str, name: str) -> str:
    """Return the class of a name of a group."""
    node = option(group, name)
    return str(node.get(name, node)["_target_"]).rpartition(".")[2]


def _ranker(ranker: str | None, checkpoint: str | None, verb: str) -> str:
    kind = f"pyrite.{RANKERS.get(ranker or '', 'BiEncoder')}({value_of(checkpoint or '…')})"
    kind = kind if checkpoint or ranker in RANKERS else value_of(str(ranker))
    return f"rankers=[{kind}]" if verb == "study" else f"ranker={kind}"


def value_of(text: str) -> str:
    """Return a value as Python writes it; a text without quotes is one here too, and `…` stays.

    >>> value_of("[{path:a,share:2}]")
    "[{'path': 'a', 'share': 2}]"
    """
    if text == "…" or re.fullmatch(r"[+-]?\d+e[+-]?\d+", text):  # which YAML reads as a text
        return text
    try:
        value: Any = parsed(f"key={text}").value() if "{" in text else yaml.safe_load(text)
    except (yaml.YAMLError, BadInput):
        value = text
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return text if type(value) in (int, float) else repr(value)
