"""Tests of how the process of a training ends, and the command that it runs."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyrite.cluster.executors import process_end
from pyrite.cluster.executors.processes import ProcessLost
from pyrite.cluster.training import trainer_runs
from tests.cluster.waiting import until
from tests.pyrite_torch.ends import ends

HANGING = "tests.cluster.executors.hanging"
PARENT = f"""
import sys
from types import SimpleNamespace
from pyrite.cluster.training import trainer_runs

trainer_runs.BODY = "{HANGING}"
trainer_runs.Artifacts = lambda: SimpleNamespace(collection=lambda config: None)
trainer_runs.ray = SimpleNamespace(cloudpickle=SimpleNamespace(dumps=lambda request: sys.argv[1].encode()))
trainer_runs.run_trainer({{}}, {{}}, lambda progress: None, None, 30.0)
"""


class Processes:
    """The processes of a training, by the files that those of its command leave in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def started(self) -> bool:
        return {path.name.split("-")[0] for path in self.folder.iterdir()} >= {"command", "child"}

    def wait(self) -> None:
        until(self.started)
        (self.training, self.command), (_, self.child) = (self._of(kind) for kind in ("command", "child"))

    def _of(self, kind: str) -> tuple[int, int]:
        (path,) = self.folder.glob(f"{kind}-*")
        _, parent, process = path.name.split("-")
        return int(parent), int(process)


@pytest.fixture
def places(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """A folder in which processes name themselves, and that of temporary files."""
    named, temporary = tmp_path / "named", tmp_path / "temporary"
    named.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return named, temporary


@pytest.fixture
def train(places, monkeypatch):
    """Trains with a command that never ends, of which `act` is called with the processes as soon as they run."""

    def run(act, words: str = "") -> Processes:
        processes = Processes(places[0])

        def on_progress(progress: object) -> None:
            if act is not None and processes.started():
                processes.wait()
                acts.pop()(processes) if acts else None

        acts = [act]
        monkeypatch.setattr(trainer_runs, "BODY", HANGING)
        monkeypatch.setattr(trainer_runs, "POLL_S", 0.05)
        monkeypatch.setattr(trainer_runs, "Artifacts", lambda: SimpleNamespace(collection=lambda config: None))
        content = f"{places[0]} {words}".encode()
        pickler = SimpleNamespace(cloudpickle=SimpleNamespace(dumps=lambda request: content))
        monkeypatch.setattr(trainer_runs, "ray", pickler)
        try:
            trainer_runs.run_trainer({}, {}, on_progress, None, 30.0)
        finally:
            assert all(ends(each) for each in (processes.training, processes.command, processes.child))
            assert not list(places[1].iterdir())
        return processes

    return run


class Stopped(BaseException):
    """The end of the study's command."""


def stop(processes: Processes) -> None:
    raise Stopped


def test_a_training_ends_in_order_with_all_that_it_started(train):
    with pytest.raises(Stopped):
        train(stop)


def test_a_command_that_ignores_signals_is_killed(train, monkeypatch):
    monkeypatch.setattr(process_end, "TRAINING_END_S", 0.5)
    with pytest.raises(Stopped):
        train(stop, "deaf")


@pytest.mark.by_day(2)
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_training_that_a_signal_ends_is_lost_with_its_command(train, signum):
    with pytest.raises(ProcessLost, match=r"training ended with status (-9|130): it printed nothing"):
        train(lambda processes: os.kill(processes.training, signum))


def test_a_training_whose_command_is_killed_is_lost(train):
    with pytest.raises(ProcessLost, match="status 130: the command was ended by SIGKILL"):
        train(lambda processes: os.kill(processes.command, signal.SIGKILL))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("words", ["", "deaf"])
def test_a_training_ends_with_a_parent_that_is_killed(places, words):
    with killed_parent(places, words) as processes:
        assert all(ends(each) for each in (processes.training, processes.command, processes.child))
        until(lambda: not list(places[1].iterdir()))


@pytest.mark.skipif(process_end.END_WITH_PARENT is None, reason="only Linux ends a process with its parent")
def test_a_command_ends_if_all_that_watch_it_are_killed(places):
    with killed_parent(places, "", with_training=True) as processes:
        assert ends(processes.command)


class killed_parent:
    """Runs a training in another process and kills that, at once with the training if asked."""

    def __init__(self, places: tuple[Path, Path], words: str, with_training: bool = False) -> None:
        self.places, self.words, self.with_training = places, words, with_training

    def __enter__(self) -> Processes:
        named, temporary = self.places
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(temporary)}
        parent = subprocess.Popen([sys.executable, "-c", PARENT, f"{named} {self.words}"], env=environment)
        self.processes = Processes(named)
        self.processes.wait()
        if self.with_training:
            os.kill(self.processes.training, signal.SIGSTOP)  # so that it can't act before it is killed too
        parent.kill()
        parent.wait()
        if self.with_training:
            os.kill(self.processes.training, signal.SIGKILL)
        return self.processes

    def __exit__(self, *reason: object) -> None:
        for each in (self.processes.training, self.processes.command, self.processes.child):
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
