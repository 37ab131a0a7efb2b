import json
import math
from contextlib import nullcontext

import pytest

from cluster.output.event_log import FILE, EventLog, reason
from cluster.output.run_log import RunLog
from cluster.output.storage import Storage
from tests.cluster.output.object_store import object_store


def events(storage: Storage) -> list[str]:
    return [event["event"] for event in EventLog.read(storage)]


@pytest.fixture(params=["", "file://"])
def storage(request, tmp_path) -> Storage:
    return Storage(f"{request.param}{tmp_path / 'out'}")


def test_a_line_is_an_event(storage, tmp_path):
    log = EventLog(storage, every=0)
    log.emit("run started", run="ä")
    log.emit("run ended", run="ä", best=math.nan, why=None)
    log.close()
    first, second = (json.loads(line) for line in (tmp_path / "out" / FILE).read_text().splitlines())
    assert first["event"] == "run started"
    assert first["run"] == "ä"
    assert first["time"].endswith("+00:00")
    assert second["best"] is None
    assert "why" not in second
    assert EventLog.read(storage) == [first, second]


def test_another_command_goes_on_behind_a_line_that_was_cut(storage, tmp_path):
    log = EventLog(storage, every=0)
    log.emit("one")
    log.close()
    with open(tmp_path / "out" / FILE, "ab") as file:
        file.write(b'{"time": "2026-01-01", "eve')
    assert events(storage) == ["one"]
    EventLog(storage, every=0).emit("two")
    assert events(storage) == ["one", "two"]


def test_a_folder_that_cannot_be_written_ends_nothing_and_behind_a_uri_it_is_written_now_and_then(tmp_path):
    storage = Storage(f"file://{tmp_path}")
    log = EventLog(storage, every=3600)
    for event in ("one", "two", "three"):
        log.emit(event)
    assert events(storage) == ["one"]
    log.flush()
    assert events(storage) == ["one", "two", "three"]
    logs = [EventLog(Storage(place), every=0) for place in (f"{tmp_path}/out", f"file://{tmp_path}/out")]
    (tmp_path / "out").write_text("a file")
    for log in logs:
        log.emit("one")
    assert (tmp_path / "out").read_text() == "a file"


def test_in_an_object_store_nothing_is_written_twice_but_at_the_end(monkeypatch):
    with object_store(monkeypatch) as store:
        storage = Storage("store://bucket/out")
        log = EventLog(storage, every=0)
        with log.session("study", False):
            for number in range(20):
                log.emit("run reached", step=number)
            assert len(events(storage)) == 21
            sizes = [size for _, size in store.written]
            assert max(sizes) < 2 * min(sizes)
        assert storage.names("log") == []
        assert storage.names() == [FILE]
        left = dict(store.objects)
        with EventLog(storage, every=0).session("study", True):
            pass
        store.objects |= {"bucket/out/log/0.jsonl": left[f"bucket/out/{FILE}"].splitlines(keepends=True)[0]}
        assert events(storage) == ["began", *["run reached"] * 20, "finished", "resumed", "finished"]


@pytest.mark.parametrize(
    ("error", "told"), [(None, "finished"), (KeyboardInterrupt(), "interrupted"), (ValueError("a\nb"), "failed")]
)
def test_a_chapter_tells_how_a_command_ended(error, told, storage):
    for resumed in (False, True):
        expected = pytest.raises(type(error)) if error else nullcontext()
        with expected, EventLog(storage).session("study", resumed, runs=3):
            if error:
                raise error
    assert events(storage) == ["began", told, "resumed", told]
    began, ended = EventLog.read(storage)[:2]
    assert (began["verb"], began["runs"]) == ("study", 3)
    assert ended.get("reason") == ("b" if told == "failed" else None)
    assert reason("Traceback\n  File x\n\nValueError: no\n") == "ValueError: no"
    assert reason(TimeoutError()) == "TimeoutError"
    of_numba = "Failed in nopython mode pipeline\n\x1b[1mUnknown attribute 'winz'\n\x1b[0mDuring: Pass inference\x1b[0m"
    assert reason(of_numba) == "Unknown attribute 'winz'"


def test_what_is_repeated_is_counted(tmp_path):
    """A run lost at epoch 5 goes on behind its second; interrupted at 4, another command goes on behind the third."""
    storage = Storage(str(tmp_path))
    log = RunLog(EventLog(storage))
    for step in (1, 2, 3, 4, 5):
        log.reached("a", step, {"loss": 0.5})
    log.lost("a", "its process is gone")
    for step in (3, 4):
        log.reached("a", step, {"loss": 0.5})
    log.reached("b", 1, {})
    log.ended("b", 0.5)
    log = RunLog(EventLog(storage))
    log.reached("a", 4, {})
    log.ended("a", 0.5)
    log.reached("b", 1, {})
    told = EventLog.read(storage)
    went_on = [(event["run"], event["after"], event["repeats"]) for event in told if event["event"] == "run went on"]
    assert went_on == [("a", 2, 3), ("a", 3, 1)]
    (lost,) = (event for event in told if event["event"] == "run lost")
    assert (lost["run"], lost["unit"], lost["reached"], lost["reason"]) == ("a", "epoch", 5, "its process is gone")
