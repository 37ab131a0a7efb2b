"""Submits a command as a job of a Ray cluster (`pyrite submit`), and follows it."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import NonNegativeFloat, TypeAdapter, ValidationError
from rich.console import Console

from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.quoting import quoted
from pyrite.cluster.config.secrets import concealed
from pyrite.cluster.jobs.job_options import Access, runtime_environment, variables
from pyrite.cluster.jobs.job_server import ANYONE, connected, in_one_line
from pyrite.cluster.jobs.working_folder import ClusterPaths, WorkingFolder, split_output
from pyrite.cluster.lazy import aiohttp, ray, requests
from pyrite.cluster.limits import POLL_S, START_TIMEOUT_S
from pyrite.cluster.output.terminal import print_lines
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.lazy import psutil

if TYPE_CHECKING:
    from ray.job_submission import JobDetails, JobSubmissionClient

INTERRUPTED = 130
STOP_AS_CTRL_C = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""`ray job stop` interrupts a job as Ctrl-C does, and gives it a minute to end."""
"""The packages that a checkout of Pyrite sends along."""
NO_AGENT = "No available agent to submit job"
"""The job server's message while no node of its cluster runs an agent yet."""
AGENT_PORT = (
    "the agent that runs jobs is missing: if another Ray on that machine has the agent's port, start the cluster with "
    "`ray start --dashboard-agent-listen-port=0`"
)


INSTALLERS = ("pip", "uv")
"""Tools that install packages on the nodes, by their options."""


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Submit a job, print its log until it ends unless it is detached, and return its exit code."""
    refuse(
        chosen.name and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", chosen.name, re.ASCII),
        f"{chosen.name!r} can't start an id",
        "--name",
        "use letters, digits, dots, - and _",
    )
    refuse(chosen.pip and chosen.uv, "--pip and --uv exclude each other", remedy="give one of them")
    refuse(
        not chosen.cpus >= 0 or math.isinf(chosen.cpus),
        f"{chosen.cpus} cores can't be reserved",
        "--cpus",
        "give a number from 0 up",
    )
    _resources(chosen.resources)
    access = Access.of(chosen.headers, chosen.verify)
    with connected(chosen.address, access) as client:
        job = send(chosen, client, console, access)
        if not chosen.detach:
            return follow(client, job, console)
        print_lines(console, follow_commands(job, client.get_address()))
        return 0


def send(chosen: argparse.Namespace, client: JobSubmissionClient, console: Console, access: Access = ANYONE) -> str:
    """Submit a job, and return its id."""
    url, name = client.get_address(), chosen.name or chosen.sent
    job = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
    folder = WorkingFolder.of(Path(chosen.working_dir or ".").absolute(), chosen.exclude)
    paths = ClusterPaths(folder, is_this_machine(url, access), tuple(chosen.shared), Path.cwd())
    arguments = job_arguments(chosen, job, paths)
    given = runtime_environment(chosen.runtime_env_json)
    environment: dict[str, Any] = given | {
        "working_dir": str(folder.path),
        "excludes": list(folder.excludes),
        "env_vars": paths.variables() | given.get("env_vars", {}) | variables(chosen.env) | STOP_AS_CTRL_C,
    }
    for kind in INSTALLERS:
        environment |= _requirements(kind, getattr(chosen, kind), given)
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and checkout != folder.path.resolve():
        environment["py_modules"] = [str(checkout / "pyrite")]
    same_python = paths.same_machine and not environment.keys() & {"pip", "uv", "conda", "py_executable", "image_uri"}
    python = chosen.python or (sys.executable if same_python else "python")
    shown = {"name": name, "verb": chosen.sent, "overrides": concealed(shlex.join(arguments[1:]))}
    print_lines(console, folder.summary())
    submit_when_ready(
        lambda: client.submit_job(
            entrypoint=shlex.join([python, "-m", "pyrite", *arguments]),
            submission_id=job,
            runtime_env=environment,
            metadata=shown | ({"note": chosen.note} if chosen.note else {}),
            entrypoint_num_cpus=chosen.cpus,
            entrypoint_resources=_resources(chosen.resources),
        ),
        url,
        console,
    )
    print_lines(console, f"{job} was submitted to {url}")
    return job


def _requirements(kind: str, path: str | None, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the file of packages that a tool installs, if one is named, as Ray's runtime environment has it."""
    if not path:
        return {}
    refuse(not Path(path).is_file(), "there is no such file", path, "name a file of requirements, one per line")
    refuse(given.keys() & {*INSTALLERS, "conda"}, "installs packages too", "--runtime-env-json", f"leave out --{kind}")
    return {kind: str(Path(path).absolute())}


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


