"""The log of events, what reports say of losses, and lines that are printed as they are."""

import io
import json
import math
from contextlib import nullcontext
from typing import Any

import pytest
from rich.console import Console

from pyrite.cluster.output.event_log import FILE, EventLog, reason
from pyrite.cluster.output.run_log import MAX_RUNS, RunLog, failure_summary
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import print_counts, print_lines


def events(storage: Storage) -> list[str]:
    return [event["event"] for event in EventLog.read(storage)]


@pytest.fixture(params=["", "file://"])
def storage(request, tmp_path) -> Storage:
    return Storage(f"{request.param}{tmp_path / 'out'}")


def test_a_line_is_an_event_and_another_command_goes_on_behind_one_that_was_cut(storage, tmp_path):
    log = EventLog(storage, every=0)
    log.emit("run started", run="ä")
    log.emit("run ended", run="ä", best=math.nan, why=None)
    log.close()
    first, second = (json.loads(line) for line in (tmp_path / "out" / FILE).read_text().splitlines())
    assert (first["event"], first["run"]) == ("run started", "ä")
    assert first["time"].endswith("+00:00")
    assert second["best"] is None
    assert "why" not in second
    assert EventLog.read(storage) == [first, second]
    with open(tmp_path / "out" / FILE, "ab") as file:
        file.write(b'{"time": "2026-01-01", "eve')
    assert EventLog.read(storage) == [first, second]
    EventLog(storage, every=0).emit("two")
    assert events(storage) == ["run started", "run ended", "two"]


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


def test_in_an_object_store_nothing_is_written_twice_but_at_the_end(store):
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
    first = store.objects[f"bucket/out/{FILE}"].splitlines(keepends=True)[0]
    with EventLog(storage, every=0).session("study", True):
        pass
    store.objects["bucket/out/log/0.jsonl"] = first
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


BEGAN, RESUMED, FINISHED = ({"event": name} for name in ("began", "resumed", "finished"))
LOST = {"event": "run lost", "run": "a", "unit": "epoch", "reached": 9, "reason": "the node died"}
MOVED = {"event": "run moved", "run": "a", "unit": "epoch", "reason": "its machine is to be taken away"}
AWAY = {"event": "run says", "run": "b", "line": "a worker's machine is to be taken away; the state is kept"}
ENDED = [BEGAN, FINISHED, RESUMED, FINISHED]


def went_on(run: str, after: int, repeats: int) -> dict[str, Any]:
    return {"event": "run went on", "run": run, "unit": "epoch", "after": after, "repeats": repeats}


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], []),
        ([BEGAN, {"event": "run started", "run": "a"}, {"event": "run reached", "run": "a", "step": 1},
          {"event": "run ended", "run": "a"}, went_on("a", 3, 0), FINISHED], []),
        (ENDED, []),  # a finished command may be extended
        ([*ENDED, RESUMED, {"event": "interrupted"}, RESUMED, {"event": "failed"}, RESUMED, RESUMED, FINISHED],
         ["It was interrupted and resumed 3 times."]),
        ([{"event": "lost", "says": "QueueActor was lost at episode 8; continuing from the last state"}],
         ["QueueActor was lost at episode 8; continuing from the last state."]),
        ([LOST | {"reached": 7, "reason": "the worker died"}, went_on("a", 5, 2), LOST, went_on("a", 9, 0), RESUMED,
          went_on("b", 0, 1), {"event": "run says", "run": "b", "line": "index#1 is lost; waiting"},
          {"event": "run says", "run": "b", "line": "index#1 is back"}],
         ["It was interrupted and resumed once.",
          "1 run was stopped by an error or a lost process, twice in all.",
          "3 epochs had to be repeated; nothing is counted twice.",
          "b: index#1 is lost; waiting.",
          "a: lost at epoch 7 (the worker died); at epoch 9 (the node died), 2 epochs again.",
          "b: interrupted, 1 epoch again."]),
        ([MOVED, went_on("a", 7, 0), MOVED, AWAY],
         ["1 run continued on another machine, twice in all, before a machine was taken away; nothing was lost.",
          "b: a worker's machine is to be taken away; the state is kept.",
          "a: moved twice."]),
    ],
)  # fmt: skip
def test_losses_and_what_was_repeated_are_told_and_nothing_else(events, said):
    assert failure_summary(events) == said


def test_a_run_that_was_lost_and_moved_has_one_line_and_many_runs_are_counted():
    assert failure_summary([MOVED, MOVED, LOST])[-1] == "a: lost at epoch 9 (the node died), moved twice."
    many = failure_summary([{"event": "run lost", "run": f"r{n}", "reached": 0} for n in range(MAX_RUNS + 5)])
    assert len(many) == 1 + MAX_RUNS + 1
    assert many[-1].startswith("… and 5 more runs")


def test_lines_are_neither_broken_nor_read_as_markup():
    console = Console(file=io.StringIO(), width=20)
    print_lines(console, "a folder named runs[a] or [bold]", "x" * 30)
    print_counts(console, {"broken line": 1200, "duplicate id": 0})
    expected = ["a folder named runs[a] or [bold]", "x" * 30, "broken line: 1,200"]
    assert console.file.getvalue().splitlines() == expected
