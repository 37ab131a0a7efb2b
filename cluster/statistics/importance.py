"""Estimates which swept settings mattered, alone and together, and the rank of the defaults among what was drawn.

A random forest learns the results of runs from their settings (a response surface), and a functional analysis of
variance shares out its variance: how much each setting explains by itself, and how much any two only together (Hutter,
Hoos and Leyton-Brown 2014, "An efficient approach for assessing hyperparameter importance"). Optuna's evaluator does
the same for single settings. Resampled runs show how certain that is.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pyrite.cluster.config.compose import compose
from pyrite.cluster.output.methods import evaluations, factors, swept, with_factors
from pyrite.cluster.statistics.comparison import families
from pyrite.cluster.statistics.paired import Floats
from pyrite.ranking.errors import BadInput

LEAST = 8
"""The least number of runs and, for a setting that is not drawn, of values."""
RESAMPLED, TREES = 12, 32
POINTS, LEVELS, PAIR_LEVELS = 96, 12, 8
METHOD = "method"
"""The setting that numbers the methods, if there are several."""
PLACE = dict.fromkeys(("collection", "ranker", "candidates", "measure"), pl.String)
SHARES: dict[str, Any] = {
    **PLACE,
    **dict.fromkeys(("setting", "together_with"), pl.String),
    **dict.fromkeys(("share", "low", "high", "explained"), pl.Float64),
    "runs": pl.Int64,
}
"""Columns of surface.parquet."""
DEFAULTS: dict[str, Any] = {
    **PLACE,
    **dict.fromkeys(("method", "settings"), pl.String),
    **dict.fromkeys(("expected", "rank", "low", "high"), pl.Float64),
    "drawn": pl.Int64,
    "inside": pl.Boolean,
}
"""Columns of defaults.parquet."""


@dataclass(frozen=True)
class SearchedFamily:
    """The runs of a ranker on a collection.

    Args:
        place: the columns of PLACE.
        names: the settings, the methods last if there are several.
        x: settings in the unit cube, a method by its number: [runs, settings].
        bounds: the range of each setting, on its scale.
        log: whether a setting's scale is logarithmic.
        defaults: the default settings by method; nan if there is none.
    """

    place: dict[str, str]
    names: list[str]
    x: Floats
    y: Floats
    bounds: Floats
    log: list[bool]
    methods: list[str]
    defaults: dict[str, Floats]

    def marginal(self, forest: Any, points: Floats, settings: tuple[int, ...], count: int) -> Floats:
        """The surface over `count` levels of some settings, averaged over all others."""
        shares, numbers = (np.arange(count) + 0.5) / count, np.arange(len(self.methods), dtype=np.float64)
        levels = [numbers if self.names[setting] == METHOD else shares for setting in settings]
        cells = np.array(list(itertools.product(*levels)))
        background = points[: POINTS // 2] if len(settings) > 1 else points
        inputs = np.tile(background, (len(cells), 1))
        inputs[:, list(settings)] = np.repeat(cells, len(background), axis=0)
        means = forest.predict(inputs).reshape(len(cells), -1).mean(1)
        return np.asarray(means).reshape([len(values) for values in levels])


def importance(trials: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The shares of settings, and the ranks of defaults, by the leading measure over the leading origin.

    Returns:
        The columns of SHARES, and those of DEFAULTS, which docs/reference/results.md documents.
    """
    shares: list[dict[str, Any]] = []
    ranks: list[dict[str, Any]] = []
    for family in _searched_families(trials):
        rng = np.random.default_rng(0)
        whole = _forest(family.x, family.y, 0)
        samples = [rng.integers(len(family.y), size=len(family.y)) for _ in range(RESAMPLED)]
        forests = [_forest(family.x[rows], family.y[rows], seed) for seed, rows in enumerate(samples, 1)]
        points = rng.random((POINTS, len(family.names)))
        if family.names[-1] == METHOD:
            points[:, -1] = rng.integers(len(family.methods), size=POINTS)
        resampled = [_shares(family, forest, points) for forest in forests]
        explained = _predicted(family.x, family.y)
        for key, share in _shares(family, whole, points).items():
            low, high = np.quantile([sample[key] for sample in resampled], (0.05, 0.95))
            names = [family.names[setting] for setting in key]
            setting = {"setting": names[0], "together_with": names[1] if len(names) > 1 else None, "share": share}
            bounds = {"low": float(low), "high": float(high)}
            shares.append(family.place | setting | bounds | {"explained": explained, "runs": len(family.y)})
        ranks += _ranks(family, [whole, *forests])
    return pl.DataFrame(shares, schema=SHARES), pl.DataFrame(ranks, schema=DEFAULTS)


