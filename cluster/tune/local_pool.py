"""Runs the simulations of a pooling study in this process, on all its cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cluster.executors.resources import cores
from cluster.pools.trial import Trial
from cluster.telemetry.tracking.tracking import Tracking
from cluster.tune.known_runs import KnownRuns
from cluster.tune.live_table import LiveTable
from cluster.tune.local import Report, run_locally
from cluster.tune.pool_run import described, pool_run
from pooling.pool import Pool

if TYPE_CHECKING:
    from cluster.plan.pool import PoolPlan


def run_here(
    trials: Sequence[Trial],
    pools: Mapping[str, Pool],
    study: PoolPlan,
    ready: int,
    console: Console,
    tracking: Tracking | None = None,
) -> dict[str, str]:
    """Run what is not finished; arguments and results as of `pool.run_on_tune`.

    Several methods go at once: the compiled loops let go of Python.
    """

    def execute(run: dict[str, Any], report: Report) -> None:
        pool_run(run, pools[run["pool"]], study.storage, report)

    at_once = study.config["concurrent"] or max(1, int(cores() // max(1, study.config["cpu"])))
    source = KnownRuns([described(trial) for trial in trials])
    with LiveTable(console, len(trials) + ready, ready, "area", "seed") as table:
        return run_locally(execute, source, study.storage, study.config["retries"], table, tracking, at_once)
