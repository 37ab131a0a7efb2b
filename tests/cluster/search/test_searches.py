"""Searches by Optuna, runs that a scheduler of Ray Tune stops, and seeds that are handed out until all is decided."""

import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import polars as pl
import pytest
from ray.tune import Callback, Stopper
from ray.tune.schedulers import FIFOScheduler

from pyrite import StudyResult
from pyrite.cluster.commands.resuming import started
from pyrite.cluster.commands.study import STUDY, continued
from pyrite.cluster.config.groups import CHOICES, option
from pyrite.cluster.config.trust import from_folder
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.task import Done, Task
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.output.storage import Storage, Unwritable
from pyrite.cluster.plan.point import Point
from pyrite.cluster.plan.searches import Search, searches
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, is_baseline, plan, points, swept_keys
from pyrite.cluster.runs.outcome import Outcome, mean_best, read_outcome, write_outcome
from pyrite.cluster.search.decided_runs import EVENT, DecidedRuns
from pyrite.cluster.search.optuna_runs import OptunaRuns, StoredSearch
from pyrite.cluster.search.schedulers import TrialStopping, built_as, schedulers_of
from pyrite.cluster.search.time_budget import TimeBudget
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command

MADE_OF = {"base": "x"}
SWEEP = ["policy=fixed", "function=bm25", "selector=uniform", "optimizer.lr=tag(log,interval(1e-4,1e-1))"]


def searched(sweep: list[str], samples: int, storage: Storage, sampler: str = "tpe", parallel: int = 1) -> OptunaRuns:
    options = {"samples": samples, "seeds": 1, "sampler": sampler, "parallel": parallel}
    return OptunaRuns(StudyPlan(options, sweep, {}, storage), points([], [], sweep), lambda config: MADE_OF)


def in_turn(runs: Any, at_once: int, finish: Callable[[str], None], most: int = 10**6) -> tuple[list[str], int]:
    """Run what is handed out, several at a time; the order of the runs, and the most that were open at once."""
    order, open_, widest = list[str](), list[Task](), 0
    while len(order) < most and (task := runs.next()) is not None:
        if isinstance(task, Task):
            open_.append(task)
            order.append(task.key)
            widest = max(widest, len(open_))
        if not isinstance(task, Task) or len(open_) == at_once:
            ended = open_.pop()  # the last that began ends first
            finish(ended.key)
            runs.ended(Done(ended))
    return order, widest


def fail(name: str) -> None:
    """Leave no result."""


def near(config: dict[str, Any]) -> float:
    return 1 - abs(np.log10(config["optimizer"]["lr"]) + 2)


def played(
    search: OptunaRuns, at_once: int = 1, best: Callable[[dict[str, Any]], float] = near
) -> tuple[list[float], int]:
    def finish(name: str) -> None:
        (planned,) = [each for each in search.proposed if each.name == name]
        write_outcome(search.plan.storage, name, Outcome(validations=[[best(planned.config)]], made_of=MADE_OF))

    _, most = in_turn(search, at_once, finish)
    return [planned.config["optimizer"]["lr"] for planned in search.proposed], most


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes"])
def test_a_search_is_the_same_whatever_the_workers_and_after_an_interrupt(sampler, tmp_path):
    if sampler == "cmaes":
        pytest.importorskip("cmaes")

    def play(folder: str, parallel: int, at_once: int, samples: int = 9) -> tuple[list[float], int]:
        return played(searched(SWEEP, samples, Storage(str(tmp_path / folder)), sampler, parallel), at_once)

    one, _ = play("one", 3, 1)
    several, most = play("several", 3, 5)
    assert one == several
    assert most == 3  # so many proposals are open at once, and no more
    assert len(set(one)) == 9
    again, _ = play("one", 3, 1)
    assert again == one
    assert play("alone", 1, 5, samples=3)[1] == 1  # each learns from the last


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_run_that_failed_and_is_repeated_changes_no_later_proposal(parallel, tmp_path):
    storage = Storage(str(tmp_path))

    def play(failing: int | None) -> OptunaRuns:
        search = searched(SWEEP, 12, storage, parallel=parallel)
        search.start(EventLog(storage))

        def finish(name: str) -> None:
            numbers = {each.name: place for place, each in enumerate(search.proposed)}
            config = search.proposed[numbers[name]].config
            if numbers[name] != failing:
                write_outcome(storage, name, Outcome(validations=[[near(config)]], made_of=MADE_OF))

        in_turn(search, 1, finish)
        return search

    first, second, third = play(failing=6), play(failing=None), play(failing=None)
    names = [planned.name for planned in first.proposed]
    assert [planned.name for planned in second.proposed] == [planned.name for planned in third.proposed] == names
    assert [search.finished for search in (first, second, third)] == [0, 11, 12]
    assert second._results[names[6]] == 0


