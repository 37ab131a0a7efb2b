"""Lines about work that waits for what no node has, and inputs that a lost node keeps back."""

import io
import sys
import time
from typing import Any

import pytest
import ray
from ray import cloudpickle
from rich.console import Console

from pyrite.cluster.commands.list_studies import results_in
from pyrite.cluster.executors import object_store, waiting
from pyrite.cluster.executors.object_store import fetched
from pyrite.cluster.executors.ray_tasks import RayExecutor, opened
from pyrite.cluster.executors.resources import Resources, at_once, rooms
from pyrite.cluster.executors.task import LossLines, Task
from pyrite.cluster.executors.tune import TuneExecutor
from pyrite.cluster.executors.waiting import CONTINUES, ROOM, WAITS, Ask, Waits, forward_ray_events, log_wait
from pyrite.cluster.limits import WAIT_LINE_AFTER_S, WAIT_LINE_EVERY_S
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.lock import output_lock
from pyrite.cluster.output.manifest import refuse_taken
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.artifacts import OpenedParts
from pyrite.cluster.telemetry.live_table import LiveTable

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # so that no process imports what is imported here

SMALL, GPU = {"CPU": 2.0, "memory": 4e9}, {"CPU": 1.0, "GPU": 1.0}


@pytest.mark.parametrize(
    ("bundles", "nodes", "says"),
    [
        ([{"CPU": 2}], [SMALL, SMALL], None),
        ([{"CPU": 2}, {"CPU": 2}], [SMALL, SMALL], None),
        ([{"CPU": 0, "GPU": 0}], [{}], None),
        ([{"CPU": 3}], [SMALL, SMALL], "a node that the cluster does not have: it asks for 3 cores, and the largest "
         "node has 2 cores"),
        ([{"CPU": 1, "GPU": 0.5}], [SMALL, {"CPU": 1}], "it asks for 1 core and 0.5 GPUs, and the largest node has "
         "2 cores and 0 GPUs"),
        ([{"CPU": 2, "GPU": 1}], [SMALL, GPU], "it asks for 2 cores and 1 GPU, and the largest node has 1 core and "
         "1 GPU"),
        ([{"CPU": 1, "GPU": 0}], [], "it asks for 1 core, and the largest node has 0 cores"),
        ([{"memory": 8e9}], [SMALL], "it asks for 8 GB of memory, and the largest node has 4 GB of memory"),
        ([{"rack_a": 1}], [SMALL], "it asks for 1 rack_a, and the largest node has 0 rack_a"),
        ([{"CPU": 2}] * 3, [SMALL, SMALL], "nodes that the cluster does not have: it asks for 6 cores, and all 2 nodes "
         "together have 4 cores"),
    ],
)  # fmt: skip
def test_each_bundle_is_compared_with_each_node(bundles, nodes, says):
    lack = Ask("a run", tuple(bundles)).lack(nodes)
    assert (lack is None) if says is None else (lack or "").startswith("a run waits for ") and says in (lack or "")


def test_runs_are_counted_node_by_node():
    two = [{"CPU": 2.0}]
    assert rooms(two, [{"CPU": 3}, {"CPU": 3}], 10) == 2  # six cores in all, and three runs would not fit
    assert rooms([{"CPU": 1.0}, {"CPU": 2.0}], [{"CPU": 2}, {"CPU": 1}], 10) == 1
    assert rooms([{"CPU": 0.1}], [{"CPU": 1}], 20) == 10
    assert rooms(two, [{"CPU": 8}], 3) == 3
    assert at_once([two, [{"CPU": 2.0, "GPU": 1.0}]], [{"CPU": 4}, {"CPU": 3, "GPU": 1}]) == 1
    assert (at_once([], [{"CPU": 4}]), at_once([two], [{"CPU": 1}])) == (None, 1)


def test_a_line_comes_soon_again_after_minutes_and_once_there_is_room():
    now, lines = 0.0, list[tuple[float, str | None]]()
    waits = Waits(lambda line: lines.append((now, line)), clock=lambda: now)
    one, other = Ask("a run", ({"CPU": 3},)), Ask("a miner", ({"CPU": 4},))
    for now in range(0, 700, 5):  # noqa: B007  the clock
        waits.look([one, one], [SMALL])
    waits.look([one, other], [SMALL])
    assert [at for at, _ in lines] == [WAIT_LINE_AFTER_S + n * WAIT_LINE_EVERY_S for n in range(3)]
    assert WAIT_LINE_AFTER_S + waiting.ROOM_LOOK_S <= 30
    waits.look([one, other], [{"CPU": 4}])
    waits.look([], [{"CPU": 4}])
    assert lines[-1][1] is None
    assert len(lines) == 4
    now += 1
    waits.look([one], [SMALL])  # a node is gone again
    assert len(lines) == 4


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(waiting, "ROOM_LOOK_S", 0.05)
    monkeypatch.setattr(waiting, "WAIT_LINE_AFTER_S", 0.1)


