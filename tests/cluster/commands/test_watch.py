"""What is shown of a study while it runs, here and elsewhere."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest
from rich.console import Console

from cluster.commands.study import StudyExperiment
from cluster.commands.watch import Replay, watch
from cluster.output.event_log import EventLog
from cluster.output.lock import FILE, is_held
from cluster.output.storage import Storage
from tests.cluster.command_line import Refusal, command


def said(place: Path, **options: int) -> tuple[int, str]:
    text = io.StringIO()
    return watch(str(place), Console(file=text, width=100, **options), every=0.01), text.getvalue()  # type: ignore[arg-type]


@pytest.fixture
def running(tmp_path: Path) -> EventLog:
    """A study of three runs, one of them done and one under way."""
    (tmp_path / "config.yaml").write_text("study: {}\noverrides: []\ndesign: {}\ncommand: pyrite study\n")
    log = EventLog(Storage(str(tmp_path)))
    log.emit("began", verb="study", process=os.getpid(), runs=3, done=0)
    log.emit("run started", run="a")
    log.emit("run reached", run="a", step=1, numbers={"validation": 0.25})
    log.emit("run ended", run="a", best=0.25)
    log.emit("run started", run="b")
    log.emit("run lost", run="b", reason="gone")
    log.emit("run reached", run="b", step=2, numbers={"validation": 0.125})
    return log


def test_the_table_of_a_log_is_the_one_of_the_study(running: EventLog) -> None:
    text = io.StringIO()
    replay = Replay(Console(file=text, width=100, force_terminal=True), "study", "AP")
    assert replay.append(EventLog.read(running.storage))
    assert not replay.append(EventLog.read(running.storage))  # nothing new
    table = replay.table
    assert table.states == {"waiting": 1, "running": 1, "done": 1, "failed": 0, "stopped": 0}
    assert (table.retried, table.finished, table.running["b"].epoch) == (1, {"a": 0.25}, 2)
    table.console.print(table.render())
    assert ".1250" in text.getvalue()
    running.emit("run failed", run="b", reason="no good")
    running.emit("finished")
    replay.append(EventLog.read(running.storage))
    assert (table.failed, replay.end) == (1, "finished")
    running.emit("resumed", verb="study", process=1, runs=3, done=1)
    replay.append(EventLog.read(running.storage))
    assert (replay.end, table.done, table.failed) == (None, 1, 0)


def test_one_watches_until_the_end(running: EventLog, tmp_path: Path) -> None:
    running.emit("run ended", run="b", best=0.5)
    running.emit("finished")
    code, text = said(tmp_path)
    assert code == 0
    assert "2/3 runs" in text


def test_a_process_that_is_gone_is_said_to_be(running: EventLog, tmp_path: Path) -> None:
    code, text = said(tmp_path)
    assert code == 1
    assert f"To continue: pyrite study --resume {tmp_path}" in text.replace("\n", "")


@pytest.mark.parametrize(
    ("config", "verb", "noun"), [("mined: x\ncommand: x\n", "mine", "shards"), ("fork: {}\n", "fork", "forks")]
)
def test_verbs_whose_runs_have_no_steps_are_watched(
    config: str, verb: str, noun: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(config)
    log = EventLog(Storage(str(tmp_path)))
    log.emit("began", verb=verb, process=os.getpid(), runs=2, done=0)
    log.emit("run ended", run="a")
    code, text = said(tmp_path)
    assert code == 1
    assert f"1/2 {noun}" in text
    assert f"pyrite {verb} --resume" in text
    log.emit("run ended", run="b")
    log.emit("finished")
    assert command("watch", str(tmp_path)) == 0
    assert f"2/2 {noun}" in capsys.readouterr().out


def test_who_writes_to_a_folder_is_seen_from_outside(tmp_path: Path) -> None:
    storage, file = Storage(str(tmp_path)), tmp_path / FILE
    assert not is_held(storage)
    file.write_text(f"process {os.getpid()} on {socket.gethostname()}")
    assert is_held(storage)
    file.write_text(f"process 99999999 on {socket.gethostname()}")
    assert not is_held(storage)
    file.write_text("process 99999999 on another.machine")
    assert is_held(storage)


def test_nothing_to_watch_is_said(tmp_path: Path, refusal: Refusal) -> None:
    assert str(tmp_path) in refusal("watch", str(tmp_path))


@pytest.mark.nightly
def test_the_report_of_half_a_study(base: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = [*base, "policy=fixed", "function=bm25,random", "selector=uniform", "seeds=1", "local=true", f"out={out}"]
    assert command("study", *asked) == 0
    whole = (out / "report.html").read_text()
    assert "still running" not in whole
    next((out / "runs").glob("*random*")).unlink()
    study = StudyExperiment.read([], str(out))
    study.prepare(Console(quiet=True))
    study.renew()
    page = (out / "report.html").read_text()
    assert "1 done, 1 to come, the study is still running" in page
    assert "bm25 · uniform" in page
    assert "random · uniform" not in page
    (out / "report.html").unlink()
    study.renew()  # nothing has happened since
    assert not (out / "report.html").exists()
    assert command("study", "--resume", str(out), "local=true") == 0
    assert "2 done</dd>" in (out / "report.html").read_text()
