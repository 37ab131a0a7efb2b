"""Tests the few differences that a study was made for: one method against some others, named beforehand."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pyrite.analysis.methods import LABEL, swept, with_methods
from pyrite.analysis.statistics.comparison import LEAST_SEEDS, MethodRuns, adjust, compare
from pyrite.analysis.statistics.crossed import Floats, deviation, mean
from pyrite.analysis.statistics.paired import MeasuredRun, complete_runs, differences
from pyrite.analysis.statistics.places import Place, Places
from pyrite.ranking.errors import BadInput, refuse

OR = " | "
NO_PAIR = "no finished run of the same seed"
OTHER_QUERIES = "values of different queries"
TESTED = ("low_both", "high_both", "p_both", "equal_p", "p")
"""Columns that are empty with fewer than LEAST_SEEDS pairs."""
_number, _text = pl.Float64, pl.String
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "ranker", "method", "against_ranker", "against"), _text),
    "pairs": pl.Int64,
    **dict.fromkeys(("mean", "against_mean", "std", "against_std"), _number),
    **dict.fromkeys(
        ("difference", "low_both", "high_both", "p_both", "p_both_holm", "equal_p", "p", "p_holm"), _number
    ),
}
"""Columns of contrasts.parquet."""


class NamedMethod(NamedTuple):
    """A method of one ranker that a contrast names."""

    ranker: str
    name: str


Pair = tuple[NamedMethod, NamedMethod]


class Named(NamedTuple):
    """The methods that some words name.

    Args:
        planned: the rankers that have such runs, finished or not.
        methods: the method of each ranker that has finished ones.
    """

    planned: set[str]
    methods: Mapping[str, NamedMethod]


def planned_contrasts(
    places: Places, requested: Sequence[str], equal_within: float | None = None
) -> tuple[pl.DataFrame, list[str]]:
    """Test one method against each of some others, by the leading measure, for each ranker that has both.

    Agents and seeds are a sample as in `pyrite.analysis.statistics.summary.summarise`; runs of other settings of one
    seed count as one, by their mean. The queries of all collections count together. Only what is complete on both sides
    is compared.

    Args:
        requested: the label of one method each, or words of its overrides; the first is compared with the others. Of
            several, with ` | ` between them, the one whose runs validated best represents all: the best of a kind, or
            of one method's rates, by dev queries.
        equal_within: the margin of the tests of equivalence; None makes none.

    Returns:
        The columns that docs/reference/results.md documents, one row per origin, opponent and ranker, which are one
        family of Holm's method; and a line for each contrast that can't be made, or lacks runs.
    """
    chosen, lines = _chosen(places.trials, requested)
    if not chosen:
        return pl.DataFrame(schema=SCHEMA), lines
    pairs, repeated = _pairs(chosen)
    lines += repeated
    several = places.results["ranker"].n_unique() > 1
    rows = list[dict[str, Any]]()
    for evaluation in places.leading:
        by_ranker = defaultdict[str, dict[str, Place]](dict)
        for place in places.at([evaluation]):
            by_ranker[place.key["ranker"]][place.key["collection"]] = place
        for pair in pairs:
            found = _complete(pair, [by_ranker[method.ranker] for method in pair])
            both = " and ".join(f"{method.name} ({method.ranker})" if several else method.name for method in pair)
            if found.fault:
                lines.append(f"{both} have {found.fault} over {evaluation[0]}; they are not compared")
                continue
            if found.compared < found.planned:
                counts = f"{found.compared} of {found.planned} runs of {both} are compared"
                lines.append(f"{counts}; the others have not finished, or lack one of the same seed to compare with")
            named = zip(("ranker", "method", "against_ranker", "against"), chain(*pair), strict=True)
            row = {"candidates": evaluation[0], "measure": evaluation[1], **dict(named)}
            rows.append(row | _contrast(*found.methods, found.by_query, equal_within))
    adjust(rows, ("p_both", "p"))
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None), list(dict.fromkeys(lines))


def _chosen(trials: pl.DataFrame, requested: Sequence[str]) -> tuple[dict[str, Named], list[str]]:
    """Return the methods that are compared, by the words that name them, none without the first, and a line for
    each that is left out."""
    methods = with_methods(trials).select("run", "collection", "ranker", "method")
    runs = trials.drop("collection", "ranker").join(methods, on="run", maintain_order="left")
    chosen, lines = dict[str, Named](), list[str]()
    for words in requested:
        matching = _matching(runs, words)
        named = Named(set(matching["ranker"]), _named(matching.filter(status="done")))
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


def _pairs(chosen: Mapping[str, Named]) -> tuple[list[Pair], list[str]]:
    """Pair the first method with each of the others, ranker by ranker, or of all rankers if no ranker has runs of
    both; return a line for each that is named twice, too."""
    (words, (planned, first)), *others = chosen.items()
    by_words = {(method.ranker, method): words for method in first.values()}
    pairs, lines = list[Pair](), list[str]()
    for words, other in others:
        across = planned.isdisjoint(other.planned)
        for one, two in product(first.values(), other.methods.values()):
            if not across and one.ranker != two.ranker:
                continue
            before = by_words.setdefault((one.ranker, two), words)
            if before == words:
                pairs.append((one, two))
            else:
                lines.append(f"{before!r} and {words!r} are both {two.name}; the second is left out")
    return pairs, lines


@dataclass(frozen=True)
class ComparedRuns:
    """The runs of two methods that are complete on both sides.

    Args:
        methods: both, with one run per agent and seed.
        by_query: the values of each of these runs, of the queries of one collection after another.
        planned: the number of the methods' runs, finished or not.
        compared: the number of runs that are compared.
        fault: the reason why nothing can be compared; empty if there is none.
    """

    methods: tuple[MethodRuns, MethodRuns]
    by_query: Mapping[str, Floats]
    planned: int
    compared: int
    fault: str


def _complete(pair: Pair, of_rankers: Sequence[Mapping[str, Place]]) -> ComparedRuns:
    """Return the runs of two methods that can be compared: of agents and seeds that have runs on all collections.

    Args:
        of_rankers: the places of each method's ranker, by collection.
    """
    planned, fault = 0, ""
    values: Mapping[str, Floats] = {}
    units = list[tuple[Units, Units]]()
    for method, places in zip(pair, of_rankers, strict=True):
        planned += sum(len(place.results.filter(method=method.name)) for place in places.values())
    for collection in sorted(of_rankers[0].keys() & of_rankers[1].keys()):
        first, other = (places[collection] for places in of_rankers)
        if pair[0].name in first.finished and pair[1].name in other.finished:
            values = first.by_query
            one, two = (
                [run for run in place.finished[method.name].runs if run.name in values]
                for place, method in zip((first, other), pair, strict=True)
            )
            one, two = complete_runs(one, two)
            units.append((_units(one), _units(two)))
            fault = OTHER_QUERIES if len({np.isnan(values[run.name]).tobytes() for run in (*one, *two)}) > 1 else fault
    by_query, methods, compared = dict[str, Floats](), list[MethodRuns](), 0
    for side, method in enumerate(pair):
        of_collections = [both[side] for both in units]
        runs = list[MeasuredRun]()
        for agent, seed in sorted(set.intersection(*map(set, of_collections))) if units else []:
            same = [of[agent, seed] for of in of_collections]
            name = f"{side} {agent} {seed}"
            by_query[name] = np.concatenate([np.mean([values[run.name] for run in each], axis=0) for each in same])
            runs.append(MeasuredRun(float(np.nanmean(by_query[name])), seed, agent, name=name))
            compared += sum(map(len, same))
        methods.append(MethodRuns({"ranker": method.ranker, "method": method.name}, runs))
    return ComparedRuns((methods[0], methods[1]), by_query, planned, compared, fault if compared else NO_PAIR)


Units = Mapping[tuple[str, int], Sequence[MeasuredRun]]


def _units(runs: Sequence[MeasuredRun]) -> Units:
    """Return the runs of each agent and seed."""
    units = defaultdict[tuple[str, int], list[MeasuredRun]](list)
    for run in runs:
        units[run.agent, run.seed].append(run)
    return units


def _contrast(
    first: MethodRuns, second: MethodRuns, by_query: Mapping[str, Floats], equal_within: float | None
) -> dict[str, Any]:
    """Compare two methods whose runs are complete."""
    tests = compare([first, second], {first.method: second}, by_query, equal_within)[first.method]
    tests["p"] = tests["paired_p"]
    able = tests["pairs"] >= LEAST_SEEDS
    return {
        "pairs": tests["pairs"],
        "mean": first.mean,
        "against_mean": second.mean,
        "std": deviation(first.values),
        "against_std": deviation(second.values),
        "difference": mean(differences(first.runs, second.runs)),
        **{name: tests[name] if able else float("nan") for name in TESTED},
    }


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
