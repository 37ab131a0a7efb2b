"""Reads overrides by Hydra's grammar, each text once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyrite.cluster.config.groups import group_options
from pyrite.cluster.config.override import key_of
from pyrite.ranking.errors import BadInput, refuse

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Glob, Override

QUOTES = """write key=value; a value with =,()[]{}: in it needs quotes, as in "key='a=b'" """
LABELLED = "give 'methods=[{function:bm25},{label:NAME,function:bm25,selector:top},…]'"


@functools.lru_cache(maxsize=20_000)
def parsed(text: str) -> Override:
    """Return an override as Hydra reads it, with a pattern such as `function=glob(b*)` as a sweep over the names."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Glob
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
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
    return _of_pattern(text, pattern) if isinstance(pattern, Glob) else override


def _of_pattern(text: str, pattern: Glob) -> Override:
    known = group_options().get(key_of(text), [])
    names = pattern.filter(known)
    if not names:
        remedy = f"choose from {', '.join(known)}" if known else "glob(…) is for names of a group, such as function"
        raise BadInput("matches no name", text, remedy)
    return parsed(f"{text.split('=', 1)[0]}={','.join(names)}")


def by_key(texts: Iterable[str]) -> dict[str, Override]:
    """Return overrides by their keys, the last of each key."""
    return {key_of(override.get_key_element()): override for override in map(parsed, texts)}


def interval_of(text: str) -> bool:
    """Return whether an override sweeps over an interval."""
    override = parsed(text)
    return override.is_sweep_override() and override.is_interval_sweep()


def values_of(text: str) -> list[str]:
    """Return the values of an override: one, unless it sweeps over several. A sweep over an interval is refused."""
    override = parsed(text)
    if not override.is_sweep_override():
        return [text.split("=", 1)[1]]
    refuse(
        override.is_interval_sweep(),
        f"{text!r} sweeps over an interval",
        remedy="name the values: a list, choice(…) or range(…)",
    )
    return list(override.sweep_string_iterator())


def swept_values(text: str) -> list[str]:
    """Return the values of an override that sweeps over named values; none of any other."""
    return values_of(text) if parsed(text).is_sweep_override() and not interval_of(text) else []
