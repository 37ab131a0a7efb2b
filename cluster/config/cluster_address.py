"""Decides whether the address of a cluster is that of another machine."""

from __future__ import annotations

import os
import socket


def is_foreign(address: str | None) -> bool:
    """Return whether an address names a cluster that this machine is not part of, and the environment does not name."""
    import psutil

    host = (address or "").rpartition("://")[2].rpartition(":")[0].strip("[]")
    if not host or address == os.environ.get("RAY_ADDRESS"):
        return False
    own = {each.address.partition("%")[0] for interface in psutil.net_if_addrs().values() for each in interface}
    return host not in {"localhost", socket.gethostname(), *own}
