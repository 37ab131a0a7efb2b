"""Populations: runs that are behind go on from those ahead, the same whatever the workers, and after an interrupt."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.config.changes import config_at
from cluster.config.compose import compose
from cluster.output.event_log import EventLog
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned, points
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import run
from cluster.runs.outcome import Outcome, write_outcome
from cluster.tune.population import PopulationBandits
from cluster.tune.population_runs import FAILED, PopulationRuns
from cluster.tune.population_scheduler import PopulationScheduler, curves_of
from cluster.tune.run_source import FINISHED
from pyrite import Study
from ranking.errors import BadInput
from tests.cluster.command_line import command

MADE_OF = {"base": "x"}
EPOCHS = 8
SWEEP = [
    *("policy=fixed", "function=bm25", "selector=uniform,top", f"training.max_epochs={EPOCHS}"),
    *("optimizer.lr=tag(log,interval(1e-4,1e-1))", "sampling.negatives=interval(1,12)"),
]


class Log:
    """A tracking that writes the log alone."""

    def __init__(self, storage: Storage) -> None:
        self.events, self.stopped = EventLog(storage), list[str]()

    def end(self, name: str, status: str, numbers: dict[str, float]) -> None:
        assert status == "stopped"
        self.stopped.append(name)


def source(storage: Storage, samples: int = 8, **options: Any) -> PopulationRuns:
    scheduler = PopulationScheduler(curves_of(EventLog.read(storage)))
    bandits = PopulationBandits(**options)
    found = PopulationRuns(points([], [], SWEEP), samples, [0], storage, lambda config: MADE_OF, bandits, scheduler)
    log: Any = Log(storage)
    found.start(log)
    return found


def curve(planned: Planned) -> list[float]:
    """What a run reaches: more with a rate that is near .01 and falls, and with six negatives."""
    reached, found = 0.0, []
    for epoch in range(EPOCHS):
        config = config_at(planned.config, epoch)
        rate, negatives = config["optimizer"]["lr"], config["sampling"]["negatives"]
        reached += (3 - abs(np.log10(rate) + 2 + 0.1 * epoch) - 0.1 * abs(negatives - 6)) / 100
        found.append(float(reached))
    return found


def play(
    runs: PopulationRuns, at_once: int, parts: int = 10**6, ends_early: int = 0, fails: int = 0
) -> list[tuple[str, int | None]]:
    """Train what is handed out, several at a time, the last that began first; some fail, or end early."""
    storage, handed, open_ = runs.storage, list[tuple[str, int | None]](), list[tuple[str, dict[str, Any]]]()
    while len(handed) < parts:
        given = runs.suggest(str(len(handed)))
        if given == FINISHED:
            break
        if given is not None:
            open_.append((str(len(handed)), given["run"]))
            handed.append((given["run"]["name"], given["run"].get("until")))
        if given is None or len(open_) == at_once:
            number, told = open_.pop()
            planned = next(each for each in runs.proposed if each.name == told["name"])
            values, end = curve(planned), told.get("until") or EPOCHS
            special = planned.config["sampling"]["negatives"] == 6 and not planned.config["changes"]
            if special and ends_early:
                values, end = values[:ends_early], min(ends_early, end)
            if not (special and fails and end > fails):
                for epoch, value in enumerate(values[:end], 1):
                    runs.scheduler.reached(planned.name, epoch, value)
                    facts = {"run": planned.name, "step": epoch, "numbers": {"validation": value}}
                    EventLog(storage).emit("run reached", **facts)
                if "until" not in told or (special and ends_early):
                    write_outcome(storage, planned.name, Outcome(validations=[values], made_of=MADE_OF))
            runs.on_trial_complete(number)
    return handed


def said(runs: PopulationRuns) -> list[tuple[str, tuple[float, ...] | None]]:
    stopped = runs.scheduler.stopped
    return [(each.name, stopped[each.name].curve if each.name in stopped else None) for each in runs.proposed]


@pytest.mark.parametrize("special", [{}, {"ends_early": 3}, {"fails": 2}])
def test_what_runs_depends_on_the_results_alone(special: dict[str, int], tmp_path: Path) -> None:
    one, several = (source(Storage(str(tmp_path / str(count)))) for count in (1, 5))
    play(one, 1, **special)
    handed = play(several, 5, **special)
    assert sorted(said(one)) == sorted(said(several))
    assert len(one.proposed) == 2 * (8 + 3 * 2)
    assert len(one.scheduler.stopped) == 2 * 3 * 2
    assert {end for _, end in handed} == {2, 4, 6, None}


@pytest.mark.parametrize("parts", [8, 21, 55])
def test_a_population_that_goes_on_repeats_its_comparisons(parts: int, tmp_path: Path) -> None:
    whole = source(Storage(str(tmp_path / "whole")))
    play(whole, 1)
    play(source(Storage(str(tmp_path / "half"))), 1, parts)
    again = source(Storage(str(tmp_path / "half")))
    play(again, 3)
    assert sorted(said(again)) == sorted(said(whole))
    assert source(again.storage).finished == again.total


def test_runs_end_better_than_their_settings_would_have_let_them(tmp_path: Path) -> None:
    runs = source(Storage(str(tmp_path)), perturbation_interval=1)
    play(runs, 1)
    first = [curve(each)[-1] for each in runs.proposed if not each.config["changes"]]
    last = [curve(each)[-1] for each in runs.proposed if each.name not in runs.scheduler.stopped]
    assert np.mean(last) > np.quantile(first, 0.75)
    assert max(last) > max(first)


def test_a_run_that_failed_before_a_comparison_stays_failed(tmp_path: Path) -> None:
    runs = source(Storage(str(tmp_path)))
    play(runs, 1, parts=40, fails=2)
    again = source(Storage(str(tmp_path)))
    assert set(again.errors.values()) == {FAILED}
    play(again, 1)
    assert source(Storage(str(tmp_path))).finished == again.total


def test_who_is_behind_and_whom_it_follows() -> None:
    known = [(0.0, (share,), 1 - abs(share - 0.3)) for share in np.linspace(0, 1, 8)]
    rng = np.random.default_rng(0)
    scores = [0.3, 0.1, 0.9, 0.5, 0.4, 0.8, 0.2, 0.6]
    found = PopulationBandits().exploit(scores, known, 0.25, rng)
    assert [each.behind for each in found] == [1, 6]
    assert {each.ahead for each in found} <= {2, 5}
    assert all(abs(each.shares[0] - 0.3) < 0.3 for each in found)
    assert len(PopulationBandits(quantile_fraction=0.3).exploit(scores, known, 0.25, rng)) == 3
    assert len(PopulationBandits().exploit([0.1, 0.2], known, 0.25, rng)) == 1
    assert PopulationBandits().exploit([0.1], known, 0.25, rng) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"perturbation_interval": 0}, "perturbation_interval is 0"),
        ({"quantile_fraction": 0.6}, "quantile_fraction is 0.6"),
        ({"kappa": -1.0}, "kappa is -1.0"),
        ({"perturbation_interval": EPOCHS}, "over when they are first compared"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        PopulationBandits(**options).interval(EPOCHS)


SEARCH = [
    *("optimizer.lr=tag(log,interval(1e-4,1e-1))", "sampling.negatives=interval(1,3)", "trial_scheduler=pb2"),
    *("samples=4", "training.max_epochs=4", "training.patience=4", "policy=fixed", "function=bm25", "selector=uniform"),
]


def test_each_run_of_a_study_is_repeated_from_its_beginning(base: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command("study", *base, *SEARCH, "local=true", f"out={out}") == 0
    trials = pl.read_parquet(out / "trials.parquet")
    assert sorted(trials["status"]) == ["done"] * 4 + ["stopped"] * (len(trials) - 4)
    assert len(trials) > 4
    row = trials.filter(pl.col("overrides").str.contains("changes"), status="done").row(-1, named=True)
    config = compose(shlex.split(row["overrides"]))
    outcome = run(config, Artifacts().parts(config))
    assert outcome.validations[0] == row["curve_validation"]
    assert float(outcome.values["bm25"]["AP@10"].mean()) == row["bm25:AP@10"]
    found = Study(str(out)).settings.filter(run=row["run"])
    assert found["after"].unique().sort().to_list() == [0, *(change["after"] for change in config["changes"])]
    assert set(found.filter(pl.col("after") > 0)["went_on_from"]) <= set(trials["run"])
    assert not list((out / "states").iterdir())
    summary = pl.read_csv(out / "summary.csv")
    assert summary["t_p"].null_count() == len(summary)
    report = (out / "report.html").read_text()
    assert "Settings that changed in mid-run" in report


@pytest.mark.nightly
def test_workers_of_ray_make_no_difference(base: list[str], tmp_path: Path, ray_session: None) -> None:
    short = ["samples=3", "training.max_epochs=2"]
    for where in ("true", "false"):
        assert command("study", *base, *SEARCH, *short, f"local={where}", f"out={tmp_path / where}") == 0
    here, there = (pl.read_parquet(tmp_path / where / "trials.parquet").drop("seconds") for where in ("true", "false"))
    assert here.sort("run").equals(there.sort("run"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["ranker.spread=interval(0.01,0.1)"], "ranker.spread shapes a run from its beginning"),
        (["training.batch_size=interval(2,8)"], "training.batch_size shapes a run from its beginning"),
        (["optimizer.lr=interval(1e-4,1e-2)", "search=optuna"], "leave one of both out"),
        (["optimizer.lr=interval(1e-4,1e-2)", "stoppers=[ray.tune.stopper.NoopStopper]"], "leave one of both out"),
        (["optimizer.lr=interval(1e-4,1e-2)", "samples=1"], "nobody to follow"),
        (["optimizer.lr=interval(1e-4,1e-2)", "training.max_epochs=1"], "over when they are first compared"),
        (["optimizer.lr=.001"], "compared by their seeds"),
        (["optimizer.lr=interval(1e-4,1e-2)", "seeds=2"], "seeds=1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: list[str], says: str, base: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["policy=fixed", "function=bm25", "selector=uniform", "trial_scheduler=pb2", f"out={tmp_path / 'out'}"]
    assert command("study", *base, *asked, *options) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
