"""Matches collections and methods of a study with those of a paper."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import polars as pl

from cluster.config.schema import PublishedConfig
from cluster.output.methods import METHOD, items_of, with_methods


def map_methods(published: PublishedConfig, trials: pl.DataFrame) -> dict[str, list[tuple[str, str]]]:
    """Find the rankers and methods of a study that match each of the paper's methods, by its name; none for some.

    A method is identified by key=value pairs, of its parts or of its runs' overrides (`PublishedConfig`). If several
    of the paper's match, it is the one with the most pairs.
    """
    named = with_methods(trials).select("run", "method", _ranker="ranker").join(trials, on="run").sort("run")
    known: dict[tuple[str, str], dict[str, str]] = {}
    every = named.unique(["_ranker", "method"], keep="first", maintain_order=True).sort("method", "_ranker")
    for row in every.iter_rows(named=True):
        overrides = dict(text.split("=", 1) for text in shlex.split(row["overrides"]) if "=" in text)
        known[row["_ranker"], row["method"]] = overrides | {name: row[name] or "-" for name in (*METHOD, "objective")}
    wanted = {name: dict(text.split("=", 1) for text in pairs.split()) for name, pairs in published.methods.items()}

    def matches(name: str, ours: Mapping[str, str]) -> int:
        pairs = wanted[name]
        return len(pairs) * all(key in ours and _holds(ours[key], value) for key, value in pairs.items())

    most = {method: max((matches(name, ours) for name in wanted), default=0) for method, ours in known.items()}
    return {
        name: [method for method, ours in known.items() if 0 < matches(name, ours) == most[method]] for name in wanted
    }


def _holds(ours: str, wanted: str) -> bool:
    """Whether a value matches a paper's: its items, their number, or its text, `*` for any part."""
    named, items = items_of(wanted), items_of(ours)
    if set(named) == {"_"}:
        return len(items) == len(named)
    if "*" in wanted:
        return fnmatchcase(ours.lower(), wanted)
    return set(named) <= set(items)


def map_collections(published: PublishedConfig, collections: Sequence[str]) -> list[tuple[str, str]]:
    """Pair each collection of the paper with the study's that matches it.

    If the study has none of those, each of its collections is paired with every one of the paper.
    """
    pairs = [
        (paper, here)
        for paper, name in published.collections.items()
        for here in collections
        if here == name or here.startswith(f"{name} (")  # several contents of one name
    ]
    return pairs or [(paper, here) for paper in published.collections for here in collections]
