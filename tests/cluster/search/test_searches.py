"""Searches by Optuna, several proposals at once, and the end of a study's time."""

from collections import Counter
from pathlib import Path

import numpy as np
import optuna
import polars as pl
import pytest
from ray.tune import Callback

from cluster.commands.study import StudyExperiment
from cluster.config.groups import CHOICES
from cluster.config.trust import from_folder
from cluster.executors.local import LocalExecutor
from cluster.executors.task import Done, Task
from cluster.output.storage import Storage
from cluster.plan.searches import searches
from cluster.plan.sweep import points, swept_keys
from cluster.runs.outcome import Outcome, write_outcome
from cluster.search.optuna_runs import OptunaRuns, StoredSearch
from cluster.search.schedulers import EarlyStopping, built_as
from cluster.search.time_budget import TimeBudget
from pyrite import StudyResult
from ranking.errors import BadInput
from tests.cluster.command_line import command

MADE_OF = {"base": "x"}
SWEEP = ["policy=fixed", "function=bm25", "selector=uniform", "optimizer.lr=tag(log,interval(1e-4,1e-1))"]


def play(storage: Storage, sampler: str, parallel: int, at_once: int, samples: int = 9) -> tuple[list[float], int]:
    """Search for a learning rate of .01: what is proposed, in order, and the most runs that were open at once."""
    return played(searched(SWEEP, samples, storage, sampler, parallel), at_once)


def searched(sweep: list[str], samples: int, storage: Storage, sampler: str = "tpe", parallel: int = 1) -> OptunaRuns:
    found, swept = points([], [], sweep), swept_keys(sweep)
    return OptunaRuns(found, samples, [0], storage, lambda config: MADE_OF, sampler, parallel, swept=swept)


def played(search: OptunaRuns, at_once: int = 1) -> tuple[list[float], int]:
    known, open_, most, storage = {}, list[Task](), 0, search.storage
    while (task := search.next()) is not None:
        if isinstance(task, Task):
            open_.append(task)
            most = max(most, len(open_))
        known |= {planned.name: planned for planned in search.proposed}
        if not isinstance(task, Task) or len(open_) == at_once:
            ended = open_.pop()  # the last that began ends first
            lr = float(known[ended.key].config["optimizer"]["lr"])
            best = 1 - abs(np.log10(lr) + 2)
            write_outcome(storage, ended.key, Outcome(validations=[[best]], made_of=MADE_OF))
            search.ended(Done(ended))
    return [planned.config["optimizer"]["lr"] for planned in search.proposed], most


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes"])
def test_a_search_is_the_same_whatever_the_workers_and_after_an_interrupt(sampler, tmp_path):
    if sampler == "cmaes":
        pytest.importorskip("cmaes")
    one, _ = play(Storage(str(tmp_path / "one")), sampler, 3, 1)
    several, most = play(Storage(str(tmp_path / "several")), sampler, 3, 5)
    assert one == several
    assert most == 3  # so many proposals are open at once, and no more
    assert len(set(one)) == 9
    again, _ = play(Storage(str(tmp_path / "one")), sampler, 3, 1)
    assert again == one
    assert play(Storage(str(tmp_path / "alone")), sampler, 1, 5, samples=3)[1] == 1  # each learns from the last


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
    assert (len(runs.examples()), runs.total) == (4, 24)  # parts of each combination are prepared; one search
    played(runs)
    chosen = [(each.config[CHOICES]["optimizer"], each.config["training"]["batch_size"]) for each in runs.proposed]
    assert set(chosen) == {(name, size) for name in ("adam", "lazy_adam") for size in (16, 32)}
    for planned in runs.proposed:
        of_adam = planned.config[CHOICES]["optimizer"] == "adam"
        assert ("optimizer.weight_decay" in planned.drawn) == of_adam
        assert any(text.startswith("optimizer.weight_decay=") for text in planned.overrides) == of_adam
        assert {"optimizer", "training.batch_size", "optimizer.lr"} <= set(planned.drawn)
        assert planned.parameters["optimizer"] == planned.config[CHOICES]["optimizer"]
    stopping = EarlyStopping(None)
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
    sweep = [*SWEEP, "training.batch_size=8,16,32,64"]
    search = searched(sweep, 40, Storage(str(tmp_path)))
    while isinstance(task := search.next(), Task):
        (planned,) = [each for each in search.proposed if each.name == task.key]
        best = 1 / planned.config["training"]["batch_size"]
        write_outcome(search.storage, task.key, Outcome(validations=[[best]], made_of=MADE_OF))
        search.ended(Done(task))
    sizes = [planned.config["training"]["batch_size"] for planned in search.proposed]
    assert Counter(sizes[20:]).most_common(1)[0][0] == 8


