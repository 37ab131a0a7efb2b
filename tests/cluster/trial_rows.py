"""The runs of a study as `trials.parquet` has them, made up."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from pyrite.cluster.reports.study_tables import trials_table

USUAL: dict[str, Any] = {
    "ranker": "static", "policy": "fixed", "function": "bm25", "selector": "uniform", "objective": "softmax",
    "seed": 0, "status": "done", "collection": "c", "fingerprint": "c", "swept": [], "drawn": [],
}  # fmt: skip


def trials_of(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """One run per row, with the usual values for the columns that a row does not give."""
    return trials_table([USUAL | dict(row) for row in rows])
