"""Commands that the system ends, that are resumed from another folder, and output that is not UTF-8."""

import io
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from rich.console import Console

from pyrite.cluster.commands import conduct
from pyrite.cluster.commands.experiment import verb_named
from pyrite.cluster.commands.first_folder import STARTED_IN, absolute, entered, recorded_folder
from pyrite.cluster.commands.resuming import read
from pyrite.cluster.commands.signals import Terminated, _release_after_fork, exit_code, handled_signals
from pyrite.cluster.commands.study import STUDY
from pyrite.cluster.executors.session import _modules
from pyrite.cluster.output.manifest import write_config
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command, summary_of
from tests.made_up import write_beir, write_files


@pytest.fixture(autouse=True)
def _no_signal_is_ignored() -> Iterator[None]:
    """The tests may run under nohup, or behind a shell's `&`, which have processes ignore signals."""
    usual = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    before = {signum: signal.signal(signum, handler) for signum, handler in usual.items()}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_what_the_system_sends_interrupts_as_ctrl_c_does(signum, code):
    before = signal.getsignal(signum)
    with pytest.raises(KeyboardInterrupt) as raised, handled_signals(restore=True):
        signal.raise_signal(signum)  # to this thread: another one's would interrupt no wait of this one
    assert isinstance(raised.value, Terminated)
    assert exit_code(raised.value) == code
    assert exit_code(KeyboardInterrupt()) == 130
    assert signal.getsignal(signum) == before


@pytest.mark.parametrize(("signum", "kind"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_that_arrives_in_a_finalizer_is_not_lost(signum, kind):
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signum)  # Python ignores what the handler raises here

    def wait() -> None:
        Finalized()
        time.sleep(60)

    with pytest.raises(kind), handled_signals(restore=True):
        wait()


@pytest.mark.skipif(not hasattr(logging, "_releaseLock"), reason="this hook can't be interrupted")
def test_a_signal_that_arrives_while_a_process_is_forked_leaves_no_lock_held():
    """Threads that log, as those of trackers, would wait for ever."""
    free = list[bool]()

    def look() -> None:
        free.append(logging._lock.acquire(timeout=5))
        logging._lock.release()

    def interrupted() -> None:
        logging._acquireLock()  # before the fork; the hook was interrupted at once, which one fork in thousands shows
        sys.unraisablehook(SimpleNamespace(exc_value=Terminated(signal.SIGTERM), object=logging._releaseLock))
        thread.start()
        time.sleep(60)

    thread = threading.Thread(target=look)
    with pytest.raises(Terminated), handled_signals(restore=True):
        interrupted()
    thread.join()
    assert free == [True]
    _release_after_fork(logging._releaseLock)  # interrupted after it had released the lock


def test_the_signal_that_arrived_counts_and_one_that_nohup_ignores_stays_ignored():
    with handled_signals(restore=True):
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        assert exit_code(KeyboardInterrupt()) == 143
    assert exit_code(KeyboardInterrupt()) == 130
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handled_signals(restore=True):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("verb", "config", "again"),
    [
        ("study", b"", "continue: pyrite study --resume here"),
        ("train", b"", "continue: pyrite train --resume here"),
        ("pool", None, "start: the same command again"),  # nothing is written yet
    ],
)
def test_a_command_that_is_terminated_prints_how_to_continue(verb, config, again, monkeypatch):
    folder = SimpleNamespace(place="here", read=lambda name: config)

    def stop(experiment: Any, console: Console) -> int:
        raise Terminated(signal.SIGTERM)

    monkeypatch.setattr(conduct, "read", lambda *_: SimpleNamespace(storage=folder))
    monkeypatch.setattr(conduct, "conduct", stop)
    printed = io.StringIO()
    with handled_signals(restore=True):
        chosen = Namespace(overrides=[], words=[], power=None, resume=None, from_shell=False)
        assert conduct.run_command(verb_named(verb), chosen, Console(file=printed)) == 143
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # a third Ctrl-C prints no traceback
    assert printed.getvalue() == f"Stopped. To {again}\n"
    assert signal.getsignal(signal.SIGINT) != signal.SIG_IGN


