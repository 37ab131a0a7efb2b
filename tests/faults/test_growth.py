"""A study on a cluster that grows, and shrinks again and again."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.faults.disturbed import at_work, until
from tests.nodes import nodes

SOON = 60.0
"""Seconds after which a machine that has joined must be at work."""
EPOCHS = 600
"""Of a run: a few seconds."""


def summary(out: Path) -> pl.DataFrame:
    return pl.read_csv(out / "summary.csv")


@pytest.mark.timeout(600)
def test_a_machine_that_joins_is_used_and_one_that_is_lost_fails_no_run(
    base: list[str], kills: int, tmp_path: Path
) -> None:
    study = [
        "study", *base, "policy=fixed", "function=random", "selector=uniform", "seeds=3", "retries=0",
        f"training.max_epochs={EPOCHS}", f"training.patience={EPOCHS}",
    ]  # fmt: skip
    log = tmp_path / "log"
    with nodes(1) as cluster:
        assert cluster.start(*study, f"out={tmp_path / 'calm'}", log=log).wait(240) == 0, log.read_text()
        driver = cluster.start(*study, f"out={tmp_path / 'lossy'}", log=log)
        until(lambda: at_work(cluster, None), 120, "the study never began")
        for _ in range(min(kills, 3)):
            joined = cluster.add(1)
            until(lambda node=joined: at_work(cluster, node), SOON, "the machine was not used")
            assert driver.poll() is None, "the study has ended without the machine"
            cluster.lose(joined)
        assert driver.wait(240) == 0, log.read_text()
    assert summary(tmp_path / "lossy").equals(summary(tmp_path / "calm"))
