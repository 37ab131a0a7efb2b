"""Estimates how much of the differences between runs each swept setting explains, by Optuna's functional ANOVA.

A random forest learns the results of runs from their settings, and its variance is shared out among the settings
(Hutter, Hoos and Leyton-Brown 2014, "An efficient approach for assessing hyperparameter importance").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import evaluations, factors, swept, with_factors
from pyrite.analysis.statistics.places import Places
from pyrite.ranking.lazy import optuna

LEAST = 8
"""The least number of runs and, for a setting that is not drawn, of values."""
METHOD = "method"
"""The setting that names the methods, if there are several."""
IMPORTANCE: dict[str, Any] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "setting"), pl.String),
    "share": pl.Float64,
    "runs": pl.Int64,
}
"""Columns of importance.parquet."""


@dataclass(frozen=True)
class SearchedFamily:
    """The runs of a ranker on a collection that differ in searched settings.

    Args:
        place: collection, ranker, candidates and measure.
        settings: one row per run: a number per setting, and the method if there are several.
        values: the result of each run.
    """

    place: Mapping[str, str]
    settings: pl.DataFrame
    values: list[float]


def importance(trials: pl.DataFrame) -> pl.DataFrame:
    """Return the share of each setting, by the leading measure over the leading origin.

    Returns:
        The columns of IMPORTANCE, which docs/reference/results.md documents.
    """
    rows = [
        {**family.place, "setting": setting, "share": share, "runs": len(family.values)}
        for family in _searched_families(trials)
        for setting, share in _shares(family).items()
    ]
    return pl.DataFrame(rows, schema=IMPORTANCE)


def _shares(family: SearchedFamily) -> dict[str, float]:
    """Return the importance of each setting; they sum to 1."""
    space = {column.name: _distribution(column) for column in family.settings}
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it reports each study that is made
    study = optuna.create_study()
    study.add_trials(
        [
            optuna.trial.create_trial(params=params, distributions=space, value=value)
            for params, value in zip(family.settings.iter_rows(named=True), family.values, strict=True)
        ]
    )
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return optuna.importance.get_param_importances(study, evaluator=evaluator)


def _distribution(column: pl.Series) -> Any:
    """Return the range of a setting, logarithmic if it spans more than a factor of 20."""
    if column.dtype == pl.String:
        return optuna.distributions.CategoricalDistribution(column.unique().sort().to_list())
    numbers = column.to_numpy()
    low, high = float(numbers.min()), float(numbers.max())
    return optuna.distributions.FloatDistribution(low, high, log=low > 0 and high > 20 * low)


def _searched_families(trials: pl.DataFrame) -> Iterator[SearchedFamily]:
    """Yield the families that settings were drawn for, or swept over many values."""
    pairs = swept(trials).drop_nulls("number").select("run", "key", pl.col("number").cast(pl.Float64))
    values = pairs.group_by("key").agg(pl.col("number").n_unique())
    drawn = set(trials["drawn"].explode().drop_nulls())
    many = (pl.col("number") >= LEAST) | ((pl.col("number") > 2) & pl.col("key").is_in(sorted(drawn)))
    keys = values.filter(many)["key"].sort().to_list()
    if not keys or not evaluations(trials):
        return
    by_name = with_factors(trials, [key for key in factors(trials) if key not in keys])
    wide = pairs.filter(pl.col("key").is_in(keys)).pivot("key", index="run", values="number")
    for place in Places(by_name).at(finished=True):
        runs = place.results.join(wide, on="run").drop_nulls(keys).sort("run")
        several = [METHOD] if runs["method"].n_unique() > 1 else []
        if len(runs) >= LEAST and np.ptp(runs["value"].to_numpy()) >= 1e-12:
            yield SearchedFamily(place.key, runs.select(*keys, *several), runs["value"].to_list())
