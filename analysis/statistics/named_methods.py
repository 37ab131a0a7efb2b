"""Finds the methods that the words of a contrast name: by a label, or by words of their overrides."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import polars as pl

from pyrite.analysis.methods import LABEL, METHOD, swept, with_methods
from pyrite.ranking.errors import BadInput, refuse

OR = " | "
PARTS = frozenset((*METHOD, "objective"))
"""Options whose values name a method on their own: `bm25` is `function=bm25`."""


class NamedMethod(NamedTuple):
    """A method of one ranker that a contrast names."""

    ranker: str
    name: str


class NamedRuns(NamedTuple):
    """The methods that some words name.

    Args:
        planned: the rankers that have such runs, finished or not.
        methods: the method of each ranker that has finished ones.
    """

    planned: set[str]
    methods: Mapping[str, NamedMethod]


def named_methods(trials: pl.DataFrame, requested: Sequence[str]) -> tuple[dict[str, NamedRuns], list[str]]:
    """Return the methods that are compared, by the words that name them, none without the first, and a line for
    each that is left out."""
    methods = with_methods(trials).select("run", "collection", "ranker", "method")
    runs = trials.drop("collection", "ranker").join(methods, on="run", maintain_order="left")
    chosen, lines = dict[str, NamedRuns](), list[str]()
    for words in requested:
        matching = _matching(runs, words)
        named = NamedRuns(set(matching["ranker"]), _named(matching.filter(status="done")))
        if named.methods:
            chosen[words] = named
            missing = sorted(named.planned - named.methods.keys())
            lines += [f"no finished run of {ranker} has {words!r} in its overrides" for ranker in missing]
        else:
            lines.append(f"no finished run has {words!r} in its overrides; it is left out")
        if not chosen:  # nothing to compare the others with
            break
    return chosen, lines


def _named(done: pl.DataFrame) -> dict[str, NamedMethod]:
    """Return the method of each ranker; of several, the one that validated best, on the collections that all have.

    Methods with a run that diverged before its first validation come last.
    """
    dev, method = pl.col("dev"), pl.col("method")
    values = done.with_columns(dev=pl.col("curve_validation").list.max())
    means = values.group_by("ranker", "method", "collection").agg(dev.mean())
    shared = method.n_unique().over("ranker", "collection") == method.n_unique().over("ranker")
    means = means.filter(shared | ~shared.any().over("ranker"))
    best = means.group_by("ranker", "method").agg(dev.mean().fill_nan(None))
    best = best.sort("ranker", "dev", "method", descending=[False, True, False], nulls_last=True)
    best = best.unique("ranker", keep="first", maintain_order=True)
    return {ranker: NamedMethod(ranker, name) for ranker, name in best.select("ranker", "method").iter_rows()}


def check_contrasts(trials: pl.DataFrame, requested: Sequence[str], complete: bool = True) -> None:
    """Check that the methods of contrasts are planned, each another one; not `complete` if a search adds runs."""
    refuse(len(requested) < 2, "a contrast takes two methods", "contrasts", "give words of each")
    runs: dict[frozenset[str], str] = {}
    for words in requested:
        matching = frozenset(_matching(trials, words)["run"]) or frozenset([words])
        if complete and matching == {words}:
            raise BadInput(f"no run of this study has {words!r} in its overrides", "contrasts", _choices(trials))
        if matching in runs:
            same = f"{words!r} twice" if words == runs[matching] else f"{runs[matching]!r} and {words!r}, the same runs"
            raise BadInput(f"compares {same}", "contrasts", "leave one of them out")
        runs[matching] = words


def _choices(trials: pl.DataFrame) -> str:
    """Return the words of the overrides that only some runs have, for messages."""
    texts = [shlex.split(text) for text in trials["overrides"]]
    shared = set[str]().union(*texts[:1]).intersection(*texts)
    words = [word for word in dict.fromkeys(chain(*texts)) if word not in shared and not word.startswith("seed=")]
    labels = swept(trials).filter(key=LABEL)["value"].unique(maintain_order=True)
    return f"choose from {', '.join([*labels, *words])}" if [*labels, *words] else "this study has one method"


def _matching(trials: pl.DataFrame, requested: str) -> pl.DataFrame:
    """Return the runs whose method has a label, or else all of some words among its overrides, in any order."""
    labelled = pl.col("swept").list.eval(
        (pl.element().struct.field("key") == LABEL) & (pl.element().struct.field("value") == requested)
    )
    of_label = trials.filter(labelled.list.any())
    if len(of_label):
        return of_label
    wanted = alternatives(requested)
    given = [names_of(shlex.split(text)) for text in trials["overrides"]]
    return trials.filter(pl.Series([any(words <= of_run for words in wanted) for of_run in given], dtype=pl.Boolean))


def names_of(overrides: Collection[str]) -> frozenset[str]:
    """Return the words that name a run: its overrides, and the names of its parts without their keys."""
    pairs = (text.partition("=") for text in overrides)
    return frozenset([*overrides, *(value for key, _, value in pairs if key in PARTS)])


def alternatives(requested: str) -> list[set[str]]:
    """Return the sets of words of which a method has one: those between `|`, as they are and as a shell reads them."""
    return [words for each in requested.split(OR) for words in _words(each)]


def _words(requested: str) -> list[set[str]]:
    plain = set(requested.split())
    try:
        return [plain, set(shlex.split(requested))]
    except ValueError:  # the apostrophe of a label
        return [plain]
