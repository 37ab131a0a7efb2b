"""Submits a command of ours as a job of a Ray cluster (`pyrite submit`)."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cluster.jobs.following import follow, ways_on
from cluster.jobs.nodes import addresses, are_this_machine
from cluster.jobs.package import pack, working_folder
from cluster.jobs.path_rewriting import NodeFileView, place_inputs, place_output, split_output, variables, written
from cluster.jobs.server import connected
from ranking.errors import BadInput

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

AS_CTRL_C = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""`ray job stop` interrupts a job as Ctrl-C does, and lets it leave Ray in order."""


NO_AGENT = "No available agent to submit job"
"""What Ray's job server says as long as no node of its cluster runs an agent."""
STARTING, PAUSE = 60.0, 1.0
"""Seconds that a cluster which is just starting is waited for, and seconds between two tries."""


@dataclass(frozen=True)
class JobRequest:
    """What is to be sent, and how.

    Args:
        verb: study, train, learn or pool.
        overrides: of the verb.
        resume: folder or URI of what is to be gone on with.
        name: what the job's id begins with, the verb if None.
        note: for whoever reads the list of jobs.
        folder: the working directory; None takes the checkout.
        excludes: what of it is left out besides the usual.
        shared: folders that every node sees.
        pip: a requirements file that the nodes install; None leaves them as they are.
        uv: the same, by uv.
        python: the interpreter that runs the verb there; None: `python`, or this one where the cluster is this machine.
        cpus: cores that are set aside for the driver; with none it runs on the head node.
        resources: others that are set aside for it, by name.
    """

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


def submit(request: JobRequest, address: str | None, detach: bool, console: Console) -> int:
    """Send a job, and show what it says until it ends.

    Args:
        request: what is sent.
        address: of the job server; see `server.connected`.
        detach: come back as soon as it is sent.
        console: for what is ours to say.

    Returns:
        The job's own exit code, or 0 as soon as it is sent.

    Raises:
        BadInput: where the server can't be reached or refuses, or the job could not work there.
    """
    with connected(address) as client:
        job = send(request, client, console)
        if detach:
            console.print(ways_on(job, client.get_address()), soft_wrap=True, markup=False)
            return 0
        return follow(client, job, console)


def send(request: JobRequest, client: JobSubmissionClient, console: Console) -> str:
    """Send a job, and return its id.

    Raises:
        BadInput: where it could not work there.
    """
    url = client.get_address()
    view = NodeFileView(are_this_machine(addresses(url)), request.shared, os.getcwd())
    job = _id(request.name or request.verb)
    arguments = arguments_of(request, job, view)
    environment: dict[str, Any] = {"env_vars": variables(os.environ, view) | AS_CTRL_C}
    environment |= {kind: _requirements(path) for kind, path in (("pip", request.pip), ("uv", request.uv)) if path}
    own = view.here and not request.pip and not request.uv
    python = request.python or (sys.executable if own else "python")
    with tempfile.TemporaryDirectory(prefix="pyrite-") as temporary:
        folder = Path(request.folder).absolute() if request.folder else working_folder()
        archive = pack(folder, Path(temporary) / "working_directory.zip", request.excludes)
        said = f"{folder} packed ({archive.stat().st_size / 2**20:.1f} MiB)"
        submit_when_ready(
            lambda: client.submit_job(
                entrypoint=shlex.join([python, "-m", "cluster", *arguments]),
                submission_id=job,
                runtime_env=environment | {"working_dir": str(archive)},
                metadata=metadata_of(request, arguments),
                entrypoint_num_cpus=request.cpus or None,
                entrypoint_resources=request.resources or None,
            ),
            console,
        )
    console.print(f"{job} sent to {url}, {said}", soft_wrap=True, markup=False)
    return job


def submit_when_ready(send_it: Callable[[], object], console: Console, patience: float = STARTING) -> None:
    """Send a job; a cluster whose head has just started refuses it for some seconds, and is asked again.

    Args:
        send_it: sends the job.
        console: told once that it waits.
        patience: seconds after which the refusal counts.
    """
    given_up, waiting = time.monotonic() + patience, False
    while True:
        try:
            send_it()
            return
        except RuntimeError as error:
            if NO_AGENT not in str(error) or time.monotonic() > given_up:
                raise
        if not waiting:
            waiting = True
            console.print(
                f"the cluster is just starting: waiting up to {patience:.0f} s until it takes jobs", markup=False
            )
        time.sleep(PAUSE)


def arguments_of(request: JobRequest, job: str, view: NodeFileView) -> list[str]:
    """What the job runs: the verb and its overrides, with paths that hold there.

    Raises:
        BadInput: where the nodes could not see what it reads or writes.
    """
    if any(text.startswith("address=") for text in request.overrides):
        raise BadInput("a job runs on the cluster that it is sent to", "address", "leave it out, and give --address")
    out, others = split_output(request.overrides)
    others = place_inputs(request.verb, others, view)
    if request.resume is not None:
        return [request.verb, "--resume", place_output(request.resume, view, "--resume"), *others]
    if out is None and request.verb != "train":  # which keeps nothing unless told to
        out = _usual_output(job, view)
    return [request.verb, *others, *([written("out", place_output(out, view))] if out else [])]


def metadata_of(request: JobRequest, arguments: Sequence[str]) -> dict[str, str]:
    """What Ray keeps of a job for people: texts."""
    said = {"name": request.name or request.verb, "verb": request.verb, "overrides": shlex.join(arguments[1:])}
    return said | ({"note": request.note} if request.note else {})


def _usual_output(job: str, view: NodeFileView) -> str:
    """Where a job writes that was not told where: its working directory is gone when it ends."""
    if view.here:
        return view.absolute(f"outputs/{job}")
    if view.shared:
        return f"{view.absolute(view.shared[0])}/outputs/{job}"
    raise BadInput(
        "is not given, and the job's own folder is gone when it ends", "out", "give a URI, or --shared FOLDER"
    )


def _id(name: str) -> str:
    """Readable, and not given twice."""
    return f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"


def _requirements(path: str) -> str:
    if not Path(path).is_file():
        raise BadInput("there is no such file", path, "name a file of requirements, one a line")
    return str(Path(path).absolute())
