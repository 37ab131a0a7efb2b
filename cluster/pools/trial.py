"""Describes the simulations of a pooling study as tasks: one method over one pool from every seed, measured."""

from __future__ import annotations

import io
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from pyrite.cluster.config.build import build
from pyrite.cluster.executors.resources import Resources
from pyrite.cluster.executors.task import Context, Task
from pyrite.cluster.lazy import ray
from pyrite.cluster.output.provenance import code
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.plan.pool_methods import PoolPlan, Variant
from pyrite.cluster.pools.sources import NamedPool
from pyrite.cluster.telemetry.metrics import ThrottledCounter
from pyrite.cluster.telemetry.training_metrics import study_of
from pyrite.pooling.adjudicators.sampled import Sampled
from pyrite.pooling.effort import WHOLE, effort, total_curve
from pyrite.pooling.estimation import estimation
from pyrite.pooling.fairness import fairness
from pyrite.pooling.judging_order import JudgingOrder
from pyrite.pooling.pool import Pool
from pyrite.pooling.ranking_quality import RankingQuality
from pyrite.pooling.reusability import leave_out_teams
from pyrite.pooling.simulation import Method, found_at, simulate
from pyrite.pooling.stopping import savings
from pyrite.ranking.digest import digest
from pyrite.ranking.whole_file import as_parquet

TABLES = ("curves", "totals", "budgets", "effort", "ranking_quality", "stopping", "fairness", "estimates", "reuse")
LOSADA = [100, 300, 500, 700, 900, 1100, 2000]
"""Budgets of Losada et al. 2016, tables 2 and 3."""
POINTS = 250
"""Number of budgets in the curve over all topics."""


@dataclass(frozen=True)
class Trial:
    """One method over one pool.

    Args:
        name: a short, unique and stable name.
        pool, fingerprint: name and digest of the pool.
        label, node: label and configuration of the method.
        options: seeds, budgets, ranking_quality, reuse, stopping and cpu of `PoolingConfig`.
        made_of: the code of the process that planned the trial. It is written into the result, because another process
            may start after the code has changed.
    """

    name: str
    pool: str
    fingerprint: str
    label: str
    node: dict[str, Any]
    options: dict[str, Any]
    made_of: dict[str, str] = field(default_factory=partial(code, "ranking", "pooling", "cluster/pools"))


def plan_trial(pool: NamedPool, variant: Variant, config: dict[str, Any]) -> Trial:
    """Return the trial of a method over a pool."""
    options = {key: config[key] for key in ("seeds", "ranking_quality", "reuse")}
    options["stopping"] = config.get("stopping", {})  # stopping=[] removes the group
    options["budgets"] = sorted(set(config["budgets"] or usual_budgets(pool.pool)))
    identity = digest([pool.fingerprint, variant.identity, options])
    name = re.sub(r"[^\w.-]", "_", f"{pool.name}-{variant.label}")
    options |= {"cpu": config["cpu"]}
    return Trial(f"{name[:80]}-{identity[:10]}", pool.name, pool.fingerprint, variant.label, variant.node, options)


def usual_budgets(pool: Pool) -> list[int]:
    """Return the paper's budgets or, for a pool that is too small, some between a twentieth of it and most of it."""
    if max(topic.pool.size for topic in pool.topics) > LOSADA[-1]:
        return LOSADA
    mean = pool.size / len(pool.topics)
    return sorted({max(1, round(mean * share)) for share in (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)})


def task_of(trial: Trial, storage: Storage, options: Mapping[str, Any]) -> Task:
    """Return the task of a trial, of a study in a folder with the options of `PoolingConfig`."""
    facts = {"parameters": {"pool": trial.pool, "method": trial.label}}
    arguments = {"trial": trial, "storage": storage}
    return Task(trial.name, "pyrite.cluster.pools.trial:execute_trial", arguments, resources_of(options), facts=facts)


def resources_of(options: Mapping[str, Any]) -> Resources:
    """Return what a trial takes of a machine."""
    return Resources.of({**options, "gpu": 0})


