"""Finds the settings of each method that validated best, of those that a study drew or swept over many values."""

from __future__ import annotations

import shlex

import polars as pl

from pyrite.analysis.methods import leading_evaluations, measurements


def best_settings(trials: pl.DataFrame) -> pl.DataFrame:
    """Return the best settings of each method that ran with several, by the mean of its seeds' best validations.

    Settings that lack seeds of others, because runs failed or did not start, are no candidates. Those with a run that
    diverged before its first validation come last. The columns are those of `best_settings.parquet`
    (docs/reference/results.md), of which overrides are those of the runs without their seed.
    """
    method = ["collection", "ranker", "method"]
    named = measurements(trials).unique("run", maintain_order=True).select("run", *method, "settings")
    text = pl.format("{}={}", *(pl.element().struct.field(name) for name in ("key", "value")))
    validation = pl.col("curve_validation").list.max()
    leading = leading_evaluations(trials)
    origins = [origin for origin, _ in leading]
    columns = [pl.col(f"{origin}:{measure}").fill_nan(None).alias(origin) for origin, measure in leading]
    runs = (
        trials.filter(status="done")
        .select("run", "seed", "overrides", *columns, validation=validation)
        .join(named, on="run", maintain_order="left")
        .with_columns(pl.col("settings").list.eval(text).list.join(" "))
    )
    found = (
        runs.group_by(*method, "settings", maintain_order=True)
        .agg(
            pl.col("seed").n_unique().alias("seeds"),
            pl.col("validation").mean().fill_nan(None),
            pl.col(origins).mean(),
            pl.col("overrides").first(),
        )
        .with_columns(pl.len().over(method).alias("tried"))
        .filter(pl.col("tried") > 1, pl.col("seeds") == pl.col("seeds").max().over(method))
        .sort("validation", "settings", descending=[True, False], nulls_last=True)
        .unique(method, keep="first", maintain_order=True)
    )
    without_seed = [
        shlex.join(text for text in shlex.split(line) if text.partition("=")[0] != "seed")
        for line in found["overrides"]
    ]
    found = found.with_columns(overrides=pl.Series(without_seed, dtype=pl.String))
    return found.select(*method, "settings", "tried", "seeds", "validation", *origins, "overrides")
