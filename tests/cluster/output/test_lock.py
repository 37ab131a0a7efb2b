"""Locks of files that several processes want, and of output folders."""

import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyrite.cluster.output import lock
from pyrite.cluster.output.lock import FILE, Busy, file_lock, is_held, output_lock
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.errors import BadInput
from tests.cluster.waiting import until

HOLDER = """
import sys, time
from pathlib import Path
from pyrite.cluster.output.lock import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_makes_once_what_several_want(tmp_path):
    place, made = tmp_path / "part", []

    def want(number: int) -> None:
        with file_lock(place):
            if not place.exists():
                made.append(number)
                time.sleep(0.05)
                place.touch()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(want, range(6)))
    assert len(made) == 1
    assert os.listdir(tmp_path) == ["part"]  # no lock is left behind


def test_says_busy_without_waiting_and_goes_without_where_nothing_can_be_written(tmp_path):
    with file_lock(tmp_path / "a"):
        with pytest.raises(Busy), file_lock(tmp_path / "a", wait=False):
            pass
        with file_lock(tmp_path / "b", wait=False):  # another file
            pass
    with file_lock(tmp_path / "a", wait=False):
        pass
    (tmp_path / "file").touch()
    with file_lock(tmp_path / "file" / "part"), file_lock(tmp_path / "file" / "part", wait=False):
        pass


def test_a_maker_that_is_killed_blocks_nobody(tmp_path):
    place = tmp_path / "part"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Busy), file_lock(place, wait=False):
        pass
    holder.kill()
    holder.wait()
    with file_lock(place, wait=False):
        pass


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(lock, "LOCK_RENEW_S", 0.1)


@pytest.fixture
def storage(store) -> Storage:
    return Storage("store://bucket/out")


def test_who_wakes_from_a_stall_leaves_the_folder_to_its_new_holder(storage):
    taken, deadline = b"process 7 on another machine;token;0", time.monotonic() + 30

    def stalled() -> None:
        while time.monotonic() < deadline:  # the holder renews it, so that no renewal of ours stays
            storage.write(lock.FILE, taken)
            time.sleep(0.3)

    says = "^store://bucket/out: process 7 on another machine writes to it"
    with pytest.raises(BadInput, match=says), output_lock(storage):
        stalled()
    assert storage.read(lock.FILE) == taken


def test_a_lock_is_renewed_and_taken_away(storage):
    with output_lock(storage):
        for _ in range(2):
            before = storage.read(lock.FILE)
            until(lambda before=before: storage.read(lock.FILE) != before)
        with pytest.raises(BadInput, match="writes to it"), output_lock(storage):
            pass
    assert storage.read(lock.FILE) is None
    storage.write(lock.FILE, b"process 1 on a machine that is gone;0;0")
    with output_lock(storage):
        pass
    with pytest.raises(KeyboardInterrupt), output_lock(storage):  # of the user
        raise KeyboardInterrupt


def test_the_holder_of_a_folder_is_seen_by_others(tmp_path):
    storage, file = Storage(str(tmp_path)), tmp_path / FILE
    assert not is_held(storage)
    for holder, held in (
        (f"process {os.getpid()} on {socket.gethostname()}", True),
        (f"process 99999999 on {socket.gethostname()}", False),
        ("process 99999999 on another.machine", True),
    ):
        file.write_text(holder)
        assert is_held(storage) == held