def test_a_result_that_can_not_be_kept_ends_the_search_and_changes_no_later_proposal(tmp_path):
    undisturbed, _ = played(searched(SWEEP, 6, Storage(str(tmp_path / "whole"))))
    storage = Storage(str(tmp_path / "full"))
    search = searched(SWEEP, 6, storage)
    search.start(EventLog(storage))
    task = search.next()
    assert isinstance(task, Task)
    with pytest.raises(Unwritable, match="the disk is full"):
        search.ended(Done(task, error=Unwritable("the disk is full", "out")))
    assert not list(EventLog.read(storage))
    assert [planned.name for planned in search.left] == [task.key]
    assert played(searched(SWEEP, 6, storage))[0] == undisturbed


ALTERNATIVES = [
    *SWEEP, "optimizer=adam,lazy_adam", "optimizer.weight_decay=interval(0,0.1)", "training.batch_size=16,32",
]  # fmt: skip


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("parallel", "at_once"), [(1, 1), (4, 3)])
def test_names_and_the_options_of_alternatives_are_searched(parallel, at_once, tmp_path):
    """`lazy_adam` has no weight decay, which is drawn for `adam` alone."""

    def search(folder: str) -> OptunaRuns:
        return searched(ALTERNATIVES, 24, Storage(str(tmp_path / folder)), parallel=parallel)

    runs = search("one")
    assert (len(runs.examples), runs.total) == (4, 24)  # parts of each combination are prepared; one search
    played(runs)
    chosen = [(each.config[CHOICES]["optimizer"], each.config["training"]["batch_size"]) for each in runs.proposed]
    assert set(chosen) == {(name, size) for name in ("adam", "lazy_adam") for size in (16, 32)}
    for planned in runs.proposed:
        of_adam = planned.config[CHOICES]["optimizer"] == "adam"
        assert ("optimizer.weight_decay" in planned.drawn) == of_adam
        assert any(text.startswith("optimizer.weight_decay=") for text in planned.overrides) == of_adam
        assert {"optimizer", "training.batch_size", "optimizer.lr"} <= set(planned.drawn)
        assert planned.parameters["optimizer"] == planned.config[CHOICES]["optimizer"]
    stopping = TrialStopping(None)
    stopping.enter(runs.proposed)
    assert len(stopping._searches) == 1  # a scheduler compares the alternatives with each other
    several, again = search("several"), search("one")
    played(several, at_once)
    assert [planned.name for planned in several.proposed] == [planned.name for planned in runs.proposed]
    played(again)  # a resumed search, whose results are all there
    assert [planned.name for planned in again.proposed] == [planned.name for planned in runs.proposed]
    assert again.finished == again.total == 24


def test_a_search_learns_which_name_is_better(tmp_path):
    """Results are better with smaller batches, so later proposals choose them."""
    search = searched([*SWEEP, "training.batch_size=8,16,32,64"], 40, Storage(str(tmp_path)))
    played(search, best=lambda config: 1 / config["training"]["batch_size"])
    sizes = [planned.config["training"]["batch_size"] for planned in search.proposed]
    assert Counter(sizes[20:]).most_common(1)[0][0] == 8


@pytest.mark.parametrize("parallel", [1, 5])
def test_a_proposal_that_repeats_a_run_counts_it_once(parallel, tmp_path):
    sweep = [*SWEEP[:3], "training.batch_size=16,32", "optimizer=adam,adamw", "training.patience=1,2"]
    search = searched(sweep, 20, Storage(str(tmp_path)), parallel=parallel)
    tasks, _ = in_turn(search, 1, fail)
    assert len(set(tasks)) == len(tasks) == len(search.proposed) == search.total <= 8


def test_methods_have_searches_of_their_own():
    sweep = [
        *("policy=fixed", "function=bm25,random", "selector=uniform"), "optimizer=adam,adamw",
        "optimizer.lr=interval(0.1,1)",
    ]  # fmt: skip
    found = searches(points([], [], sweep), swept_keys(sweep))
    assert [(search.method, len(search.points), search.keys) for search in found] == [
        (("policy=fixed", f"function={name}", "selector=uniform"), 2, ("optimizer",)) for name in ("bm25", "random")
    ]
    assert found[0].parameter("optimizer.lr", found[0].points[1]) == "optimizer.lr (adamw)"
    labelled = [["optimizer=adam"], ["optimizer=adamw"]]  # what an experiment compares is no setting of a search
    assert len(searches(points(labelled, [], sweep[-1:]), swept_keys(sweep[-1:]))) == 2


RATE, MARGIN = '{optimizer.lr: "interval(0.1,1)"}', '{guard.relative: "interval(0.05,0.2)"}'


