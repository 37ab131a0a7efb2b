import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus

from pyrite.cluster.jobs import job_server, submission
from pyrite.cluster.jobs.job_options import Access
from pyrite.cluster.jobs.job_server import VARIABLE, connected, find_server, refusals_in_one_line
from pyrite.cluster.jobs.submission import follow, outcome
from pyrite.ranking.errors import BadInput
from tests.cluster.jobs.test_submitted_study import free_ports

ANSWERS: dict[str, tuple[int, str]] = {
    "/page": (200, "<html>"),
    "/other": (200, "[]"),
    "/locked": (401, "Unauthorized: Missing authentication token"),
    "/wrong": (403, "Forbidden: Invalid authentication token"),
    "/proxy": (403, "<html> Sign in\nfirst </html>"),
}
"""What a made-up server says of its version, by what stands before `/api/version`."""


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        jobless = (404, "Job study-1 does not exist")
        version = (200, json.dumps({"version": "4", "ray_version": "2.60.0", "ray_commit": "", "session_name": ""}))
        usual = version if self.path == "/api/version" else jobless
        if self.headers.get("X-Lab") == "let-me-in":
            usual = version
        status, text = ANSWERS.get(self.path.removesuffix("/api/version"), usual)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *said: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def made_up() -> Iterator[str]:
    """URL of a server that is none of Ray's, but under its root."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()


@pytest.fixture(autouse=True)
def _nothing_named_and_no_waiting(monkeypatch) -> None:
    for name in (VARIABLE, "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(submission, "POLL_S", 0)


def test_the_address_goes_before_the_variable(made_up, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "http://third:8265")
    assert find_server(None) == "http://third:8265"
    monkeypatch.setenv(VARIABLE, "http://second:8265/")
    assert find_server(None) == "http://second:8265"
    for given, whole in (("https://first/ray/", "https://first/ray"), ("h:9", "http://h:9"), ("h", "http://h:8265")):
        assert find_server(given) == whole
    monkeypatch.setenv(VARIABLE, "http://192.0.2.1:8265")
    with connected(made_up) as client:
        assert client.get_address() == made_up
    assert os.environ[VARIABLE] == "http://192.0.2.1:8265"


def test_no_server_answers_and_no_ray_runs_here(monkeypatch, refusal):
    line = refusal("submit", "--address", f"127.0.0.1:{free_ports(1)[0]}", "study")
    assert "no server answers (Connection refused)" in line
    assert "ray start --head" in line
    monkeypatch.setattr("ray._private.services.canonicalize_bootstrap_address_or_die", lambda address: "127.0.0.1:1")
    line = refusal("submit", "study")
    assert "no Ray with a job server runs on this machine; start one with `ray start --head`" in line
    assert "--address" in line


def test_addresses_that_are_none_of_a_job_server_and_a_proxy_that_does_not_reach_it(monkeypatch):
    for address in ("ray://head:10001", "http://"):
        with pytest.raises(BadInput, match=r"is no address of a job server; .*http://HOST:8265"):
            find_server(address)
    for named, remedy in (("127.0.0.1:1", "is the cluster running"), ("ray://h:1", "http://h:8265")):
        monkeypatch.setenv("RAY_ADDRESS", named)
        with pytest.raises(BadInput, match=remedy):
            find_server(None)
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(BadInput, match=r"the proxy does not answer .*; add h to NO_PROXY"), connected("h"):
        pass


def test_something_else_answers_or_a_server_that_refuses(made_up, monkeypatch, refusal):
    for path in ("/page", "/other"):
        assert "is no job server of Ray" in refusal("submit", "--address", made_up + path, "study")
    for path, token in (("/locked", False), ("/wrong", True)):
        monkeypatch.setattr(job_server, "has_token", lambda token=token: token)
        line = refusal("submit", "--address", made_up + path, "study")
        assert ("refuses this token" if token else "requires its token") in line
        assert "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token" in line
    line = refusal("submit", "--address", f"{made_up}/proxy", "study")
    assert "refuses, and not as Ray does (403: <html> Sign in first </html>); is there a proxy that wants" in line
    assert "token" not in line


def test_headers_reach_the_server_and_wrong_ones_are_refused(made_up, monkeypatch, refusal, tmp_path):
    monkeypatch.setenv("RAY_JOB_HEADERS", '{"X-Lab": "let-me-in"}')
    with connected(made_up, Access.of(None, "true")) as client:
        assert client.get_version() == "4"
        assert client._headers["X-Lab"] == "let-me-in"
    assert Access.of('{"A": "b"}', "False") == Access({"A": "b"}, False)
    assert Access.of("", str(tmp_path)).verify == str(tmp_path)
    monkeypatch.setenv("RAY_JOB_HEADERS", "[1]")
    for line, says in (
        ([], "RAY_JOB_HEADERS: is no JSON object"),
        (["--headers", '{"X": 1}'], "--headers: the header X is no text"),
        (["--headers", "{}", "--verify", "nowhere.pem"], "nowhere.pem: there is no such file"),
    ):
        assert says in refusal("submit", *line, "study")


def test_a_client_that_sends_no_token_by_its_mode_and_faults_of_our_own(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 64)
    with (
        pytest.raises(BadInput, match=r"requires its token; set RAY_AUTH_MODE=token$"),
        refusals_in_one_line("http://head:8265"),
    ):
        raise AuthenticationError("no token")
    with pytest.raises(RuntimeError, match="ours"), refusals_in_one_line("http://head:8265"):
        raise RuntimeError("ours")


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


@pytest.mark.parametrize(
    ("info", "code", "how"),
    [
        (details("SUCCEEDED", 0), 0, "has succeeded"),
        (details("FAILED", 130), 130, "has failed with exit code 130"),
        (details("FAILED", -9), 137, "has failed with exit code 137"),
        (details("FAILED", None, "No node\n has the resource."), 1, "has failed: No node has the resource."),
        (details("FAILED", None), 1, "has failed: its cluster does not report why"),
        (details("STOPPED"), 130, "was stopped"),
    ],
)
def test_how_a_job_ended(info, code, how):
    assert outcome(info) == (code, how)


def test_a_server_that_is_lost_and_a_reader_that_had_enough(console):
    client: Any = Client([["one\n", ConnectionError("no route")]], [details("RUNNING")])
    lost = r"study-1: the job server is lost \(no route\), and the job may continue; .*logs"
    with pytest.raises(BadInput, match=lost):
        follow(client, "study-1", console)
    client = Client([["a line\n", BrokenPipeError()]], [details("RUNNING")])
    with pytest.raises(BrokenPipeError):
        follow(client, "study-1", console)


def test_the_log_is_shown_and_the_code_handed_on(console, capsys):
    client: Any = Client([["a line\n"]], [details("RUNNING"), details("RUNNING"), details("FAILED", 2)])
    assert follow(client, "study-1", console) == 2
    assert capsys.readouterr().out == "a line\n"
    assert console.file.getvalue() == "study-1 has failed with exit code 2\n"


@pytest.mark.parametrize(("mode", "before"), [("token", "RAY_AUTH_MODE=token "), ("disabled", "")])
def test_ctrl_c_leaves_the_job_running(mode, before, console, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    client: Any = Client([["a line\n", KeyboardInterrupt()]], [details("RUNNING")])
    assert follow(client, "study-1", console) == 130
    there = "--address http://head:8265 study-1"
    assert console.file.getvalue().strip() == (
        f"study-1 continues. Follow it with: {before}ray job logs --follow {there}; "
        f"stop it with: {before}ray job stop {there}"
    )
