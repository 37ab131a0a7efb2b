"""Reads the command line of `pyrite submit`."""

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

SENT = ("study", "train", "learn", "pool")


def listen() -> None:
    """Within a job, let `ray job stop` interrupt as Ctrl-C does, also where the cluster was started deaf to it."""
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def add_verb(verb: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """Add the verb to the command line.

    Args:
        verb: makes a verb's parser from its name, what it does, and examples.
    """
    sent = verb(
        "submit",
        "Send a study, a training, a learning or a pooling study to a Ray cluster as a job.",
        "The checkout is packed without data, outputs, .git, environments and caches, and the command runs there.\n"
        "Its log is shown, and its exit code is this command's; Ctrl-C leaves it running.\n"
        "Outputs go to a URI or under a folder that every node sees (--shared), unless the cluster is this machine.\n"
        "If the cluster asks for a token: RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token.\n\n"
        "examples:\n  ray start --head && pyrite submit study scale=small seeds=2 out=outputs/s\n"
        "  pyrite submit --address http://head:8265 --shared /mnt/lab --cpus 1 study seeds=20 out=/mnt/lab/s\n"
        "  pyrite submit --detach learn agent=ppo_returns out=s3://lab/agent\n"
        "  pyrite submit study --resume s3://lab/s",
    )
    sent.add_argument("--name", help="what the job's id begins with (default: the verb)")
    sent.add_argument("--note", help="a line for whoever reads `ray job list` or Ray's dashboard")
    sent.add_argument("--detach", action="store_true", help="come back as soon as it is sent")
    sent.add_argument("--shared", metavar="FOLDER", action="append", default=[], help="every node sees it (repeatable)")
    sent.add_argument("--pip", metavar="FILE", help="requirements that the nodes install; default: they have them")
    sent.add_argument("--uv", metavar="FILE", help="the same, by uv")
    sent.add_argument("--cpus", metavar="N", type=float, default=0, help="set aside for the driver; 0: the head node")
    sent.add_argument("--resources", metavar="JSON", help="others that are set aside for it, as '{\"big_memory\": 1}'")
    sent.add_argument("--working-dir", metavar="FOLDER", help="what is packed (default: the checkout)")
    sent.add_argument("--exclude", metavar="NAME", action="append", default=[], help="leave out as well (repeatable)")
    sent.add_argument("--python", help="the nodes' interpreter (default: python; this one if they are this machine)")
    sent.add_argument("sent", metavar="VERB", choices=SENT, help="|".join(SENT))
    sent.add_argument("overrides", nargs="*", metavar="key=value", help="of that verb, as without `submit`")
    sent.add_argument("--resume", metavar="OUT", help="go on with what this folder or URI holds")
    sent.add_argument(
        "--address", help="of the job server, http://HOST:8265 (default: RAY_API_SERVER_ADDRESS, or the Ray here)"
    )


def run(chosen: argparse.Namespace, console: Console) -> int:
    """Send a job and follow it, and return the exit code.

    Raises:
        BadInput: where an option makes no sense, or the server can't be reached or refuses.
    """
    from cluster.jobs.submission import submit

    return submit(_request(chosen), chosen.address, chosen.detach, console)


def _request(chosen: argparse.Namespace) -> Any:
    from cluster.jobs.submission import JobRequest

    if chosen.name and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", chosen.name, re.ASCII):
        raise BadInput(f"{chosen.name!r} can't begin an id", "--name", "take letters, digits, dots, - and _")
    if chosen.pip and chosen.uv:
        raise BadInput("--pip and --uv say two things", remedy="give one of them")
    if chosen.resume and chosen.sent == "train":
        raise BadInput("train has no --resume", remedy="give it the same out= again")
    if not chosen.cpus >= 0 or math.isinf(chosen.cpus):
        raise BadInput(f"{chosen.cpus} cores can't be set aside", "--cpus", "give a number from 0 up")
    return JobRequest(
        chosen.sent, chosen.overrides, chosen.resume, chosen.name, chosen.note, chosen.working_dir, chosen.exclude,
        tuple(chosen.shared), chosen.pip, chosen.uv, chosen.python, chosen.cpus, _resources(chosen.resources),
    )  # fmt: skip


def _resources(text: str | None) -> dict[str, float]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    fine = isinstance(found, dict) and all(
        isinstance(share, int | float) and not isinstance(share, bool) and share >= 0 for share in found.values()
    )
    if not fine:
        raise BadInput(f"{text!r} is no mapping of resources to numbers", "--resources", "write '{\"big_memory\": 1}'")
    return {str(name): float(share) for name, share in found.items()} if found else {}
