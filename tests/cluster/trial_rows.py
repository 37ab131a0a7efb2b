"""The runs of a study as `trials.parquet` has them, made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

SWEPT = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
USUAL: dict[str, Any] = {
    "ranker": "static", "policy": "fixed", "function": "bm25", "selector": "uniform", "objective": "softmax",
    "seed": 0, "status": "done", "collection": "c", "fingerprint": "c", "swept": [], "drawn": [],
}  # fmt: skip


def trials_of(rows: Iterable[Mapping[str, Any]], types: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """A run per row, which says what it does not have in common with all others."""
    schema = {"swept": SWEPT, "drawn": pl.List(pl.String), **(types or {})}
    return pl.DataFrame([USUAL | dict(row) for row in rows], schema_overrides=schema)
