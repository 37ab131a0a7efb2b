"""Gathers the tables of a pooling study from the results of its trials."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from cluster.pools.trial import TABLES, Trial, read_trial_table, trial_store

if TYPE_CHECKING:
    from cluster.plan.pool_methods import PoolPlan


def pool_tables(study: PoolPlan, trials: Sequence[Trial], errors: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Gather the table of trials, and the trials' tables into one table of each kind."""
    storage, store = study.storage, trial_store(study.storage, trials)
    overrides = {variant.label: shlex.join(variant.overrides) for variant in study.variants}
    rows: list[dict[str, Any]] = []
    done: list[Trial] = []
    for trial in trials:
        seconds = store.read(trial.name) if store.has(trial.name) else None
        done += [trial] if seconds else []
        rows.append(
            {
                "pool": trial.pool,
                "method": trial.label,
                "overrides": overrides[trial.label],
                "seeds": trial.options["seeds"],
                "status": "done" if seconds else "failed",
                "error": None if seconds else errors.get(trial.name, "did not run"),
                "seconds": (seconds or {}).get("simulated"),
                "seconds_in_all": (seconds or {}).get("all"),
            }
        )
    tables = {"trials": pl.DataFrame(rows, schema_overrides={"error": pl.String})}
    for name in TABLES:
        parts = [content for trial in done if (content := read_trial_table(storage, trial, name)) is not None]
        if parts:
            tables[name] = pl.concat(pl.read_parquet(io.BytesIO(content)) for content in parts)
    return tables
