"""Turns the outcomes of runs into the tables of a study. docs/reference/results.md documents the columns."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from cluster.config.groups import CHOICES
from cluster.output.methods import EMBEDDINGS
from cluster.plan.sweep import Planned, function_name
from cluster.runs.outcome import Outcome
from ranking.collections.collection import Collection

SWEPT = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
SCHEMA: dict[str, Any] = {
    "run": pl.String, "overrides": pl.String, "ranker": pl.String, "policy": pl.String, "function": pl.String,
    "selector": pl.String, "objective": pl.String, "seed": pl.Int64, "status": pl.String, "error": pl.String,
    "collection": pl.String, "fingerprint": pl.String, "epochs": pl.Int64, "best_epoch": pl.Int64,
    "steps": pl.Int64, "seconds": pl.Float64, "curve_loss": pl.List(pl.Float64),
    "curve_validation": pl.List(pl.Float64), "curve_dev_loss": pl.List(pl.Float64),
    "validation_measure": pl.String, "swept": SWEPT, "drawn": pl.List(pl.String), "diverged": pl.Boolean,
    "interpolation_weight": pl.Float64,
}  # fmt: skip
"""Columns of trials.parquet before those of the measures."""

QUERY_SCHEMA: dict[str, pl.DataType] = dict.fromkeys(("run", "query", "origin"), pl.String())
"""Columns of queries.parquet before those of the measures."""


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """The mean of several folds' curves by epoch; a fold that stopped keeps its last value."""
    longest = max((len(curve) for curve in curves), default=0)
    return [float(np.mean([curve[min(epoch, len(curve) - 1)] for curve in curves])) for epoch in range(longest)]


def trial_row(planned: Planned, collection: Collection, outcome: Outcome | None, error: str | None) -> dict[str, Any]:
    """One row of trials.parquet; of a failed run, what is known of it."""
    config, outcome_ = planned.config, outcome or Outcome()
    choices = config[CHOICES]
    row: dict[str, Any] = {
        "run": planned.name,
        "overrides": shlex.join(planned.overrides),
        **{group: choices[group] for group in ("ranker", "policy", "selector", "objective")},
        "function": function_name(config),
        "seed": config["seed"],
        "status": "failed" if outcome is None else "done",
        "error": error,
        "collection": collection.name,
        "fingerprint": collection.fingerprint,
        "epochs": outcome_.epochs,
        "best_epoch": outcome_.best_epoch,
        "steps": outcome_.steps,
        "seconds": outcome_.seconds,
        "curve_loss": mean_curve(outcome_.losses),
        "curve_validation": mean_curve(outcome_.validations),
        "curve_dev_loss": mean_curve([curve for curve in outcome_.dev_losses if curve]),
        "validation_measure": config["validation"]["measure"],
        "swept": [{"key": key, "value": value} for key, value in planned.swept],
        "drawn": list(planned.drawn),
        "diverged": None if outcome is None else outcome.diverged,
        "interpolation_weight": float(np.mean(outcome_.interpolation)) if outcome_.interpolation else None,
    }
    for origin in outcome_.values:
        for measure, values in outcome_.values[origin].items():
            row[f"{origin}:{measure}"] = float(values.mean())
            row[f"{origin}:{measure}:bm25"] = float(outcome_.bm25[origin][measure].mean())
            if origin in outcome_.interpolated:
                row[f"{origin}:{measure}:interpolated"] = float(outcome_.interpolated[origin][measure].mean())
    row |= {f"{EMBEDDINGS}:{figure}": float(np.mean(values)) for figure, values in outcome_.clusters.items()}
    return row


def trials_table(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """trials.parquet, in the order of the plan."""
    measured = dict.fromkeys(key for row in rows for key in row if key not in SCHEMA)
    return pl.DataFrame(list(rows), schema={**SCHEMA, **dict.fromkeys(measured, pl.Float64)})


def query_rows(planned: Planned, collection: Collection, outcome: Outcome) -> pl.DataFrame:
    """The rows of queries.parquet of one run."""
    ids = collection.queries["id"]
    return pl.concat(
        [
            pl.DataFrame(
                {
                    "run": [planned.name] * len(queries),
                    "query": ids.gather(queries),
                    "origin": [origin] * len(queries),
                    **outcome.values[origin],
                }
            )
            for origin, queries in outcome.queries.items()
        ]
    )


def sampler_rows(planned: Planned, outcome: Outcome) -> list[dict[str, Any]]:
    """The rows of samplers.parquet of one run: what each function supplied, and how it was scored."""
    return [{"run": planned.name, **row} for row in outcome.sampler]
