"""Submits a command as a job of a Ray cluster (`pyrite submit`)."""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cluster.config.quoting import quoted
from cluster.jobs.following import follow, follow_commands
from cluster.jobs.job_server import connected
from cluster.jobs.working_folder import ClusterPaths, WorkingFolder, split_output
from cluster.output.terminal import print_lines
from ranking.errors import BadInput

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

STOP_AS_CTRL_C = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""`ray job stop` interrupts a job as Ctrl-C does, and gives it a minute to end."""
PACKAGES = ("cluster", "ranking", "sampling", "rl", "pooling", "pyrite")
"""The packages that a checkout of Pyrite sends along."""
NO_AGENT = "No available agent to submit job"
"""The job server's message while no node of its cluster runs an agent yet."""
AGENT_PORT = (
    "the agent that runs jobs is missing: if another Ray on that machine has the agent's port, start the cluster with "
    "`ray start --dashboard-agent-listen-port=0`"
)
START_TIMEOUT_S, POLL_S = 60.0, 1.0
"""How long to wait for a cluster that is starting, and the pause between two attempts."""


@dataclass(frozen=True)
class JobRequest:
    """A command to submit; the options of `pyrite submit` explain the fields."""

    verb: str
    overrides: Sequence[str]
    resume: str | None = None
    name: str | None = None
    note: str | None = None
    folder: str | None = None
    excludes: Sequence[str] = ()
    shared: tuple[str, ...] = ()
    pip: str | None = None
    uv: str | None = None
    python: str | None = None
    cpus: float = 0
    resources: dict[str, float] = field(default_factory=dict)


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Run `pyrite submit`: check its options, submit the job, follow it, and return the exit code."""
    return submit(_request(chosen), chosen.address, chosen.detach, console)


def submit(request: JobRequest, address: str | None, detach: bool, console: Console) -> int:
    """Submit a job, print its log until it ends unless it is detached, and return its exit code."""
    with connected(address) as client:
        job = send(request, client, console)
        if not detach:
            return follow(client, job, console)
        print_lines(console, follow_commands(job, client.get_address()))
        return 0


def send(request: JobRequest, client: JobSubmissionClient, console: Console) -> str:
    """Submit a job, and return its id."""
    url, name = client.get_address(), request.name or request.verb
    job = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
    folder = WorkingFolder.of(Path(request.folder or ".").absolute(), request.excludes)
    paths = ClusterPaths(folder, is_this_machine(url), request.shared, Path.cwd())
    arguments = job_arguments(request, job, paths)
    environment: dict[str, Any] = {
        "working_dir": str(folder.path),
        "excludes": list(folder.excludes),
        "env_vars": paths.variables() | STOP_AS_CTRL_C,
    }
    for kind, path in (("pip", request.pip), ("uv", request.uv)):
        if path and not Path(path).is_file():
            raise BadInput("there is no such file", path, "name a file of requirements, one per line")
        environment |= {kind: str(Path(path).absolute())} if path else {}
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and checkout != folder.path.resolve():
        environment["py_modules"] = [str(checkout / package) for package in PACKAGES]
    same_python = paths.same_machine and not request.pip and not request.uv
    python = request.python or (sys.executable if same_python else "python")
    shown = {"name": name, "verb": request.verb, "overrides": shlex.join(arguments[1:])}
    print_lines(console, folder.summary())
    submit_when_ready(
        lambda: client.submit_job(
            entrypoint=shlex.join([python, "-m", "cluster", *arguments]),
            submission_id=job,
            runtime_env=environment,
            metadata=shown | ({"note": request.note} if request.note else {}),
            entrypoint_num_cpus=request.cpus or None,
            entrypoint_resources=request.resources or None,
        ),
        url,
        console,
    )
    print_lines(console, f"{job} was submitted to {url}")
    return job


def submit_when_ready(
    submit_once: Callable[[], object], url: str, console: Console, timeout_s: float = START_TIMEOUT_S
) -> None:
    """Submit a job, again while the cluster's head is still starting.

    Raises:
        BadInput: if no node takes jobs within `timeout_s`.
    """
    deadline, message = time.monotonic() + timeout_s, f"waiting up to {timeout_s:.0f} s until it takes jobs"
    while True:
        try:
            submit_once()
            return
        except RuntimeError as error:
            if NO_AGENT not in str(error):
                raise
            if time.monotonic() > deadline:
                what = f"no node of the cluster took the job within {timeout_s:.0f} s"
                raise BadInput(what, url, AGENT_PORT) from None
        if message:
            console.print(f"the cluster is starting: {message}", markup=False)
        message = ""
        time.sleep(POLL_S)


def job_arguments(request: JobRequest, job: str, paths: ClusterPaths) -> list[str]:
    """Return the arguments of the job's command: the verb and its overrides, with paths that the job can use."""
    if any(text.startswith("address=") for text in request.overrides):
        raise BadInput("a job runs on the cluster that it is sent to", "address", "leave it out, and give --address")
    out, others = split_output(request.overrides)
    others = paths.inputs(others)
    if request.resume is not None:
        return [request.verb, "--resume", paths.output(request.resume, "--resume"), *others]
    if out is None and request.verb == "train":  # which writes nothing without out=
        return [request.verb, *others]
    if out is None and not paths.same_machine and not paths.shared:
        what = "is missing, and the job's working folder is deleted when it ends"
        raise BadInput(what, "out", "give a URI, or --shared FOLDER")
    place = f"{'.' if paths.same_machine else paths.shared[0]}/outputs/{job}" if out is None else out
    return [request.verb, *others, f"out={quoted(paths.output(place))}"]


def is_this_machine(url: str) -> bool:
    """Return whether all nodes of a job server's cluster are this machine."""
    import psutil
    from ray.util.state import list_nodes
    from ray.util.state.exception import RayStateApiException

    try:
        nodes = list_nodes(address=url, filters=[("state", "=", "ALIVE")], limit=10_000, raise_on_missing_output=False)
    except RayStateApiException as error:
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"can't list its nodes ({reason})", url, "is the cluster healthy?") from None
    ours = {address.address for card in psutil.net_if_addrs().values() for address in card}
    return {str(node["node_ip"]) for node in nodes} <= {address.partition("%")[0] for address in ours}


def _request(chosen: argparse.Namespace) -> JobRequest:
    if chosen.name and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", chosen.name, re.ASCII):
        raise BadInput(f"{chosen.name!r} can't start an id", "--name", "use letters, digits, dots, - and _")
    if chosen.pip and chosen.uv:
        raise BadInput("--pip and --uv exclude each other", remedy="give one of them")
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
