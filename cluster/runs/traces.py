"""Writes which negatives rankers were shown, step by step, to a file that stays small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

ROWS = 500
"""Most rows that a run's record has."""
SCHEMA = pl.Schema({
    "run": pl.String(), "fold": pl.Int64(), "step": pl.Int64(), "steps": pl.Int64(),
    "positive": pl.Float64(), "negative": pl.Float64(), "misranked": pl.Float64(),
    "function": pl.String(), "version": pl.Int64(), "age": pl.Float64(),
})  # fmt: skip
"""Columns of steps.parquet."""


def trace_table(run: str, functions: Sequence[str], traces: Sequence[Mapping[str, NDArray[Any]]]) -> pl.DataFrame:
    """The rows of steps.parquet of one run: a row a step, or a window of steps where there are more than ROWS.

    Args:
        run: its name.
        functions: names, in the order of the sampler's.
        traces: a fold's `sampling.shown.Trace.arrays`.

    Returns:
        The columns of SCHEMA. A window has its first step (0 is the first of all), how many `steps` it holds, the
        means of its figures, the function that all of its steps chose, and the last version. What a step does not
        have is null.
    """
    longest = ROWS // max(len(traces), 1)
    frames = []
    for fold, trace in enumerate(traces):
        count = len(trace["positive"])
        width = max(1, -(-count // longest))
        steps = pl.DataFrame({name: np.asarray(values) for name, values in trace.items()}).with_row_index("step")
        chosen = dict(enumerate(functions))
        here = steps.with_columns(
            pl.col("step").cast(pl.Int64),
            pl.col("positive", "negative", "misranked").cast(pl.Float64).fill_nan(None),
            pl.col("function").replace_strict(chosen, default=None, return_dtype=pl.String),
            *(pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in ("version", "age")),
        )
        alone = pl.col("function").null_count().eq(0) & pl.col("function").n_unique().eq(1)
        windows = here.group_by(pl.col("step") // width * width, maintain_order=True).agg(
            pl.len().alias("steps"),
            pl.col("positive", "negative", "misranked", "age").mean(),
            pl.when(alone).then(pl.col("function").first()).alias("function"),
            pl.col("version").drop_nulls().last(),
        )
        windows = windows.with_columns(run=pl.lit(run), fold=pl.lit(fold))
        frames.append(windows.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items()))
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