@pytest.mark.parametrize("parallel", [1, 5])
def test_a_proposal_that_repeats_a_run_counts_it_once(parallel, tmp_path):
    sweep = [*SWEEP[:3], "training.batch_size=16,32", "optimizer=adam,adamw", "training.patience=1,2"]
    search = searched(sweep, 20, Storage(str(tmp_path)), parallel=parallel)
    tasks = []
    while isinstance(task := search.next(), Task):
        tasks.append(task.key)
        search.ended(Done(task))  # without a result, as a run that failed
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


def test_few_combinations_are_all_run_and_what_a_sampler_can_not_search_is_refused(tmp_path):
    for sampler, more, says in (
        ("cmaes", "training.batch_size=16,32", "training.batch_size is a choice among values"),
        ("gp", "optimizer=adam,lazy_adam", "optimizer.lr depends on another choice"),
    ):
        asked = [*SWEEP, more, "search=optuna", f"sampler={sampler}", f"out={tmp_path}"]
        with pytest.raises(BadInput, match=says):
            StudyExperiment.new(asked).plan.runs()
    names = [*SWEEP[:3], "optimizer=adam,adamw", "training.batch_size=16,32", "search=optuna", f"out={tmp_path}"]
    runs, proposed = StudyExperiment.new([*names, "samples=4", "seeds=1"]).plan.runs()
    assert (len(runs), len(proposed)) == (4, 0)
    runs, proposed = StudyExperiment.new([*names, "samples=3", "seeds=1"]).plan.runs()
    assert (len(runs), len(proposed)) == (0, 4)


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


LR = "optimizer.lr=interval(1e-4,1e-2)"


@pytest.mark.by_day(6)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["time_budget=soon"], "2h"),
        (["sampler=grid"], "sampler"),
        (["seeds=1", "callbacks=[tests.nowhere.Callback]", "local=true"], "needs Ray"),
        (["trial_scheduler=asha", "optimizer.lr=.001"], "compared by their seeds"),
        (["trial_scheduler=asha", LR, "seeds=3"], "seeds=1"),
        (["trial_scheduler=nothing"], "asha, hyperband, median"),
        (["trial_scheduler=asha", "stop=decided"], "stop=decided compares seeds"),
        (["stoppers=[pathlib.Path]", LR], "no stopper"),
        (["stop=decided", "seeds=3"], "exclude each other"),
        (["stop=decided", LR], "drawn"),
        (["stop=decided", "clip=0.005"], "clip"),
        (["stop=never"], "stop"),
    ],
)
def test_what_makes_no_sense_is_refused(options, says, base, tmp_path, refusal):
    asked = ["policy=fixed", "function=bm25", "selector=uniform", f"out={tmp_path / 'out'}"]
    assert says in refusal("study", *base, *asked, *options)


def test_callbacks_hear_of_trials_and_those_of_a_folder_are_trusted_by_name_alone(base, tmp_path):
    (made,) = built_as(Callback, ["ray.tune.Callback"], "callbacks")
    assert type(made) is Callback
    with pytest.raises(BadInput, match=r"is no callback of Ray Tune; subclass ray\.tune\.Callback"):
        built_as(Callback, [{"_target_": "pathlib.Path"}], "callbacks")
    asked = [*base, "policy=fixed", "function=bm25", "callbacks=[tests.mine.Slack]", f"out={tmp_path}"]
    plan = StudyExperiment.new(asked).plan
    assert plan.options["callbacks"] == [{"_target_": "tests.mine.Slack"}]  # the user's own word is enough
    saved = {"study": plan.options, "overrides": plan.arguments, "design": plan.design}
    with from_folder(), pytest.raises(BadInput, match=r"tests\.mine\.Slack"):
        StudyExperiment.continued([], saved, plan.storage)


def test_results_are_copied_and_a_resumed_search_replaces_them(tmp_path):
    url = f"sqlite:///{tmp_path / 'search.db'}"
    search = optuna.create_study(direction="maximize")
    trial = search.ask({"optimizer.lr": optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)})
    result = search.tell(trial, 0.25)
    for _ in range(2):
        stored = StoredSearch(url, ["a", "b"])
        stored.add(1, result)
        assert [len(optuna.load_study(study_name=name, storage=url).trials) for name in "ab"] == [0, 1]
    (copied,) = optuna.load_study(study_name="b", storage=url).trials
    assert (copied.value, copied.params) == (0.25, trial.params)
    with pytest.raises(BadInput, match=r"can't be opened .*sqlite:///search.db"):
        StoredSearch("nothing://x", ["a"])
