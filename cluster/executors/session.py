"""Connects a command to a Ray cluster, or starts a local Ray for it."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.executors.object_store import wanted_store
from cluster.executors.resources import cores
from cluster.output.storage import FULL, unwritable
from ranking.errors import BadInput

ATTEMPTS = 3
"""At starting a local Ray."""


def connected() -> bool:
    """Return whether this process is part of a Ray cluster. Does not import Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


@contextmanager
def session(address: str | None = None, dashboard: bool = True, shared: int = 0) -> Iterator[str]:
    """Connect to Ray, and leave it as it was found.

    Inside a submitted job, or where Ray runs in this process already, that cluster is used. Everything
    started here listens on loopback alone and ends with the command; what torch's workers open among themselves
    (`resources.workers` above 1) is theirs.

    Args:
        address: of a cluster, e.g. `auto`; None takes RAY_ADDRESS, or starts a local Ray.
        dashboard: start a dashboard with a local Ray.
        shared: bytes that will lie in the object store; a local Ray makes room for them if there is memory.

    Yields:
        The address of the dashboard, "" where there is none.

    Raises:
        BadInput: where the cluster can't be reached or refuses us.
    """
    import ray

    if ray.is_initialized():
        yield _dashboard()
        return
    address = address or os.environ.get("RAY_ADDRESS")
    _knock(address)
    try:
        if address:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        else:
            _start(dashboard, shared)
    except OSError as error:
        if error.errno in FULL:
            place = error.filename or "the folder of Ray's sessions"
            raise unwritable(error, place, "name another by RAY_TMPDIR") from None
        if not isinstance(error, ConnectionError | PermissionError):
            raise
        raise _refusal(error, address) from None
    except (ValueError, ray.exceptions.AuthenticationError) as error:
        raise _refusal(error, address) from None
    try:
        yield _dashboard()
    finally:
        ray.shutdown()


def _start(dashboard: bool, shared: int) -> None:
    """Start a local Ray, again where the first did not come up: Ray waits 30 s, and a busy machine may need more."""
    import ray

    for attempt in range(ATTEMPTS):
        try:
            with _on_loopback():
                ray.init(
                    address="local",
                    num_cpus=cores(),
                    include_dashboard=dashboard,
                    dashboard_host="127.0.0.1",
                    object_store_memory=wanted_store(shared),
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            return
        except Exception as error:  # Ray raises no narrower class
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if attempt + 1 == ATTEMPTS:
                raise BadInput(
                    "Ray did not start, because this machine is too busy",
                    remedy="end what else runs here, or take local=true where runs are few and small",
                ) from None


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Have every process of a Ray that starts within bind to 127.0.0.1, as Ray has it on a Mac.

    No option of `ray.init` does: an address of loopback is resolved to the machine's own again.
    """
    from ray._private import ray_constants

    variable = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    before, constant = os.environ.get(variable), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[variable] = "0"  # for the processes that are started
    ray_constants.ENABLE_RAY_CLUSTER = False  # for this one, which has read the variable when it imported Ray
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = constant
        os.environ.pop(variable)
        if before is not None:
            os.environ[variable] = before


def _refusal(error: Exception, address: str | None) -> BadInput:
    return BadInput(
        f"Ray can't be reached ({' '.join(str(error).split())[:200]})",
        address or "a local Ray",
        "is it running, and is its token in RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token?",
    )


def _knock(address: str | None) -> None:
    """See whether anyone listens at HOST:PORT: Ray itself would wait for minutes."""
    host, _, port = (address or "").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.rpartition("//")[2], int(port)), timeout=10).close()
    except OSError as error:
        raise BadInput(f"nobody answers ({error})", address, "is the cluster running, and this its address?") from None


def _dashboard() -> str:
    import ray

    url = ray._private.worker.get_dashboard_url()
    return f"http://{url}" if url else ""
