"""Summarises methods over collections and rankers: the part of a difference that holds beyond a single place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.methods import with_methods
from pyrite.analysis.statistics.comparison import MethodRuns, compare_both
from pyrite.analysis.statistics.crossed import Floats
from pyrite.analysis.statistics.paired import MeasuredRun, differences, mean_difference
from pyrite.analysis.statistics.places import Place, Places, Values
from pyrite.analysis.statistics.pooled_effects import pool_effects

SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "method", "against", "place", "collection"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "heterogeneity", "next_low", "next_high"), pl.Float64),
    **dict.fromkeys(("places", "collections", "pairs"), pl.Int64),
}
"""Columns of across.parquet."""
ALL = "all"
"""The place of the row that sums up the others."""


class PlaceEffect(NamedTuple):
    """The difference of two methods at one place, or on one collection.

    Args:
        low, high: its 95% interval.
        variance: the square of its standard error.
        pairs: the number of pairs that it is the mean of.
        of_queries: whether the error is for other queries too.
    """

    difference: float
    low: float
    high: float
    variance: float
    pairs: int
    of_queries: bool


def across_places(study: Places, baseline: str | None = None) -> pl.DataFrame:
    """Compare each method with one reference at every place (a collection and ranker), and over all of them.

    By the leading measure and origin. Empty with fewer than two places. Intervals are over seeds and queries if values
    per query are known, else over seeds alone.

    The rankers of a collection share its test queries, so that their errors are not independent. Over all places they
    are averaged first, and then collections are pooled (`pool_effects`). With one collection the interval is that of
    the mean over its rankers, and there are no figures of what varies between collections. Versions of a collection,
    such as one with corrected judgements, share its test queries too, and are averaged as its rankers are; two
    collections that have nothing but the name in common are two.

    Args:
        baseline: the name of the reference. None, or one that not all places have, takes the method with the highest
            mean over the places, of those that are not learned and have runs at all places: two or more at each, if
            there are such methods.
    """
    places = {f"{place.key['ranker']} on {place.key['collection']}": place for place in study.at(finished=True)}
    reference = _reference([*places.values()], baseline)
    if reference is None:
        return pl.DataFrame(schema=SCHEMA)
    candidates, measure = study.first
    collections = _collections(study, [*places.values()])
    rows: list[dict[str, Any]] = []
    for method in sorted(set().union(*(place.methods for place in places.values())) - {reference}):
        head = {"candidates": candidates, "measure": measure, "against": reference, "method": method}
        of_collections = defaultdict[str, list[tuple[Place, PlaceEffect]]](list)
        for name in sorted(places):
            effect = _at_place(places[name], method, reference)
            if effect is not None:
                collection = collections[places[name].key["collection"]]
                at = {"places": 1, "collections": 1, "place": name, "collection": collection}
                rows.append(head | at | effect._asdict())
                of_collections[collection].append((places[name], effect))
        every = [*of_collections.values()]
        if sum(map(len, every)) > 1:
            effects = [_on_collection(at, method, reference) for at in every]
            over = {"places": sum(map(len, every)), "collections": len(every), "place": ALL}
            rows.append(head | over | {"pairs": sum(effect.pairs for effect in effects)} | _over_all(effects))
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None)


def _collections(study: Places, places: Sequence[Place]) -> Mapping[str, str]:
    """Return the collection that each one counts as: versions with one name and common test queries are one.

    Queries are the same by their texts (`Collection.test_sketch`), by their ids in studies of a release without these.
    """
    sketch = pl.col("test_sketch") if "test_sketch" in study.trials.columns else pl.lit(None, pl.List(pl.String))
    of_trials = study.trials.select("run", name="collection", sketch=sketch)
    named = study.results.select("run", "collection").join(of_trials, on="run").drop_nulls(["collection", "name"])
    names: dict[str, str] = dict(named.select("collection", "name").unique().iter_rows())
    texts = {label: set(sketch) for label, sketch in named.select("collection", "sketch").drop_nulls().iter_rows()}
    tested = _tested([place for place in places if names[place.key["collection"]] != place.key["collection"]])

    def share(label: str, other: str) -> bool:
        if label in texts and other in texts:
            return not texts[label].isdisjoint(texts[other])
        return bool((tested[other] & tested[label]).any())

    def has_versions(label: str) -> bool:
        others = (other for other in tested if other != label and names[other] == names[label])
        return label in tested and any(share(label, other) for other in others)

    return {label: names[label] if has_versions(label) else label for label in names}


def _tested(places: Sequence[Place]) -> Mapping[str, NDArray[np.bool_]]:
    """Return which queries were measured on each collection."""
    tested = defaultdict[str, Any](lambda: np.zeros(1, bool))
    for place in places:
        known = [~np.isnan(place.by_query[run]) for run in place.results["run"] if run in place.by_query]
        tested[place.key["collection"]] = np.any([tested[place.key["collection"]] | each for each in known], axis=0)
    return tested


def versions(frame: pl.DataFrame) -> Mapping[str, int]:
    """Return the collections of which a table (`across_places`) has several versions, and how many."""
    of_places = frame.drop_nulls("collection").select("collection", pl.col("place").str.extract(r" on (.*)$"))
    counts = of_places.unique().group_by("collection").len().filter(pl.col("len") > 1)
    return dict(counts.sort("collection").iter_rows())


def _reference(places: Sequence[Place], baseline: str | None) -> str | None:
    """Return the method that others are compared with; None if no method that is not learned is at all places."""
    shared = set.intersection(*(set(place.methods) for place in places)) if len(places) > 1 else set[str]()
    able = shared.intersection(*(place.able for place in places))
    means = {name: float(np.mean([place.methods[name].mean for place in places])) for name in able}
    single = {name for name in able if any(len(place.methods[name].values) < 2 for place in places)}  # not compared
    best = min(able, key=lambda name: (name in single, -means[name], name), default=None)
    return baseline if able and baseline in shared else best


def _at_place(place: Place, method: str, reference: str) -> PlaceEffect | None:
    """Return the difference of a method from the reference at one place; None with fewer than two pairs."""
    if method not in place.methods:
        return None
    return _effect(place.methods[method], place.methods[reference], place.by_query)


def _effect(a: MethodRuns, b: MethodRuns, by_query: Values) -> PlaceEffect | None:
    """Return the difference of two methods; None with fewer than two pairs."""
    by_seed = differences(a.runs, b.runs)
    if len(by_seed) < 2:
        return None
    both = compare_both(a, b, by_query)
    effect = both if both.is_known else mean_difference(by_seed)
    variance = both.error**2 if both.is_known else float(by_seed.var(ddof=1)) / len(by_seed)
    of_queries = both.is_known and {run.name for run in (*a.runs, *b.runs)} <= by_query.keys()
    return PlaceEffect(effect.mean, effect.low, effect.high, variance, len(by_seed), of_queries)


def _on_collection(at: Sequence[tuple[Place, PlaceEffect]], method: str, reference: str) -> PlaceEffect:
    """Return the mean difference over the rankers of a collection, given the places with their effects.

    Its runs are the means of those that all rankers have, and are compared as a ranker's are. If the rankers share too
    few seeds or queries, it has the mean of their intervals, which is wide enough however much their errors share.
    """
    places, effects = [place for place, _ in at], [effect for _, effect in at]
    if len(at) == 1:
        return effects[0]
    (a, of_a), (b, of_b) = (_mean_runs(places, name) for name in (method, reference))
    effect = _effect(a, b, {**of_a, **of_b})
    if effect is not None and (effect.of_queries or not any(each.of_queries for each in effects)):
        return effect._replace(pairs=len(at) * effect.pairs)
    difference, low, high, *_ = np.mean(effects, axis=0).tolist()
    variance = float(np.mean([np.sqrt(each.variance) for each in effects])) ** 2
    pairs, of_queries = sum(each.pairs for each in effects), all(each.of_queries for each in effects)
    return PlaceEffect(difference, low, high, variance, pairs, of_queries)


def _mean_runs(places: Sequence[Place], method: str) -> tuple[MethodRuns, Values]:
    """Average a method's runs over rankers: one per seed, agent and settings that all have, and its values by query, if
    those of all rankers are known."""
    by_query = places[0].by_query  # of all rankers
    of_rankers = [_by_unit(place.methods[method].runs) for place in places]
    runs, values = list[MeasuredRun](), dict[str, Floats]()
    for unit in sorted(set.intersection(*map(set, of_rankers))):
        alike = [of_ranker[unit] for of_ranker in of_rankers]
        name = "+".join(run.name for run in chain(*alike))
        value = float(_mean([[run.value for run in same] for same in alike]))
        runs.append(replace(alike[0][0], value=value, name=name))
        if all(run.name in by_query for run in chain(*alike)):
            values[name] = _mean([[by_query[run.name] for run in same] for same in alike])
    return replace(places[0].methods[method], runs=runs), values


def _by_unit(runs: Sequence[MeasuredRun]) -> Mapping[Any, Sequence[MeasuredRun]]:
    """Return the runs of each seed, agent and settings."""
    alike = defaultdict[Any, list[MeasuredRun]](list)
    for run in runs:
        alike[run.seed, run.agent, tuple(sorted(run.settings.items()))].append(run)
    return alike


def _mean(of_rankers: Sequence[Sequence[Any]]) -> Any:
    """Return the mean over rankers of numbers or arrays, of which a ranker may have several."""
    return np.mean([np.mean(same, axis=0) for same in of_rankers], axis=0)


def _over_all(effects: Sequence[PlaceEffect]) -> dict[str, Any]:
    """Return the figures of the row of all places, from the difference on each collection."""
    if len(effects) == 1:
        return effects[0]._asdict()
    differences, variances = ([getattr(effect, name) for effect in effects] for name in ("difference", "variance"))
    pooled = pool_effects(np.array(differences), np.array(variances))
    return pooled._asdict() | {"difference": pooled.mean, "heterogeneity": pooled.between}


def summarise_zero_shot(trials: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """Average over runs, one row per method, collection that it was `learned_from`, collection, origin and measure."""
    of_run = with_methods(trials).select("run", pl.col("collection").alias("learned_from"), "ranker", "method")
    keys = ["learned_from", "ranker", "method", "collection", "origin", "measure"]
    return (
        measured.join(of_run, on="run", maintain_order="left")
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").std().alias("std"),
            pl.col("bm25").mean(),
            pl.col("queries").first(),
            pl.len().alias("runs"),
        )
    )
