"""Trials that lose their process, and those that fail by themselves; how many run at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from ray import cloudpickle
from ray.tune.search import ConcurrencyLimiter, Searcher
from rich.console import Console

from pyrite.cluster.commands.mine import MINE
from pyrite.cluster.commands.resuming import started
from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.lost_process import KILLED, NOTICE, NodeDraining
from pyrite.cluster.executors.resources import Resources, at_once, check_bundle, check_demand, demand, workers_bundles
from pyrite.cluster.executors.task import Context, Done, ListedTasks, Task, TaskLost, Watch
from pyrite.cluster.executors.tune import AFTER_ANOTHER, THREAD_END_S, TuneExecutor, _Events, _placement, _Trials
from pyrite.cluster.executors.tune_schedulers import Retries, more_of_a_machine
from pyrite.cluster.executors.worker import TaskOrigin
from pyrite.cluster.index.encoder_pool import EncoderOptions
from pyrite.cluster.limits import TASK_RESTARTS
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.storage import Storage, Unwritable
from pyrite.cluster.plan.sweep import Planned, identity, plan, points
from pyrite.cluster.pools.trial import resources_of
from pyrite.cluster.telemetry.live_table import LiveTable
from pyrite.cluster.telemetry.run_watch import RunWatch, raise_unwritable
from pyrite.cluster.telemetry.tracking.tracking import tracked
from pyrite.cluster.training.coordinator import _scaling
from pyrite.cluster.training.study_runs import task_of
from pyrite.ranking.errors import BadInput

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FULL = Unwritable("the disk is full", "out/x", "make room")


def trial(
    name: str, folder: str, leaves: int = 0, killed: int = 0, raises: int = 0, eats: int = 0, kind: str = ""
) -> dict[str, Any]:
    """Leave, be killed, raise or take all memory, as often as requested; the tries are files of a folder."""
    tried = len(list(Path(folder).glob(f"{name}-*")))
    (Path(folder) / f"{name}-{tried}").touch()
    if tried < leaves:
        raise NodeDraining
    if tried < killed:
        os.kill(os.getpid(), signal.SIGKILL)
    if tried < eats:
        eaten = np.ones(int(0.12 * psutil.virtual_memory().total), np.uint8)
        time.sleep(60)
        del eaten
    if tried < killed + raises:
        raise {"": ValueError("by itself"), "input": BadInput("is bad"), "full": FULL}[kind]
    return {"best": 1.0}


class Heard(Watch):
    """Keeps what it hears of runs that start again."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def retrying(self, key: str, error: Exception) -> None:
        self.heard.append((key, str(error)))

    def moved(self, key: str, reason: str) -> None:
        self.heard.append((key, reason))


def ended(folder: Path, tasks: list[Task], retries: int, concurrent: int | None) -> tuple[dict[str, str], LiveTable]:
    """Run tasks; return the errors of those that failed, and what was shown."""
    storage, console = Storage(str(folder / "out")), Console(quiet=True)
    with LiveTable(console, len(tasks), 0, "AP@10") as table, tracked([], storage, console, "study", False) as tracking:
        watch, failed = RunWatch(table, tracking), []
        for done in TuneExecutor(concurrent=concurrent).run(tasks, watch=watch, retries=retries):
            raise_unwritable(done)
            failed += [done.task.key] if done.error else []
        assert sorted(failed) == sorted(watch.errors)
        return watch.errors, table


def errors_of(
    folder: Path, runs: Mapping[str, Mapping[str, Any]], retries: int, concurrent: int | None = None
) -> tuple[dict[str, str], LiveTable]:
    tasks = [
        Task(name, trial, {"name": name, "folder": str(folder), **options}, Resources(cpu=0.1))
        for name, options in runs.items()
    ]
    return ended(folder, tasks, retries, concurrent)


@pytest.mark.nightly
def test_only_errors_of_a_body_count_against_its_retries_and_bad_input_is_not_tried_again(ray_session, tmp_path):
    runs: dict[str, dict[str, Any]] = {
        "failing": {"raises": 2},
        "both": {"killed": 1, "raises": 1},
        "bad": {"killed": 1, "raises": 9, "kind": "input"},
    }
    errors, table = errors_of(tmp_path, runs, 1)
    assert errors == {"failing": "ValueError: by itself", "bad": "is bad"}
    assert {name: len(list(tmp_path.glob(f"{name}-*"))) for name in runs} == {"failing": 2, "both": 3, "bad": 2}
    assert (table.done, table.failed, table.retried) == (3, 2, 4)


