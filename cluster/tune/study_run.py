"""Does one run of a study and reports how far it is, wherever it runs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.runs.artifacts import Artifacts
from cluster.runs.outcome import mean_best
from cluster.runs.results import execute_run

if TYPE_CHECKING:
    from cluster.runs.execute import Leave
    from cluster.runs.progress import Progress


def described(planned: Planned, artifacts: Artifacts) -> dict[str, Any]:
    """A run as it is handed out: all that its process needs to know of it."""
    told: dict[str, Any] = {"parameters": planned.parameters, "overrides": shlex.join(planned.overrides)}
    # As text, for Tune copies what lies within a mapping many times, and keeps the copies.
    config = json.dumps(planned.config)
    told |= {"parts": artifacts.keys(planned.config), "made_of": artifacts.provenance(planned.config)}
    return {"name": planned.name, "config": config, **told}


def study_run(
    run: Mapping[str, Any],
    parts: dict[str, Any],
    storage: Storage,
    report: Callable[[dict[str, Any]], None],
    leave: Leave | None = None,
) -> None:
    """Train and evaluate one ranker.

    Args:
        run: as `described`.
        parts: by name.
        storage: where the result goes.
        report: told what `cluster.tune.progress` says.
        leave: of `cluster.runs.execute.run`; None: it stays.
    """
    from cluster.runs.execute import stay
    from cluster.training.launch import launch

    best = 0.0
    notes: list[str] = []

    def tell(progress: Progress) -> None:
        nonlocal best
        best = max(best, progress.validation)
        shown = {key: getattr(progress, key) for key in ("fold", "epoch", "max_epochs", "validation")}
        numbers = {"loss": progress.loss, "validation": progress.validation}
        report(shown | {"best": best, "numbers": numbers, "notes": list(notes)})
        notes.clear()

    start = partial(launch, name=run["name"], note=notes.append, leave=leave or stay)
    config = json.loads(run["config"])
    outcome = execute_run(run["name"], config, run["made_of"], parts, storage, tell, start=start)
    report({"best": mean_best(outcome), "numbers": outcome.means(), "notes": notes})


class RunsHere:
    """Does runs in this process, each part opened once for all of them.

    Args:
        artifacts: opens the parts, or makes them.
    """

    def __init__(self, artifacts: Artifacts) -> None:
        self.artifacts = artifacts
        self._parts: dict[str, Any] = {}

    def execute(self, run: Mapping[str, Any], storage: Storage, report: Callable[[dict[str, Any]], None]) -> None:
        """Train and evaluate one ranker; arguments as of `study_run`."""
        config = json.loads(run["config"])
        for name, key in run["parts"].items():
            if key not in self._parts:
                self._parts[key] = self.artifacts.part(config, name)
        study_run(run, {name: self._parts[key] for name, key in run["parts"].items()}, storage, report)
