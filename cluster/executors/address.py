"""Checks the address of a cluster before Ray connects, and agrees with it on tokens."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pyrite.cluster.limits import CONNECT_TIMEOUT_S, PROBE_S
from pyrite.ranking.errors import BadInput, refuse

MODE = "RAY_AUTH_MODE"
JOB_SERVER = ("is a job server, which takes submitted jobs", "{address}")
OTHER_PORTS = {
    "http": JOB_SERVER,
    "https": JOB_SERVER,
    "ray": ("is Ray Client's port, through which no study can run", "http://{host}:8265"),
}
"""What another port of a cluster is for, and where its job server is, by the scheme of the address."""
TOKEN = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"


def is_cluster(address: str | None) -> bool:
    """Return whether an address, or RAY_ADDRESS, names a cluster to run on.

    The address of a job server, as http://HOST:8265, is for `pyrite submit` alone.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    return bool(address) and not str(address).startswith(("http://", "https://"))


def check_address(address: str | None) -> None:
    """Raise `BadInput` for an address of another kind, and for one where nothing answers: Ray would try for minutes."""
    scheme, _, rest = (address or "").rpartition("://")
    if scheme in OTHER_PORTS:
        host = rest.rpartition(":")[0] or rest
        what, server = OTHER_PORTS[scheme]
        server = server.format(address=address, host=host)
        remedy = f"give {host}:6379, the port of `ray start`, or run `pyrite submit --address {server}`"
        raise BadInput(what, address, remedy)
    host, _, port = (address or "").rpartition(":")
    try:
        if host and port.isdigit():
            socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        remedy = "is the cluster running, and is this its address?"
        raise BadInput(f"nothing answers ({error})", address, remedy) from None


@contextmanager
def agreed_token(address: str | None) -> Iterator[None]:
    """Send a token if the cluster requires one, and none otherwise, until the context ends.

    RAY_AUTH_MODE decides if the user has set it. A local Ray (no address) requires a token, for which Ray itself sets
    the mode: it is the only protection against other users of the machine.

    Raises:
        BadInput: if there is no token, or the cluster takes none and this process has sent one before: Ray does not
            take its mode back.
    """
    if MODE in os.environ:
        yield
        return
    own: dict[str, str] = {}
    if address is None:
        if not has_token() and not is_writable(os.path.expanduser("~"), ".ray"):
            own = {"RAY_AUTH_TOKEN": os.urandom(16).hex()}
    elif requires_token(address):
        refuse(not send_token(), "the cluster requires its token", address, f"put it into {TOKEN}")
    else:
        remedy = f"connect from another process, or set {MODE}=disabled before Ray is imported"
        refuse(sends_token(), "takes no token, and this process has sent one to another", address, remedy)
    os.environ.update(own)
    try:
        yield
    finally:
        for name in (MODE, *own):
            os.environ.pop(name, None)


def send_token() -> bool:
    """Let this process send the token, if RAY_AUTH_MODE does not say otherwise. Return whether there is one."""
    from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available

    return bool(maybe_enable_token_auth_if_token_available(warn_if_disabled=False))


def sends_token() -> bool:
    """Return whether this process sends a token."""
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    return bool(is_token_auth_enabled())


def has_token() -> bool:
    """Return whether there is a token in one of the places that Ray reads."""
    from ray._private.authentication.authentication_token_setup import AuthenticationTokenLoader

    return bool(AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))


def requires_token(address: str) -> bool:
    """Return whether a cluster refuses to answer without a token."""
    import ray
    from ray._private import services
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    try:
        found = services.canonicalize_bootstrap_address_or_die(address)
        GcsClient(address=found).internal_kv_get(b"session_name", b"session", PROBE_S)
    except ray.exceptions.AuthenticationError:
        return True
    except Exception:  # of any other kind: Ray itself reports it when it connects
        return False
    return False


def is_writable(folder: str, name: str) -> bool:
    """Return whether a subfolder can be made and written. Another user's subfolder of that name can't be used."""
    path = os.path.join(folder, name)
    return os.access(path if os.path.isdir(path) else folder, os.W_OK | os.X_OK)


def working_folder() -> str | None:
    """Return the working folder; None if it has been deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None