@pytest.mark.nightly
def test_a_run_whose_machine_will_be_taken_away_moves_as_often_as_that_happens(ray_session, tmp_path):
    errors, table = errors_of(tmp_path, {"moving": {"leaves": TASK_RESTARTS + 2}}, 0)
    assert errors == {}
    assert (table.done, table.failed, table.retried) == (1, 0, 0)
    events = EventLog.read(Storage(str(tmp_path / "out")))
    moved = [event for event in events if event["event"] == "run moved"]
    assert len(moved) == TASK_RESTARTS + 2
    assert NOTICE in moved[0]["reason"]
    assert "run lost" not in {event["event"] for event in events}


@pytest.mark.nightly
def test_what_cannot_be_written_ends_all_trials(ray_session, tmp_path):
    runs = {f"run{number}": {"raises": 9, "kind": "full"} for number in range(5)}
    with pytest.raises(Unwritable, match=r"out/x: the disk is full; make room"):
        errors_of(tmp_path, runs, 3, concurrent=1)
    assert [file.name for file in tmp_path.glob("run*")] == ["run0-0"]


def killed_for_memory(file: str, wants: float, context: Context) -> dict[str, Any]:
    """Be killed as by the memory monitor as long as it runs on fewer cores than it wants."""
    taken = ray.get_runtime_context().get_assigned_resources()["CPU"]
    assert os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] == THREAD_END_S  # else the next trial may be dropped
    context.report({"epoch": 1, "max_epochs": 2, "validation": 0.0, "best": 0.0})
    with open(file, "a") as lines:
        lines.write(f"{taken:g} ")
    if taken < wants:
        raise ray.exceptions.OutOfMemoryError("Task was killed due to the node running low on memory.")
    return {"best": 0.0}


@pytest.mark.nightly
def test_a_trial_killed_for_memory_takes_more_of_a_machine_and_leaves_the_others_alone(ray_session, tmp_path):
    cores = int(ray.cluster_resources()["CPU"])
    wants = {"light": 0, "heavy": 1, "fatal": cores + 1}
    tasks = [
        Task(name, killed_for_memory, {"file": str(tmp_path / name), "wants": wanted}, Resources(cpu=0.5))
        for name, wanted in wants.items()
    ]
    errors, _ = ended(tmp_path, tasks, 0, None)
    assert list(errors) == ["fatal"]
    assert "killed by Ray's memory monitor although it had a machine for itself; give it" in errors["fatal"]
    assert (tmp_path / "light").read_text() == "0.5 "
    assert (tmp_path / "heavy").read_text() == "0.5 1 "
    assert (tmp_path / "fatal").read_text().split()[-1] == f"{cores}"
    events = EventLog.read(Storage(str(tmp_path / "out")))
    lost = [event["reason"] for event in events if event["event"] == "run lost" and event["run"] == "heavy"]
    assert lost == ["killed by Ray's memory monitor"]


def test_what_is_reserved_doubles_up_to_the_largest_machine_that_fits(monkeypatch):
    machines = [{"CPU": 4, "GPU": 2, "memory": 32e9}, {"CPU": 16, "memory": 64e9}, {"memory": 99e9}]
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": each} for each in machines])

    def larger(**own: float) -> dict[str, float] | None:
        found = more_of_a_machine(Resources(**own, beside=({"CPU": 1},), strategy="SPREAD"))
        assert found is None or (found.beside, found.strategy) == (({"CPU": 1},), "SPREAD")
        return found and found.bundle()

    for cpus, more in ((3, 6), (12, 16), (16, None)):
        assert larger(cpu=cpus) == (more and {"CPU": more, "GPU": 0})
    assert larger(cpu=1, gpu=0.75) == {"CPU": 2, "GPU": 1}
    assert larger(cpu=1, memory=20e9) == {"CPU": 1, "GPU": 0, "memory": 40e9}
    assert larger(cpu=1, gpu=1, memory=32e9) is None


def test_a_kill_for_memory_with_which_tune_ends_repeats_what_ran(monkeypatch):
    """What it ended alone takes more of a machine; the others run as before, also when the study's time is over."""
    over = False
    scheduler = Retries()
    watch = Heard()
    trials = _Trials(ListedTasks(Task(name, dict) for name in "abc"), watch, lambda: over, scheduler)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 2}}])
    monkeypatch.setattr("pyrite.cluster.executors.tune.killed_processes", lambda: {("10.0.0.1", 7)})
    trials.suggest("1"), trials.suggest("2")
    trials.places = {"1": ("10.0.0.1", 6), "2": ("10.0.0.1", 7)}
    over = True
    trials.run_again(ray.exceptions.OutOfMemoryError("full"))
    assert watch.heard == [("a", AFTER_ANOTHER), ("b", KILLED)]
    tasks = [cloudpickle.loads(trials.suggest(name)["task"])[0] for name in "34"]
    assert [(task.key, task.resources.cpu) for task in tasks] == [("a", 1), ("b", 2)]
    assert trials.suggest("5") == Searcher.FINISHED  # c has not begun
    trials.places = {"4": ("10.0.0.1", 7)}
    trials.run_again(ray.exceptions.OutOfMemoryError("full"))
    assert "although it had a machine for itself" in str(trials.done[0].error)
    assert [task.key for task in trials.again] == ["a"]