@pytest.mark.parametrize(
    ("methods", "more", "searched", "known"),
    [
        (f"{RATE},{MARGIN}", "", [["optimizer.lr"], ["guard.relative"]], 0),
        (f"{{function: bm25}},{MARGIN}", "", [["guard.relative"]], 1),  # the plain method is planned as usual
        (f"{RATE},{MARGIN}", "training.batch_size=16,32", [["optimizer.lr"], ["guard.relative"]], 0),
        ('{guard.relative: "interval(0.01,0.02)"},' + MARGIN, "", [["guard.relative"]] * 2, 0),
    ],
)
def test_methods_that_no_choice_tells_apart_have_a_search_each(methods, more, searched, known, tmp_path):
    """Each line of `methods=` runs."""
    lines = f"methods=[{methods}]".replace("{", "{selector: uniform, ")
    given = ["function=bm25", "seeds=1", "samples=3", "search=optuna", *more.split(), f"out={tmp_path}", lines]
    study = started(STUDY, given).plan
    runs, adaptive = study.runs()
    found = OptunaRuns(study, adaptive, lambda config: MADE_OF)
    assert [search.points[0].drawn for search in found.searches] == searched
    assert sum(len(search.points) for search in found.searches) == len(adaptive)
    played(found, best=lambda config: 0.5)
    assert (len(runs), len(found.proposed)) == (known, 3 * len(searched))


def test_few_combinations_are_all_run_and_what_a_sampler_can_not_search_is_refused(tmp_path):
    for sampler, more, says in (
        ("cmaes", "training.batch_size=16,32", "training.batch_size is a choice among values"),
        ("gp", "optimizer=adam,lazy_adam", "optimizer.lr depends on another choice"),
    ):
        with pytest.raises(BadInput, match=says):
            started(STUDY, [*SWEEP, more, "search=optuna", f"sampler={sampler}", f"out={tmp_path}"]).plan.runs()
    names = [*SWEEP[:3], "optimizer=adam,adamw", "training.batch_size=16,32", "search=optuna", f"out={tmp_path}"]
    for samples, counts in ((4, [4, 0]), (3, [0, 4])):
        assert [*map(len, started(STUDY, [*names, f"samples={samples}", "seeds=1"]).plan.runs())] == counts


def test_options_of_a_search_are_refused_where_nothing_reads_them(tmp_path):
    names = [*SWEEP[:3], "seeds=1", f"out={tmp_path}"]
    with pytest.raises(BadInput, match=r"samples= draws from intervals, and no option has one; .*seeds=N"):
        started(STUDY, [*names, "samples=2"])
    for text in ("sampler=gp", "parallel=2", "search_storage=sqlite:///x.db", "search.storage=sqlite:///x.db"):
        with pytest.raises(BadInput, match=f"{text.partition('=')[0]}= is read by search=optuna alone"):
            started(STUDY, [*names, text])
        started(STUDY, [*names, text, "search=optuna"])
    draw = "optimizer.lr=tag(log,interval(1e-4,1e-2))"  # the remedy
    assert len(started(STUDY, [*names, "samples=2", draw]).plan.runs()[0]) == 2


def test_no_run_begins_when_the_time_is_over():
    clock = [0.0]
    budget = TimeBudget("10s", now=lambda: clock[0])
    runs = LocalExecutor().run([Task("a", lambda: 1), Task("b", lambda: 1)], stop=budget.spent)
    assert next(runs).task.key == "a"
    assert not budget.over
    clock[0] = 10.0
    assert list(runs) == []
    assert budget.over
    assert not TimeBudget(None).spent()
    assert TimeBudget(None, lambda: True).spent()


def test_a_study_without_time_for_a_run_says_how_to_go_on(base, tmp_path, capsys):
    out = tmp_path / "out"
    asked = ["policy=fixed", "function=random", "selector=uniform", "seeds=1", "local=true", "time_budget=0.0001"]
    assert command("study", *base, *asked, f"out={out}") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"time was over before a run ended; to continue: pyrite study --resume {out}" in shown.replace("- -", "--")


@pytest.mark.nightly
def test_a_study_that_ran_out_of_time_is_stopped_and_goes_on(base, tmp_path):
    out = tmp_path / "out"
    asked = ["policy=fixed", "function=bm25,random", "selector=uniform", "seeds=2", "local=true"]
    assert command("study", *base, *asked, "time_budget=0.01", f"out={out}") == 0
    trials = pl.read_parquet(out / "trials.parquet")
    assert {"stopped"} <= set(trials["status"]) <= {"done", "stopped"}  # a quick machine may begin one run in time
    assert trials["error"].null_count() == 4
    study = StudyResult.restore(str(out), ["time_budget=1h", "local=true"])  # what `--resume` does
    assert (study.folder, study.failed) == (str(out), 0)
    assert set(study.trials["status"]) == {"done"}
    assert study.best_by("bm25:AP@10").row["bm25:AP@10"] == study.trials["bm25:AP@10"].max()
    assert study.best.config["function"].keys() <= {"bm25", "random"}
    assert Path(study.files(study.trials["run"][0])["result"]).is_file()
    with pytest.raises(BadInput, match="bm25:AP@10"):
        study.best_by("nDCG")
    assert len(study.spread) == 4
    with pytest.raises(BadInput, match="across"):
        _ = study.across


