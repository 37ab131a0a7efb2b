"""Declares the options that all compared runs share: what is measured, what is kept, and where work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import is_within
from pyrite.cluster.config.quoting import override_of
from pyrite.ranking.digest import digest
from pyrite.ranking.errors import refuse

Config = Mapping[str, Any]

UNIDENTIFIED = ("weights", "index", "cache", "save_every", "save_every_batches")
"""Options on which no result depends, so that runs which differ in them are the same run."""
LISTED = ("origin", "measures", "evaluate")
"""Those of `UNTRAINED` that take a list."""
UNTRAINED = frozenset((*UNIDENTIFIED, *LISTED, "embeddings", "sampling.recorded"))
"""Options on which no trained ranker depends. They are part of no method."""
OF_PLACES = ("index", "resources")
"""Groups of options that say where work is done."""
IDENTIFIED = ("resources.cpu", "resources.gpu")
"""Those of their options by which runs are named."""


def _on_collection(config: Config) -> Any:
    return config["collection"]


def _of_ranker(config: Config) -> Any:
    return config["collection"], config[CHOICES]["ranker"]


MEASUREMENT: Mapping[str, Callable[[Config], Any]] = {
    "measures": lambda config: None,
    "limits.test": _of_ranker,  # a scale cuts the queries of slow rankers
    "folds": _on_collection,
    "origin": _on_collection,
    "encoding.relevant_from": _on_collection,
    "sampling.recorded": lambda config: None,
}
"""Options that decide what a figure is: its measure, test queries, candidates, judgements and recorded negatives.

Each with what its runs have in common: others may have another value, since they are never compared with these.
"""
OF_STUDIES = [option for option in MEASUREMENT if option not in ("measures", "sampling.recorded")]
"""Those that studies which are compared share. Of measures, those that all have are compared."""
ONCE = "give {}= once, for all methods"
"""What to do about runs of a study that are measured differently."""
SHARED = (*UNTRAINED, *MEASUREMENT, *OF_PLACES)
"""Options that all compared runs share, and groups of them."""


def is_shared(key: str) -> bool:
    """Return whether all compared runs share an option; those of an origin belong to it (`origin.bm25.depth`)."""
    return is_within(key, SHARED) and key not in IDENTIFIED


def refuse_unlike_measurement(
    configs: Iterable[Config], options: Iterable[str] = MEASUREMENT, where: str = "methods", remedy: str = ONCE
) -> None:
    """Refuse runs that would be compared though they have other measures, test queries, candidates or judgements.

    Options are compared as composed: a scale, or a mapping such as `limits={test: 20}`, sets them too. Of origins, only
    those count that several runs have.

    Args:
        options: those of `MEASUREMENT` that are compared.
        where, remedy: parts of the message; the key is filled into the remedy's braces.
    """
    known: dict[str, str] = {}
    for config in configs:
        for option in options:
            for key, value in _options(config, option):
                given = override_of(key, value)
                other = known.setdefault(digest([key, MEASUREMENT[option](config)]), given)
                refuse(given != other, f"two methods have {other} and {given}", where, remedy.format(key))


def _options(config: Config, option: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of an option in a composed configuration, or of those in a group."""
    inner: Any = config
    for name in option.split("."):
        inner = inner[name]
    yield from _within(option, inner)


def _within(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield key, value
        return
    for name, inner in value.items():
        yield from _within(f"{key}.{name}", inner)
