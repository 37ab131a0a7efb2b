"""Runs the runs of a study without Ray: in this process, and in others beside it."""

from __future__ import annotations

from functools import partial
from typing import Any

from cluster.tune.live_table import LiveTable
from cluster.tune.local import Report, run_locally
from cluster.tune.run_source import RunSource
from cluster.tune.study_run import RunsHere, described
from cluster.tune.study_work import StudyWork


def run_here(work: StudyWork) -> dict[str, str]:
    """Run what is left; arguments and results as of `trainable.run_on_tune`.

    A search whose runs are stopped by what they reach is run by run: its decisions hang on the order.
    """
    storage, retries, runs = work.study.storage, work.study.options["retries"], RunsHere(work.artifacts)

    def here(run: dict[str, Any], report: Report) -> None:
        runs.execute(run, storage, report)

    def run_all(source: RunSource, table: LiveTable) -> dict[str, str]:
        given = (source, storage, retries, table, work.tracking)
        if work.workers is None or work.scheduler is not None:
            return run_locally(here, *given, scheduler=work.scheduler)
        work.workers.keep(work.study.options["concurrent"])
        spread = partial(work.workers.execute, here, storage)
        return run_locally(spread, *given, at_once=work.workers.at_once)

    return work.run(lambda planned: described(planned, work.artifacts), run_all)
