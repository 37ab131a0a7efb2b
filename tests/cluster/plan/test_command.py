"""The command that a study prints composes the same study again, and paths are read as text."""

import shlex

import pytest

from cluster.commands.study import StudyExperiment
from cluster.config.compose import compose
from cluster.config.quoting import quoted_path
from cluster.plan.sweep import identity
from tests.made_up import write_beir

SMALL = ["scale=tiny", "policy=fixed", "function=random", "selector=uniform"]
EXPERIMENTS = ("adore", "cohen2019_patience", "mixture_transfer", "saeidi2017_figure5", "sampling")


def same_study(arguments: list[str]) -> str:
    """Compose a study, print its command, compose that, and compare both; returns the command."""
    study = StudyExperiment.new(arguments)
    study.collections = {}
    command = study.manifest()["command"]
    words = shlex.split(command)
    assert words[:2] == ["pyrite", "study"]
    again = StudyExperiment.read(words[2:])
    assert again.plan.options == study.plan.options
    assert again.plan.design == study.plan.design
    (runs, adaptive), (other_runs, other_adaptive) = study.plan.runs(), again.plan.runs()
    assert [identity(run.config) for run in runs] == [identity(run.config) for run in other_runs]
    assert [point.overrides for point in adaptive] == [point.overrides for point in other_adaptive]
    assert runs or adaptive
    return str(command)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "arguments",
    [
        ["seeds=1"],
        ["seeds=2", "renew_every=null", "retries=0"],
        ["seeds=1", "track=[]"],
        ["seeds=1", "track=[tensorboard,mlflow]", "track.mlflow.uri=file:///a b"],
        ["seeds=1", "baseline='selector=uniform'", "never_below=2"],
        ["seeds=1", "callbacks=[{_target_: ray.tune.callback.Callback}]"],
        ["seed=range(3,5)"],
        ["seeds=1", "training.max_epochs=choice(1,2)", "optimizer.lr=tag(log,interval(0.001,0.1))", "samples=2"],
        ["optimizer.lr=interval(0.001,0.1)", "search=optuna", "trial_scheduler=asha", "trial_scheduler.grace_period=2"],
        ["seeds=1", "selector.candidates=3", "selector=dynamic"],
        ["stop=decided", "max_seeds=4", "selector=uniform,top"],
        ["seeds=1", "factors=[selector]", "selector=uniform,top"],
        ["seeds=1", "time_budget=30m", "concurrent=2"],
        ["seeds=1", "measures=[nDCG@10,AP@10]", "resources={cpu: 1, gpu: 0}"],
    ],
    ids=lambda arguments: arguments[-1][:40],
)
def test_a_printed_command_composes_the_same_study(arguments, tmp_path):
    same_study([*SMALL, *arguments, f"out={tmp_path / 'a b, c=d'}"])


@pytest.mark.by_day(3)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_command_of_each_experiment_composes_the_same_study(experiment, tmp_path):
    checkpoint = ["ranker.checkpoint=a b"] if experiment == "adore" else []
    command = same_study([f"experiment={experiment}", *checkpoint, "seeds=1", f"out={tmp_path / 'out'}"])
    assert (f"experiment={experiment}" in command) == (experiment != "sampling")  # the default


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "name", ["résultats", "20241125", "a&b", "a b/c", "x#1", "a,b", "run=3", "true", "1e5", "a'b", "(x)", "a;b[1]"]
)
def test_any_path_is_text(name, tmp_path):
    for path in (name, f"{tmp_path}/{name}"):
        assert compose([quoted_path(f"out={path}")], "mine")["out"] == path
        assert compose([f"out={path}"], "mine")["out"] == path
        assert quoted_path(quoted_path(f"out={path}")) == quoted_path(f"out={path}")
        study = StudyExperiment.read([*SMALL, "seeds=1", f"out={path}/new"])
        assert study.plan.storage.place == f"{path}/new"


def test_paths_of_the_home_folder_of_odd_names_lists_and_sweeps(monkeypatch, tmp_path, own_cache):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert quoted_path("out=~/x") == "out=/home/somebody/x"
    assert quoted_path("ranker.checkpoint=~/a,b c,é") == "ranker.checkpoint=/home/somebody/a,b c,'é'"
    unchanged = ["out=null", "runs=[a,b]", "collection.path=choice(a,b)", "cache=${oc.env:X}", "seed=3", "~teacher"]
    for override in [*unchanged, "actions.documents=20", "out='a b'"]:
        assert quoted_path(override) == override
    folder = write_beir(tmp_path / "Sammlung für a&b #1, neu")
    config = compose(["collection=beir", f"collection.path={folder}"])
    assert config["collection"]["path"] == str(folder)
