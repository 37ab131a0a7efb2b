"""Makes the tables of a study from the outcomes of its runs. docs/reference/results.md documents the columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pyrite.analysis.methods import (
    EMBEDDINGS,
    SWEPT,
    first_runs,
    method_columns,
    untrained_of,
    with_factors,
    with_methods,
)
from pyrite.analysis.statistics.comparison import named_baseline
from pyrite.analysis.statistics.contrasts import check_contrasts
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import RunRows, write_table
from pyrite.cluster.plan.sweep import Planned, function_name
from pyrite.cluster.runs import negative_tables
from pyrite.cluster.runs.cut_checkpoints import cut_of
from pyrite.cluster.runs.outcome import Outcome, Stop, read_outcome
from pyrite.ranking.collections.collection import Collection

SCHEMA: dict[str, Any] = {
    "run": pl.String, "overrides": pl.String, "ranker": pl.String, "policy": pl.String, "function": pl.String,
    "selector": pl.String, "objective": pl.String, "seed": pl.Int64, "status": pl.String, "error": pl.String,
    "collection": pl.String, "fingerprint": pl.String, "epochs": pl.Int64, "best_epoch": pl.Int64,
    "steps": pl.Int64, "seconds": pl.Float64, "documents_read": pl.Int64, "memory": pl.Float64,
    "curve_loss": pl.List(pl.Float64),
    "curve_validation": pl.List(pl.Float64), "curve_dev_loss": pl.List(pl.Float64),
    "validation_measure": pl.String, "swept": SWEPT, "drawn": pl.List(pl.String), "diverged": pl.Boolean,
    "interpolation_weight": pl.Float64, "cut": pl.String,
}  # fmt: skip
"""Columns of trials.parquet before those of the measures."""

QUERY_SCHEMA: dict[str, pl.DataType] = dict.fromkeys(("run", "query", "origin"), pl.String())
"""Columns of queries.parquet before those of the measures."""

Tables = dict[str, "pl.DataFrame | RunRows"]


def check_comparison(
    baseline: str | None,
    requested: Sequence[str] | None,
    runs: Sequence[Planned],
    collections: dict[str, Collection],
    contrasts: Sequence[str] | None = None,
    complete: bool = True,
) -> None:
    """Check before anything runs that baseline and contrasts name methods of the study, and that factors are swept.

    If `runs` are not all runs, a search may still choose what a contrast names.
    """
    rows = [trial_row(planned, collections[planned.name], None, None) for planned in runs]
    trials = with_factors(trials_table(rows), requested)
    if baseline is not None:
        named_baseline(with_methods(trials).select(method_columns(trials)).unique(), baseline)
    if contrasts:
        check_contrasts(trials, contrasts, complete)


def write_tables(storage: Storage, tables: Tables) -> int:
    """Write the tables of `tables_of`, and return the number of failed runs."""
    for name, table in tables.items():
        write_table(storage, name, table)
    trials = tables["trials"]
    assert isinstance(trials, pl.DataFrame)
    return int((trials["status"] == "failed").sum())


def tables_of(
    storage: Storage,
    runs: Sequence[Planned],
    collections: dict[str, Collection],
    errors: Mapping[str, str],
    out_of_time: bool = False,
    stopped: Mapping[str, Stop] | None = None,
) -> Tables:
    """Make the tables trials, queries, samplers, steps and, if there are any, actions, examples and embeddings.

    Queries and steps are read again from the runs' results whenever their rows are asked for.
    """
    from pyrite.cluster.runs.embeddings import embeddings_table
    from pyrite.cluster.runs.zero_shot import data_set_rows, zero_shot_rows

    rows, samplers, others, mixed, done, embedded, actions = [], [], [], [], [], [], []
    measures: dict[str, pl.DataType] = {}
    for planned in runs:
        outcome, collection = read_outcome(storage, planned.name), collections[planned.name]
        if planned.name in errors:
            outcome = None  # a result from before, of other parts
        row = trial_row(planned, collection, outcome, None if outcome else errors.get(planned.name, "did not run"))
        stop = (stopped or {}).get(planned.name)
        if outcome is None and planned.name not in errors and (out_of_time or stop):
            row |= {"status": "stopped", "error": None}
            row |= {"epochs": stop.at, "curve_validation": list(stop.curve)} if stop else {}
        rows.append(row)
        if outcome:
            done.append(planned)
            measures |= {name: pl.Float64() for values in outcome.values.values() for name in values}
            measures |= {untrained_of(name): pl.Float64() for before in outcome.untrained.values() for name in before}
            samplers += [{"run": planned.name, **row} for row in outcome.sampler]
            actions += [{"run": planned.name, **row} for row in action_rows(outcome)]
            others += zero_shot_rows(planned.name, outcome)
            mixed += data_set_rows(planned.name, outcome, collection)
            if outcome.embeddings:
                embedded.append(planned.name)
    trials = trials_table(rows)

    def known(run: str) -> Outcome:
        outcome = read_outcome(storage, run)
        assert outcome is not None  # it existed a moment ago, and nothing else writes here
        return outcome

    def outcomes(among: Iterable[Planned] = done) -> Iterator[tuple[Planned, Outcome]]:
        return ((planned, known(planned.name)) for planned in among)

    def queries() -> Iterator[pl.DataFrame]:
        return (query_rows(planned, collections[planned.name], outcome) for planned, outcome in outcomes())

    def steps() -> Iterator[pl.DataFrame]:
        for planned, outcome in outcomes():
            yield negative_tables.trace_table(planned.name, list(planned.config["function"]), outcome.traces)

    tables: Tables = {
        "trials": trials,
        "queries": RunRows(pl.Schema(QUERY_SCHEMA | measures if done else {}), queries),
        "samplers": pl.DataFrame(samplers, infer_schema_length=None),
        "steps": RunRows(negative_tables.SCHEMA, steps),
    }
    if actions:
        tables["actions"] = pl.DataFrame(actions)
    if others:
        tables["zero_shot"] = pl.concat(others)
    if mixed:
        tables["data_sets"] = pl.concat(mixed)
    first = set(first_runs(trials, [planned.name for planned in done])["run"])
    examples = [
        negative_tables.example_rows(planned, collections[planned.name], outcome)
        for planned, outcome in outcomes(planned for planned in done if planned.name in first)
    ]
    if sum(map(len, examples)):
        tables["examples"] = pl.concat(examples)
    if embedded:
        tables["embeddings"] = embeddings_table(trials, collections, embedded, lambda run: known(run).embeddings)
    return tables


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """The mean of several folds' curves by epoch; a fold that stopped keeps its last value."""
    longest = max((len(curve) for curve in curves), default=0)
    return [float(np.mean([curve[min(epoch, len(curve) - 1)] for curve in curves])) for epoch in range(longest)]


