"""Runs the runs of a study in this process."""

from __future__ import annotations

import json
from typing import Any

from cluster.tune.live_table import LiveTable
from cluster.tune.local import Report, run_locally
from cluster.tune.run_source import RunSource
from cluster.tune.study_run import described, study_run
from cluster.tune.study_work import StudyWork


def run_here(work: StudyWork) -> dict[str, str]:
    """Run what is left, one run after another; arguments and results as of `trainable.run_on_tune`."""
    storage, retries, parts = work.study.storage, work.study.options["retries"], dict[str, Any]()

    def execute(run: dict[str, Any], report: Report) -> None:
        config = json.loads(run["config"])
        for name, key in run["parts"].items():
            if key not in parts:
                parts[key] = work.artifacts.part(config, name)
        study_run(run, {name: parts[key] for name, key in run["parts"].items()}, storage, report)

    def run_all(source: RunSource, table: LiveTable) -> dict[str, str]:
        return run_locally(execute, source, storage, retries, table, work.tracking, scheduler=work.scheduler)

    return work.run(lambda planned: described(planned, work.artifacts), run_all)
