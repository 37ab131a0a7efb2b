"""Finds which collections and methods of a study stand for those of a paper."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import polars as pl

from cluster.config.schema import Published
from cluster.output.methods import METHOD, items_of, with_methods


def map_methods(published: Published, trials: pl.DataFrame) -> dict[str, list[tuple[str, str]]]:
    """The rankers and methods of a study that stand for each of the paper's methods, by its name; none for some.

    A method is told by key=value pairs, of its parts or of its runs' overrides (`Published`). Where several of the
    paper's could be meant it is the one that says most.
    """
    told = with_methods(trials).select("run", "method", _ranker="ranker").join(trials, on="run").sort("run")
    known: dict[tuple[str, str], dict[str, str]] = {}
    every = told.unique(["_ranker", "method"], keep="first", maintain_order=True).sort("method", "_ranker")
    for row in every.iter_rows(named=True):
        overrides = dict(text.split("=", 1) for text in shlex.split(row["overrides"]) if "=" in text)
        known[row["_ranker"], row["method"]] = overrides | {name: row[name] or "-" for name in (*METHOD, "objective")}
    wanted = {name: dict(text.split("=", 1) for text in pairs.split()) for name, pairs in published.methods.items()}

    def said(name: str, own: Mapping[str, str]) -> int:
        pairs = wanted[name]
        return len(pairs) * all(key in own and _holds(own[key], value) for key, value in pairs.items())

    most = {ours: max((said(name, own) for name in wanted), default=0) for ours, own in known.items()}
    return {name: [ours for ours, own in known.items() if 0 < said(name, own) == most[ours]] for name in wanted}


def _holds(own: str, wanted: str) -> bool:
    """Whether a value is what a paper's method names: its items, as many of them, or its text, `*` for any part."""
    named, items = items_of(wanted), items_of(own)
    if set(named) == {"_"}:
        return len(items) == len(named)
    if "*" in wanted:
        return fnmatchcase(own.lower(), wanted)
    return set(named) <= set(items)


def map_collections(published: Published, collections: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of a collection of the paper and the study's that stands for it.

    Where the study has none of those that should, whatever it has instead stands for every one.
    """
    pairs = [
        (paper, here)
        for paper, name in published.collections.items()
        for here in collections
        if here == name or here.startswith(f"{name} (")  # several contents of one name
    ]
    return pairs or [(paper, here) for paper in published.collections for here in collections]