def test_runs_that_are_outdated_and_were_not_started_are_stopped(base, tmp_path):
    """Their results from before, of other data or code, are in no table."""
    out, names = tmp_path / "out", set[str]()
    asked = ["policy=fixed", "function=bm25,random", "selector=uniform", "seeds=1", "training.max_epochs=1"]
    assert command("study", *base, *asked, "local=true", f"out={out}") == 0
    storage = Storage(str(out))
    for file in (out / "runs").iterdir():
        outcome = read_outcome(storage, file.stem)
        assert outcome is not None
        outcome.made_of |= {"code of ranking": "of before"}
        write_outcome(storage, file.stem, outcome)
        names.add(file.stem)
    assert command("study", "--resume", str(out), "time_budget=0.001s") == 0
    trials = pl.read_parquet(out / "trials.parquet")
    again = {
        name for name in names if (read_outcome(storage, name) or Outcome()).made_of["code of ranking"] != "of before"
    }
    assert set(trials.filter(status="done")["run"]) == again  # a quick machine may begin one run in time
    assert set(trials.filter(status="stopped")["run"]) == names - again
    queries = pl.read_parquet(out / "queries.parquet")
    assert set(queries["run"] if len(queries) else ()) == again


LR = "optimizer.lr=interval(1e-4,1e-2)"


@pytest.mark.by_day(6)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["time_budget=soon"], "2h"),
        (["sampler=grid"], "sampler"),
        (["seeds=1", "callbacks=[ray.tune.logger.CSVLoggerCallback]", "local=true"], "needs Ray"),
        (["trial_scheduler=asha", "optimizer.lr=.001"], "compared by their seeds"),
        (["trial_scheduler=asha", LR, "seeds=3"], "seeds=1"),
        (["trial_scheduler=nothing"], "asha, median"),
        (["trial_scheduler=asha", LR, "seeds=1", "local=true"], "a scheduler of Ray Tune"),
        (["trial_scheduler=asha", "stop=decided"], "stop=decided compares seeds"),
        (["stoppers=[pathlib.Path]", LR], "no stopper"),
        (["stop=decided", "seeds=3"], "exclude each other"),
        (["stop=decided", LR], "but optimizer.lr is drawn"),
        (["stop=decided", "max_seeds=3"], "has 3 seeds, and the first 3 only set its bound"),
        (["stop=decided", "seed=4"], "has 1 seed, and"),
        (["stop=decided", "clip=0.005"], "clip"),
        (["stop=never"], "stop"),
    ],
)
def test_what_makes_no_sense_is_refused(options, says, base, tmp_path, refusal):
    asked = ["policy=fixed", "function=bm25", "selector=uniform", f"out={tmp_path / 'out'}"]
    assert says in refusal("study", *base, *asked, *options)


def test_a_time_budget_that_is_none_is_refused_before_a_study_goes_on(base, tmp_path):
    plan = started(STUDY, [*base, "policy=fixed", "function=bm25", f"out={tmp_path}"]).plan
    saved = {"study": plan.options, "overrides": plan.arguments, "design": plan.design}
    for budget in ("0", "abc", "''"):
        with pytest.raises(BadInput, match="write 2h, 30m, 1h30m or 90s"):
            continued([f"time_budget={budget}"], saved, plan.storage)
    for budget in ("2h", "30m", "1h30m", "90s", "null"):
        continued([f"time_budget={budget}"], saved, plan.storage)


def test_callbacks_hear_of_trials_and_those_of_a_folder_are_trusted_by_name_alone(base, tmp_path):
    (made,) = built_as(Callback, ["ray.tune.Callback"], "callbacks", "user")
    assert type(made) is Callback
    with pytest.raises(BadInput, match=r"is no callback of Ray Tune; subclass ray\.tune\.Callback"):
        built_as(Callback, [{"_target_": "pathlib.Path"}], "callbacks", "user")
    asked = [*base, "policy=fixed", "function=bm25", "callbacks=[tests.mine.Slack]", f"out={tmp_path}"]
    plan = started(STUDY, asked).plan
    assert plan.options["callbacks"] == [{"_target_": "tests.mine.Slack"}]  # the user's own word is enough
    saved = {"study": plan.options, "overrides": plan.arguments, "design": plan.design}
    with from_folder(), pytest.raises(BadInput, match=r"tests\.mine\.Slack"):
        continued([], saved, plan.storage)