def _forest(x: Floats, y: Floats, seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(TREES, min_samples_leaf=2, random_state=seed).fit(x, y)


def _searched_families(trials: pl.DataFrame) -> list[SearchedFamily]:
    """Return the families that settings were drawn for, or swept over many values."""
    pairs = swept(trials).drop_nulls("number").select("run", "key", "number")
    values = pairs.group_by("key").agg(pl.col("number").n_unique())
    drawn = set(trials["drawn"].explode().drop_nulls())
    many = (pl.col("number") >= LEAST) | ((pl.col("number") > 2) & pl.col("key").is_in(sorted(drawn)))
    keys = values.filter(many)["key"].sort().to_list()
    if not keys or not evaluations(trials):
        return []
    by_name = with_factors(trials, [key for key in factors(trials) if key not in keys])
    wide = pairs.filter(pl.col("key").is_in(keys)).pivot("key", index="run", values="number")
    searched = []
    for place, family in families(by_name, finished=True):
        runs = family.join(wide, on="run").join(trials.select("run", "overrides"), on="run")
        runs = runs.drop_nulls(keys).sort("run")
        if len(runs) < LEAST or np.ptp(runs["value"].to_numpy()) < 1e-12:
            continue
        numbers = runs.select(keys).to_numpy().astype(np.float64)
        log = [bool(column.min() > 0 and column.max() > 20 * column.min()) for column in numbers.T]
        scaled = np.where(log, np.log(np.where(log, numbers, 1.0)), numbers)
        bounds = np.stack([scaled.min(0), scaled.max(0)], 1)
        x = (scaled - bounds[:, 0]) / np.maximum(bounds[:, 1] - bounds[:, 0], 1e-12)
        methods = runs["method"].unique().sort().to_list()
        names = list(keys)
        if len(methods) > 1:
            x = np.column_stack([x, [methods.index(method) for method in runs["method"]]])
            names.append(METHOD)
        first = runs.group_by("method").agg(pl.col("overrides").first())
        defaults = {method: _defaults(overrides, keys) for method, overrides in first.rows()}
        searched.append(SearchedFamily(place, names, x, runs["value"].to_numpy(), bounds, log, methods, defaults))
    return searched


def _defaults(overrides: str, keys: Sequence[str]) -> Floats:
    """Return the values of settings by default."""
    values = []
    config: dict[str, Any] = {}
    with suppress(BadInput):  # of a class that no longer exists
        config = compose([text for text in shlex.split(overrides) if text.partition("=")[0].lstrip("+") not in keys])
    for key in keys:
        node: Any = config
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        values.append(float(node) if isinstance(node, int | float) else math.nan)
    return np.array(values)


def _shares(family: SearchedFamily, forest: Any, points: Floats) -> dict[tuple[int, ...], float]:
    """Return the share of the surface's variance of each setting, and of each two beyond what they explain alone."""
    total = float(forest.predict(points).var())
    every = range(len(family.names))
    single: dict[tuple[int, ...], float] = {
        (setting,): float(family.marginal(forest, points, (setting,), LEVELS).var()) for setting in every
    }
    both: dict[tuple[int, ...], float] = {}
    for pair in itertools.combinations(every, 2):
        means = family.marginal(forest, points, pair, PAIR_LEVELS)
        both[pair] = max(float(means.var() - means.mean(0).var() - means.mean(1).var()), 0.0)
    scale = max(total, sum(single.values()) + sum(both.values()), 1e-15)
    return {key: value / scale for key, value in {**single, **both}.items()}


def _predicted(x: Floats, y: Floats) -> float:
    """Return the share of the variance that forests predict in runs that they were not fitted to, at least 0."""
    order = np.random.default_rng(1).permutation(len(y))
    predicted = np.empty(len(y))
    for part in np.array_split(order, 5):
        rest = np.setdiff1d(order, part)
        predicted[part] = _forest(x[rest], y[rest], 0).predict(x[part])
    return max(0.0, 1 - float(((y - predicted) ** 2).mean() / y.var()))


def _ranks(family: SearchedFamily, forests: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rank of each method's defaults among what was drawn for it: by the first forest, and its bounds."""
    rows = []
    for number, method in enumerate(family.methods):
        values = family.defaults[method]
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            continue
        scaled = [math.log(values[at]) if family.log[at] and values[at] > 0 else float(values[at]) for at in known]
        low, high = family.bounds[known].T
        at = (np.array(scaled) - low) / (high - low)
        drawn = family.x if len(family.methods) == 1 else family.x[family.x[:, -1] == number]
        default = drawn.copy()  # a setting without a number by default is averaged over what was drawn
        default[:, known] = at
        expected = [float(forest.predict(default).mean()) for forest in forests]
        above = [forest.predict(drawn) > mean + 1e-12 for forest, mean in zip(forests, expected, strict=True)]
        rank, *resampled = (1.0 + float(better.sum()) for better in above)
        low, high = np.quantile(resampled, (0.05, 0.95))
        settings = " ".join(f"{family.names[setting]}={values[setting]:g}" for setting in known)
        rows.append({
            **family.place, "method": method, "settings": settings, "expected": expected[0], "rank": rank,
            "low": float(low), "high": float(high), "drawn": len(drawn), "inside": bool(((at >= 0) & (at <= 1)).all()),
        })  # fmt: skip
    return rows