class StoredPools(dict[str, Any]):
    """References to pools in Ray's object store, by name. A pool is read without a copy when it is looked up."""

    def __getitem__(self, name: str) -> Pool:
        pool: Pool = ray.get(super().__getitem__(name))
        return pool


def execute_trial(trial: Trial, storage: Storage, pools: Mapping[str, Pool], context: Context) -> dict[str, Any]:
    """Simulate a method over a pool and write the results to the study's folder: the body of a trial's task.

    The context receives the number of seeds that are done as `epoch`, the area of the last as `validation`, and its
    `numbers`: the share of the relevant documents that each budget finds (`found/BUDGET`) and those of
    `pyrite.pooling.effort`. The mean area is returned as `best`.
    """
    started, pool = time.perf_counter(), pools[trial.pool]
    seeds, budgets = trial.options["seeds"], trial.options["budgets"]
    method: Method = build(trial.node, trust="composed")
    tags = {"study": study_of(storage.place), "method": trial.label}
    judged = ThrottledCounter("pyrite_pool_judgements_total", tags)
    orders: list[JudgingOrder] = []
    figures: list[dict[str, float]] = []
    means: dict[str, float] = {}
    for seed in range(seeds):
        orders += simulate(method, pool, [seed], max(1, int(trial.options["cpu"])))
        judged.add(sum(map(len, orders[-1].documents)))
        found = found_at(pool, orders[-1], budgets).sum(1) / max(int(pool.relevant.sum()), 1)
        shares = {f"found/{budget}": float(share) for budget, share in zip(budgets, found, strict=True)}
        figures.append(effort(pool, orders[-1]) | shares)
        means = {key: sum(numbers[key] for numbers in figures) / len(figures) for key in figures[0]}
        shown = {"epoch": seed + 1, "max_epochs": seeds, "validation": figures[-1]["area"], "best": means["area"]}
        context.report(shown | {"numbers": figures[-1]})
    judged.flush()
    simulated = time.perf_counter() - started
    labels = (pl.lit(trial.pool).alias("pool"), pl.lit(trial.label).alias("method"))
    tables = {
        _table_file(trial, name): as_parquet(table.select(*labels, pl.all()))
        for name, table in measure(trial.options, method, pool, orders).items()
    }
    seconds = {"simulated": simulated, "all": time.perf_counter() - started}
    trial_store(storage, [trial]).write(trial.name, seconds, tables)
    return {"best": means["area"], "numbers": {f"mean/{key}": mean for key, mean in means.items()}}


def measure(
    options: dict[str, Any], method: Method, pool: Pool, orders: Sequence[JudgingOrder]
) -> dict[str, pl.DataFrame]:
    """Return the tables of a method's results, by name (docs/guide/pooling.md lists their columns).

    `orders` has one judging order per seed.
    """
    budgets = options["budgets"]
    tables = {
        "curves": _by_seed(_curve_rows(pool, order) for order in orders),
        "budgets": _by_seed(_budget_rows(pool, order, budgets) for order in orders),
        "totals": _by_seed(_total_rows(pool, order) for order in orders),
        "effort": pl.DataFrame([{"seed": seed, **effort(pool, order)} for seed, order in enumerate(orders)]),
    }
    if options["ranking_quality"] and len(pool.runs) > 1:
        tables |= _ranking_tables(options, pool, orders)
    if isinstance(method, Sampled):
        tables["estimates"] = _by_seed(estimation(method, pool, seed, budgets) for seed in range(len(orders)))
    if options["reuse"] and len(set(pool.teams)) > 1:
        tables["reuse"] = leave_out_teams(pool, lambda reduced: simulate(method, reduced, [0])[0], budgets)
    return tables


def _ranking_tables(options: Mapping[str, Any], pool: Pool, orders: Sequence[JudgingOrder]) -> dict[str, pl.DataFrame]:
    """Return the tables of how well judgements rank the pooled runs, and of the rules that stop by that."""
    budgets, quality = options["budgets"], RankingQuality(pool)
    every = [*budgets, max(topic.pool.size for topic in pool.topics)]
    tables = {"ranking_quality": _by_seed(quality.table(order, list(dict.fromkeys(every))) for order in orders)}
    if rules := [build(node, trust="composed") for node in options["stopping"].values()]:
        tables["stopping"] = _by_seed(savings(quality, order, rules, seed) for seed, order in enumerate(orders))
    return tables | {"fairness": _by_seed(fairness(pool, order, budgets) for order in orders)}


