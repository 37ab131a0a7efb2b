"""Summarises rankers on collections that they were not trained on."""

from __future__ import annotations

import polars as pl

from cluster.output.methods import with_methods


def summarise_zero_shot(trials: pl.DataFrame, measured: pl.DataFrame) -> pl.DataFrame:
    """Average over runs, one row per method, collection, origin and measure, with BM25 alone.

    Args:
        trials: the frame of `trials.parquet`.
        measured: the frame of `zero_shot.parquet`.

    Returns:
        learned_from (a collection), ranker, method, collection, origin, measure; mean and std over runs, bm25,
        queries and runs.
    """
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
