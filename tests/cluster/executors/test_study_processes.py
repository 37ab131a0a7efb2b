"""Runs of a study in warm processes: the same results as in the study's process."""

import time
import traceback
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cluster.commands.study import StudyExperiment
from cluster.executors.local import LocalExecutor
from cluster.executors.processes import Processes
from cluster.executors.task import Once
from cluster.runs.outcome import read_outcome
from cluster.training.study_runs import task_of
from ranking.training import RankerTraining
from tests.cluster.command_line import command

ROOT = Path(__file__).resolve().parents[3]

OPTIONS = ["ranker=static", "policy=fixed", "function=random", "selector=uniform", "training.max_epochs=1"]
WARM_UP = "cluster.training.study_runs:warm_up"


def study(base: list[str], out: Path, *more: str) -> StudyExperiment:
    experiment = StudyExperiment.new([*base, *OPTIONS, f"out={out}", "local=true", *more])
    experiment.prepare(Console(quiet=True))
    experiment.local = True
    return experiment


def test_runs_in_another_process_are_what_they_are_here(base, tmp_path):
    here, elsewhere = study(base, tmp_path / "here", "seeds=2"), study(base, tmp_path / "elsewhere", "seeds=2")
    shared = {"opened": Once("cluster.runs.artifacts:OpenedParts")}
    with Processes(1, WARM_UP, caller=False) as alone:
        while not alone.ready():
            time.sleep(0.05)
        executors = LocalExecutor(shared=shared), LocalExecutor(0, alone, shared)
        for experiment, executor in zip((here, elsewhere), executors, strict=True):
            storage = experiment.plan.storage
            tasks = [task_of(planned, experiment.artifacts, storage) for planned in experiment.waiting]
            assert [done.error for done in executor.run(tasks)] == [None, None]
    assert len(here.waiting) == 2
    for planned in here.waiting:
        one, other = (read_outcome(each.plan.storage, planned.name) for each in (here, elsewhere))
        assert one.means() == other.means()


def test_the_path_from_the_command_to_the_first_update_is_short(base, tmp_path):
    """So that a reader can follow it: a dozen calls of our own, in eight files at most."""
    paths: list[list[str]] = []
    update = RankerTraining.update

    def traced(self: RankerTraining, *arguments: Any) -> Any:
        calls = [Path(call.filename) for call in traceback.extract_stack()]
        ours = [call.relative_to(ROOT).as_posix() for call in calls if call.is_relative_to(ROOT)]
        paths.append([path for path in ours if path.startswith(("cluster/", "ranking/", "sampling/"))])
        return update(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RankerTraining, "update", traced)
        options = [*base, *OPTIONS, f"out={tmp_path / 'out'}", "local=true", "seeds=1", "concurrent=1"]
        assert command("study", *options) == 0
    assert paths[0][0] == "cluster/commands/cli.py"
    assert len(paths[0]) <= 12
    assert len(set(paths[0])) <= 8


def test_no_more_runs_at_once_than_the_study_allows_and_no_processes_on_a_cluster(monkeypatch, base, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("cluster.executors.processes.WarmProcess", lambda warm_up: pytest.fail("started"))
    for overrides in (["seeds=2", "local=false"], ["address=there"]):
        assert len(Processes.for_command(overrides, "")) == 0
    monkeypatch.setenv("RAY_ADDRESS", "there")
    assert len(Processes.for_command([], "")) == 0
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("cluster.executors.processes.WarmProcess", Ready)
    monkeypatch.setattr("cluster.executors.processes.cores", lambda: 8)
    for override, others in (("concurrent=1", 0), ("concurrent=2", 1), ("concurrent=null", 3), ("concurrent=9", 3)):
        assert len(Processes.for_command([override], "math:sqrt")) == others
    for concurrent, room in ((1, 1), (2, 2), (9, 4)):  # of a resumed study, which only its files tell
        experiment = study(base, tmp_path / str(concurrent), f"concurrent={concurrent}")
        experiment.workers = Processes(3, "math:sqrt")
        executor = experiment._executor({})
        assert isinstance(executor, LocalExecutor)
        assert executor._room() == room


class Ready:
    ready = alive = True

    def __init__(self, warm_up: str) -> None:
        assert warm_up == "math:sqrt"

    def close(self) -> None:
        self.alive = False