def trial_store(storage: Storage, trials: Iterable[Trial]) -> ResultStore:
    """Return the store of the results of trials: the seconds that each took, `simulated` and `all`, and its tables."""
    built_from = {trial.name: trial.made_of for trial in trials}
    return ResultStore(storage, "runs", lambda name: built_from[name], ".json")


def pool_tables(study: PoolPlan, trials: Sequence[Trial], errors: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Gather the table of trials, and the trials' tables into one table of each kind."""
    storage, store = study.storage, trial_store(study.storage, trials)
    overrides = {variant.label: shlex.join(variant.overrides) for variant in study.variants}
    done = {trial.name: store.read(trial.name) for trial in trials if store.has(trial.name)}
    rows = [
        {
            "pool": trial.pool,
            "method": trial.label,
            "overrides": overrides[trial.label],
            "seeds": trial.options["seeds"],
            **_end_of(done.get(trial.name), errors.get(trial.name, "did not run")),
        }
        for trial in trials
    ]
    tables = {"trials": pl.DataFrame(rows, schema_overrides={"error": pl.String})}
    finished = [trial for trial in trials if trial.name in done]
    for name in TABLES:
        contents = filter(None, (storage.read(_table_file(trial, name)) for trial in finished))
        if parts := [pl.read_parquet(io.BytesIO(content)) for content in contents]:
            tables[name] = pl.concat(parts)
    return tables


def _end_of(seconds: Mapping[str, float] | None, error: str) -> dict[str, Any]:
    """Return how a trial has ended."""
    if seconds is None:
        return {"status": "failed", "error": error, "seconds": None, "seconds_in_all": None}
    return {"status": "done", "error": None, "seconds": seconds.get("simulated"), "seconds_in_all": seconds.get("all")}


def _table_file(trial: Trial, name: str) -> str:
    return f"runs/{trial.name}.{name}.parquet"


def _curve_rows(pool: Pool, order: JudgingOrder) -> pl.DataFrame:
    """Return one row per judgement that finds a relevant document, and one for the last judgement of each topic."""
    kept = pool.relevant[order.flat]
    kept[order.offsets[1:][order.sizes > 0] - 1] = True
    at = np.flatnonzero(kept)
    names = pl.Series([topic.name for topic in pool.topics], dtype=pl.String)
    return pl.DataFrame(
        {
            "topic": names.gather(np.searchsorted(order.offsets, at, side="right") - 1),
            "judgements": (order.places[at] + 1).astype(np.int32),
            "found": order.found(pool.relevant)[at].astype(np.int32),
        }
    )


def _budget_rows(pool: Pool, order: JudgingOrder, budgets: Sequence[int]) -> pl.DataFrame:
    """Return what is judged and found of each topic at each budget, and of its whole pool."""
    spent = order.spent_at([*budgets, order.sizes.max()])
    return pl.DataFrame(
        {
            "budget": np.repeat([*budgets, WHOLE], len(pool.topics)),
            "topic": [topic.name for topic in pool.topics] * len(spent),
            "judged": spent.ravel().astype(np.int32),
            "found": order.found_after(pool.relevant, spent).ravel().astype(np.int32),
        }
    )


def _total_rows(pool: Pool, order: JudgingOrder) -> pl.DataFrame:
    """Return the relevant documents found per topic at some budgets, which are dense at first."""
    _, curve = total_curve(pool, order)
    budgets = np.unique(np.geomspace(1, len(curve), POINTS).astype(np.int64))
    found = np.concatenate([[0], curve[budgets - 1]]) / len(pool.topics)
    return pl.DataFrame({"budget": np.concatenate([[0], budgets]).astype(np.int32), "found": found})


def _by_seed(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    every = list(tables)
    seeds = np.repeat(np.arange(len(every), dtype=np.int32), [len(table) for table in every])
    return pl.concat(every).insert_column(0, pl.Series("seed", seeds))
