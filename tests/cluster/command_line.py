"""The command line, as tests run it: in this process, or in one that is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from cluster.commands.cli import main
from cluster.statistics.summary import COSTS


def command(*arguments: str) -> int:
    """Run a command in this process, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def summary_of(folder: Path) -> str:
    """The summary of a study without what its runs cost, which differs each time they are trained."""
    return pl.read_csv(folder / "summary.csv", infer_schema=False).drop(COSTS, strict=False).write_csv()


def this_ray() -> str:
    """The option with which a command in another process uses the test run's Ray."""
    import ray

    return f"address={ray.get_runtime_context().gcs_address}"


def kill_when(ready: Callable[[], bool], *arguments: str) -> None:
    """Start a command in a process of its own and kill it, without warning, as soon as `ready`.

    It starts a Ray of its own, which takes as long as all the rest, unless it is given `this_ray()`.
    """
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    if any(argument.startswith("address=") for argument in arguments):
        environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # the test run's Ray listens on loopback alone
    process = subprocess.Popen(
        [sys.executable, "-m", "cluster", *arguments],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and process.poll() is None and not ready():
            time.sleep(0.05)
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline, "it never came so far"
    finally:
        process.kill()
        process.wait()
        # Ray's processes of the killed command notice by themselves; this is for slow machines.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