def job_arguments(chosen: argparse.Namespace, job: str, paths: ClusterPaths) -> list[str]:
    """Return the arguments of the job's command: the verb and its overrides, with paths that the job can use."""
    refuse(
        any(text.startswith("address=") for text in chosen.overrides),
        "a job runs on the cluster that it is sent to",
        "address",
        "leave it out, and give --address",
    )
    out, others = split_output(chosen.overrides)
    others = paths.inputs(others)
    if chosen.resume is not None:
        return [chosen.sent, "--resume", paths.output(chosen.resume, "--resume"), *others]
    refuse(
        out is None and "resume" in map(key_of, others),
        "resume=auto goes on in a folder",
        "resume",
        "name it with out=FOLDER",
    )
    if out is None and chosen.sent == "train":  # which writes nothing without out=
        return [chosen.sent, *others]
    place = _place_for(job, paths) if out is None else out
    return [chosen.sent, *others, f"out={quoted(paths.output(place))}"]


def _place_for(job: str, paths: ClusterPaths) -> str:
    """Return where a job writes whose command names no folder."""
    roots = (".",) if paths.same_machine else paths.shared
    what = "is missing, and the job's working folder is deleted when it ends"
    refuse(not roots, what, "out", "give a URI, or --shared FOLDER")
    return f"{roots[0]}/outputs/{job}"


def is_this_machine(url: str, access: Access = ANYONE) -> bool:
    """Return whether all nodes of a job server's cluster are this machine."""
    asked = ray.util.state.common.ListApiOptions(filters=[("state", "=", "ALIVE")], limit=10_000)
    try:
        client = ray.util.state.StateApiClient(url, headers=dict(access.headers) or None)
        client._verify = access.verify
        nodes: Any = client.list(ray.util.state.common.StateResource.NODES, asked, raise_on_missing_output=False)
    except ray.util.state.exception.RayStateApiException as error:
        raise BadInput(f"can't list its nodes ({in_one_line(error)})", url, "is the cluster healthy?") from None
    ours = {address.address for card in psutil.net_if_addrs().values() for address in card}
    return {str(node["node_ip"]) for node in nodes} <= {address.partition("%")[0] for address in ours}


def follow(client: JobSubmissionClient, job: str, console: Console) -> int:
    """Print a job's log until the job ends, and return its exit code: 130 after Ctrl-C, which leaves the job running.

    Raises:
        BadInput: if the server is lost; the job may continue.
    """

    async def print_log() -> None:
        async for text in client.tail_job_logs(job):
            sys.stdout.write(text)
            sys.stdout.flush()

    commands = follow_commands(job, client.get_address())
    try:
        asyncio.run(print_log())
        while not (info := client.get_job_info(job)).status.is_terminal():
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        print_lines(console, f"\n{job} continues. {commands}")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except (aiohttp.ClientError, requests.RequestException, OSError, RuntimeError) as error:
        what = f"the job server is lost ({in_one_line(error)}), and the job may continue"
        raise BadInput(what, job, commands) from None
    code, how = outcome(info)
    print_lines(console, f"{job} {how}")
    return code


ENDS = {"SUCCEEDED": (0, "has succeeded"), "STOPPED": (INTERRUPTED, "was stopped")}
"""The exit code and the end of a job, by its status."""


def outcome(info: JobDetails) -> tuple[int, str]:
    """Return the exit code of a job that has ended, as a shell would (128 + N after signal N), and how it ended."""
    if info.status in ENDS:
        return ENDS[info.status]
    if info.driver_exit_code is None:
        return 1, f"has failed: {' '.join((info.message or '').split())[:2000] or 'its cluster does not report why'}"
    code = 128 - info.driver_exit_code if info.driver_exit_code < 0 else info.driver_exit_code or 1
    return code, f"has failed with exit code {code}"


def follow_commands(job: str, address: str) -> str:
    """Return Ray's commands that follow and stop a running job."""
    # Ray's command sends a token only if its mode requires it.
    mode = "RAY_AUTH_MODE=token " if os.environ.get("RAY_AUTH_MODE") == "token" else ""
    end = shlex.join(["--address", address, job])
    return f"Follow it with: {mode}ray job logs --follow {end}; stop it with: {mode}ray job stop {end}"


def _resources(text: str | None) -> dict[str, float]:
    try:
        return TypeAdapter(dict[str, NonNegativeFloat]).validate_json(text or "{}", strict=True)
    except ValidationError:
        what = f"{text!r} does not map resources to numbers"
        raise BadInput(what, "--resources", "write '{\"big_memory\": 1}'") from None
