"""Lists the jobs of a cluster (`pyrite jobs`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from cluster.jobs.following import exit_code

if TYPE_CHECKING:
    from ray.job_submission import JobDetails


def show_jobs(found: Sequence[JobDetails], console: Console) -> None:
    """Print the jobs that were submitted, two lines each, the latest last: id, state, when and how long; what it is."""
    submitted = sorted((job for job in found if job.submission_id), key=lambda job: job.start_time or 0)
    if not submitted:
        console.print("there are no jobs")
    widths = [max((len(column(job)) for job in submitted), default=0) for column in COLUMNS]
    for job in submitted:
        cells = (column(job).ljust(width) for column, width in zip(COLUMNS, widths, strict=True))
        for line in ("  ".join(cells).rstrip(), f"  {_what(job)}"):
            console.print(line, soft_wrap=True, markup=False)


def _id(job: JobDetails) -> str:
    return str(job.submission_id)


def _state(job: JobDetails) -> str:
    state = str(job.status.value).lower()
    return f"{state} ({exit_code(job)})" if state == "failed" else state


def _began(job: JobDetails) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(job.start_time / 1000)) if job.start_time else ""


def _took(job: JobDetails) -> str:
    """Hours, minutes and seconds, so far or in all."""
    if not job.start_time:
        return ""
    seconds = round(max(0.0, (job.end_time / 1000 if job.end_time else time.time()) - job.start_time / 1000))
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}"


def _what(job: JobDetails) -> str:
    """The user's note, and what was sent."""
    said = job.metadata or {}
    sent = f"{said['verb']} {said.get('overrides', '')}".strip() if "verb" in said else job.entrypoint
    return f"{said['note']}: {sent}" if "note" in said else sent


COLUMNS = (_id, _state, _began, _took)
"""Of a job's first line."""
