"""Suggests options here for options of other tools, for messages about unknown options.

The names are in `pyrite.cluster.config.other_tools`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyrite.cluster.config.other_parts import name_here
from pyrite.cluster.config.other_tools import (
    ADVICE,
    CONVERTED,
    FLAGS,
    LEFT_OUT,
    NEEDS,
    NOT_IN,
    OF_A_STUDY,
    OF_VALUE,
    OF_VERB,
    OFF,
    SAME_VALUE,
    UNIT,
    WITHIN,
)
from pyrite.cluster.config.override import key_of, of_keys, root_of, without
from pyrite.ranking.errors import BadInput

Compose = Callable[[Sequence[str], str, bool], Mapping[str, Any]]
OVERRIDES = r"\+?[\w.]+=[^ …|]+( \+?[\w.]+=[^ …|]+)*"
"""A suggestion that is overrides, and no sentence."""
OF_STUDY = ("out", "resume", "samples", "seeds", "track")
"""Options that belong to the whole command."""
OF_COMMANDS = {"config": OF_STUDY, "study": OF_STUDY}
"""These, by the primary files of verbs that train."""
NEEDED = re.compile(r"([^.\s]+)\S* has no default; ")
UNKNOWN = re.compile(r"^there is no option ([\w.]+)")
A_RANKER = {"mine": "ranker=bi_encoder", "rank": "ranker=bi_encoder"}
"""What brings the options of a pretrained ranker, if none is chosen, by primary file; others name its folder too."""


def suggestion(override: str, config: str = "config", others: Sequence[str] = ()) -> str | None:
    """Return what to write instead of an option with a name from another tool; None if the name is unknown.

    >>> suggestion("relative_margin=0.05", "mine")
    'guard.relative=0.05'

    Args:
        config: the primary file of the verb, whose options have other names for the same things.
        others: the other overrides of the command.
    """
    instead = _of_run(override) or override.lstrip("+~")
    for ours, of_verb in OF_VERB.get(config, {}).items():
        instead = instead.replace(ours, of_verb)
    needs_ranker = instead.startswith("ranker.") and "ranker" not in map(key_of, others)
    if needs_ranker and instead != override:
        instead = f"{A_RANKER.get(config, 'ranker=bi_encoder ranker.checkpoint=FOLDER')} {instead}"
    return None if instead == override.lstrip("+~") else instead


def _of_run(override: str) -> str | None:
    """Return what to write in the verbs that train a ranker."""
    key, _, value = override.lstrip("+~").partition("=")
    group, _, last = key.rpartition(".")
    name = re.sub(r"\W", "_", last).lower()
    of_value = OF_VALUE.get(name, {}).get(value.lower())
    word = WORDS.get(f"{group}.{name}") or WORDS.get(name)
    return of_value or (word(value) if word else None)


def _model(value: str) -> str | None:
    if not value:
        return None
    return f"ranker={value}" if re.fullmatch(r"[a-z_]+", value) else f"ranker=bi_encoder ranker.checkpoint={value}"


def _same(option: str, value: str) -> str:
    return " ".join(filter(None, [NEEDS.get(option), f"{option}={name_here(option, value) or '…'}"]))


def _advised(text: str, value: str) -> str:
    file = re.search(r"\.(csv|tsv|json|jsonl|parquet)(\.gz)?$", value)
    return text.replace("FILE", value if file else "FILE").replace("VALUE", value or "…")


def _converted(option: str, convert: Callable[[float], float], value: str) -> str:
    try:
        return f"{option}={convert(float(value)):.6g}"
    except ValueError:
        return f"{option}=…"


WORDS: dict[str, Callable[[str], str | None]] = {
    "model": _model,
    **{name: partial(_same, option) for name, option in SAME_VALUE.items()},
    **{name: partial(_advised, text) for name, text in ADVICE.items()},
    **{name: partial(_converted, *to) for name, to in CONVERTED.items()},
    **{key: partial("{}={}".format, option) for key, option in WITHIN.items()},
}
"""What to write instead of an option with a value, by the option's name, or within its group."""


@dataclass(frozen=True)
class Unknown:
    """An option that does not exist.

    Args:
        key: its key.
        override: as it was typed; the key alone if only a part of its value is unknown.
        config: the primary file of the verb.
    """

    key: str
    override: str
    config: str

    @property
    def name(self) -> str:
        """The last word of the key."""
        return self.key.rpartition(".")[2]

    @property
    def is_off(self) -> bool:
        """Whether a flag asks for nothing."""
        return "=" in self.override and self.override.partition("=")[2].lower() in OFF

    def of_a_study(self) -> str:
        """Return what to write in a study."""
        return OF_A_STUDY[self.name].replace("VALUE", self.override.partition("=")[2] or "…")


CASES: Sequence[tuple[Callable[[Unknown], bool], Callable[[Unknown], str]]] = (
    (lambda of: of.name in LEFT_OUT, lambda of: f"; leave it out: {LEFT_OUT[of.name]}"),
    (lambda of: of.name in FLAGS and of.is_off, lambda of: "; leave it out: that is so without it"),
    (lambda of: of.name in OF_A_STUDY and of.config == "config", lambda of: f"; did you mean {of.of_a_study()}?"),
    (lambda of: of.name in OF_A_STUDY and of.config in NOT_IN, lambda of: f"; leave it out: {NOT_IN[of.config]}"),
)
"""Ends of messages that need no trial, each with its condition; the first that holds is used."""


def suggest_all(overrides: Sequence[str], unknown: str, config: str, compose: Compose) -> str:
    """Return the end of a message about an unknown option: what to write instead, or why to leave it out, or nothing.

    Args:
        overrides: all overrides of the command.
        unknown: the key that does not exist.
        config: the primary file of the verb.
        compose: `pyrite.cluster.config.compose.compose`, which tries the suggestion instead of the option.
    """
    option = Unknown(unknown, [*of_keys(overrides, {unknown}), unknown][0], config)
    if end := next((say(option) for applies, say in CASES if applies(option)), ""):
        return end
    others = without(overrides, {unknown})
    instead = suggestion(option.override, config, others)
    if not instead:
        return ""
    refused = refusal(instead, others, config, compose) if re.fullmatch(OVERRIDES, instead) else ""
    if not refused:
        return f"; {unit_of(instead)}did you mean {instead}?"
    return f"; leave it out: {NOT_IN[config]}" if "no option" in refused and config in NOT_IN else ""


def unit_of(instead: str) -> str:
    """Return a clause about the unit of a suggested option that has another one elsewhere; else nothing."""
    return "".join(f"{UNIT[key]}; " for key in map(key_of, instead.split()) if key in UNIT)


def refusal(instead: str, others: Sequence[str], config: str, compose: Compose) -> str:
    """Return why a suggestion can't be composed with the other overrides, of which unknown ones are left out."""
    words = without(instead.split(), OF_COMMANDS.get(config, ()))
    kept = without(others, set(map(key_of, words)))
    while True:
        try:
            compose([*kept, *words], config, True)
            return ""
        except BadInput as refused:
            if (needed := NEEDED.match(str(refused))) and needed[1] in map(root_of, words):
                return ""  # what else it needs is asked for next
            fewer = without(kept, UNKNOWN.findall(str(refused)))
            if fewer == kept:
                return str(refused)
            kept = fewer
