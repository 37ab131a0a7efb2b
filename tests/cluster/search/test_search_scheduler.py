"""Schedulers of Ray Tune within a search: the same runs are stopped whatever the workers, and after an interrupt."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune import Stopper

from cluster.commands.study import StudyExperiment
from cluster.config.groups import option
from cluster.output.event_log import EventLog
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned
from cluster.search.hyperband import SeededHyperBand
from cluster.search.schedulers import EarlyStopping, built_as, read_log, schedulers_of
from cluster.telemetry.tracking.tracking import as_override_of
from ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.examples import few

RUNS, EPOCHS = 12, 6
CONFIG = {"seed": 0, "training": {"max_epochs": EPOCHS}}
OPTIONS: dict[str, dict[str, Any]] = {
    "asha": {"grace_period": 1, "reduction_factor": 2},
    "median": {"min_samples_required": 2},
    "hyperband": {"reduction_factor": 2},
}


def planned(count: int = RUNS, drawn: tuple[str, ...] = ("lr",)) -> list[Planned]:
    return [Planned(f"run{n}", (f"lr={n}", "seed=0"), (), CONFIG, drawn) for n in range(count)]


def scheduler(name: str, **told: Any) -> EarlyStopping:
    found = EarlyStopping(schedulers_of(option("trial_scheduler", name) | OPTIONS[name]), **told)
    found.enter(planned())
    return found


def play(search: EarlyStopping, curves: np.ndarray, at_once: int, order: np.random.Generator) -> dict[str, int]:
    """Let so many runs go on at once, one or another; where each was stopped."""
    waiting = [run.name for run in planned() if run.name not in search.stopped]
    going: dict[str, int] = {}
    held: set[str] = set()

    def hear(answers: dict[str, bool]) -> None:
        for name, goes_on in answers.items():
            held.discard(name)
            if not goes_on or going[name] == EPOCHS:
                del going[name]
                hear(search.ended(name))

    while waiting or going:
        while waiting and len(going) < at_once:
            going[waiting.pop(0)] = 0
        name = order.choice([each for each in going if each not in held])
        going[name] += 1
        held.add(name)
        hear(search.reached(name, going[name], float(curves[int(name[3:]), going[name] - 1])))
    return {name: stop.at for name, stop in search.stopped.items()}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", sorted(OPTIONS))
@few(8)
@given(seed=st.integers(0, 1000), at_once=st.integers(2, RUNS))
def test_what_is_stopped_depends_on_the_results_alone(name, seed, at_once):
    rng = np.random.default_rng(seed)
    curves = np.cumsum(rng.random((RUNS, EPOCHS)) * rng.random((RUNS, 1)), axis=1)
    alone = play(scheduler(name), curves, 1, rng)
    assert play(scheduler(name), curves, at_once, rng) == alone


def test_asha_stops_what_is_below_the_best_half_at_each_rung():
    search = scheduler("asha")
    first = [0.5, 0.4, 0.6, 0.55, 0.3]
    # By numpy's percentile of those before: none; .5; .45; .5 of (.4, .5, .6); .525 of (.4, .5, .55, .6).
    expected = [True, False, True, True, False]
    found = []
    for number, value in enumerate(first):
        found.append(search.reached(f"run{number}", 1, value)[f"run{number}"])
        search.ended(f"run{number}")
    assert found == expected
    assert search.stopped["run1"].best == 0.4
    assert search.stopped["run4"].at == 1


def test_a_run_that_is_ahead_waits_for_those_before_it():
    search = scheduler("asha")
    assert search.reached("run1", 1, 0.2) == {}
    assert search.waiting_behind("run0") == ["run1"]
    assert search.reached("run0", 1, float("nan")) == {"run0": True, "run1": True}  # what is no number is 0
    assert search.reached("run1", 2, 0.3) == {}
    assert search.ended("run0") == {"run1": True}
    search.let_go("run1")
    assert search.reached("run1", 2, 0.1) == {"run1": True}  # told again after a loss: it was decided


def test_methods_are_never_stopped_for_another():
    search = EarlyStopping(schedulers_of(option("trial_scheduler", "asha")))
    own = [Planned(f"a{n}", ("policy=a", f"lr={n}"), (), CONFIG, ("lr",)) for n in range(2)]
    search.enter([*own, Planned("b", ("policy=b", "lr=1"), (), CONFIG, ("lr",)), *planned(1, ())])
    assert search.reached("a0", 1, 0.9) == {"a0": True}
    assert search.reached("b", 1, 0.1) == {"b": True}
    assert search.reached("run0", 1, 0.0) == {"run0": True}  # nothing was drawn for it
    assert search.reached("a1", 1, 0.1) == {"a1": False}


def test_a_search_goes_on_as_its_log_says(tmp_path):
    rng = np.random.default_rng(5)
    curves = np.cumsum(rng.random((RUNS, EPOCHS)), axis=1)
    whole = play(scheduler("median"), curves, 3, rng)
    assert 0 < len(whole) < RUNS
    log = EventLog(Storage(str(tmp_path)))
    for number in range(RUNS // 2):  # the first six ended before the interrupt
        name = f"run{number}"
        for epoch in range(whole.get(name, EPOCHS)):
            log.emit("run reached", run=name, step=epoch + 1, numbers={"validation": float(curves[number, epoch])})
        if name in whole:
            log.emit("run stopped", run=name, reached=whole[name], best=0.0, made_of="same")
    stopped, reached = read_log(EventLog.read(log.storage))
    again = scheduler("median", stopped=stopped, reached=reached, made_of=lambda config: "same")
    for number in range(RUNS // 2):
        again.ended(f"run{number}")
    rest = [name for name in whole if int(name[3:]) >= RUNS // 2]
    assert rest
    for number in range(RUNS // 2, RUNS):
        for epoch in range(EPOCHS):
            if not again.reached(f"run{number}", epoch + 1, float(curves[number, epoch]))[f"run{number}"]:
                break
        again.ended(f"run{number}")
    assert {name: stop.at for name, stop in again.stopped.items()} == whole
    other = scheduler("median", stopped=stopped, reached=reached, made_of=lambda config: "another")
    assert not other.stopped  # made of something else, they run again


def test_stoppers_end_runs_and_searches():
    nodes = [{"_target_": "ray.tune.stopper.MaximumIterationStopper", "max_iter": 2}]
    search = EarlyStopping(None, built_as(Stopper, nodes, "stoppers"))
    search.enter(planned())
    assert search.reached("run0", 1, 0.1) == {"run0": True}
    assert search.reached("run0", 2, 0.2) == {"run0": False}
    assert not search.finished()
    timed = [{"_target_": "ray.tune.stopper.TimeoutStopper", "timeout": 0}]
    assert EarlyStopping(None, built_as(Stopper, timed, "stoppers")).finished()


SEARCH = ["policy=fixed", "function=bm25", "selector=uniform", "optimizer.lr=tag(log,interval(1e-5,1e-1))",
          "samples=6", "trial_scheduler=asha", "trial_scheduler.reduction_factor=2"]  # fmt: skip


def test_a_study_stops_what_is_behind(base, tmp_path, capsys):
    out = tmp_path / "out"
    asked = [*base, *SEARCH, "search=optuna", "training.max_epochs=4", "training.patience=4"]
    assert command("study", *asked, "local=true", f"out={out}") == 0
    trials = pl.read_parquet(out / "trials.parquet")
    stopped = trials.filter(status="stopped")
    assert len(trials) == 6
    assert 0 < len(stopped) < 6
    assert set(trials["status"]) == {"done", "stopped"}
    assert stopped["error"].null_count() == len(stopped)
    assert (stopped["epochs"] == stopped["curve_validation"].list.len()).all()
    assert (stopped["epochs"] < 4).all()
    assert f"{len(stopped)} stopped by the search" in (out / "report.html").read_text()
    events = [event["run"] for event in EventLog.read(Storage(str(out))) if event["event"] == "run stopped"]
    assert sorted(events) == sorted(stopped["run"])
    assert not list((out / "states").glob("*"))
    # Nothing is left to do: decisions are those of the log.
    before = (out / "summary.csv").read_bytes()
    capsys.readouterr()
    assert command("study", "--resume", str(out), "local=true") == 0
    assert "6 runs (6 done)" in capsys.readouterr().out
    assert (out / "summary.csv").read_bytes() == before
    assert pl.read_parquet(out / "trials.parquet").equals(trials)


@pytest.mark.nightly
def test_workers_of_ray_stop_the_same_runs(base, tmp_path, ray_session):
    asked = [*base, *SEARCH, "search=optuna", "parallel=3", "training.max_epochs=4", "training.patience=4"]
    for where in ("true", "false"):
        assert command("study", *asked, f"local={where}", f"out={tmp_path / where}") == 0
    found = [pl.read_parquet(tmp_path / where / "trials.parquet") for where in ("true", "false")]
    here, there = (trials.drop("seconds", "memory").sort("run") for trials in found)
    assert here.equals(there)
    assert "stopped" in set(here["status"])


def test_a_scheduler_of_ones_own_and_those_that_a_search_can_not_have(tmp_path):
    asked = ["trial_scheduler=asha", "trial_scheduler._target_=ray.tune.schedulers.FIFOScheduler"]
    experiment = StudyExperiment.new([*asked, "optimizer.lr=interval(1e-4,1e-2)", f"out={tmp_path}"])
    assert experiment.plan.options["trial_scheduler"] == {"_target_": "ray.tune.schedulers.FIFOScheduler"}
    assert schedulers_of(experiment.plan.options["trial_scheduler"]) is not None
    assert experiment.plan.seeds == [0]
    (name, own) = as_override_of("trial_scheduler", {**option("trial_scheduler", "median"), "grace_period": 3})
    assert (name, own) == ("trial_scheduler=median", "trial_scheduler.grace_period=3")
    for node, says in (
        ({"_target_": "ray.tune.schedulers.HyperBandScheduler"}, "no resume repeats"),
        ({"_target_": "ray.tune.schedulers.MedianStoppingRule", "mode": "most"}, "mode"),
        ({"_target_": "pathlib.Path"}, "no scheduler"),
    ):
        with pytest.raises(BadInput, match=says):
            schedulers_of(node)


def brackets(seed: int, count: int = 60) -> list[int]:
    found = SeededHyperBand(grace_period=1, reduction_factor=2, brackets=3, max_t=64, seed=seed)
    found.set_search_properties("validation", "max")
    for number in range(count):
        found.on_trial_add(None, SimpleNamespace(trial_id=str(number)))
    return [found._brackets.index(found._trial_info[str(number)]) for number in range(count)]


def test_brackets_follow_from_the_seed_and_no_global_generator():
    np.random.seed(1)  # noqa: NPY002  what it must not depend on
    one = brackets(0)
    np.random.seed(2)  # noqa: NPY002
    assert brackets(0) == one
    assert brackets(1) != one
    assert one.count(0) > one.count(1) > one.count(2) > 0  # the more rungs, the more likely