@pytest.mark.parametrize(("output", "code", "line"), [("| head -1", 0, ""), ("> /dev/full", 2, "the disk is full")])
def test_an_output_that_ends_or_is_full(output, code, line):
    command = f"{sys.executable} -m pyrite options {output}; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert ended.returncode == code
    assert line in ended.stderr
    assert len(ended.stderr.splitlines()) == (1 if line else 0)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_characters_that_the_output_lacks_are_replaced(encoding):
    program = (
        "from pyrite.cluster.commands import signals; signals.replace_unprintable(); print('± → résultats \\udcff')"
    )
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert ended.stdout.decode(encoding).replace("?", "").split()[-1].startswith("r")


def continued_there(arguments: list[str], saved: dict[str, Any], storage: Storage) -> Any:
    """A plan that keeps where it was made."""
    if "fails" in saved:
        raise BadInput("fails")
    return SimpleNamespace(options={}, arguments=[], storage=storage, folder=os.getcwd())


CONTINUED = replace(STUDY, continued=continued_there)


def test_relative_paths_refer_to_the_folder_of_the_first_command(tmp_path, monkeypatch):
    for name in ("first", "other"):
        (tmp_path / name).mkdir()
    write_config(Storage(str(tmp_path / "other" / "out")), {"study": {}, STARTED_IN: str(tmp_path / "first")})
    write_config(Storage(str(tmp_path / "other" / "bad")), {"study": {}, "fails": 1, STARTED_IN: str(tmp_path)})
    monkeypatch.chdir(tmp_path / "other")
    experiment = read(CONTINUED, [], "out")
    with experiment.joined:
        assert experiment.plan.folder == os.getcwd() == str(tmp_path / "first")
        assert experiment.storage.path("x") == str(tmp_path / "other" / "out" / "x")
    assert os.getcwd() == str(tmp_path / "other")
    with pytest.raises(BadInput, match="fails"):
        read(CONTINUED, [], "bad")
    assert os.getcwd() == str(tmp_path / "other")


def test_a_folder_of_another_machine_changes_nothing_and_paths_that_exist_become_absolute(tmp_path):
    for nothing in ({}, {STARTED_IN: str(tmp_path / "nowhere")}, {STARTED_IN: os.getcwd()}):
        assert recorded_folder(nothing) is None
    assert recorded_folder({STARTED_IN: str(tmp_path)}) == str(tmp_path)
    write_files(tmp_path / "runs", {"a.gz": "", "b.gz": ""})
    given = ["runs=[runs/a.gz,'runs/b.gz']", "runs=runs/*.gz", "runs=runs", "+qrels=runs/none", "title=runs", "seed=1"]
    wanted = (f"[{tmp_path}/runs/a.gz,{tmp_path}/runs/b.gz]", f"{tmp_path}/runs/*.gz", f"{tmp_path}/runs")
    assert absolute(given, str(tmp_path)) == [*(f"runs={each}" for each in wanted), *given[3:]]
    assert absolute(given, None) == given
    write_files(tmp_path / "s[1]" / "runs", {"a.gz": ""})
    assert absolute(["runs=runs/*.gz"], str(tmp_path / "s[1]")) == [f"runs='{tmp_path}/s[1]/runs/*.gz'"]


