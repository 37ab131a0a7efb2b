"""Tests the few differences that a study was made for: one method against some others, named beforehand."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import LABEL, swept, with_methods
from pyrite.analysis.statistics.by_query import named_values
from pyrite.analysis.statistics.comparison import adjust
from pyrite.analysis.statistics.crossed import Floats, crossed_difference, deviation
from pyrite.analysis.statistics.places import Places
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.evaluation.significance import paired_t_test

OR = " | "
NO_PAIR = "no finished run of the same seed"
_number, _text = pl.Float64, pl.String
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "method", "against"), _text),
    "seeds": pl.Int64,
    **dict.fromkeys(("mean", "against_mean", "std", "against_std"), _number),
    **dict.fromkeys(
        ("difference", "low_both", "high_both", "p_both", "p_both_holm", "equal_p", "p", "p_holm"), _number
    ),
}
"""Columns of contrasts.parquet."""


@dataclass(frozen=True)
class NamedMethod:
    """A method that a contrast names, with its finished runs and their seeds."""

    name: str
    runs: Mapping[str, int]


def planned_contrasts(
    places: Places, requested: Sequence[str], equal_within: float | None = None
) -> tuple[pl.DataFrame, list[str]]:
    """Test one method against each of some others, by the leading measure.

    Args:
        requested: the label of one method each, or words of its overrides; the first is compared with the others. Of
            several, with ` | ` between them, the one whose runs validated best represents all: the best of a kind, or
            of one method's rates, by dev queries.
        equal_within: the margin of the tests of equivalence; None makes none.

    Returns:
        The columns that docs/reference/results.md documents, one row per origin and opponent, which are one family of
        Holm's method; and a line for each contrast that can't be made.
    """
    chosen, lines = _chosen(places.trials, requested)
    if not chosen:
        return pl.DataFrame(schema=SCHEMA), lines
    runs = list(dict.fromkeys(chain.from_iterable(method.runs for method in chosen)))
    names, values_of = named_values(places.queries, runs, places.first[1])
    order, rows = np.argsort(np.array(names)), list[dict[str, Any]]()
    collections = dict(with_methods(places.trials).select("run", "collection").iter_rows())
    for origin, measure in places.leading:
        by_run = {run: values[order] for run, values in values_of.get(origin, {}).items() if run in collections}
        first, *others = (_by_seed(method.runs, collections, by_run) for method in chosen)
        for values, other in zip(others, chosen[1:], strict=True):
            sides, fault = _paired(first, values)
            if fault:
                lines.append(f"{chosen[0].name} and {other.name} have {fault} over {origin}; they are not compared")
                continue
            pair = {"candidates": origin, "measure": measure, "method": chosen[0].name, "against": other.name}
            rows.append(pair | _contrast(sides[0], sides[1], equal_within))
    adjust(rows, ("p_both", "p"))
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None), lines


def _chosen(trials: pl.DataFrame, requested: Sequence[str]) -> tuple[list[NamedMethod], list[str]]:
    """Return the methods that are compared, none without the first, and a line for each that is left out."""
    done = trials.filter(status="done").join(with_methods(trials).select("run", "method"), on="run")
    chosen, lines = dict[str, NamedMethod](), list[str]()
    for words in requested:
        method = _named(done, words)
        if method is None:
            lines.append(f"no finished run has {words!r} in its overrides; it is left out")
        elif method.name in (before := {each.name: same for same, each in chosen.items()}):
            lines.append(f"{before[method.name]!r} and {words!r} are both {method.name}; the second is left out")
        else:
            chosen[words] = method
        if not chosen:  # nothing to compare the others with
            break
    return [*chosen.values()], lines


def _paired(first: Mapping[int, Floats], other: Mapping[int, Floats]) -> tuple[list[Floats], str]:
    """Return the values of two methods of the seeds and queries that both have, or why they can't be compared."""
    seeds = sorted(first.keys() & other.keys())
    sides = [[side[seed] for seed in seeds] for side in (first, other)]
    known = {np.isnan(row).tobytes() for row in chain(*sides)}
    if len(known) > 1:
        return [], "values of different queries"
    return [np.array([row[~np.isnan(row)] for row in side]) for side in sides], NO_PAIR * (not seeds)


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
    """Return the runs whose method has a label, or else words in its overrides."""
    labelled = pl.col("swept").list.eval(
        (pl.element().struct.field("key") == LABEL) & (pl.element().struct.field("value") == requested)
    )
    of_label = trials.filter(labelled.list.any())
    named = pl.any_horizontal(pl.col("overrides").str.contains(words, literal=True) for words in requested.split(OR))
    return of_label if len(of_label) else trials.filter(named)


def _named(done: pl.DataFrame, requested: str) -> NamedMethod | None:
    """Return the named method; of several, the one that validated best; None if there is none."""
    matching = _matching(done, requested).with_columns(dev=pl.col("curve_validation").list.max())
    best = matching.group_by("method").agg(pl.col("dev").mean()).sort("dev", "method", descending=[True, False])
    if best.is_empty():
        return None
    runs = matching.filter(pl.col("method") == best[0, "method"]).sort("seed")
    return NamedMethod(best[0, "method"], dict(runs.select("run", "seed").iter_rows()))


def _by_seed(
    runs: Mapping[str, int], collections: Mapping[str, str], by_run: Mapping[str, Floats]
) -> dict[int, Floats]:
    """Return the values of a method's runs by their seed: of each query of each collection, NaN if missing.

    Runs of one seed on one collection (other agents or settings) are no further queries: their mean counts.
    """
    values = defaultdict[tuple[int, str], list[Floats]](list)
    for run in filter(runs.__contains__, by_run):
        values[runs[run], collections[run]].append(by_run[run])
    absent = [np.full(len(row), np.nan) for row in [*by_run.values()][:1]]
    every = dict.fromkeys(collections.values())
    return {
        seed: np.concatenate([_known_mean(values.get((seed, name), absent)) for name in every])
        for seed in dict.fromkeys(seed for seed, _ in values)
    }


def _known_mean(values: Sequence[Floats]) -> Floats:
    """Return the mean of several runs per query, without those that lack it; NaN if all do."""
    count = (~np.isnan(np.array(values))).sum(axis=0)
    return np.divide(np.nansum(values, axis=0), count, out=np.full(len(count), np.nan), where=count > 0)


def _contrast(first: Floats, second: Floats, equal_within: float | None) -> dict[str, Any]:
    """Compare the values of two methods, float64 [seeds, queries]."""
    means, test = (first.mean(axis=1), second.mean(axis=1)), crossed_difference(first - second)
    return {
        "seeds": len(first),
        "mean": float(means[0].mean()),
        "against_mean": float(means[1].mean()),
        "std": deviation(means[0]),
        "against_std": deviation(means[1]),
        "difference": float((first - second).mean()),
        "low_both": test.low,
        "high_both": test.high,
        "p_both": test.p,
        "equal_p": None if equal_within is None else test.p_equal(equal_within),
        "p": paired_t_test(*means),
    }
