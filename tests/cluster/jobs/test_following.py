from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from ray.job_submission import JobStatus
from rich.console import Console

from cluster.jobs import following
from cluster.jobs.following import ending, exit_code, follow, stop, stream
from cluster.jobs.listing import show_jobs
from ranking.errors import BadInput


def details(status: str, code: int | None = None, message: str | None = None, **more: Any) -> Any:
    return SimpleNamespace(
        **{
            "status": JobStatus(status), "driver_exit_code": code, "message": message, "submission_id": "study-1",
            "start_time": None, "end_time": None, "metadata": None, "entrypoint": "python -m cluster study",
        } | more
    )  # fmt: skip


class Client:
    """A job server's client that tells these pieces of log, by connection, and these states, the last one for ever."""

    def __init__(self, logs: list[list[Any]], states: list[Any]) -> None:
        self._logs, self._states = iter(logs), states

    async def tail_job_logs(self, job: str) -> AsyncIterator[str]:
        for piece in next(self._logs):
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def get_job_info(self, job: str) -> Any:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def stop_job(self, job: str) -> bool:
        return not self._states[0].status.is_terminal()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAUSE", 0)


@pytest.fixture
def said() -> Console:
    return Console(file=io.StringIO(), width=200)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("info", "code"),
    [
        (details("SUCCEEDED", 0), 0),
        (details("FAILED", 1), 1),
        (details("FAILED", 2), 2),
        (details("FAILED", 130), 130),
        (details("FAILED", -9), 137),
        (details("FAILED", None, "Job entrypoint command failed with exit code 2, last available logs: …"), 2),
        (details("FAILED", None, "Job entrypoint command failed with exit code -15. No logs available."), 143),
        (details("FAILED", None, "The runtime environment failed to be set up."), 1),
        (details("FAILED", None), 1),
        (details("STOPPED"), 130),
    ],
)
def test_exit_codes(info: Any, code: int) -> None:
    assert exit_code(info) == code


def test_a_job_that_failed_without_an_exit_code_says_why() -> None:
    info = details("FAILED", None, "No node\n has the resource.")
    assert ending(info, 1) == "has failed: No node has the resource."


def test_a_lost_connection_is_taken_up_where_it_was() -> None:
    logs = [["one\n", "two\n", RuntimeError("closed")], ["one\ntwo\nth"], ["one\n", "two\nthree\n"]]
    client: Any = Client(logs, [details("RUNNING"), details("SUCCEEDED")])
    shown: list[str] = []
    info = asyncio.run(stream(client, "study-1", shown.append, wait=0))
    assert "".join(shown) == "one\ntwo\nthree\n"
    assert info.status == JobStatus.SUCCEEDED


def test_a_server_that_stays_away(monkeypatch: pytest.MonkeyPatch, said: Console) -> None:
    monkeypatch.setattr(stream, "__defaults__", (2, 0))
    client: Any = Client([[ConnectionError("no route")]] * 3, [details("RUNNING")])
    with pytest.raises(BadInput, match=r"study-1: the job server is lost \(no route\), and the job may go on; .*logs"):
        follow(client, "study-1", None, said)


def test_the_log_is_shown_and_the_code_handed_on(said: Console, capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = Client([["a line\n"]], [details("RUNNING"), details("FAILED", 2)])
    assert follow(client, "study-1", None, said) == 2
    assert capsys.readouterr().out == "a line\n"
    assert text_of(said) == "study-1 has failed with exit code 2\n"


def test_ctrl_c_leaves_the_job_running(said: Console) -> None:
    client: Any = Client([["a line\n", KeyboardInterrupt()]], [details("RUNNING")])
    assert follow(client, "study-1", "http://head:8265", said) == 130
    assert "study-1 goes on. Follow it with: pyrite logs study-1 --follow --address http://head:8265" in text_of(said)
    assert "stop it with: pyrite stop study-1 --address http://head:8265" in text_of(said)


def test_a_reader_that_had_enough_is_no_lost_server(said: Console) -> None:
    client: Any = Client([["a line\n", BrokenPipeError()]], [details("RUNNING")])
    with pytest.raises(BrokenPipeError):
        follow(client, "study-1", None, said)


def test_stopping(said: Console) -> None:
    client: Any = Client([], [details("RUNNING"), details("RUNNING"), details("STOPPED")])
    assert stop(client, "study-1", said) == 0
    assert "was stopped" in text_of(said)
    client = Client([], [details("SUCCEEDED")])
    assert stop(client, "study-1", said) == 0
    assert "has ended already" in text_of(said)
    client = Client([], [details("RUNNING")])
    assert stop(client, "study-1", said, patience=0) == 1


def test_jobs_are_listed_with_what_was_sent(said: Console) -> None:
    sent = {"verb": "study", "overrides": "seeds=2 out=s3://lab/s", "note": "before the deadline"}
    show_jobs(
        [
            details("FAILED", 2, start_time=9_000, end_time=3_674_000, metadata=sent),
            details("RUNNING", submission_id=None),
            details("SUCCEEDED", 0, submission_id="other", start_time=5_000, end_time=6_000),
        ],
        said,
    )
    lines = text_of(said).splitlines()
    assert [line.split()[0] for line in lines[::2]] == ["other", "study-1"]
    assert lines[1] == "  python -m cluster study"
    assert "failed (2)" in lines[2]
    assert lines[2].endswith("1:01:05")
    assert lines[3] == "  before the deadline: study seeds=2 out=s3://lab/s"
    show_jobs([], said)
    assert "there are no jobs" in text_of(said)
