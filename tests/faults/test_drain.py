"""Commands on a machine that is taken away on notice: they go on elsewhere from where they were told to go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.runs.progress import PROGRESS_EVERY_S
from tests.faults.disturbed import at_work, until
from tests.faults.test_kills import frames
from tests.nodes import nodes

SOON = 12 * PROGRESS_EVERY_S
"""Seconds after which nothing of ours works on a machine that is to be taken away."""
EPOCHS = {1: 4000, 2: 600}
"""Of a run, by its workers: long enough to be told."""
EPISODES = 120
"""Of a learning, likewise."""


def events(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def left_in_order(command: Sequence[str], cpus: tuple[float, ...], began: str, out: Path) -> None:
    """Run a command, and take a machine away on notice once it is at work there."""
    log = out.parent / "log"
    with nodes(*cpus) as cluster:
        driver = cluster.start(*command, f"out={out}", log=log)
        until(
            lambda: (out / "log.jsonl").exists() and any(each["event"] == began for each in events(out)), 180, "began"
        )
        (going,) = (node for node in cluster.workers if at_work(cluster, node))
        cluster.executors.lost_process(going, 600)
        cluster.add(cpus[-1])
        until(lambda: not at_work(cluster, going), SOON, f"still there: {at_work(cluster, going)}")
        assert driver.poll() is None, "it has ended before it was told"
        cluster.lose(going)
        assert driver.wait(300) == 0, log.read_text()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_goes_on_elsewhere_from_where_it_was_told(
    workers: int, base: list[str], kills: int, tmp_path: Path
) -> None:
    epochs = [f"training.max_epochs={EPOCHS[workers]}", f"training.patience={EPOCHS[workers]}"]
    one = ["policy=fixed", "function=random", "selector=uniform", "seeds=1", "retries=0", "save_every=100000"]
    study = ["study", *base, *epochs, *one, f"resources.workers={workers}"]
    # The driver's node has room for what a run with workers waits in alone.
    with nodes(0, workers) as cluster:
        calm = cluster.start(*study, f"out={tmp_path / 'calm'}", log=tmp_path / "log")
        assert calm.wait(300) == 0, (tmp_path / "log").read_text()
    left_in_order(study, (0, workers), "run reached", tmp_path / "told")
    for file in ("summary.csv", "queries.parquet"):
        read = pl.read_csv if file.endswith("csv") else pl.read_parquet
        assert read(tmp_path / "told" / file).equals(read(tmp_path / "calm" / file)), file
    told = events(tmp_path / "told")
    assert not [each for each in told if each["event"] in ("run lost", "run failed")]
    if workers == 1:
        assert [each["event"] for each in told].count("run moved") == 1
        # No state was kept but when it was told, so that a loss would have begun at the first epoch.
        (again,) = (each for each in told if each["event"] == "run went on")
        assert again["after"] > 0
        assert again["repeats"] == 0
    else:
        said = [each["line"] for each in told if each["event"] == "run says"]
        assert any("is to be taken away" in line for line in said)
        reached = [each["step"] for each in told if each["event"] == "run reached"]
        assert reached == sorted(set(reached))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("hosts", [0, 1])
def test_a_learning_goes_on_elsewhere_and_repeats_nothing(
    hosts: int, base: list[str], kills: int, tmp_path: Path
) -> None:
    learn = [
        "learn", *base, "copies=2", f"episodes={EPISODES}", "random_baseline=0", "workers=2", f"hosts={hosts}",
        "validation_sample.size=4", "validation_sample.every=2", "save_every=100000", "dashboard=false",
    ]  # fmt: skip
    with nodes(0, 3) as cluster:
        calm = cluster.start(*learn, f"out={tmp_path / 'calm'}", log=tmp_path / "log")
        assert calm.wait(300) == 0, (tmp_path / "log").read_text()
    left_in_order(learn, (0, 3), "episodes ended", tmp_path / "told")
    results = frames("agent.safetensors", "episodes.parquet")
    assert results(tmp_path / "told") == results(tmp_path / "calm")
    lost = [each["says"] for each in events(tmp_path / "told") if each["event"] == "lost"]
    assert len(lost) == 1
    assert "is to be taken away" in lost[0]
