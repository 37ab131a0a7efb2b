"""Where the bundles of hosts, trials and workers lie, on machines that are simulated here."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.nodes import Nodes, nodes

RACKS = {"rack_a": 1.0}
"""What each of the machines calls its own."""
RUN = ["policy=fixed", "function=random", "selector=uniform", "training.max_epochs=2000", "training.patience=2000"]
DENSE = ["ranker=dssm", "ranker.preset=tiny", "function=dense", "function.dense.refresh.mode=lagged", "index.cpu=0.5"]
LEARN = [
    "copies=2",
    "workers=2",
    "hosts=2",
    "episodes=1000",
    "random_baseline=0",
    "validation_sample.size=4",
    "validation_sample.every=2",
]
JOBS: dict[str, list[str]] = {
    "hosts": ["learn", *LEARN],
    "trials": ["study", *RUN, "seeds=2"],
    "workers": ["study", *RUN, "seeds=1", "resources.workers=2"],
    "index": ["study", *RUN, *DENSE, "seeds=1"],
}
"""Each lasts until its bundles have been seen."""


@pytest.fixture(scope="module", params=[2, 4, 8])
def machines(request: pytest.FixtureRequest, kills: int) -> Iterator[Nodes]:
    """So many machines of four cores."""
    with nodes(*[4] * request.param, resources=RACKS) as cluster:
        yield cluster


def places(cluster: Nodes) -> list[dict[str, Any]]:
    """Of each placement group that has its room: its strategy, and the machines of its bundles."""
    groups = cluster.cluster.global_state.placement_group_table().values()
    return [
        {"strategy": each["strategy"], "machines": [node for _, node in sorted(each["bundles_to_node_id"].items())],
         "asked": list(each["bundles"].values())}
        for each in groups if each["state"] == "CREATED"
    ]  # fmt: skip


def index_of(cluster: Nodes) -> str:
    """The machine of the index that serves a run; "" where there is none yet."""
    actors = cluster.cluster.global_state.actor_table(None).values()
    alive = [each for each in actors if each["State"] == "ALIVE" and each["ActorClassName"] == "NegativeIndexActor"]
    return alive[0]["Address"]["NodeID"] if alive else ""


def seen(cluster: Nodes, job: str, placement: str, base: list[str], out: Path) -> list[dict[str, Any]]:
    """Start a job, wait until all that it asks for is placed, and end it."""
    count = 2 if job == "trials" else 1
    log = out.with_suffix(".log")
    placed = [f"resources.placement={placement}", "resources.custom={rack_a: 0.5}"]
    driver = cluster.start(JOBS[job][0], *base, *JOBS[job][1:], *placed, f"out={out}", log=log)
    try:
        deadline = time.monotonic() + 120
        while not (found := [each for each in places(cluster) if "memory" not in each["asked"][0]])[count - 1 :]:
            assert time.monotonic() < deadline, log.read_text()
            assert driver.poll() is None, log.read_text()
            time.sleep(0.1)
        while job == "index" and not (beside := index_of(cluster)):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        assert job != "index" or beside == found[0]["machines"][0]  # the run's own bundle
    finally:
        driver.send_signal(signal.SIGINT)
        driver.wait()
    deadline = time.monotonic() + 60
    while places(cluster):
        assert time.monotonic() < deadline, "placement groups outlive their job"
        time.sleep(0.1)
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", list(JOBS))
def test_what_belongs_together_is_packed_or_spread(job: str, machines: Nodes, base: list[str], tmp_path: Path) -> None:
    packed = seen(machines, job, "pack", base, tmp_path / "packed")
    spread = seen(machines, job, "spread", base, tmp_path / "spread")
    assert {each["strategy"] for each in packed} == {"PACK"}
    assert {each["strategy"] for each in spread} == {"SPREAD"}
    # A machine has one of its rack, and a host, trial or worker takes half of it: two of them fit.
    for group in packed:
        assert len(set(group["machines"])) == 1
    for group in spread:
        many = min(len(group["machines"]), len(machines.cluster.list_all_nodes()))
        assert len(set(group["machines"])) == many
    heavy = [bundle for group in packed for bundle in group["asked"] if "rack_a" in bundle]
    assert Counter(bundle["rack_a"] for bundle in heavy) == {0.5: 1 if job == "index" else 2}
