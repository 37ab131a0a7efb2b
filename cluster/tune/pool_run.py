"""Simulates one method over one pool and reports how far it is, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cluster.output.storage import Storage
from cluster.pools.trial import Trial, execute_trial
from pooling.pool import Pool


def described(trial: Trial) -> dict[str, Any]:
    """A trial as it is handed out."""
    return vars(trial) | {"parameters": {"pool": trial.pool, "method": trial.label}}


def pool_run(run: Mapping[str, Any], pool: Pool, storage: Storage, report: Callable[[dict[str, Any]], None]) -> None:
    """Simulate a method.

    Args:
        run: as `described`.
        pool: to judge.
        storage: where the result goes.
        report: told what `cluster.tune.progress` says.
    """
    trial = Trial(**{key: value for key, value in run.items() if key != "parameters"})
    seeds = trial.options["seeds"]
    every: list[dict[str, float]] = []

    def means() -> dict[str, float]:
        return {key: sum(numbers[key] for numbers in every) / len(every) for key in every[0]}

    def tell(done: int, numbers: dict[str, float]) -> None:
        every.append(numbers)
        shown = {"epoch": done, "max_epochs": seeds, "validation": numbers["area"], "best": means()["area"]}
        report(shown | {"numbers": numbers})

    execute_trial(trial, pool, storage, tell)
    report({"best": means()["area"], "numbers": {f"mean/{key}": mean for key, mean in means().items()}})
