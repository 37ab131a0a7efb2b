"""Makes the tables of a study from the outcomes of its runs. docs/reference/results.md documents the columns."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain
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
from pyrite.analysis.statistics.named_methods import check_contrasts
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import RunRows, write_table
from pyrite.cluster.plan.sweep import Planned, function_name, ranker_name
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
    "interpolation_weight": pl.Float64, "cut": pl.String, "examples": pl.Int64, "scored_step": pl.Int64,
    "refreshes": pl.Int64, "scratch": pl.Float64, "test_sketch": pl.List(pl.String),
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
    left: Container[str] = (),
) -> Tables:
    """Make the tables trials, queries, samplers, steps and, if there are any, actions, examples and embeddings.

    Queries and steps are read again from the runs' results whenever their rows are asked for.

    Args:
        left: runs that did not end in this command, and had no result of the same data and code before it.
    """
    finished = FinishedRuns(storage, collections)
    rows, small = [], {name: list[pl.DataFrame]() for name in SMALL}
    for planned in runs:
        failed, collection = planned.name in errors, collections[planned.name]
        unread = failed or planned.name in left  # its result may be from before, of other parts
        outcome = None if unread else read_outcome(storage, planned.name)
        if outcome is None:
            stop = (stopped or {}).get(planned.name)
            row = trial_row(planned, collection, None, errors.get(planned.name, "did not run"))
            rows.append(row | (_stopped(stop) if not failed and (out_of_time or stop) else {}))
            continue
        rows.append(trial_row(planned, collection, outcome, None))
        finished.append(planned, outcome)
        for name, make in SMALL.items():
            small[name] += make(planned, outcome, collection)
    trials = trials_table(rows)
    joined = {name: pl.concat(parts, how="diagonal_relaxed") for name, parts in small.items() if parts}
    tables: Tables = {
        "trials": trials,
        "queries": RunRows(pl.Schema(finished.query_schema), finished.queries),
        "samplers": joined.pop("samplers", pl.DataFrame()),
        "steps": RunRows(negative_tables.SCHEMA, finished.steps),
    }
    return tables | joined | finished.examples(trials) | finished.embeddings(trials)


def _stopped(stop: Stop | None) -> dict[str, Any]:
    """Return what is known of a run that was stopped, or not started."""
    curve = {"epochs": stop.at, "curve_validation": list(stop.curve)} if stop else {}
    return {"status": "stopped", "error": None, **curve}


def _rows_of_run(planned: Planned, rows: Sequence[Mapping[str, Any]]) -> list[pl.DataFrame]:
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return [frame.select(pl.lit(planned.name).alias("run"), pl.all())] if len(frame) else []


def _zero_shot(planned: Planned, outcome: Outcome, collection: Collection) -> list[pl.DataFrame]:
    from pyrite.cluster.runs.zero_shot import zero_shot_rows

    return list(zero_shot_rows(planned.name, outcome))


def _data_sets(planned: Planned, outcome: Outcome, collection: Collection) -> list[pl.DataFrame]:
    from pyrite.cluster.runs.zero_shot import data_set_rows

    return list(data_set_rows(planned.name, outcome, collection))


SMALL: Mapping[str, Callable[[Planned, Outcome, Collection], list[pl.DataFrame]]] = {
    "samplers": lambda planned, outcome, _: _rows_of_run(planned, outcome.sampler),
    "actions": lambda planned, outcome, _: _rows_of_run(planned, action_rows(outcome)),
    "zero_shot": _zero_shot,
    "data_sets": _data_sets,
}
"""The tables that are made of each run's result as it is read."""


class FinishedRuns:
    """The finished runs of a study, whose results are read again for the large tables.

    Args:
        storage: the study's folder.
        collections: the collection of each run.
    """

    def __init__(self, storage: Storage, collections: Mapping[str, Collection]) -> None:
        self._storage = storage
        self._collections = collections
        self._runs: list[Planned] = []
        self._embedded: list[str] = []
        self.query_schema: dict[str, pl.DataType] = {}

    def append(self, planned: Planned, outcome: Outcome) -> None:
        """Add a run."""
        self._runs.append(planned)
        self._embedded += [planned.name] if outcome.embeddings else []
        measures = [*chain(*outcome.values.values()), *map(untrained_of, chain(*outcome.untrained.values()))]
        self.query_schema = self.query_schema or dict(QUERY_SCHEMA)
        self.query_schema |= dict.fromkeys(measures, pl.Float64())

    def queries(self) -> Iterator[pl.DataFrame]:
        """Yield the rows of queries.parquet, run by run."""
        for planned in self._runs:
            yield query_rows(planned, self._collections[planned.name], self._outcome(planned.name))

    def steps(self) -> Iterator[pl.DataFrame]:
        """Yield the rows of steps.parquet, run by run."""
        for planned in self._runs:
            traces = self._outcome(planned.name).traces
            yield negative_tables.trace_table(planned.name, list(planned.config["function"]), traces)

    def examples(self, trials: pl.DataFrame) -> Tables:
        """Return the table of examples; none if no run kept some."""
        first = set(first_runs(trials, [planned.name for planned in self._runs])["run"])
        frames = [
            negative_tables.example_rows(planned, self._collections[planned.name], self._outcome(planned.name))
            for planned in self._runs if planned.name in first
        ]  # fmt: skip
        return {"examples": pl.concat(frames)} if sum(map(len, frames)) else {}

    def embeddings(self, trials: pl.DataFrame) -> Tables:
        """Return the table of embeddings; none if no run kept some."""
        from pyrite.cluster.runs.embeddings import embeddings_table

        table = (trials, dict(self._collections), self._embedded, lambda run: self._outcome(run).embeddings)
        return {"embeddings": embeddings_table(*table)} if self._embedded else {}

    def _outcome(self, run: str) -> Outcome:
        outcome = read_outcome(self._storage, run)
        assert outcome is not None  # it existed a moment ago, and nothing else writes here
        return outcome


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """The mean of several folds' curves by epoch; a fold that stopped keeps its last value."""
    longest = max((len(curve) for curve in curves), default=0)
    return [float(np.mean([curve[min(epoch, len(curve) - 1)] for curve in curves])) for epoch in range(longest)]