@pytest.fixture
def grows(monkeypatch):
    """A cluster whose nodes have too few cores, until a line has said so."""
    lines = list[str | None]()
    monkeypatch.setattr(waiting, "nodes_alive", lambda: [{"CPU": 2.0 if lines else 0.5}])
    return lines


def sleeps(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@pytest.mark.by_day(2)  # tasks and trials
@pytest.mark.parametrize("kind", ["tasks", "actors", "trials"])
def test_every_executor_says_what_it_waits_for(kind, ray_session, soon, grows):
    class Lines(LossLines):
        def waits(self, line: str | None) -> None:
            grows.append(line)

    task = Task("one", sleeps, {"seconds": 1.5}, Resources(cpu=1), label="reading mine")
    executor = {
        "tasks": lambda: RayExecutor(),
        "actors": lambda: RayExecutor(actors=Resources(cpu=1), name="ShardMiner"),
        "trials": lambda: TuneExecutor(),
    }[kind]()
    watch = Lines(Console(quiet=True), "shard", None)
    list(executor.run([task], watch=watch))
    who = {"tasks": "reading mine", "actors": "a worker", "trials": "a run"}[kind]
    assert (grows[0] or "").startswith(f"{who} waits for a node that the cluster does not have: it asks for 1 core, ")
    assert grows[1:] == [None]


def test_a_wait_is_in_the_log_on_the_table_and_in_the_list(tmp_path):
    storage, shown = Storage(str(tmp_path / "s")), list[str]()
    with output_lock(storage):
        log_wait("a run waits", shown.append, EventLog(storage), verb="study")
        (event,) = EventLog.read(storage)
        assert (event["event"], event["says"], shown) == (WAITS, "a run waits", ["a run waits"])
        ((listed),) = results_in(tmp_path)
        assert (listed.verb, listed.state) == ("study", "waiting")  # before its configuration is written
        log_wait(None, shown.append, EventLog(storage))
        assert EventLog.read(storage)[-1]["event"] == CONTINUES
        assert shown[-1] == ROOM
    assert not list(results_in(tmp_path))  # interrupted before it began
    refuse_taken(storage)  # and the command may be given again
    console = Console(file=io.StringIO(), width=100)
    table = LiveTable(console, 1, 0, "AP")
    table.waits = "a run waits for a node"
    console.print(table.render())
    assert "a run waits for a node" in console.file.getvalue()  # type: ignore[attr-defined]


def test_rays_own_words_about_the_cluster_are_passed_on_and_logs_of_workers_are_not():
    from ray._private.ray_logging import global_worker_stdstream_dispatcher as dispatcher

    said, now = list[str](), [1000.0]
    before = dispatcher.handlers
    try:
        forward_ray_events(said.append, clock=lambda: now[0])
        error = "Error: No available node types can fulfill resource request {'CPU': 3.0}."
        dispatcher.emit({"pid": "autoscaler", "lines": [f":event_summary:{error}", "a line of its log"]})
        dispatcher.emit({"pid": 17, "lines": [":event_summary:what a worker prints"]})
        assert said == [f"Ray: {error}"]
        for later in (60.0, 300.0):  # Ray repeats it soon
            now[0] = 1000.0 + later
            dispatcher.emit({"pid": "autoscaler", "lines": [f":event_summary:{error}"]})
        assert said == [f"Ray: {error}"] * 2
    finally:
        dispatcher.handlers = before


@pytest.fixture
def kept_back(ray_session, monkeypatch):
    """A reference whose value does not come, and a cluster that has lost a node."""
    nodes = ray.nodes()
    monkeypatch.setattr(object_store, "INPUTS_S", 0.2)
    monkeypatch.setattr(ray, "nodes", lambda: [*nodes, {**nodes[0], "Alive": False}])
    task: Any = ray.remote(num_cpus=0)(sleeps)
    reference = task.remote(3600.0)
    yield reference
    ray.cancel(reference, force=True)


def test_inputs_that_a_lost_node_keeps_back_are_opened_elsewhere(kept_back):
    class Cache:
        def part(self, config: Any, name: str) -> str:
            return f"{name} of the cache"

    there, lines = ray.put("stored"), list[str]()
    assert fetched({"a": there, "b": kept_back, "c": 3, "d": there}) == {"a": "stored", "c": 3, "d": "stored"}
    with pytest.raises(ray.exceptions.ObjectFetchTimedOutError):  # a loss, after which the work starts again
        opened({"a": there, "b": {"c": kept_back}})
    parts = OpenedParts({"1": there, "2": kept_back}, Cache())  # type: ignore[arg-type]
    config = {"resources": {"workers": 1}}
    assert parts.of(config, {"a": "1", "b": "2"}, lines.append) == {"a": "stored", "b": "b of the cache"}
    assert lines == ["a node is lost, and b did not come from it: opened elsewhere"]


def test_inputs_that_are_only_slow_are_waited_for(ray_session, monkeypatch):
    monkeypatch.setattr(object_store, "INPUTS_S", 0.1)
    task: Any = ray.remote(num_cpus=0)(sleeps)
    assert fetched({"a": task.remote(0.5)}) == {"a": 0.5}
