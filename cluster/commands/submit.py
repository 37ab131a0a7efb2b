"""Runs `pyrite submit`: checks its arguments and sends the job."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

from ranking.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console


def listen() -> None:
    """Let `ray job stop` interrupt a job as Ctrl-C does, also on a cluster that was started with SIGINT ignored."""
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(chosen: argparse.Namespace, console: Console) -> int:
    """Submit a job, follow it, and return the exit code."""
    from cluster.jobs.submission import submit

    return submit(_request(chosen), chosen.address, chosen.detach, console)


def _request(chosen: argparse.Namespace) -> Any:
    from cluster.jobs.submission import JobRequest

    if chosen.name and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", chosen.name, re.ASCII):
        raise BadInput(f"{chosen.name!r} can't start an id", "--name", "use letters, digits, dots, - and _")
    if chosen.pip and chosen.uv:
        raise BadInput("--pip and --uv exclude each other", remedy="give one of them")
    if chosen.resume and chosen.sent == "train":
        raise BadInput("train has no --resume", remedy="give it the same out= again")
    if not chosen.cpus >= 0 or math.isinf(chosen.cpus):
        raise BadInput(f"{chosen.cpus} cores can't be reserved", "--cpus", "give a number from 0 up")
    return JobRequest(
        chosen.sent, chosen.overrides, chosen.resume, chosen.name, chosen.note, chosen.working_dir, chosen.exclude,
        tuple(chosen.shared), chosen.pip, chosen.uv, chosen.python, chosen.cpus, _resources(chosen.resources),
    )  # fmt: skip


def _resources(text: str | None) -> dict[str, float]:
    try:
        resources = json.loads(text) if text else {}
    except ValueError:
        resources = None
    valid = isinstance(resources, dict) and all(
        isinstance(share, int | float) and not isinstance(share, bool) and share >= 0 for share in resources.values()
    )
    if not valid:
        raise BadInput(f"{text!r} does not map resources to numbers", "--resources", "write '{\"big_memory\": 1}'")
    return {str(name): float(share) for name, share in resources.items()} if resources else {}
