"""A Ray cluster of several nodes on this machine, and the commands that run on it."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray._private.services import node_ip_address_from_perspective
from ray._raylet import GcsClient
from ray.cluster_utils import Cluster
from ray.core.generated.autoscaler_pb2 import DrainNodeReason

STORE = 100 << 20
"""Bytes of each node's object store."""
SYSTEM = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""What Ray's own processes are called."""
PATIENCE_OF_RAY = {
    # A head that is gone, and a node that says nothing, are given up after seconds instead of a minute.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}


class Nodes:
    """A head and some workers with so many cores each, and with processes and object stores of their own."""

    def __init__(self, *cpus: float) -> None:
        self.folder = tempfile.mkdtemp(prefix="pyrite-", dir="/tmp")  # sockets have short names
        with _environment(PATIENCE_OF_RAY):
            self.cluster = Cluster()
            self.seen: set[psutil.Process] = set()
            for each in cpus:
                self.add(each)

    @property
    def address(self) -> str:
        """Of the head, as `address=` takes it."""
        return str(self.cluster.gcs_address)

    @property
    def workers(self) -> list[Any]:
        """The nodes that are not the head."""
        return sorted(self.cluster.worker_nodes, key=lambda node: node.unique_id)

    def add(self, cpus: float) -> Any:
        """Let a node join."""
        asked: dict[str, Any] = {
            "num_cpus": cpus, "num_gpus": 0, "object_store_memory": STORE, "include_dashboard": False,
            # Else that of the local Ray, loopback, where a test before has left one running in this process.
            "node_ip_address": node_ip_address_from_perspective(),
        }  # fmt: skip
        if self.cluster.head_node is None:
            asked |= {"temp_dir": self.folder}
        with _environment(PATIENCE_OF_RAY):
            return self.cluster.add_node(**asked)

    def drain(self, node: Any, seconds: float) -> None:
        """Tell Ray that a node will be taken away, as at a spot notice; `lose` takes it."""
        until = int((time.time() + seconds) * 1000)
        reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        accepted, why = GcsClient(address=self.address).drain_node(node.node_id, reason, "a test", until)
        assert accepted, why

    def lose(self, node: Any) -> None:
        """Take a node's processes away without warning, as when the machine is gone; the head's too."""
        gone = self._tree(node)
        if node is self.cluster.head_node:
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        else:
            self.cluster.remove_node(node, allow_graceful=False)
        # Also what it was just starting, which bears its name on the command line.
        name = f"--raylet-name={node.raylet_socket_name}"
        late = (process for process in psutil.process_iter(["cmdline"]) if name in (process.info["cmdline"] or ()))
        for process in [*gone, *late]:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def processes(self, of: Any = None) -> dict[psutil.Process, str]:
        """Return Ray's worker processes, of a node or all, and their titles, as `ray::LockstepRunner.sample`."""
        found: dict[psutil.Process, str] = {}
        for node in [of] if of is not None else self.cluster.list_all_nodes():
            for process in self._tree(node):
                with contextlib.suppress(psutil.Error):
                    title = " ".join(process.cmdline()).strip()
                    if title.startswith("ray::"):
                        found[process] = title
        return found

    def _tree(self, node: Any) -> set[psutil.Process]:
        """Every process of a node."""
        found: set[psutil.Process] = set()
        for info in (info for kind in node.all_processes.values() for info in kind):
            with contextlib.suppress(psutil.Error):
                parent = psutil.Process(info.process.pid)
                found |= {parent, *parent.children(recursive=True)}
        self.seen |= found
        return found

    def start(self, *arguments: str, log: Path | None = None) -> subprocess.Popen[bytes]:
        """Start `pyrite ARGUMENTS` as a driver on this cluster."""
        environment = os.environ | PATIENCE_OF_RAY | {"RAY_ADDRESS": self.address}
        output: Any = open(log, "ab") if log else subprocess.DEVNULL  # noqa: SIM115
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "pyrite", *arguments],
                env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        finally:
            if log:
                output.close()

    def close(self, patience: float = 20) -> list[str]:
        """End every process, and return what those are called that are still there, but for Ray's own agents."""
        own = {process for process, title in self.processes().items() if title.startswith(SYSTEM)}
        self.cluster.shutdown()
        deadline = time.monotonic() + patience
        left = self.seen
        while left - own and time.monotonic() < deadline:
            left = {process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE}
            time.sleep(0.1)
        names = []
        for process in left:
            with contextlib.suppress(psutil.Error):
                name = " ".join(process.cmdline()).strip() or process.name()
                names += [] if name.startswith(SYSTEM) else [name]
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        return names


@contextlib.contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for key, value in more.items():
            patch.setenv(key, value)
        yield