class Unrecorded(Watch):
    def ended(self, done: Done) -> None:
        raise LookupError(f"no place for {done.task.key}")


@pytest.mark.nightly
def test_an_end_that_can_not_be_recorded_ends_all_trials_and_is_raised(ray_session):
    """Tune would take the error for one of the trial, and run it again."""
    executor = TuneExecutor(concurrent=1)
    with pytest.raises(LookupError, match="no place for a"):
        list(executor.run([Task(name, dict) for name in "abc"], watch=Unrecorded()))


def test_after_an_end_that_can_not_be_recorded_nothing_begins():
    trials = _Trials(ListedTasks([Task(name, dict) for name in "abc"]), Unrecorded(), lambda: False, Retries())
    trials.suggest("1")
    trials.on_trial_complete("1", {})
    assert str(trials.error) == "no place for a"
    assert _Events(trials, ConcurrencyLimiter(trials, 1), None).stop_all()
    assert trials.suggest("2") == Searcher.FINISHED


def test_what_ends_tune_again_and_again_is_raised(monkeypatch):
    monkeypatch.setattr("pyrite.cluster.executors.tune.killed_processes", set)
    trials = _Trials(ListedTasks([]), Watch(), lambda: False, Retries())
    loss = ray.exceptions.ObjectLostError("1", None, "")
    for _ in range(TASK_RESTARTS - 1):
        trials.run_again(loss)
    with pytest.raises(ray.exceptions.ObjectLostError):
        trials.run_again(loss)
    trials.scheduler.attempts.reached("a", 1)
    trials.run_again(loss)


@pytest.mark.nightly
def test_rays_memory_monitor_ends_a_process_and_the_run_goes_on(tmp_path):
    """In a Ray of its own, whose monitor takes any use for too much as long as a file is there."""
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})
import pyrite.cluster, ray, psutil
from pathlib import Path
from tests.cluster.executors import test_tune
memory = psutil.virtual_memory()
most = (memory.total - memory.available) / memory.total + 0.1
asked = {{"memory_usage_threshold": most, "memory_monitor_refresh_ms": 100}}
ray.init(address="local", num_cpus=2, include_dashboard=False, _system_config=asked)
errors, table = test_tune.errors_of(Path({str(tmp_path)!r}), {{"hungry": {{"eats": 1}}, "modest": {{}}}}, 0)
assert errors == {{}}, errors
print("RETRIED", table.retried)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "RETRIED 1" in ended.stdout
    events = EventLog.read(Storage(str(tmp_path / "out")))
    lost = [(event["run"], event["reason"]) for event in events if event["event"] == "run lost"]
    assert lost == [("hungry", KILLED)]
    assert len(list(tmp_path.glob("hungry-*"))) == 2


@pytest.mark.nightly
def test_a_run_that_is_lost_again_and_again_is_given_up(ray_session, tmp_path, monkeypatch):
    monkeypatch.setattr("pyrite.cluster.executors.task.TASK_RESTARTS", 2)
    errors, _ = errors_of(tmp_path, {"fatal": {"killed": 99}}, 0)
    assert list(errors) == ["fatal"]
    assert len(list(tmp_path.glob("fatal-*"))) == 2


def test_as_many_go_at_once_as_the_cluster_has_room_for_and_one_lost_for_good_has_an_error(ray_session, monkeypatch):
    rooms = iter([3, 1, None])
    trials = _Trials(ListedTasks(Task(name, dict) for name in "abcdef"), Watch(), lambda: False, Retries())
    limiter = ConcurrencyLimiter(trials, 2)
    monkeypatch.setattr("pyrite.cluster.executors.tune.ROOM_LOOK_S", 0)
    watch = _Events(trials, limiter, lambda nodes: next(rooms) if nodes[0]["CPU"] else 0)
    watch.on_step_begin(0, [])
    assert [limiter.suggest(name) is not None for name in "1234"] == [True, True, True, False]
    watch.on_step_begin(1, [])
    limiter.on_trial_complete("1")
    assert limiter.suggest("5") is None
    watch.on_step_begin(2, [])
    assert [limiter.suggest(name) is not None for name in "678"] == [True, True, True]
    assert [done.task.key for done in trials.done] == ["a"]
    trials = _Trials(ListedTasks([Task("a", dict)]), Watch(), lambda: False, Retries())
    assert trials.suggest("1")["run"] == {"name": "a"}
    trials.on_trial_complete("1", error=True)
    assert isinstance(trials.done[0].error, TaskLost)
    assert isinstance(trials.done[0], Done)


