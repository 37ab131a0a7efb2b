"""`pyrite submit`: a command of ours as a job of a Ray cluster."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cluster.jobs.following import follow, ways_on
from cluster.jobs.nodes import addresses, are_this_machine
from cluster.jobs.package import pack, working_folder
from cluster.jobs.path_rewriting import Sight, place_inputs, place_output, split_output, variables, written
from cluster.jobs.server import connected
from ranking.errors import BadInput

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

AS_CTRL_C = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
"""`pyrite stop` interrupts a job as Ctrl-C does, and lets it leave Ray in order."""


@dataclass(frozen=True)
class Order:
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


def submit(order: Order, address: str | None, detach: bool, console: Console) -> int:
    """Send a job, and show what it says until it ends.

    Args:
        order: what is sent.
        address: of the job server; see `server.connected`.
        detach: come back as soon as it is sent.
        console: for what is ours to say.

    Returns:
        The job's own exit code, or 0 as soon as it is sent.

    Raises:
        BadInput: where the server can't be reached or refuses, or the job could not work there.
    """
    with connected(address) as client:
        job = send(order, client, console)
        if detach:
            console.print(ways_on(job, address), soft_wrap=True, markup=False)
            return 0
        return follow(client, job, address, console)


def send(order: Order, client: JobSubmissionClient, console: Console) -> str:
    """Send a job, and return its id.

    Raises:
        BadInput: where it could not work there.
    """
    url = client.get_address()
    sight = Sight(are_this_machine(addresses(url)), order.shared, os.getcwd())
    job = _id(order.name or order.verb)
    arguments = arguments_of(order, job, sight)
    environment: dict[str, Any] = {"env_vars": variables(os.environ, sight) | AS_CTRL_C}
    environment |= {kind: _requirements(path) for kind, path in (("pip", order.pip), ("uv", order.uv)) if path}
    own = sight.here and not order.pip and not order.uv
    python = order.python or (sys.executable if own else "python")
    with tempfile.TemporaryDirectory(prefix="pyrite-") as temporary:
        folder = Path(order.folder).absolute() if order.folder else working_folder()
        archive = pack(folder, Path(temporary) / "working_directory.zip", order.excludes)
        said = f"{folder} packed ({archive.stat().st_size / 2**20:.1f} MiB)"
        client.submit_job(
            entrypoint=shlex.join([python, "-m", "cluster", *arguments]),
            submission_id=job,
            runtime_env=environment | {"working_dir": str(archive)},
            metadata=metadata_of(order, arguments),
            entrypoint_num_cpus=order.cpus or None,
            entrypoint_resources=order.resources or None,
        )
    console.print(f"{job} sent to {url}, {said}", soft_wrap=True, markup=False)
    return job


def arguments_of(order: Order, job: str, sight: Sight) -> list[str]:
    """What the job runs: the verb and its overrides, with paths that hold there.

    Raises:
        BadInput: where the nodes could not see what it reads or writes.
    """
    if any(text.startswith("address=") for text in order.overrides):
        raise BadInput("a job runs on the cluster that it is sent to", "address", "leave it out, and give --address")
    out, others = split_output(order.overrides)
    others = place_inputs(order.verb, others, sight)
    if order.resume is not None:
        return [order.verb, "--resume", place_output(order.resume, sight, "--resume"), *others]
    if out is None and order.verb != "train":  # which keeps nothing unless told to
        out = _usual_output(job, sight)
    return [order.verb, *others, *([written("out", place_output(out, sight))] if out else [])]


def metadata_of(order: Order, arguments: Sequence[str]) -> dict[str, str]:
    """What Ray keeps of a job for people: texts."""
    said = {"name": order.name or order.verb, "verb": order.verb, "overrides": shlex.join(arguments[1:])}
    return said | ({"note": order.note} if order.note else {})


def _usual_output(job: str, sight: Sight) -> str:
    """Where a job writes that was not told where: its working directory is gone when it ends."""
    if sight.here:
        return sight.absolute(f"outputs/{job}")
    if sight.shared:
        return f"{sight.absolute(sight.shared[0])}/outputs/{job}"
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
