"""The main job, a learning, a mining and a pool on three nodes whose head has no core: the tables of one process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster.conftest import write_runs
from tests.faults.test_kills import OF_RUNS, frames
from tests.made_up import write_beir
from tests.nodes import Nodes

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
TIMES = ("seconds", "memory")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A head without cores, and two nodes of three: six cores are declared, however many this machine has."""
    made = Nodes(0, 3, 3)
    yield made
    assert made.close() == []


def ended(command: subprocess.Popen[bytes], log: Path) -> None:
    assert command.wait(1200) == 0, log.read_text(errors="replace")[-3000:]


def alone(*arguments: str, log: Path) -> None:
    """Run a command without a cluster."""
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    with log.open("wb") as output:
        command = [sys.executable, "-m", "pyrite", *arguments]
        ended(subprocess.Popen(command, env=environment, stdout=output, stderr=output), log)


def read_both(nodes: Nodes, folder: Path, overrides: list[str], here: str, *names: str) -> None:
    """Run a command on the cluster and in one process, and compare what both leave."""
    verb = overrides[0]
    ended(nodes.start(*overrides, f"out={folder / verb}", log=folder / "log"), folder / "log")
    alone(*overrides, here, f"out={folder / 'alone'}", log=folder / "log_alone")
    read = frames(*names, without=TIMES)
    assert read(folder / verb) == read(folder / "alone")


def test_the_main_job_has_the_same_tables(nodes, own_cache, tmp_path):
    # verdict.csv names the fastest of equal methods.
    job = ["study", "scale=tiny", "dashboard=false"]
    read_both(nodes, tmp_path, job, "local=true", "summary.csv", "trials.parquet", "queries.parquet")


def test_a_mining_has_the_same_rows(nodes, own_cache, tmp_path):
    collection = ["collection=beir", f"collection.path={write_beir(tmp_path / 'beir')}"]
    job = ["mine", *collection, "vectors=random", "encoding.min_count=1", "function=bm25", "count=1", "queries=all"]
    read_both(nodes, tmp_path, [*job, "workers=3", "shard=4"], "workers=1", "ids/*.parquet")


def test_a_pool_has_the_same_tables(nodes, own_cache, tmp_path):
    pool = write_runs(tmp_path / "pool_files")
    job = ["pool", f"runs={pool / 'runs'}", f"qrels={pool / 'qrels.txt'}", "depth=10", "dashboard=false"]
    job += ["method=docid,mtf,mm,bla", "seeds=5"]
    read_both(nodes, tmp_path, job, "local=true", "summary.csv", "curves.parquet", "totals.parquet", "budgets.parquet")


def test_an_agent_has_the_same_weights_for_any_number_of_workers_and_a_lost_one(nodes, own_cache, tmp_path):
    collection = ["collection=beir", f"collection.path={write_beir(tmp_path / 'beir')}", *OF_RUNS]
    job = [*collection, "ranker.preset=tiny", "training.max_epochs=3", "copies=4", "episodes=24", "random_baseline=2",
           "validation_sample.size=4", "validation_sample.every=2", "save_every=1"]  # fmt: skip
    results: dict[str, Any] = {}
    read = frames("episodes.parquet", "agent.safetensors")
    for name, workers in (("0", 0), ("1", 1), ("2", 2), ("4", 4), ("lost", 4)):
        log = tmp_path / f"log-{name}"
        learning = nodes.start("learn", *job, f"workers={workers}", f"out={tmp_path / name}", log=log)
        if name == "lost":
            kill_a_worker(nodes, learning, tmp_path / name)
        ended(learning, log)
        results[name] = read(tmp_path / name)
    for name, result in results.items():
        assert result == results["0"], f"workers={name}"


def kill_a_worker(nodes: Nodes, learning: subprocess.Popen[bytes], out: Path) -> None:
    """End a process that steps copies, in the middle of the learning."""
    deadline, log, runners = time.monotonic() + 300, out / "log.jsonl", list[psutil.Process]()
    while not runners or b"episodes ended" not in log.read_bytes():
        assert learning.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
        runners = [process for process, title in nodes.processes().items() if "LockstepRunner" in title]
    runner = runners[0]
    runner.send_signal(signal.SIGKILL)
    time.sleep(1)
    assert not runner.is_running() or runner.status() == "zombie"
