"""Reads overrides by Hydra's grammar, each text once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.groups import group_options
from pyrite.cluster.config.override import key_of
from pyrite.cluster.lazy import hydra
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Glob, Override

QUOTES = """write key=value; a value with =,()[]{}: in it needs quotes, as in "key='a=b'" """
LABELLED = "give 'methods=[{function:bm25},{label:NAME,function:bm25,selector:top},…]'"


@functools.lru_cache(maxsize=20_000)
def parsed(text: str) -> Override:
    """Return an override as Hydra reads it, with a pattern such as `function=glob(b*)` as a sweep over the names."""
    grammar = hydra.core.override_parser
    try:
        override = grammar.overrides_parser.OverridesParser.create().parse_override(text)
    except hydra.errors.HydraException as error:
        why = str(error).splitlines()[0].split(". See https")[0]
        remedy = LABELLED if key_of(text) == "methods" else QUOTES
        raise BadInput(f"can't read the override {text!r} ({why})", remedy=remedy) from None
    refuse(not key_of(text), f"the override {text!r} has no key", remedy=QUOTES)
    pattern = override.value()
    refuse(
        getattr(pattern, "shuffle", False),
        f"{text!r} shuffles its values by chance, so that the same command would compare in another order",
        remedy="name them in the order that you want",
    )
    return _of_pattern(text, pattern) if isinstance(pattern, grammar.types.Glob) else override


def _of_pattern(text: str, pattern: Glob) -> Override:
    known = group_options().get(key_of(text), [])
    names = pattern.filter(known)
    remedy = f"choose from {', '.join(known)}" if known else "glob(…) is for names of a group, such as function"
    refuse(not names, "matches no name", text, remedy)
    return parsed(f"{text.split('=', 1)[0]}={','.join(names)}")


@dataclass(frozen=True)
class Choices:
    """The values of an override: one, several that it sweeps over, or an interval.

    Args:
        key: its key, with the signs that add an option.
        texts: an override for each value, as it is typed; none of an interval.
        swept: the values that it sweeps over; none without a sweep, and none of an interval.
        interval: the interval that it sweeps over, as Hydra reads it.
    """

    key: str
    texts: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()
    interval: Any = None

    @property
    def sweeps(self) -> bool:
        """Whether it sweeps over values or an interval."""
        return bool(self.swept) or self.interval is not None


def choices_of(text: str) -> Choices:
    """Return what an override gives."""
    override = parsed(text)
    key = override.get_key_element()
    if not override.is_sweep_override():
        return Choices(key, (str(override.input_line),))
    if override.is_interval_sweep():
        return Choices(key, interval=override.value())
    values = tuple(override.sweep_string_iterator())
    return Choices(key, tuple(f"{key}={value}" for value in values), values)


def by_key(texts: Iterable[str]) -> dict[str, Choices]:
    """Return what overrides give by their keys, the last of each key."""
    return {key_of(choices.key): choices for choices in map(choices_of, texts)}


def values_of(text: str) -> list[str]:
    """Return the values of an override: one, unless it sweeps over several. A sweep over an interval is refused."""
    choices = choices_of(text)
    remedy = "name the values: a list, choice(…) or range(…)"
    refuse(choices.interval is not None, f"{text!r} sweeps over an interval", remedy=remedy)
    return [each.partition("=")[2] for each in choices.texts]
