"""Debian's Prometheus: started beside a Ray session, and asked."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ranking.errors import BadInput

USUAL = 9090
"""The port at which Ray's own dashboard looks for Prometheus."""
STARTING = 60.0
"""Seconds that it has to be ready."""
LOG = "prometheus.log"
"""What it says."""
ENDING = 20.0
"""Seconds that it has to write down what it holds."""


@dataclass(frozen=True)
class Prometheus:
    """One that answers.

    Args:
        url: of it.
        process: of one that we started.
    """

    url: str
    process: subprocess.Popen[bytes] | None = None

    def get(self, path: str, **parameters: str | float) -> Any:
        """The `data` of an answer of its HTTP API.

        Raises:
            BadInput: where it does not answer, or refuses to.
        """
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with contextlib.suppress(ValueError, AttributeError):
                raise BadInput(json.load(error).get("error"), self.url) from None
            raise BadInput(f"Prometheus refuses ({error})", self.url) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise BadInput(f"no Prometheus answers ({error})", self.url, "does it run there?") from None

    def answers(self) -> bool:
        """Whether it can be asked."""
        try:
            self.get("query", query="vector(1)")
        except BadInput:
            return False
        return True

    def names(self, since: float) -> set[str]:
        """Names of all series that it has read since a time (Unix seconds)."""
        return set(self.get("label/__name__/values", start=since, end=time.time()))

    def count(self, expression: str, since: float) -> int:
        """How many series a query returned at some time since then."""
        step = max(15.0, (time.time() - since) / 2000)  # it refuses more than 11,000 points
        found = self.get("query_range", query=expression, start=since, end=time.time(), step=step)
        return len(found["result"])


def installed() -> str | None:
    """Where the binary is, None where there is none."""
    return shutil.which("prometheus")


@contextmanager
def started(config: Path, folder: Path, port: int | None = None) -> Iterator[Prometheus]:
    """A Prometheus of our own that listens on loopback alone.

    Args:
        config: `prometheus.yml`.
        folder: of what it has read, and of its log.
        port: to listen on; None takes the usual one, or any that is free.

    Raises:
        BadInput: where there is none, or it does not start.
    """
    binary = installed()
    if binary is None:
        raise BadInput("there is no prometheus on this machine", remedy="apt-get install prometheus")
    port = free_port(port)
    log = folder / LOG
    command = [binary, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}"]
    command.append(f"--storage.tsdb.path={folder / 'data'}")
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
    server = Prometheus(f"http://127.0.0.1:{port}", process)
    try:
        given_up = time.monotonic() + STARTING
        while not server.answers():
            if process.poll() is not None or time.monotonic() > given_up:
                lines = log.read_text(errors="replace").splitlines() or ["it said nothing"]
                raise BadInput(f"prometheus does not start ({lines[-1][-300:]})", log)
            time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port(wanted: int | None) -> int:
    """The port that is wanted; where none is, the usual one or any other.

    Raises:
        BadInput: where it is taken.
    """
    for port in [USUAL, 0] if wanted is None else [wanted]:
        with contextlib.suppress(OSError, OverflowError), socket.create_server(("127.0.0.1", port)) as probe:
            found: int = probe.getsockname()[1]
            return found
    raise BadInput(f"port {wanted} is taken", "--port", "choose another, or leave it out")