def trial_row(planned: Planned, collection: Collection, outcome: Outcome | None, error: str | None) -> dict[str, Any]:
    """One row of trials.parquet; of a failed run, whatever is known of it."""
    config, choices = planned.config, planned.config[CHOICES]
    end: dict[str, Any] = {"status": "failed", "diverged": None}
    if outcome is not None:
        end = {"status": "done", "diverged": outcome.diverged}
    return {
        "run": planned.name,
        "overrides": shlex.join(planned.overrides),
        "ranker": ranker_name(config, planned.swept),
        "policy": choices["policy"],
        "selector": choices["selector"],
        "objective": choices["objective"],
        "function": function_name(config),
        "seed": config["seed"],
        "error": error,
        "collection": collection.name,
        "fingerprint": collection.fingerprint,
        "test_sketch": collection.test_sketch,
        "validation_measure": config["validation"]["measure"],
        "swept": [{"key": key, "value": value} for key, value in planned.swept],
        "drawn": list(planned.drawn),
        "cut": cut_of(config) or None,
        **_found(outcome or Outcome()),
        **end,
    }


def _found(outcome: Outcome) -> dict[str, Any]:
    """Return what a row of trials.parquet has of the outcome."""
    counted: dict[str, int | None] = {"steps": outcome.steps, "documents_read": outcome.documents_read}
    if outcome.learned:  # a training of the user's: 0 is what it did not count
        counted = {name: count or None for name, count in counted.items()}
    row: dict[str, Any] = {
        **counted,
        "epochs": outcome.epochs,
        "best_epoch": outcome.best_epoch,
        "seconds": outcome.seconds,
        "memory": outcome.memory,
        "curve_loss": mean_curve(outcome.losses),
        "curve_validation": mean_curve(outcome.validations),
        "curve_dev_loss": mean_curve([curve for curve in outcome.dev_losses if curve]),
        "interpolation_weight": float(np.mean(outcome.interpolation)) if outcome.interpolation else None,
        "examples": outcome.examples,
        "scored_step": outcome.scored_step,
        "refreshes": outcome.refreshes,
        "scratch": outcome.scratch,
    }
    row |= _measured(outcome)
    return row | {f"{EMBEDDINGS}:{figure}": float(np.mean(values)) for figure, values in outcome.clusters.items()}


def _measured(outcome: Outcome) -> dict[str, float]:
    """Return the means of a run's measures, each followed by those of other scorers."""
    sides = {"": outcome.values, ":bm25": outcome.bm25, ":untrained": outcome.untrained,
             ":interpolated": outcome.interpolated}  # fmt: skip
    return {
        f"{origin}:{measure}{end}": float(by_origin[origin][measure].mean())
        for origin, measured in outcome.values.items()
        for measure in measured
        for end, by_origin in sides.items()
        if origin in by_origin
    }


def action_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """Return a row for each decision of a policy that compares actions, and each action that it compared.

    `taken` is 1 or 0.
    """
    return [
        {
            "fold": decision["fold"],
            "epoch": decision["epoch"],
            "step": decision["step"],
            "action": action,
            "value": value,
            "taken": float(action == decision["action"]),
        }
        for decision in outcome.decisions
        for action, value in decision["values"].items()
    ]


def trials_table(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """trials.parquet, in the order of the plan."""
    measured = [key for key in dict.fromkeys(chain(*rows)) if key not in SCHEMA]
    return pl.DataFrame(list(rows), schema={**SCHEMA, **dict.fromkeys(measured, pl.Float64)})


def query_rows(planned: Planned, collection: Collection, outcome: Outcome) -> pl.DataFrame:
    """The rows of queries.parquet of one run."""
    ids, parts = collection.queries["id"], []
    for origin, queries in outcome.queries.items():
        keys = {"run": [planned.name] * len(queries), "query": ids.gather(queries), "origin": [origin] * len(queries)}
        before = {untrained_of(name): values for name, values in outcome.untrained.get(origin, {}).items()}
        parts.append(pl.DataFrame({**keys, **outcome.values[origin], **before}))
    return pl.concat(parts)
