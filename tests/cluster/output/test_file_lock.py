"""Files that several processes want are made by one of them."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cluster.output.file_lock import Busy, file_lock

HOLDER = """
import sys, time
from pathlib import Path
from cluster.output.file_lock import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_makes_once_what_several_want(tmp_path: Path) -> None:
    place, made = tmp_path / "part", []

    def want(number: int) -> None:
        with file_lock(place):
            if not place.exists():
                made.append(number)
                time.sleep(0.05)
                place.touch()

    threads = [threading.Thread(target=want, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert os.listdir(tmp_path) == ["part"]  # no lock is left behind


def test_says_busy_without_waiting(tmp_path: Path) -> None:
    with file_lock(tmp_path / "a"):
        with pytest.raises(Busy), file_lock(tmp_path / "a", wait=False):
            pass
        with file_lock(tmp_path / "b", wait=False):  # another file
            pass
    with file_lock(tmp_path / "a", wait=False):
        pass


def test_a_maker_that_is_killed_blocks_nobody(tmp_path: Path) -> None:
    place = tmp_path / "part"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Busy), file_lock(place, wait=False):
        pass
    holder.kill()
    holder.wait()
    with file_lock(place, wait=False):
        pass


def test_goes_without_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with file_lock(tmp_path / "file" / "part"), file_lock(tmp_path / "file" / "part", wait=False):
        pass
