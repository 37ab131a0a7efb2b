"""Connects a command to a Ray cluster, or starts a local Ray for it."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pyrite.cluster.executors.address import TOKEN, agreed_token, check_address, is_writable
from pyrite.cluster.executors.object_store import wanted_store
from pyrite.cluster.executors.waiting import forward_ray_events
from pyrite.cluster.lazy import ray
from pyrite.cluster.limits import RAY_STARTS
from pyrite.cluster.output.storage import unwritable
from pyrite.ranking.cores import cores
from pyrite.ranking.errors import BadInput
from pyrite.ranking.whole_file import FULL

SLOW = ("timed out during startup", "start a dashboard", "message from the dashboard", "read dashboard.err")
"""Ray's messages if a process of a local Ray did not come up in time."""
LONGEST_FOLDER = 107 - len("/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
"""Longest name of a folder for Ray's sessions: the system limits the path of a socket to 107 bytes."""
JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray's variable in a submitted job."""
_log = logging.getLogger(__name__)


def connected() -> bool:
    """Return whether this process is part of a Ray cluster. Does not import Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


@contextmanager
def session(
    address: str | None = None, dashboard: bool = True, shared: int = 0, without: str | None = None
) -> Iterator[str]:
    """Connect to Ray until the context ends.

    In a submitted job, or if this process is connected already, that cluster is used. A local Ray listens on loopback
    only and ends with the context. Ports that torch's workers open among themselves (`resources.workers` above 1) are
    theirs.

    Args:
        address: a cluster's address, e.g. `auto`; None takes RAY_ADDRESS, or starts a local Ray.
        shared: bytes that the object store must hold. A local Ray makes room for them if there is memory.
        without: the option by which the command does without Ray, for messages; None if there is none.

    Yields:
        The address of the dashboard, "" if there is none.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's coming default; unset, it warns

    if ray.is_initialized():
        yield _dashboard()
        return
    address = address or os.environ.get("RAY_ADDRESS")
    check_address(address)
    with ExitStack() as stack:
        try:
            stack.enter_context(agreed_token(address))
            with _kept_signal_handlers():
                if address:
                    # Logs of workers are not printed; of those that come, the lines about the cluster's size are.
                    quiet: dict[str, Any] = {"log_to_driver": True, "logging_level": logging.ERROR}
                    ray.init(address=address, **quiet, **_modules())
                    forward_ray_events(_log.warning)
                else:
                    _start(dashboard, shared, without)
        except (OSError, ValueError, RuntimeError, ray.exceptions.AuthenticationError) as error:
            raise _refusal(error, address, without) from None
        try:
            yield _dashboard()
        finally:
            ray.shutdown()


def _start(dashboard: bool, shared: int, without: str | None) -> None:
    """Start a local Ray, again if it did not come up, at last without its dashboard: a busy machine may need longer."""
    for attempt in range(RAY_STARTS):
        try:
            with _ray_constants():
                ray.init(
                    address="local",
                    num_cpus=cores(),
                    include_dashboard=dashboard and attempt + 1 < RAY_STARTS,
                    dashboard_host="127.0.0.1",
                    object_store_memory=wanted_store(shared),
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **_short_folder(),
                    **_modules(),
                )
            return
        except Exception as error:  # Ray raises no narrower class
            if not any(sign in str(error) for sign in SLOW):
                raise
            ray.shutdown()
            if attempt + 1 == RAY_STARTS:
                raise BadInput(
                    "Ray did not start, because this machine is too busy",
                    remedy="end other programs" + (f", or do without it by {without}" if without else ""),
                ) from None


def _modules() -> dict[str, Any]:
    """Return the option by which Ray's processes import nothing from the working folder, unless this process does.

    Ray puts it on their module path by itself, and it may be a folder that a file names (`commands.first_folder`).
    """
    here = os.getcwd() in map(os.path.abspath, sys.path)
    return {} if here or JOB in os.environ else {"job_config": ray.job_config.JobConfig(_client_job=True)}


def _short_folder() -> dict[str, Any]:
    """Return the option of another folder for Ray's sessions, if the usual one is too long or can't be written."""
    usual = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    for folder in (usual, tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        if len(os.path.join(folder, "ray")) <= LONGEST_FOLDER and is_writable(folder, "ray"):
            return {} if folder == usual else {"_temp_dir": os.path.join(folder, f"ray-{os.getuid()}")}
    raise BadInput("no folder is short and writable enough for Ray's sessions", usual, "name one by RAY_TMPDIR")


@contextmanager
def _kept_signal_handlers() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces by one that exits at once, as the first step of its start."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from ray._private import utils

    replace = utils.set_sigterm_handler
    vars(utils).update(set_sigterm_handler=lambda handler: None)
    try:
        yield
    finally:
        vars(utils).update(set_sigterm_handler=replace)


@contextmanager
def _ray_constants() -> Iterator[None]:
    """Set what no option of `ray.init` does, while a Ray starts.

    Every process binds to 127.0.0.1, as Ray does on macOS: a loopback address is resolved to the machine's address
    again. Workers start with this interpreter: Ray would start each by `uv run`, which needs the network.
    """
    from ray._private import ray_constants

    variable = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    names = ("ENABLE_RAY_CLUSTER", "RAY_ENABLE_UV_RUN_RUNTIME_ENV")  # which were read when Ray was imported
    constants, before = {name: getattr(ray_constants, name) for name in names}, os.environ.get(variable)
    os.environ[variable] = "0"  # for the processes that are started
    vars(ray_constants).update(dict.fromkeys(names, False))
    try:
        yield
    finally:
        vars(ray_constants).update(constants)
        os.environ.pop(variable)
        if before is not None:
            os.environ[variable] = before


def _refusal(error: Exception, address: str | None, without: str | None) -> Exception:
    """Return an error of Ray or of the system as one line. One of another kind keeps its traceback."""
    text, name = " ".join(str(error).split()), address or "a local Ray"
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        return _of_folder(error, address)
    if isinstance(error, RuntimeError):
        return _of_versions(text, address) if "Version mismatch" in text else error
    if "oken" in text or "uthentication" in text:
        return BadInput(f"refuses the token ({text[:200]})", name, f"put the cluster's token into {TOKEN}")
    if address is None:
        return BadInput(f"Ray did not start ({text[:300]})", name, without and f"do without it by {without}")
    return BadInput(f"Ray can't be reached ({text[:200]})", name, "is it running, and is this its address?")


def _of_folder(error: OSError, address: str | None) -> Exception:
    """Return the error of a folder of Ray's sessions that can't be written, or is full; others as they are."""
    path = error.filename or "the folder of Ray's sessions"
    if error.errno in FULL:
        return unwritable(error, path, "name another folder by RAY_TMPDIR")
    if not isinstance(error, PermissionError):
        return error
    remedy = "it belongs to another user: name a folder of your own by RAY_TMPDIR"
    return BadInput("can't be written", path, remedy if address is None else f"{remedy}, or give HOST:PORT")


def _of_versions(text: str, address: str | None) -> BadInput:
    """Return the error of a cluster that runs other versions."""
    remedy = "install the cluster's versions here, or use `pyrite submit`"
    if JOB in os.environ:  # a submitted job on this machine runs this interpreter
        remedy = "name an interpreter with the cluster's versions by `pyrite submit --python`"
    return BadInput(f"runs other versions ({text[:300]})", address or "the cluster", remedy)


def _dashboard() -> str:
    """Return the address of the dashboard, "" if there is none."""
    url = ray._private.worker.get_dashboard_url()
    return f"http://{url}" if url else ""
