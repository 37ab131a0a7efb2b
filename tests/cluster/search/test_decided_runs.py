"""Seeds that are handed out until everything is decided."""

import numpy as np
import polars as pl
import pytest

from cluster.executors.task import Done, Task
from cluster.output.event_log import EventLog
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned, points
from cluster.runs.outcome import Outcome, write_outcome
from cluster.search.decided_runs import EVENT, DecidedRuns
from cluster.statistics.sequential import StoppingRule
from tests.cluster.command_line import command

MADE_OF = {"base": "x"}
MEANS = {"random": 0.3, "bm25": 0.36, "in_batch": 0.366}


def source(storage: Storage, most: int = 30) -> DecidedRuns:
    found = points([], ["policy=fixed", "selector=uniform"], ["function=random,bm25,in_batch"])
    return DecidedRuns(found, range(most), StoppingRule(most=most), lambda run: False, storage, lambda config: MADE_OF)


def finish(storage: Storage, planned: Planned) -> None:
    """Leave the result of a run."""
    (function,) = planned.config["function"]
    value = MEANS[function] + np.random.default_rng(planned.config["seed"]).normal(0, 0.004)
    measured = {"bm25": {"AP@100": np.array([value])}}
    write_outcome(storage, planned.name, Outcome(values=measured, made_of=MADE_OF))


def play(runs: DecidedRuns, storage: Storage, at_once: int, most: int = 10**6) -> list[str]:
    """Run what is handed out, several at a time, the last that began first."""
    known = {planned.name: planned for of in runs.methods.values() for planned in of.values()}
    order: list[str] = []
    open_: list[Task] = []
    while len(order) < most:
        task = runs.next()
        if task is None:
            break
        if isinstance(task, Task):
            open_.append(task)
            order.append(task.key)
        if not isinstance(task, Task) or len(open_) == at_once:
            ended = open_.pop()
            finish(storage, known[ended.key])
            runs.ended(Done(ended))
    return order


def test_seeds_end_when_it_is_decided_whatever_the_workers(tmp_path):
    storages = [Storage(str(tmp_path / str(count))) for count in (1, 5)]
    orders = [play(source(storage), storage, count) for storage, count in zip(storages, (1, 5), strict=True)]
    assert orders[0] == orders[1]
    counts = {name: sum(name in run for run in orders[0]) for name in ("random", "bm25", "in_batch")}
    assert counts["random"] < 15 < counts["bm25"] == counts["in_batch"]  # .06 is seen soon, .006 is not
    assert len(orders[0]) < 90


def test_a_study_that_goes_on_repeats_its_decisions(tmp_path):
    storage, whole = Storage(str(tmp_path / "half")), Storage(str(tmp_path / "whole"))
    expected = play(source(whole), whole, 1)
    first = source(storage)
    first.start(EventLog(storage))
    begun = play(first, storage, 1, most=20)
    again = source(storage)
    assert again.finished >= 18
    again.start(EventLog(storage))
    rest = play(again, storage, 3)
    assert list(dict.fromkeys(begun + rest)) == expected
    told = [event for event in EventLog.read(storage) if event["event"] == EVENT]
    assert [event["round"] for event in told] == list(range(len(told)))
    assert set(told[0]["methods"].values()) == {3}
    verdicts = {name.split("function=")[1].split()[0]: said for name, said in told[-1]["verdicts"].items()}
    assert verdicts["random"] == "worse"


def test_where_every_run_fails_it_ends(tmp_path):
    storage = Storage(str(tmp_path))
    runs = source(storage, most=4)
    asked = 0
    while isinstance(task := runs.next(), Task):
        runs.ended(Done(task))  # nothing was written
        asked += 1
    assert task is None
    assert asked == 3 * 3


@pytest.mark.nightly
def test_a_study_of_undecided_methods(base, tmp_path):
    out = tmp_path / "out"
    asked = ["policy=fixed", "function=random,bm25", "selector=uniform", "stop=decided", "max_seeds=4", "local=true"]
    assert command("study", *base, *asked, "equal_within=0.2", f"out={out}") == 0
    found = pl.read_parquet(out / "decisions.parquet")
    assert found.columns[4:7] == ["method", "against", "verdict"]
    assert found["seeds"].to_list() == [4, 4]
    assert len(pl.read_parquet(out / "trials.parquet")) == 8
    page = (out / "report.html").read_text()
    assert "What is decided" in page
    before = (out / "decisions.parquet").read_bytes()
    assert command("study", "--resume", str(out), "local=true") == 0
    assert (out / "decisions.parquet").read_bytes() == before
    assert command("study", "--power", str(out)) == 0
    assert (out / "power.parquet").is_file()
    assert command("study", "--power", str(out), "seeds=3") == 2
