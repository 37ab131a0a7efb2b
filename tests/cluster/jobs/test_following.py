import io
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from ray.job_submission import JobStatus
from rich.console import Console

from cluster.jobs import following
from cluster.jobs.following import exit_code, follow, outcome
from ranking.errors import BadInput


def details(status: str, code: int | None = None, message: str | None = None) -> Any:
    return SimpleNamespace(status=JobStatus(status), driver_exit_code=code, message=message, submission_id="study-1")


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

    def get_address(self) -> str:
        return "http://head:8265"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch) -> None:
    monkeypatch.setattr(following, "POLL_S", 0)


@pytest.fixture
def said() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.mark.parametrize(
    ("info", "code"),
    [
        (details("SUCCEEDED", 0), 0),
        (details("FAILED", 130), 130),
        (details("FAILED", -9), 137),
        (details("FAILED", None, "The runtime environment failed to be set up."), 1),
        (details("FAILED", None), 1),
        (details("STOPPED"), 130),
    ],
)
def test_exit_codes(info, code):
    assert exit_code(info) == code


def test_a_server_that_is_lost_and_a_reader_that_had_enough(said):
    client: Any = Client([["one\n", ConnectionError("no route")]], [details("RUNNING")])
    lost = r"study-1: the job server is lost \(no route\), and the job may continue; .*logs"
    with pytest.raises(BadInput, match=lost):
        follow(client, "study-1", said)
    client = Client([["a line\n", BrokenPipeError()]], [details("RUNNING")])
    with pytest.raises(BrokenPipeError):
        follow(client, "study-1", said)


def test_the_log_is_shown_and_the_code_handed_on(said, capsys):
    client: Any = Client([["a line\n"]], [details("RUNNING"), details("RUNNING"), details("FAILED", 2)])
    assert follow(client, "study-1", said) == 2
    assert capsys.readouterr().out == "a line\n"
    assert said.file.getvalue() == "study-1 has failed with exit code 2\n"
    without = details("FAILED", None, "No node\n has the resource.")
    assert outcome(without, 1) == "has failed: No node has the resource."


@pytest.mark.parametrize(("mode", "before"), [("token", "RAY_AUTH_MODE=token "), ("disabled", "")])
def test_ctrl_c_leaves_the_job_running(mode, before, said, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    client: Any = Client([["a line\n", KeyboardInterrupt()]], [details("RUNNING")])
    assert follow(client, "study-1", said) == 130
    there = "--address http://head:8265 study-1"
    assert said.file.getvalue().strip() == (
        f"study-1 continues. Follow it with: {before}ray job logs --follow {there}; "
        f"stop it with: {before}ray job stop {there}"
    )
