import io
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cluster.jobs import submission
from cluster.jobs.submission import JobRequest, is_this_machine, job_arguments, send
from cluster.jobs.working_folder import ClusterPaths, WorkingFolder
from ranking.errors import BadInput
from tests.cluster.command_line import command


class Client:
    """A job server's client that keeps what it is given."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def get_address(self) -> str:
        return "http://head:8265"

    def submit_job(self, **given: Any) -> None:
        self.given = given


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def of_two_machines(monkeypatch) -> None:
    monkeypatch.setattr(submission, "is_this_machine", lambda url: False)


def sent(order: JobRequest, console: Console) -> Client:
    client: Any = Client()
    send(order, client, console)
    return client


def test_overrides_come_through_intact(tmp_path, monkeypatch, console):
    monkeypatch.setattr(submission, "is_this_machine", lambda url: True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    overrides = ["optimizer.lr=tag(log,interval(1e-4,1e-2))", "baseline='policy=fixed function=bm25'", "~recipe"]
    given = sent(JobRequest("study", [*overrides, "out=outputs/s"], note="it's late"), console).given
    assert shlex.split(given["entrypoint"]) == [
        sys.executable, "-m", "cluster", "study", *overrides, f"out={tmp_path}/outputs/s"
    ]  # fmt: skip
    line = shlex.join([*overrides, f"out={tmp_path}/outputs/s"])
    assert given["metadata"] == {"name": "study", "verb": "study", "overrides": line, "note": "it's late"}
    assert given["submission_id"].startswith("study-20")
    assert given["entrypoint_num_cpus"] is None


@pytest.mark.usefixtures("of_two_machines")
def test_what_a_cluster_is_told(tmp_path, console):
    (tmp_path / "requirements.txt").write_text("einops\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine.py").write_text("")
    order = JobRequest(
        "learn", ["out=s3://lab/agent"], name="night", folder=str(tmp_path / "code"), cpus=2, resources={"big": 1.0},
        uv=str(tmp_path / "requirements.txt"),
    )  # fmt: skip
    client = sent(order, console)
    environment = client.given["runtime_env"]
    assert environment["working_dir"] == str(tmp_path / "code")
    assert "/outputs" in environment["excludes"]
    assert Path(environment["py_modules"][0], "__main__.py").is_file()  # this checkout's code
    assert f"sending 1 file (0.0 MiB) of {tmp_path / 'code'}\n" in console.file.getvalue()
    assert client.given["entrypoint"] == "python -m cluster learn out=s3://lab/agent"
    assert environment["uv"] == str(tmp_path / "requirements.txt")
    assert environment["env_vars"]["RAY_JOB_STOP_SIGNAL"] == "SIGINT"
    assert client.given["entrypoint_num_cpus"] == 2
    assert client.given["entrypoint_resources"] == {"big": 1.0}
    assert client.given["submission_id"].startswith("night-20")


@pytest.mark.usefixtures("of_two_machines")
@pytest.mark.parametrize(
    "order",
    [
        JobRequest("study", ["out=outputs/s"]),
        JobRequest("study", ["out=/mnt/lab/s"]),
        JobRequest("study", []),
        JobRequest("pool", [], resume="outputs/p"),
        JobRequest("study", ["out=s3://lab/s"], pip="nowhere.txt"),
        JobRequest("study", ["out=s3://lab/s", "address=auto"]),
        JobRequest("study", ["out=s3://lab/s", f"collection.path={Path(__file__).parent}"]),
        JobRequest("study", ["out=s3://lab/s"], folder="nowhere"),
    ],
)
def test_refused_before_anything_is_sent(order, console, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    client: Any = Client()
    with pytest.raises(BadInput):
        send(order, client, console)
    assert not client.given


def test_a_job_that_was_not_told_where_to_write():
    folder, start = WorkingFolder(Path("/home/me"), {}), Path("/home/me")
    here, shared = ClusterPaths(folder, True, (), start), ClusterPaths(folder, False, ("/mnt/lab",), start)
    elsewhere = ClusterPaths(folder, False, (), start)
    assert job_arguments(JobRequest("study", ["seeds=2"]), "study-1", here)[-1] == "out=/home/me/outputs/study-1"
    assert job_arguments(JobRequest("study", []), "study-1", shared) == ["study", "out=/mnt/lab/outputs/study-1"]
    assert job_arguments(JobRequest("train", ["seed=2"]), "train-1", elsewhere) == ["train", "seed=2"]
    going_on = JobRequest("study", ["retries=2"], resume="s3://lab/s")
    assert job_arguments(going_on, "study-1", elsewhere) == ["study", "--resume", "s3://lab/s", "retries=2"]


def test_options_may_stand_among_the_overrides_and_unknown_ones_are_refused(monkeypatch, capsys):
    found: list[tuple[JobRequest, str | None, bool]] = []

    def submit(order: JobRequest, address: str | None, detach: bool, console: Console) -> int:
        found.append((order, address, detach))
        return 0

    monkeypatch.setattr(submission, "submit", submit)
    line = ["--cpus", "1", "study", "seeds=2", "--detach", "out=s3://l/s", "--address", "head", "scale=small"]
    assert command("submit", *line, "--resources", '{"big": 1}', "--shared", "/mnt/lab") == 0
    ((order, address, detach),) = found
    assert list(order.overrides) == ["seeds=2", "out=s3://l/s", "scale=small"]
    assert (order.verb, order.cpus, order.resources, order.shared) == ("study", 1, {"big": 1.0}, ("/mnt/lab",))
    assert (address, detach) == ("head", True)
    assert command("submit", "judge") == 2
    assert command("study", "seeds=2", "--fast") == 2
    assert "unrecognized arguments: --fast" in capsys.readouterr().err
    assert command("report", "outputs/s", "--fast") == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["study", "seeds"], "'seeds' is not an override; write key=value"),
        (["study", "--name", "a b"], "--name: 'a b' can't start an id"),
        (["study", "--pip", "a", "--uv", "b"], "--pip and --uv exclude each other"),
        (["study", "--cpus", "-1"], "--cpus: -1.0 cores can't be reserved"),
        (["study", "--resources", "[1]"], "--resources: '[1]' does not map resources to numbers"),
        (["study", "--resources", '{"big": true}'], "--resources: '{\"big\": true}' does not map resources to numbers"),
        (["train", "--resume", "out"], "train has no --resume"),
    ],
)
def test_options_that_make_no_sense(arguments, says, refusal):
    assert refusal("submit", *arguments).startswith(says)


def test_a_cluster_that_is_just_starting_is_waited_for(console, monkeypatch):
    monkeypatch.setattr(submission, "POLL_S", 0.0)
    starting = RuntimeError(f"Request failed with status code 500: {submission.NO_AGENT}, please try again later.")
    answers: list[RuntimeError] = []

    def send_it() -> None:
        if answers:
            raise answers.pop()

    for refusals in (0, 2):
        answers.extend([starting] * refusals)
        with console.capture() as said:
            submission.submit_when_ready(send_it, console)
        assert not answers
        assert said.get().count("waiting up to 60 s until it takes jobs") == bool(refusals)
    answers.append(starting)
    with pytest.raises(RuntimeError, match="No available agent"):  # in the end
        submission.submit_when_ready(send_it, console, timeout_s=-1)
    answers.append(RuntimeError("status code 500: something else"))
    with pytest.raises(RuntimeError, match="something else"):  # at once
        submission.submit_when_ready(send_it, console)


def test_which_clusters_are_this_machine(monkeypatch):
    nodes = [{"node_ip": "127.0.0.1"}]
    monkeypatch.setattr("ray.util.state.list_nodes", lambda **options: nodes)
    assert is_this_machine("http://127.0.0.1:8265")
    nodes.append({"node_ip": "203.0.113.7"})
    assert not is_this_machine("http://127.0.0.1:8265")