def test_a_folder_that_only_a_file_names_is_not_entered(tmp_path, monkeypatch):
    (tmp_path / "received" / "in").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for place in ("received", tmp_path / "received", tmp_path / "received" / "in"):
        assert recorded_folder({STARTED_IN: str(place)}, "received") is None
    monkeypatch.setattr(sys, "path", ["", "relative", *sys.path])
    monkeypatch.setenv("PYTHONPATH", f"relative{os.pathsep}/x")
    with entered(str(tmp_path / "received")):
        assert os.getcwd() == str(tmp_path / "received")
        assert sys.path[:2] == [str(tmp_path), str(tmp_path / "relative")]
        assert os.environ["PYTHONPATH"] == f"{tmp_path}/relative{os.pathsep}/x"
        assert "job_config" in _modules()  # Ray would add the working folder
    assert [path for path in sys.path if not os.path.isabs(path)] == ["", "relative"]
    assert _modules() == {}  # it is on this process's path


DRIVER = """
import sys, time
from pyrite.cluster.executors.processes import WarmProcess
process = WarmProcess("tests.cluster.waiting:for_ever")
print(process._process.pid, flush=True)
time.sleep(600)
"""


def test_a_warm_process_ends_with_its_parent_also_while_it_imports(tmp_path):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    worker = psutil.Process(int(driver.stdout.readline()))
    driver.kill()
    driver.wait()
    psutil.wait_procs([worker], timeout=60)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


FULL_DISK = """
import errno, threading
from pyrite.cluster.commands.signals import handled_signals

class Unclosed:
    def __del__(self):
        raise OSError(errno.ENOSPC, "No space left on device")

def fill():
    raise OSError(errno.ENOSPC, "No space left on device")

with handled_signals(restore=False):
    thread = threading.Thread(target=fill)
    thread.start()
    thread.join()
    Unclosed()
    other = threading.Thread(target=lambda: 1 / 0)
    other.start()
    other.join()
"""


def test_a_full_disk_shows_no_traceback_of_a_thread():
    ended = subprocess.run([sys.executable, "-c", FULL_DISK], capture_output=True, text=True, check=True)
    assert "No space left" not in ended.stderr
    assert "ZeroDivisionError" in ended.stderr


def test_ctrl_c_twice_prints_how_to_continue(monkeypatch, tmp_path, capsys):
    class Twice:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            raise KeyboardInterrupt  # the second, while the first unwinds

    storage = Storage(str(tmp_path / "out"))
    write_config(storage, {"study": {}, "overrides": []})
    monkeypatch.setattr(conduct, "read", lambda *_: SimpleNamespace(storage=storage, workers=None))
    monkeypatch.setattr(conduct.Processes, "for_command", lambda *_: Twice())
    monkeypatch.setattr(conduct, "conduct", lambda *_: signal.raise_signal(signal.SIGINT))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        chosen = Namespace(overrides=[], words=[], power=None, resume=None, from_shell=True)
        assert conduct.run_command(STUDY, chosen, Console()) == 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert f"Stopped. To continue: pyrite study --resume {tmp_path / 'out'}" in capsys.readouterr().out.replace(
        "\n", ""
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("form", [["collection=beir", "collection.path=before"], ["collection.path=before"]])
def test_a_study_goes_on_after_its_data_moved(base, beir_folder, tmp_path, monkeypatch, refusal, form):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(beir_folder, "before")
    options = [*form, *base[2:], "policy=fixed", "function=random", "selector=uniform", "seeds=2", "local=true"]
    assert command("study", *options, "training.max_epochs=1", "out=out") == 0
    tables = summary_of(tmp_path / "out")
    runs = sorted(path.name for path in (tmp_path / "out" / "runs").iterdir())
    (tmp_path / "out" / "runs" / runs[0]).unlink()
    (tmp_path / "elsewhere").mkdir()
    os.rename("before", "elsewhere/before")
    assert "before" in refusal("study", "--resume", "out")
    write_beir(tmp_path / "other", seed=9)
    assert "has changed since" in refusal("study", "--resume", "out", "collection.path=other")
    assert command("study", "--resume", "out", "collection.path=elsewhere/before") == 0
    assert summary_of(tmp_path / "out") == tables
    assert sorted(path.name for path in (tmp_path / "out" / "runs").iterdir()) == runs
    assert command("study", "--resume", "out") == 0  # it is remembered
