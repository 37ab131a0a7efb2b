import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrite.cluster.jobs.job_server import connected
from tests.cluster.command_line import command, summary_of
from tests.cluster.waiting import until


def free_ports(count: int) -> list[int]:
    """Return different ones, all taken at once to tell."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in taken]


@pytest.fixture
def head(own_cache) -> Iterator[str]:
    """URL of the job server of a Ray that is being started with `ray start --head`, and will ask for the token."""
    folder = tempfile.mkdtemp(prefix="pyrite-", dir="/tmp")  # sockets have short names
    gcs, dashboard, agent, clients = free_ports(4)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=1",
            "--node-ip-address=127.0.0.1", f"--port={gcs}", "--dashboard-host=127.0.0.1",
            f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent}",
            f"--ray-client-server-port={clients}", "--object-store-memory=200000000",
            f"--temp-dir={folder}", "--disable-usage-stats",
        ],
        env=os.environ | {"RAY_AUTH_MODE": "token"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{dashboard}"
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def asks_for_its_token(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/api/version", timeout=5).close()
    except urllib.error.HTTPError as refused:
        if refused.code != 401:
            raise
        return True
    except OSError:
        pass
    return False


@pytest.mark.nightly
def test_a_submitted_study_gives_the_same_summary(head, base, tmp_path, monkeypatch, capsys):
    """With a selector in a module of the working folder; which files travel is tested in `test_working_folder.py`."""
    own = "from pyrite.sampling.selection.uniform import Uniform\n\n\nclass OwnUniform(Uniform):\n    pass\n"
    (tmp_path / "own_selector.py").write_text(own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    study = ["study", *base, "policy=fixed", "function=bm25", "selector=uniform", "seeds=1", "concurrent=1",
             "selector._target_=own_selector.OwnUniform"]  # fmt: skip
    assert command(*study, "local=true", "out=here") == 0
    until(lambda: asks_for_its_token(head), 120)
    there = ["--address", head]
    capsys.readouterr()
    assert command("submit", *there, "--detach", "--note", "misspelt", "train", "colour=red") == 0
    size, job, told = capsys.readouterr().out.splitlines()
    assert re.match(r"sending \d+ files? \(0\.\d MiB\) of ", size)
    follow = re.search(r"Follow it with: (.*); stop it with: ", told)
    assert command("submit", *there, *study, "out=there") == 0
    said = capsys.readouterr().out
    assert "has succeeded" in said
    assert "AP@10" in said  # the job's own table
    assert summary_of(tmp_path / "there") == summary_of(tmp_path / "here")

    # Ray's own commands, as they are shown, show what the other job said.
    bin = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
    shown = subprocess.run(f"{bin} {follow[1]}", shell=True, capture_output=True, text=True)
    assert "there is no option colour" in shown.stdout + shown.stderr
    with connected(head) as client:
        (misspelt,) = (each for each in client.list_jobs() if each.submission_id == job.split()[0])
    assert misspelt.metadata["note"] == "misspelt"
    assert misspelt.driver_exit_code == 2
