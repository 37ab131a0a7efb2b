"""Takes the pictures of docs/guide/watching.md: Ray with two jobs, its dashboard and Prometheus in a browser.

    python docs/images/take.py OUT [key=value …]

Needs the extra `dev`, Debian's `chromium` and `prometheus`, and five minutes. Everything listens on
loopback, and ends with it. OUT is where the pictures go; overrides are of both jobs, as for a small collection.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

DASHBOARD = "http://127.0.0.1:8265"
PROMETHEUS = "127.0.0.1:9090"
SMALL = ["scale=tiny", "vectors=random", "training.max_epochs=500", "training.patience=500", "dashboard=false"]
JOBS = [
    [
        "study", "ranker=dssm", "policy=fixed", "function=dense", "selector=uniform,top", "concurrent=2", *SMALL,
        "function.dense.refresh.every=20", "resources.cpu=1",
    ],
    ["learn", "agent=ppo", "workers=2", "copies=2", "episodes=10000", "random_baseline=0", *SMALL],
]  # fmt: skip
PAGES = {"ray_jobs": "#/jobs", "ray_actors": "#/actors", "ray_metrics": "#/metrics"}
QUERY = "max by (run) (ray_pyrite_index_version_number)"
BUSY = 60.0
"""Seconds after which jobs that are under way have something to show."""


@contextmanager
def running(*command: str, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process and its children, for a while."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, env=os.environ | environment
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def said(pattern: str, log: Path, patience: float = 120) -> str:
    """What a process has said, as soon as it has."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text()) if log.exists() else None
        if found:
            return found[1]
        time.sleep(0.5)
    raise SystemExit(f"not said in {patience:g} seconds: {pattern} ({log})")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def pyrite(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pyrite", *arguments)


def photograph(page: Any, address: str, file: Path, patience: float = 8) -> None:
    """Open a page, give it time to draw, and keep a picture of it."""
    page.goto(address)
    page.wait_for_timeout(1000 * patience)
    page.screenshot(path=file, full_page=True)
    print(file)


def main(out: Path, more: list[str]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="pyrite-", dir="/tmp"))  # sockets have short names
    # People see the command of a job: `python`, and not where this one lies.
    own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ.update(RAY_AUTH_MODE="token", PYTHONUNBUFFERED="1", PATH=own)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        ray = folder / "ray.log"
        start = ("start", "--head", "--block", "--num-cpus=8", "--disable-usage-stats", f"--temp-dir={folder}")
        hosts = ("--node-ip-address=127.0.0.1", "--dashboard-host=127.0.0.1")
        ports = ("--port=0", "--dashboard-port=8265", f"--ray-client-server-port={free_port()}")
        stack.enter_context(
            running(
                sys.executable, "-m", "ray.scripts.scripts", *start, *hosts, *ports,
                "--object-store-memory=300000000", log=ray, RAY_PROMETHEUS_HOST=f"http://{PROMETHEUS}",
            )
        )  # fmt: skip
        said(r"(Ray runtime started)", ray)
        session = (folder / "session_latest").resolve()
        watching, config = folder / "prometheus.log", session / "metrics" / "prometheus" / "prometheus.yml"
        said(r"(scrape)", config)
        own_place = (f"--web.listen-address={PROMETHEUS}", f"--storage.tsdb.path={folder / 'prometheus'}")
        stack.enter_context(running("prometheus", f"--config.file={config}", *own_place, log=watching))
        said(r"(ready to receive)", watching)
        for number, job in enumerate(JOBS):
            sent = ("submit", "--address", DASHBOARD, "--python", "python", "--shared", str(folder), "--detach")
            # The head takes jobs a little later than it says that it is there.
            while subprocess.run(pyrite(*sent, *job, *more, f"out={folder}/{job[0]}-{number}")).returncode:
                time.sleep(5)
        for number, (job, event) in enumerate(zip(JOBS, ("run reached", "episodes ended"), strict=True)):
            said(f"({event})", folder / f"{job[0]}-{number}" / "log.jsonl", 900)
        time.sleep(BUSY)
        token = (Path.home() / ".ray" / "auth_token").read_text().strip()
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        stack.callback(browser.close)
        size = {"width": 1500, "height": 700}
        page = browser.new_page(viewport=size, extra_http_headers={"Authorization": f"Bearer {token}"})
        for name, place in PAGES.items():
            photograph(page, f"{DASHBOARD}/{place}", out / f"{name}.png")
        page = browser.new_page(viewport=size)
        graph = {"g0.expr": QUERY, "g0.tab": "0", "g0.range_input": "5m"}
        photograph(page, f"http://{PROMETHEUS}/graph?{urllib.parse.urlencode(graph)}", out / "prometheus.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
