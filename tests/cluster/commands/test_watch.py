"""What is shown of a study while it runs, here and elsewhere."""

import io
import os
import socket
from argparse import Namespace
from datetime import UTC, datetime

import pytest
from rich.console import Console

from pyrite.cluster.commands.study import StudyExperiment
from pyrite.cluster.commands.watch import Replay, run_verb
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.lock import FILE, is_held
from pyrite.cluster.output.storage import Storage
from tests.cluster.command_line import command

STUDY = "study: {}\noverrides: []\ndesign: {}\ncommand: pyrite study\n"


@pytest.fixture
def running(tmp_path) -> EventLog:
    """A study of three runs, one of them done and one under way."""
    (tmp_path / "config.yaml").write_text(STUDY)
    log = EventLog(Storage(str(tmp_path)))
    log.emit("began", verb="study", process=os.getpid(), runs=3, done=0)
    log.emit("run started", run="a")
    log.emit("run reached", run="a", step=1, numbers={"validation": 0.25})
    log.emit("run ended", run="a", best=0.25)
    log.emit("run started", run="b")
    log.emit("run lost", run="b", reason="gone")
    log.emit("run reached", run="b", step=2, numbers={"validation": 0.125})
    return log


def test_the_table_of_a_log_is_the_one_of_the_study(running):
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


def test_the_time_of_a_command_that_has_ended_is_the_one_it_took(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text(STUDY)
    stamp = '{"time": "2026-01-01T00:00:%s+00:00", "event": "%s", "runs": 1}'
    lines = [stamp % ("00", "began"), stamp % ("12", "finished")]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    assert command("watch", str(tmp_path)) == 0
    assert "0/1 runs, 12 s" in capsys.readouterr().out


def test_the_time_left_counts_from_the_first_run_and_not_from_the_first_look(tmp_path, monkeypatch):
    """Two of four runs took 20 s, so the other two take 20 s too."""
    stamp = '{"time": "2026-01-01T00:00:%s+00:00", "event": "%s", "run": "%s", "runs": 4}'
    events = [("00", "began", ""), ("10", "run started", "a"), ("20", "run ended", "a"), ("30", "run ended", "b")]
    (tmp_path / "log.jsonl").write_text("".join(stamp % event + "\n" for event in events))
    began = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    monkeypatch.setattr("time.time", lambda: began + 30)
    monkeypatch.setattr("time.monotonic", lambda: 500.0)
    replay = Replay(Console(file=io.StringIO()), "study", "AP")
    replay.append(EventLog.read(Storage(str(tmp_path))))
    assert replay.table.outlook() == "30 s, about 20 s left"


def test_the_end_is_the_report_and_not_the_last_run(tmp_path, monkeypatch, console):
    (tmp_path / "config.yaml").write_text(STUDY)
    log = EventLog(Storage(str(tmp_path)))
    log.emit("began", verb="study", process=os.getpid(), runs=1, done=1)
    log.emit("finished")
    claim = tmp_path / FILE
    claim.write_text(f"process {os.getpid()} on {socket.gethostname()}")

    def write_report(seconds: float) -> None:
        (tmp_path / "report.html").write_text("")
        claim.unlink()

    monkeypatch.setattr("pyrite.cluster.commands.watch.time.sleep", write_report)
    assert run_verb(Namespace(out=str(tmp_path)), console) == 0
    assert f"finished; report: {tmp_path}/report.html" in console.file.getvalue()


@pytest.mark.parametrize(
    ("config", "verb", "noun"),
    [(STUDY, "study", "runs"), ("mined: x\ncommand: x\n", "mine", "shards"), ("fork: {}\n", "fork", "forks")],
)
def test_one_watches_until_the_end_or_the_process_is_gone(config, verb, noun, tmp_path, capsys, console):
    (tmp_path / "config.yaml").write_text(config)
    log = EventLog(Storage(str(tmp_path)))
    log.emit("began", verb=verb, process=os.getpid(), runs=2, done=0)
    log.emit("run ended", run="a")
    assert run_verb(Namespace(out=str(tmp_path)), console, every=0.01) == 1
    text = console.file.getvalue()
    assert f"1/2 {noun}" in text
    assert f"To continue: pyrite {verb} --resume {tmp_path}" in text.replace("\n", "")
    log.emit("run ended", run="b")
    log.emit("finished")
    assert command("watch", str(tmp_path)) == 0
    assert f"2/2 {noun}" in capsys.readouterr().out


def test_who_writes_to_a_folder_is_seen_from_outside(tmp_path, refusal):
    assert str(tmp_path) in refusal("watch", str(tmp_path))  # nothing yet
    storage, file = Storage(str(tmp_path)), tmp_path / FILE
    assert not is_held(storage)
    file.write_text(f"process {os.getpid()} on {socket.gethostname()}")
    assert is_held(storage)
    file.write_text(f"process 99999999 on {socket.gethostname()}")
    assert not is_held(storage)
    file.write_text("process 99999999 on another.machine")
    assert is_held(storage)


@pytest.mark.nightly
def test_the_report_of_half_a_study(base, tmp_path):
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
