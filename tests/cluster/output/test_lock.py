from __future__ import annotations

import time

import pytest

from cluster.output import lock
from cluster.output.lock import output_lock
from cluster.output.storage import Storage
from ranking.errors import BadInput
from tests.cluster.output.object_store import object_store


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "RENEW_S", 0.1)


def test_who_wakes_from_a_stall_leaves_the_folder_to_its_new_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store(monkeypatch):
        storage = Storage("store://bucket/out")
        taken = b"process 7 on another machine;token;0"

        def stalled() -> None:
            with output_lock(storage):
                storage.write(lock.FILE, taken)
                time.sleep(30)

        with pytest.raises(BadInput, match=r"^store://bucket/out: process 7 on another machine writes to it"):
            stalled()
        assert storage.read(lock.FILE) == taken


def test_a_lock_is_renewed_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store(monkeypatch):
        storage = Storage("store://bucket/out")
        with output_lock(storage):
            seen = set()
            deadline = time.monotonic() + 20
            while len(seen) < 3 and time.monotonic() < deadline:
                seen.add(storage.read(lock.FILE))
                time.sleep(0.02)
            assert len(seen) >= 3
            with pytest.raises(BadInput, match="writes to it"), output_lock(storage):
                pass
        assert storage.read(lock.FILE) is None
        storage.write(lock.FILE, b"process 1 on a machine that is gone;0;0")
        with output_lock(storage):
            pass


def test_an_interrupt_by_the_user_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store(monkeypatch), pytest.raises(KeyboardInterrupt), output_lock(Storage("store://bucket/out")):
        raise KeyboardInterrupt