DENSE = ["ranker=bi_encoder", "ranker.checkpoint=none", "function=dense", "function.dense.refresh.mode=lagged"]


def placement(task: Task) -> Any:
    return _placement({"task": cloudpickle.dumps((task, TaskOrigin()))})


def placed(*overrides: str) -> Any:
    """The placement of a run's trial."""
    artifacts: Any = SimpleNamespace(provenance=lambda config: {}, keys=lambda config: {})
    return placement(task_of(Planned("run", (), (), compose(list(overrides))), artifacts, Storage("/nowhere")))


def pooled(*overrides: str) -> dict[str, float]:
    (only,) = placement(Task("", "", {}, resources_of(compose(list(overrides), "pool")))).bundles
    return dict(only)


def test_a_trial_with_its_encoders_and_ray_trains_workers_are_packed_or_spread():
    packed = placed(*DENSE, "index.encoders=2", "index.cpu=0.5")
    assert (packed.bundles, packed.strategy) == ([{"CPU": 1}, {"CPU": 0.5}, {"CPU": 0.5}], "PACK")
    assert placed("resources.placement=spread").strategy == "SPREAD"
    asked = compose(["resources.placement=spread", "resources.workers=3", "resources.custom={rack_a: 1}"])["resources"]
    scaling = _scaling(asked)
    assert (scaling.placement_strategy, scaling.resources_per_worker["rack_a"]) == ("SPREAD", 1)
    assert EncoderOptions.of(compose([*DENSE, "resources.placement=spread"])).spread
    assert not EncoderOptions.of(compose(DENSE)).spread


def test_what_a_cluster_calls_its_own_is_asked_for_by_each_process_and_no_part_of_a_run():
    asked = compose(["resources.custom={rack_a: 0.5}", "resources.cpu=2"])["resources"]
    assert Resources.of(asked).bundle() == Resources.of_run(asked).bundle() == {"CPU": 2, "GPU": 0, "rack_a": 0.5}
    four = asked | {"workers": 4}
    assert demand(four) == {"CPU": 8, "GPU": 0, "rack_a": 2}
    assert at_once([workers_bundles(four)], [{"CPU": 64, "rack_a": 5}]) == 2
    with pytest.raises(BadInput, match=r"^resources.custom.rack_a: a run asks for 2 and this machine has 1"):
        check_demand(four, {"CPU": 8, "rack_a": 1})
    elsewhere = ["resources.placement=spread", "resources.custom={rack_a: 1}"]
    assert identity(compose(elsewhere)) == identity(compose([]))
    (one,) = plan(*points([[]], [], elsewhere), [], [0])
    (other,) = plan(*points([[]], [], []), [], [0])
    assert one.name == other.name


def test_pooling_and_mining_ask_for_what_a_cluster_calls_its_own():
    own = ["custom={rack_a: 0.5}", "memory=2"]
    method = pooled(*own, "cpu=2")
    assert method == {"CPU": 2, "memory": 2e9, "rack_a": 0.5}
    mined = Resources.of(compose([*own, "workers=2", "gpu=0.5"], "mine")).ray_options()
    assert mined == {"num_cpus": 1, "num_gpus": 0.5, "memory": 2_000_000_000, "resources": {"rack_a": 0.5}}
    assert pooled("cpu=0.5") == {"CPU": 0.5}
    assert Resources.of(compose([], "mine")).ray_options() == {"num_cpus": 1, "num_gpus": 0}
    with pytest.raises(BadInput, match=r"^custom.rack_a: a method asks for 0.5 and this machine has 0"):
        check_bundle(method, {"CPU": 8, "memory": 8e9}, "a method")
    with pytest.raises(BadInput, match="mines in this process"):  # one worker reserves nothing
        started(MINE, ["custom={rack_a: 1}"])


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        *(("config", f"resources.{wrong}") for wrong in ("placement=tight", "custom={rack_a: 0}", "custom=3")),
        *((verb, wrong) for verb in ("pool", "mine") for wrong in ("custom={rack_a: 0}", "custom=3", "memory=0")),
    ],
)
def test_what_can_not_be_asked_for_is_refused(verb, wrong):
    with pytest.raises(BadInput, match=wrong.split("=")[0]):
        compose([wrong], verb)
