"""The Ray that a command starts by itself."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys

import pytest

from cluster.executors.session import session
from ranking.errors import BadInput

LISTENING = """
import json, os, psutil
from cluster.executors.session import session

variable = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
with session() as dashboard:
    import ray

    ray.get(ray.remote(lambda: None).remote())
    found = []
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        for socket in process.net_connections("inet"):
            if socket.status == psutil.CONN_LISTEN:
                found.append((" ".join(process.cmdline())[:200], socket.laddr.ip, socket.laddr.port))
    print("LISTENING", json.dumps([dashboard, found, variable in os.environ]), flush=True)
"""
"""Starts a Ray with a dashboard and a worker; prints who listens where."""


def test_every_process_of_a_local_ray_listens_on_loopback_alone() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    said = subprocess.run([sys.executable, "-c", LISTENING], env=environment, capture_output=True, text=True)
    (line,) = (line for line in said.stdout.splitlines() if line.startswith("LISTENING"))
    dashboard, listening, left_behind = json.loads(line.removeprefix("LISTENING"))
    assert not left_behind  # whoever starts a cluster next is not bound
    for name in ("gcs_server", "raylet", "dashboard/dashboard.py", "DashboardAgent", "ray::"):
        assert any(name in process for process, _, _ in listening), (name, listening)
    assert int(dashboard.rpartition(":")[2]) in {port for _, _, port in listening}
    open_to_others = []
    for process, address, port in listening:
        host = ipaddress.ip_address(address)
        host = getattr(host, "ipv4_mapped", None) or host
        open_to_others += [] if host.is_loopback else [(process, address, port)]
    assert not open_to_others


@pytest.mark.parametrize("failures", [1, 9])
def test_a_ray_that_does_not_come_up_is_started_again(failures: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    started: list[str] = []

    def init(**options: object) -> None:
        started.append(str(options["address"]))
        if len(started) <= failures:
            raise RuntimeError("The current node timed out during startup. This could happen because …")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # the one that other tests go on with
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("cluster.executors.session._dashboard", lambda: "")
    if failures == 1:
        with session(dashboard=False):
            assert started == ["local", "local"]
    else:
        with pytest.raises(BadInput, match="too busy; end what else"), session(dashboard=False):
            pass
        assert len(started) == 3
