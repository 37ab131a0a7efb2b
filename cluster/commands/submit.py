"""Parses the command line of `pyrite submit`."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ranking.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console

SUBMITTABLE = ("study", "train", "learn", "pool")


def listen() -> None:
    """Let `ray job stop` interrupt a job as Ctrl-C does, also on a cluster that was started with SIGINT ignored."""
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def add_verb(verb: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Add the verb to the command line.

    Args:
        verb: makes a verb's parser from its name, summary and examples.
    """
    parser = verb(
        "submit",
        "Send a study, a training, a learning or a pooling study to a Ray cluster as a job.",
        "The files of the working folder are sent, and the command runs in their copy on the cluster. Files that\n"
        ".gitignore or .rayignore name stay. Other inputs must be URIs or paths that every node sees (--shared).\n"
        "Results go to a URI or under a folder that every node sees, unless the cluster is this machine.\n"
        "The job's log is printed, and its exit code is this command's; Ctrl-C leaves the job running.\n"
        "If the cluster requires a token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token.\n\n"
        "examples:\n  ray start --head && pyrite submit study scale=small seeds=2 out=outputs/s\n"
        "  pyrite submit --address http://head:8265 --shared /mnt/lab --cpus 1 study seeds=20 out=/mnt/lab/s\n"
        "  pyrite submit --detach learn agent=ppo_returns out=s3://lab/agent\n"
        "  pyrite submit study --resume s3://lab/s",
    )
    parser.add_argument("--name", help="start of the job's id (default: the verb)")
    parser.add_argument("--note", help="a line that `ray job list` and Ray's dashboard show")
    parser.add_argument("--detach", action="store_true", help="return as soon as the job is submitted")
    parser.add_argument(
        "--shared", metavar="FOLDER", action="append", default=[], help="a folder that every node has (repeatable)"
    )
    parser.add_argument("--pip", metavar="FILE", help="requirements that the nodes install (default: none)")
    parser.add_argument("--uv", metavar="FILE", help="the same, installed with uv")
    parser.add_argument(
        "--cpus", metavar="N", type=float, default=0, help="cores reserved for the driver; 0: it runs on the head node"
    )
    parser.add_argument("--resources", metavar="JSON", help="other resources reserved for it, as '{\"big_memory\": 1}'")
    parser.add_argument("--working-dir", metavar="FOLDER", help="the working folder (default: the current one)")
    parser.add_argument(
        "--exclude", metavar="PATTERN", action="append", default=[], help="files to leave out, as in .gitignore"
    )
    parser.add_argument("--python", help="the nodes' interpreter (default: python; this one if they are this machine)")
    parser.add_argument("sent", metavar="VERB", choices=SUBMITTABLE, help="|".join(SUBMITTABLE))
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="options of that verb, as without `submit`")
    parser.add_argument("--resume", metavar="OUT", help="continue the results in this folder or URI")
    parser.add_argument(
        "--address",
        help="address of the job server, http://HOST:8265 (default: RAY_API_SERVER_ADDRESS, or a local Ray)",
    )


def run(chosen: argparse.Namespace, console: Console) -> int:
    """Submit a job, follow it, and return the exit code.

    Raises:
        BadInput: if an option is invalid, or the server can't be reached or refuses the job.
    """
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