def test_results_are_copied_and_a_resumed_search_replaces_its_own(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'search.db'}"

    def search(folder: str, place: str, samples: int, begins: bool = True) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        storage = Storage(place)
        options = {"samples": samples, "seeds": 1, "search_storage": url}
        found = OptunaRuns(StudyPlan(options, SWEEP, {}, storage), points([], [], SWEEP), lambda config: MADE_OF)
        log = EventLog(storage)
        if begins:
            log.emit("began")
            found.start(log)
            played(found)

    def copied() -> list[int]:
        return sorted(study.n_trials for study in optuna.get_all_study_summaries(url))

    search("a", "out", 1)
    search("b", "out", 2)
    assert copied() == [1, 2]
    search("b", "out", 3, begins=False)  # as a command that is refused after this
    assert copied() == [1, 2]
    search("b", "out", 3)
    assert copied() == [1, 3]
    search(".", "b/out", 3)  # from another working folder, with nothing left to run
    assert copied() == [1, 3]
    shutil.rmtree(tmp_path / "b" / "out")
    search("b", "out", 2)  # another study of the same path, as on another machine
    assert copied() == [1, 2, 3]


def test_the_names_of_copies_differ_however_long_they_are(tmp_path):
    methods = [Search(("x" * 600, last), (Point((), ()),), ()) for last in "ab"]
    stored = StoredSearch(f"sqlite:///{tmp_path / 'search.db'}")
    for _ in range(2):
        stored.create(EventLog(Storage(str(tmp_path / "out"))), methods)
        names = optuna.get_all_study_names(stored.url)
        assert [len(name) for name in names] == [512, 512]
    with pytest.raises(BadInput, match=r"can't be opened .*sqlite:///search.db"):
        StoredSearch("nothing://x")


EPOCHS = 6
CONFIG = {"seed": 0, "training": {"max_epochs": EPOCHS}}


def planned(count: int = 12, drawn: tuple[str, ...] = ("lr",)) -> list[Planned]:
    return [Planned(f"run{n}", (f"lr={n}", "seed=0"), (), CONFIG, drawn) for n in range(count)]


def scheduler(name: str = "asha", **more: Any) -> TrialStopping:
    options = {"asha": {"reduction_factor": 2}, "median": {"min_samples_required": 2}}[name]
    found = TrialStopping(schedulers_of(option("trial_scheduler", name) | options, "user"), **more)
    found.enter(planned())
    return found


class OfTune(SimpleNamespace):
    """What a scheduler sees of a trial."""

    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        super().__init__(trial_id=name, config={"run": {"name": name}}, last_result={})


def reach(search: TrialStopping, name: str, epoch: int, value: float) -> bool:
    """Report what a run has reached, and end it if it is stopped or was its last epoch; whether it goes on."""
    trial = search.__dict__.setdefault("trials", {}).setdefault(name, OfTune(name))
    result = {"epoch": epoch, "max_epochs": EPOCHS, "validation": value, "training_iteration": epoch}
    controller = SimpleNamespace(get_trials=list)
    if epoch == 1:
        search.on_trial_add(controller, trial)
    decision = search.on_trial_result(controller, trial, result)
    if decision == "STOP" or epoch == EPOCHS:
        search.on_trial_complete(controller, trial, {"final": True})
    return decision == "CONTINUE"


def test_asha_stops_what_is_below_the_best_half_at_each_rung():
    search = scheduler()
    # By numpy's percentile of those before: none; .5; .45; .5 of (.4, .5, .6); .525 of (.4, .5, .55, .6).
    first = [0.5, 0.4, 0.6, 0.55, 0.3]
    assert [reach(search, f"run{n}", 1, value) for n, value in enumerate(first)] == [True, False, True, True, False]
    assert search.stopped["run1"].best == 0.4
    assert search.stopped["run4"].at == 1


def test_what_is_stopped_depends_on_the_order_of_the_results():
    """As it does with Tune alone: nothing waits for an earlier run."""
    one, other = scheduler(), scheduler()
    assert [reach(one, "run0", 1, 0.5), reach(one, "run1", 1, 0.4)] == [True, False]
    assert [reach(other, "run1", 1, 0.4), reach(other, "run0", 1, 0.5)] == [True, True]


