"""The Ray that a command starts by itself."""

import ipaddress
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from pyrite.cluster.executors.address import check_address, is_cluster
from pyrite.cluster.executors.session import LONGEST_FOLDER, _kept_signal_handlers, _refusal, _short_folder, session
from pyrite.ranking.errors import BadInput

ROOT = Path(__file__).resolve().parents[3]
LISTENING = """
import json, os, psutil
import ray
from pyrite.cluster.executors.session import session

assert "RAY_AUTH_MODE" not in os.environ
variable = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
with session() as dashboard:
    mode = os.environ.get("RAY_AUTH_MODE")
    ray.get(ray.remote(lambda: None).remote())
    found = []
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        for socket in process.net_connections("inet"):
            if socket.status == psutil.CONN_LISTEN:
                found.append((" ".join(process.cmdline())[:200], socket.laddr.ip, socket.laddr.port))
    print("LISTENING", json.dumps([dashboard, found, variable in os.environ]), flush=True)
print("TOKEN", mode, os.environ.get("RAY_AUTH_MODE"))
"""
"""Starts a Ray with a dashboard and a worker, where Ray was imported first; prints who listens where."""


@pytest.mark.nightly
def test_a_local_ray_listens_on_loopback_alone_and_has_a_token(tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    environment["HOME"] = str(tmp_path)
    (tmp_path / "sampling.py").write_text("raise SystemExit('imported')")
    said = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{LISTENING}"],
        env=environment, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert "TOKEN token None" in said.stdout.splitlines(), said.stderr
    assert (tmp_path / ".ray" / "auth_token").is_file()
    (line,) = (line for line in said.stdout.splitlines() if line.startswith("LISTENING"))
    dashboard, listening, left_behind = json.loads(line.removeprefix("LISTENING"))
    assert not left_behind  # whoever starts a cluster next is not bound
    for name in ("gcs_server", "raylet", "dashboard/dashboard.py", "DashboardAgent", "ray::"):
        assert any(name in process for process, _, _ in listening), (name, listening)
    assert int(dashboard.rpartition(":")[2]) in {port for _, _, port in listening}
    for process, address, port in listening:
        host = ipaddress.ip_address(address)
        assert (getattr(host, "ipv4_mapped", None) or host).is_loopback, (process, address, port)


def test_a_ray_that_starts_leaves_the_handler_of_sigterm_alone(monkeypatch):
    """It may take a minute, and a command that is ended then says how to continue it."""

    def node(*_: object, **__: object) -> None:
        raise RuntimeError("has begun")

    registered: list[int] = []
    monkeypatch.setattr("ray._private.node.Node", node)
    monkeypatch.setattr("signal.signal", lambda signum, handler: registered.append(signum))
    with pytest.raises(RuntimeError, match=r"has begun|ray\.init twice"):  # twice, if other tests have one
        ray.init(address="local")
    assert signal.SIGTERM in registered
    registered.clear()
    with pytest.raises(RuntimeError), _kept_signal_handlers():
        ray.init(address="local")
    assert signal.SIGTERM not in registered


def test_a_ray_that_does_not_come_up_is_started_again(monkeypatch):
    started: list[str] = []

    def init(**options: object) -> None:
        started.append(str(options["address"]))
        if len(started) != 2:
            raise RuntimeError("The current node timed out during startup. This could happen because …")

    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.shutdown", lambda: None)  # the one that other tests go on with
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("pyrite.cluster.executors.session._dashboard", lambda: "")
    with session(dashboard=False):
        assert started == ["local", "local"]
    with pytest.raises(BadInput, match=r"too busy; end other programs$"), session(dashboard=False):
        pass
    with pytest.raises(BadInput, match="or do without it by workers=0"), session(without="workers=0"):
        pass
    assert len(started) == 2 + 3 + 3


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("http://head:8265", r"is a job server.*give head:6379.*pyrite submit --address http://head:8265"),
        ("ray://head:10001", r"Ray Client's port.*give head:6379.*--address http://head:8265"),
        ("127.0.0.1:1", "nothing answers"),
    ],
)
def test_an_address_of_another_kind_is_refused_with_what_to_give(address, remedy):
    with pytest.raises(BadInput, match=remedy):
        check_address(address)


def test_a_job_server_in_the_environment_is_no_cluster_to_run_on(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    assert not is_cluster(None)
    assert is_cluster("auto")
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert is_cluster(None)


VERSIONS = (
    "Version mismatch: The cluster was started with:\n    Ray: 2.59.0\n    Python: 3.11.2\n"
    "This process on node 127.0.0.1 was started with:\n    Ray: 2.60.0"
)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError(VERSIONS), r"^head:6379: runs other versions .*Ray: 2\.59\.0.*2\.60\.0.*install the cluster's"),
        (ValueError("the token is wrong"), r"^head:6379: refuses the token .*RAY_AUTH_TOKEN"),
        (ConnectionError("no route"), r"^head:6379: Ray can't be reached \(no route\)"),
    ],
)
def test_what_ray_refuses_is_one_line_with_its_remedy(error, line, monkeypatch):
    def init(**options: object) -> None:
        raise error

    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("pyrite.cluster.executors.session.check_address", lambda address: None)
    with pytest.raises(BadInput, match=line), session("head:6379"):
        pass
    # A job of another version is told the option for the interpreter.
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert "`pyrite submit --python`" in str(_refusal(RuntimeError(VERSIONS), "head:6379", None))


def test_sessions_have_a_folder_that_is_short_and_ours(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    for folder in (str(long), str(tmp_path / "missing")):
        monkeypatch.setenv("TMPDIR", folder)
        chosen = _short_folder()["_temp_dir"]
        assert len(chosen) <= LONGEST_FOLDER
        assert not chosen.startswith(folder)
    monkeypatch.setenv("TMPDIR", "/tmp")
    if os.access("/tmp", os.W_OK):
        assert _short_folder() == {} or not os.access("/tmp/ray", os.W_OK)


def test_nothing_of_ray_is_set_when_we_are_imported():
    program = (
        "import os\nbefore = dict(os.environ)\nimport pyrite.cluster.commands.cli, pyrite\n"
        "print({key for key in os.environ if os.environ[key] != before.get(key)} - {'_RJEM_MALLOC_CONF'})"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"