def trial_row(planned: Planned, collection: Collection, outcome: Outcome | None, error: str | None) -> dict[str, Any]:
    """One row of trials.parquet; of a failed run, whatever is known of it."""
    failed, outcome = outcome is None, outcome or Outcome()
    config, choices = planned.config, planned.config[CHOICES]
    row: dict[str, Any] = {
        "run": planned.name,
        "overrides": shlex.join(planned.overrides),
        **{group: choices[group] for group in ("ranker", "policy", "selector", "objective")},
        "function": function_name(config),
        "seed": config["seed"],
        "status": "failed" if failed else "done",
        "error": error,
        "collection": collection.name,
        "fingerprint": collection.fingerprint,
        "epochs": outcome.epochs,
        "best_epoch": outcome.best_epoch,
        "steps": outcome.steps,
        "seconds": outcome.seconds,
        "documents_read": outcome.documents_read,
        "memory": outcome.memory,
        "curve_loss": mean_curve(outcome.losses),
        "curve_validation": mean_curve(outcome.validations),
        "curve_dev_loss": mean_curve([curve for curve in outcome.dev_losses if curve]),
        "validation_measure": config["validation"]["measure"],
        "swept": [{"key": key, "value": value} for key, value in planned.swept],
        "drawn": list(planned.drawn),
        "diverged": None if failed else outcome.diverged,
        "interpolation_weight": float(np.mean(outcome.interpolation)) if outcome.interpolation else None,
        "cut": cut_of(config) or None,
    }
    for origin in outcome.values:
        for measure, values in outcome.values[origin].items():
            row[f"{origin}:{measure}"] = float(values.mean())
            row[f"{origin}:{measure}:bm25"] = float(outcome.bm25[origin][measure].mean())
            if origin in outcome.untrained:
                row[untrained_of(f"{origin}:{measure}")] = float(outcome.untrained[origin][measure].mean())
            if origin in outcome.interpolated:
                row[f"{origin}:{measure}:interpolated"] = float(outcome.interpolated[origin][measure].mean())
    row |= {f"{EMBEDDINGS}:{figure}": float(np.mean(values)) for figure, values in outcome.clusters.items()}
    return row


def action_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """Return a row for each decision of a policy that compares actions, and each action that it compared.

    `taken` is 1 or 0.
    """
    return [
        {
            **{key: decision[key] for key in ("fold", "epoch", "step")},
            "action": action,
            "value": value,
            "taken": float(action == decision["action"]),
        }
        for decision in outcome.decisions
        for action, value in decision["values"].items()
    ]


def trials_table(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """trials.parquet, in the order of the plan."""
    measured = dict.fromkeys(key for row in rows for key in row if key not in SCHEMA)
    return pl.DataFrame(list(rows), schema={**SCHEMA, **dict.fromkeys(measured, pl.Float64)})


def query_rows(planned: Planned, collection: Collection, outcome: Outcome) -> pl.DataFrame:
    """The rows of queries.parquet of one run."""
    ids, parts = collection.queries["id"], []
    for origin, queries in outcome.queries.items():
        keys = {"run": [planned.name] * len(queries), "query": ids.gather(queries), "origin": [origin] * len(queries)}
        before = {untrained_of(name): values for name, values in outcome.untrained.get(origin, {}).items()}
        parts.append(pl.DataFrame({**keys, **outcome.values[origin], **before}))
    return pl.concat(parts)