def test_a_run_at_its_last_epoch_is_not_stopped_and_no_number_counts_as_0():
    search = scheduler()
    for epoch in range(1, EPOCHS + 1):
        assert reach(search, "run0", epoch, 0.5)
    first, other = (OfTune(name) for name in ("run1", "run2"))
    of_a_fold = {"fold": 1, "epoch": 2, "max_epochs": EPOCHS, "validation": 0.5}  # the rung of eight epochs
    for trial in (first, other):
        search.on_trial_add(None, trial)
    assert search.on_trial_result(None, first, of_a_fold) == "CONTINUE"
    assert search.on_trial_result(None, other, of_a_fold | {"validation": float("nan")}) == "STOP"
    assert (search.stopped["run2"].at, search.stopped["run2"].curve) == (EPOCHS + 2, (0.0,))
    late = scheduler()
    assert reach(late, "run0", 1, 0.5)
    assert not late.ends("run1", "1", {"epoch": EPOCHS, "max_epochs": EPOCHS, "validation": 0.0})


def test_a_stopped_run_counts_by_the_mean_of_its_folds_as_one_that_ended():
    """A worse run may not count as better than one that ended, whose folds count alike."""
    nodes = [{"_target_": "ray.tune.stopper.MaximumIterationStopper", "max_iter": 2 * 2}]
    search = TrialStopping(None, built_as(Stopper, nodes, "stoppers", "user"))
    search.enter(planned())
    for fold, curve in enumerate([[0.1, 0.2], [0.4, 0.5]]):
        for epoch, value in enumerate(curve, 1):
            search.ends("run0", "1", {"fold": fold, "epoch": epoch, "max_epochs": EPOCHS, "validation": value})
    assert search.stopped["run0"].best == pytest.approx((0.2 + 0.5) / 2)
    assert search.stopped["run0"].best < mean_best(Outcome(validations=[[0.1, 0.2], [0.4, 0.6]]))


def test_methods_are_never_stopped_for_another():
    search = TrialStopping(schedulers_of(option("trial_scheduler", "asha"), "user"))
    own = [Planned(f"a{n}", ("policy=a", f"lr={n}"), (), CONFIG, ("lr",)) for n in range(2)]
    search.enter([*own, Planned("b", ("policy=b", "lr=1"), (), CONFIG, ("lr",)), *planned(1, ())])
    assert reach(search, "a0", 1, 0.9)
    assert reach(search, "b", 1, 0.1)
    assert reach(search, "run0", 1, 0.0)  # nothing was drawn for it
    assert not reach(search, "a1", 1, 0.1)
    assert list(search.stopped) == ["a1"]
    # Methods that differ in what is drawn alone; a chosen part has options that others lack.
    search.enter([
        Planned("c0", ("policy=a", "optimizer=adam", "optimizer.eps=1"), (), CONFIG, ("optimizer.eps", "optimizer")),
        Planned("c1", ("policy=a", "optimizer=lazy"), (), CONFIG, ("optimizer",)),
    ])  # fmt: skip
    assert reach(search, "c0", 1, 0.1)
    assert not reach(search, "c1", 1, 0.0)


def test_what_earlier_commands_have_stopped_stays_stopped(tmp_path):
    log = EventLog(Storage(str(tmp_path)))
    for epoch, value in enumerate([0.1, 0.3, 0.2], 1):
        log.emit("run reached", run="run1", step=epoch, numbers={"validation": value})
    for name in ("run1", "run2"):
        log.emit("run stopped", run=name, reached=2, best=0.25, made_of="same")
    again = scheduler(events=EventLog.read(log.storage), made_of=lambda config: "same")
    assert {name: (stop.at, stop.curve) for name, stop in again.stopped.items()} == {
        "run1": (2, (0.1, 0.3)), "run2": (2, (0.25,)),
    }  # fmt: skip
    other = scheduler(events=EventLog.read(log.storage), made_of=lambda config: "another")
    assert not other.stopped  # made of something else, they run again
    assert reach(other, "run1", 1, 0.9)


def test_stoppers_end_runs_and_searches():
    nodes = [{"_target_": "ray.tune.stopper.MaximumIterationStopper", "max_iter": 2}]
    search = TrialStopping(None, built_as(Stopper, nodes, "stoppers", "user"))
    search.enter(planned())
    results = [{"epoch": epoch, "max_epochs": EPOCHS, "validation": epoch / 10} for epoch in (1, 2)]
    assert [search.ends("run0", "1", result) for result in results] == [False, True]
    assert search.stopped["run0"].curve == (0.1, 0.2)
    assert not search.ends("another", "2", results[1])
    assert not search.finished()
    timed = [{"_target_": "ray.tune.stopper.TimeoutStopper", "timeout": 0}]
    assert TrialStopping(None, built_as(Stopper, timed, "stoppers", "user")).finished()


class Pausing(FIFOScheduler):
    """Lets every run wait, for which it would have to give its process up."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return "PAUSE"


def test_a_scheduler_that_pauses_runs_is_refused():
    search = TrialStopping(Pausing)
    search.enter(planned())
    with pytest.raises(BadInput, match=r"Pausing decides PAUSE, .*; choose asha or median"):
        reach(search, "run0", 1, 0.5)
    assert search.refused is not None


MEASURED = ["bm25:AP@10", "random:RR@10", "curve_loss", "curve_validation"]
SEARCH = ["policy=fixed", "function=bm25", "selector=uniform", "optimizer.lr=tag(log,interval(1e-5,1e-1))",
          "samples=6", "trial_scheduler=asha", "trial_scheduler.reduction_factor=2"]  # fmt: skip


def test_a_study_on_ray_stops_what_is_behind(
    base, tmp_path, monkeypatch, capsys, ray_session, experiments, refusal
):  # fmt: skip
    """Its runs are those of this process, and another one writes its report, because this one holds the runs."""
    out = tmp_path / "out"
    asked = [*base, *SEARCH, "search=optuna", "training.max_epochs=4", "training.patience=4"]
    says = "which runs are stopped depends on the order in which results arrive"
    assert "a scheduler of Ray Tune" in refusal("study", *asked, "local=true", f"out={out}")
    with monkeypatch.context() as patch:
        for name in ("study_report", "report_study"):
            patch.setattr(f"pyrite.cluster.commands.study_end.{name}", lambda *_: pytest.fail("done in this process"))
        assert command("study", *asked, "concurrent=1", f"out={out}") == 0
    assert f"trial_scheduler: {says}" in capsys.readouterr().out.replace("\n", " ")
    (folder,) = experiments
    assert not Path(folder).exists()
    assert not (out / "tune").exists()
    trials = pl.read_parquet(out / "trials.parquet")
    stopped = trials.filter(status="stopped")
    assert len(trials) == 6
    assert 0 < len(stopped) < 6
    assert set(trials["status"]) == {"done", "stopped"}
    assert stopped["error"].null_count() == len(stopped)
    assert (stopped["epochs"] == stopped["curve_validation"].list.len()).all()
    assert (stopped["epochs"] < 4).all()
    assert (
        f"{len(stopped)} stopped by the search, which no figure includes ({says})" in (out / "report.html").read_text()
    )
    assert [event["says"] for event in EventLog.read(Storage(str(out))) if event["event"] == "early stopping"] == [says]
    events = [event["run"] for event in EventLog.read(Storage(str(out))) if event["event"] == "run stopped"]
    assert sorted(events) == sorted(stopped["run"])
    assert not list((out / "states").glob("*"))
    done = trials.filter(status="done").row(0, named=True)
    assert command("train", *shlex.split(done["overrides"]), f"out={tmp_path / 'here'}") == 0
    here = pl.read_parquet(tmp_path / "here" / "trials.parquet").row(0, named=True)
    assert [here[column] for column in MEASURED] == [done[column] for column in MEASURED]
    # Nothing is left to do: decisions are those of the log.
    before = (out / "summary.csv").read_bytes()
    capsys.readouterr()
    assert command("study", "--resume", str(out), "local=true") == 0
    assert "6 runs (6 done)" in capsys.readouterr().out
    assert (out / "summary.csv").read_bytes() == before
    assert pl.read_parquet(out / "trials.parquet").equals(trials)


def test_a_scheduler_of_ones_own_and_those_that_a_search_can_not_have(tmp_path):
    asked = ["trial_scheduler=asha", "trial_scheduler._target_=ray.tune.schedulers.FIFOScheduler"]
    experiment = started(STUDY, [*asked, "optimizer.lr=interval(1e-4,1e-2)", f"out={tmp_path}"])
    assert experiment.plan.options["trial_scheduler"] == {"_target_": "ray.tune.schedulers.FIFOScheduler"}
    assert schedulers_of(experiment.plan.options["trial_scheduler"], "user") is not None
    assert experiment.plan.seeds == [0]
    for node, says in (
        ({"_target_": "ray.tune.schedulers.HyperBandScheduler"}, "lets them wait for each other"),
        ({"_target_": "ray.tune.schedulers.MedianStoppingRule", "mode": "most"}, "mode"),
        ({"_target_": "pathlib.Path"}, "no scheduler"),
    ):
        with pytest.raises(BadInput, match=says):
            schedulers_of(node, "user")


MEANS = {"random": 0.3, "bm25": 0.36, "in_batch": 0.366}


@pytest.mark.parametrize("baseline", ["plain", "policy=fixed function=random", "function=random", "label=plain"])
def test_a_baseline_is_named_by_its_label_or_by_what_it_is(baseline):
    methods = [
        {"label": label, "overrides": [f"function={name}"]} for label, name in (("plain", "random"), ("b", "bm25"))
    ]
    plain, other = (plan(point, (), [0])[0] for point in points(methods, ["policy=fixed"], [], named=True))
    assert is_baseline(baseline, plain)
    assert not is_baseline(baseline, other)
    assert not is_baseline(None, plain)


def source(storage: Storage, most: int = 30) -> DecidedRuns:
    found = points([], ["policy=fixed", "selector=uniform"], ["function=random,bm25,in_batch"])
    options = {"stop": "decided", "max_seeds": most, "equal_within": 0.01, "clip": None, "baseline": None, "samples": 1}
    return DecidedRuns(StudyPlan(options, [], {}, storage), found, lambda config: MADE_OF)


def decided(runs: DecidedRuns, storage: Storage, at_once: int, most: int = 10**6) -> list[str]:
    """Hand out seeds, of which `MEANS` and a little noise come out."""
    known = {planned.name: planned for of in runs.methods.values() for planned in of.values()}

    def finish(name: str) -> None:
        (function,) = known[name].config["function"]
        value = MEANS[function] + np.random.default_rng(known[name].config["seed"]).normal(0, 0.004)
        write_outcome(storage, name, Outcome(values={"bm25": {"AP@100": np.array([value])}}, made_of=MADE_OF))

    return in_turn(runs, at_once, finish, most)[0]


def test_seeds_end_when_it_is_decided_whatever_the_workers(tmp_path):
    storages = [Storage(str(tmp_path / str(count))) for count in (1, 5)]
    orders = [decided(source(storage), storage, count) for storage, count in zip(storages, (1, 5), strict=True)]
    assert orders[0] == orders[1]
    counts = {name: sum(name in run for run in orders[0]) for name in ("random", "bm25", "in_batch")}
    assert counts["random"] < 15 < counts["bm25"] == counts["in_batch"]  # .06 is seen soon, .006 is not
    assert len(orders[0]) < 90


def test_a_study_that_goes_on_repeats_its_decisions(tmp_path):
    storage, whole = Storage(str(tmp_path / "half")), Storage(str(tmp_path / "whole"))
    expected = decided(source(whole), whole, 1)
    first = source(storage)
    first.start(EventLog(storage))
    begun = decided(first, storage, 1, most=20)
    again = source(storage)
    assert again.finished >= 18
    again.start(EventLog(storage))
    rest = decided(again, storage, 3)
    assert list(dict.fromkeys(begun + rest)) == expected
    told = [event for event in EventLog.read(storage) if event["event"] == EVENT]
    assert [event["round"] for event in told] == list(range(len(told)))
    assert set(told[0]["methods"].values()) == {3}
    verdicts = {name.split("function=")[1].split()[0]: said for name, said in told[-1]["verdicts"].items()}
    assert verdicts["random"] == "worse"


def test_methods_are_decided_among_those_of_their_checkpoint(tmp_path):
    swept = [f"ranker.checkpoint={tmp_path}/a,{tmp_path}/b", "function=random,bm25"]
    found = points([], ["policy=fixed", "selector=uniform", "ranker=bi_encoder"], swept)
    options = {"stop": "decided", "max_seeds": 3, "equal_within": 0.01, "clip": None, "baseline": None, "samples": 1}
    runs = DecidedRuns(StudyPlan(options, [], {}, Storage(str(tmp_path))), found, lambda config: MADE_OF)
    checkpoints = [{name.partition("checkpoint=")[2].split()[0] for name in names} for names in runs.families.values()]
    assert checkpoints == [{f"{tmp_path}/a"}, {f"{tmp_path}/b"}]


def test_where_every_run_fails_it_ends(tmp_path):
    asked, _ = in_turn(source(Storage(str(tmp_path)), most=4), 1, fail)
    assert len(asked) == 3 * 3


@pytest.mark.nightly
def test_a_study_of_undecided_methods(base, tmp_path):
    out = tmp_path / "out"
    asked = ["policy=fixed", "function=random,bm25", "selector=uniform", "stop=decided", "max_seeds=4", "local=true"]
    assert command("study", *base, *asked, "equal_within=0.2", f"out={out}") == 0
    found = pl.read_parquet(out / "decisions.parquet")
    assert found.columns[4:7] == ["method", "against", "verdict"]
    assert found["seeds"].to_list() == [4, 4]
    assert len(pl.read_parquet(out / "trials.parquet")) == 8
    assert "What is decided" in (out / "report.html").read_text()
    before = (out / "decisions.parquet").read_bytes()
    assert command("study", "--resume", str(out), "local=true") == 0
    assert (out / "decisions.parquet").read_bytes() == before
    assert command("study", "--power", str(out)) == 0
    assert (out / "power.parquet").is_file()
    assert command("study", "--power", str(out), "seeds=3") == 2
