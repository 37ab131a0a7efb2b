"""Every experiment of `conf/experiment`, expanded and held against what its runs and its paper need."""

import functools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from benchmarks.published import map_methods, printed, read_published
from pyrite.analysis.methods import items_of
from pyrite.cluster.commands.resuming import read
from pyrite.cluster.commands.study import STUDY
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CONF, group_options
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import Planned, identity, plan
from pyrite.cluster.reports import study_tables
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.examples import NIGHTLY

EXPERIMENTS = group_options()["experiment"]
COHEN = [name for name in EXPERIMENTS if name.startswith("cohen2019")]
PU = [name for name in EXPERIMENTS if name.startswith("pu2021")]
SAEIDI = [name for name in EXPERIMENTS if name.startswith("saeidi2017")]


@functools.cache
def study(name: str, *arguments: str) -> StudyPlan:
    pretrained = (*PU, "sir", "saeidi2017_rankers", "adore", "negatives_cross_encoder", "policies_bi_encoder")
    own = ["ranker.checkpoint=some/where"] if name in pretrained else []
    folder = ["data=somewhere"] if "${data}" in (CONF / "experiment" / f"{name}.yaml").read_text("utf-8") else []
    return read(STUDY, [f"experiment={name}", *folder, "out=nowhere", *own, *arguments]).plan


def planned(of: StudyPlan, ends: bool = False) -> list[Planned]:
    """The runs of the first seed and the first agent; or the first and the last of them."""
    others = re.compile(r"(policy|selector)\.agent=[1-9]")
    points = [point for point in of.points() if not any(map(others.match, point.overrides))]
    return [run for point in (points[:: len(points) - 1] if ends else points) for run in plan(point, [], of.seeds[:1])]


def collections_of(runs: list[Planned]) -> dict[str, Any]:
    """Return stand-ins for the collections of runs, by the runs' names."""
    paths = {run.name: Path(str(run.config["collection"].get("path", "pydocs"))).name for run in runs}
    return {
        run: SimpleNamespace(name=name, fingerprint=f"of {name}", test_sketch=[name]) for run, name in paths.items()
    }


def as_trials(runs: list[Planned]) -> pl.DataFrame:
    """The frame that a study of these runs would leave, had all of them failed."""
    collections = collections_of(runs)
    return study_tables.trials_table(
        [study_tables.trial_row(run, collections[run.name], None, "not run") for run in runs]
    )


@functools.cache
def tiny(name: str) -> list[Planned]:
    """The runs of an experiment at scale=tiny."""
    return planned(study(name, "scale=tiny"))


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_runs_of_each_experiment_are_sound(name):
    """The first and the last by day, all at night."""
    runs = planned(study(name, "scale=tiny"), ends=not NIGHTLY)
    assert len({identity(run.config) for run in runs}) == len(runs) > 1
    for run in runs:
        check_run(run.config, None)
        ranker = run.config["ranker"]
        assert ranker.get("preset") == (None if ranker.get("checkpoint") else "tiny")


@pytest.mark.parametrize("name", ["encoder", "encoder_negatives"])
def test_every_run_that_the_readme_leads_to_is_sound(name):
    """Each day: these are the first commands of most users."""
    runs = planned(study(name))
    assert len(runs) > 2
    for run in runs:
        check_run(run.config, None)


def test_what_an_experiment_reduces_at_a_scale_is_said():
    assert study("saeidi2017_rankers", "scale=small", "limits.dev=50").reduced == (
        "experiment=saeidi2017_rankers sets at scale=small: limits.train=800 limits.test=1000 ranker.layers=1 "
        "ranker.max_query=16 ranker.max_document=32 sampling.negatives=7"
    )
    assert study("saeidi2017_rankers").reduced == ""


def test_labels_that_no_longer_fit_are_said(monkeypatch):
    monkeypatch.setenv("PYRITE_ENCODER", "FOLDER")
    assert study("encoders", "scale=small", "optimizer.lr=1e-5").unlabelled == ""
    more = study("encoders", "scale=small", "negatives.bm25=2")
    assert [point.label for point in more.points()] == ["the batch alone", None, None, "mined by an encoder, guarded"]
    said = more.unlabelled
    assert said == (
        "negatives.bm25 replaces what 3 of the experiment's 5 labels mean: these methods go by their options, and "
        "equal ones count once; no method is the baseline now, unless baseline='KEY=VALUE …' names one"
    )
    assert "baseline" not in study("encoders", "scale=small", "negatives.embedding=2").unlabelled
    # The label of an equal method whose options are all its own.
    same = study("encoders", "scale=small", "selector.bm25=uniform")
    assert [point.label for point in same.points()].count("one of BM25's and the batch") == 1


def test_labels_that_go_on_with_a_swept_value_are_said():
    more = study("encoder", "ranker.checkpoint=FOLDER", "selector=uniform,top")
    assert len({point.label for point in more.points()}) == len(more.points()) == 6
    assert more.unlabelled == (
        "labels of the experiment end with what is swept, as in '+1 BM25 · top'; no method is the baseline now, "
        "unless baseline='KEY=VALUE …' names one"
    )
    named = study("encoder", "ranker.checkpoint=FOLDER", "selector=uniform,top", "baseline='in the batch · uniform'")
    assert named.unlabelled == "labels of the experiment end with what is swept, as in '+1 BM25 · top'"
    assert study("encoder", "ranker.checkpoint=FOLDER", "selector=top").unlabelled == ""


@pytest.mark.parametrize("collection", [["collection=pydocs"], ["collection.path=a.csv"], ["collection=a.csv"]])
def test_what_an_experiment_varies_beside_the_named_negatives_is_said(collection):
    """Whatever is read."""
    one = study("sampling", *collection, "function=bm25", "policy=fixed")
    assert len(one.points()) == 3
    assert one.untyped == (
        "selector=uniform,dynamic,error_reduction is of experiment=sampling; for less, type selector=uniform"
    )
    for said in (["selector=uniform"], ["selector=uniform,dynamic"]):
        assert study("sampling", *collection, "function=bm25", "policy=fixed", *said).untyped == ""
    assert study("sampling", *collection).untyped == ""  # the experiment as it is
    assert len(study("sampling", *collection).points()) == 9
    assert len(study("sampling", *collection, "function=bm25,random").points()) == 2
    assert study("sampling", *collection, "function=bm25,random").untyped == ""


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", COHEN)
def test_what_is_to_be_learned_composes(name):
    actions = {"policy": "functions", "selector": "documents"}
    asked = [(part, run.config[part].get("learn")) for run in tiny(name) for part in actions]
    learned = {(part, *learn) for part, learn in asked if learn}
    assert learned
    for part, *overrides in learned:
        own = [] if any(text.startswith("actions=") for text in overrides) else [f"actions={actions[part]}"]
        assert compose([*own, *overrides, "scale=tiny"], "learn")["reward"]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", COHEN)
def test_a_smaller_scale_has_fewer_seeds_and_agents(name):
    def size(*scale: str) -> int:
        whole = study(name, *scale)
        return len(whole.points()) * len(whole.seeds)

    sizes = [size(f"scale={scale}") for scale in ("paper", "medium", "small", "tiny")]
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[0] == size()
    # Another collection takes the place of the paper's.
    points = study(name, "scale=tiny", "collection=pydocs").points()
    assert not [text for point in points for text in point.overrides if "path" in text]
    assert "nowhere/at/all" in str(study(name, "data=nowhere/at/all").design)


def test_a_scale_gives_way_to_what_the_user_asks_for():
    assert study("cohen2019_table2", "scale=small", "seeds=7").seeds == list(range(7))
    assert study("cohen2019_table2", "scale=small", "seed=4,5").seeds == [4, 5]
    points = study("cohen2019_table2", "scale=small", "policy.agent=8,9").points()
    agents = {text for point in points for text in point.overrides if text.startswith("policy.agent")}
    assert agents == {"policy.agent=8", "policy.agent=9"}


@pytest.mark.by_day(5)
@pytest.mark.parametrize("name", [*COHEN, *SAEIDI])
def test_every_method_and_figure_of_a_paper_has_runs_beside_it(name):
    published, trials = read_published(name), as_trials(tiny(name))
    found = map_methods(published, trials)
    assert all(found.values()), "each of the paper's methods has one of ours"
    ours = [method for methods in found.values() for method in methods]
    assert len(set(ours)) == len(ours), "none of ours stands for two of the paper's"
    assert set(published.collections.values()) == set(trials["collection"])
    for laid_out in (published.figures, published.convergence):
        for collection, methods in laid_out.items():
            assert collection in published.collections
            assert set(methods) <= set(published.methods)
            assert all(set(columns) <= {*published.rankers, *published.measures} for columns in methods.values())
    assert published.differs, "what differs from the paper is said"
    rankers = set(trials["ranker"])
    if name in COHEN:
        assert set(published.rankers.values()) == rankers
    else:
        assert list(found) == ["no_ctg", "ctg_rnd", "ctg_rfn"]
        assert all({ranker for ranker, _ in ours} == rankers for ours in found.values())
        assert all({"category", "full"} == set(run.config["origin"]) for run in tiny(name))


def test_the_tables_and_limits_of_cohen():
    trials = as_trials(tiny("cohen2019_table1"))
    methods = trials.group_by("collection", "ranker").agg(pl.struct("policy", "function", "selector").n_unique())
    assert methods["policy"].to_list() == [11] * 4
    assert len(trials) == 44
    published = read_published("cohen2019_table1")
    assert sum(len(rankers) for rows in published.figures.values() for rankers in rows.values()) == 36
    best = max(rows["f_FF"] for rows in published.figures["Webscope L4"].values())
    assert printed(best) == (".1239", ".011", "*†")
    runs = [run for run in tiny("cohen2019_table2") if run.config["policy"].get("learn")]
    learned = [run for run in runs if "agent=actor_critic" in str(run.config["policy"]["learn"])]
    assert len(runs) == len(learned) > 0
    rewards = {item for run in learned for text in run.config["policy"]["learn"] for item in items_of(text)}
    assert {item for item in rewards if "reward" in item} == {"reward=diff", "reward=raw", "reward=ceil"}
    assert len({identity(run.config | {"policy": {}}) for run in learned}) == 1
    for name, option, value in (("epoch_limit", "max_epochs", 4), ("patience", "patience", 10)):
        runs = planned(study(f"cohen2019_{name}", "scale=small"), ends=True)
        assert {run.config["training"][option] for run in runs} == {value}


def test_what_is_absent_is_one_line(refusal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"leave it out; for a file of your own: collection\.path=pairs\.csv"):
        read(STUDY, ["data=pairs.csv"])
    line = refusal("study", "experiment=pu2021_table2", "scale=small", "out=out")
    assert line.startswith("ranker.checkpoint has no default; give it with ranker.checkpoint=")
    absent = "data/medquad: there is no such folder; put the collection medquad there.*data=.*PYRITE_DATA"
    assert re.search(absent, refusal("study", "experiment=cohen2019_patience", "scale=tiny"))
    monkeypatch.setenv("PYRITE_DATA", "elsewhere")
    assert "elsewhere/medquad" in refusal("study", "experiment=cohen2019_patience", "scale=tiny")
    assert not (tmp_path / "out").exists()


def test_an_unknown_key_of_an_experiment_is_refused():
    for wrong, says in (("colour", "colour$|colour;"), ("published", "published any more: a paper's figures are in")):
        with pytest.raises(BadInput, match=f"there is no option experiment.{says}"):
            compose(["experiment=cohen2019_table2", f"+experiment.{wrong}=red"], "study")


def sketched(of: StudyPlan) -> pl.DataFrame:
    """As `as_trials`, from overrides alone: composing every run takes its time."""
    runs = []
    for number, point in enumerate(of.points()):
        given = dict(text.split("=", 1) for text in point.overrides)
        config = {
            "choices": {group: given[group] for group in ("ranker", "policy", "selector", "objective")},
            "function": {given["function"]: {}},
            "collection": {"path": given["collection.path"].strip("'")},
            "validation": {"measure": given["validation.measure"]},
            "seed": 0,
        }
        swept = tuple((key, given[key]) for key in point.swept if key in given)
        runs.append(Planned(f"run-{number:03}", point.overrides, swept, config))
    return as_trials(runs)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("name", "scale", "block", "levels"),
    [
        ("pu2021_table1", "paper", 88, [48, 16]),
        ("pu2021_table2", "medium", 88, [48, 16]),
        ("pu2021_table2", "small", 24, [12, 6]),
        ("pu2021_table3", "paper", 88, [48, 16, 8]),
        ("pu2021_table3", "small", 24, [12, 6, 3]),
        ("pu2021_figure5", "small", 24, [12, 6, 3]),
        ("pu2021_figure5", "tiny", 12, [6, 4, 2]),
    ],
)
def test_a_scale_has_blocks_and_levels_of_its_own(name, scale, block, levels):
    of = study(name, f"scale={scale}")
    (random,), (deepest,) = (plan(of.points()[place], [], [0]) for place in (0, -1))
    for run in (random, deepest):
        check_run(run.config, None)
        assert run.config["sampling"]["negatives"] == (1 if run is random else block - 1)
    assert set(random.config["objective"]) == {"_target_"}
    assert deepest.config["objective"]["levels"] == levels
    if scale == "paper":
        assert deepest.config["training"]["batch_size"] == 4
        assert deepest.config["optimizer"]["lr"] == 5e-5


@pytest.mark.by_day(3)
@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
@pytest.mark.parametrize("name", PU)
def test_every_method_of_pu_has_a_run_beside_it(name, scale):
    checkpoints = "a/wlp,a/ict,a/prop" if name == "pu2021_table1" else "a/bert,a/electra"
    of = study(name, f"scale={scale}", f"ranker.checkpoint={checkpoints}")
    published = read_published(name)
    found = map_methods(published, sketched(of))
    assert {len(ours) for ours in found.values()} == ({1} if name in ("pu2021_table1", "pu2021_table2") else {2})
    ours = [method for methods in found.values() for method in methods]
    assert len(set(ours)) == len(ours)
    for methods in published.figures.values():
        assert methods.keys() == published.methods.keys()
        assert {frozenset(columns) for columns in methods.values()} == {frozenset(published.measures)}
    given = dict(text.split("=", 1) for text in of.points()[0].overrides)
    measures = {"RR@100", "RR@10", "AP@20", "nDCG@20"}
    assert set(published.measures.values()) <= set(given["measures"].strip("[]").split(",")) == measures


def test_a_checkpoint_that_is_no_electra_stands_for_bert():
    of = study("pu2021_table2", "scale=tiny", "ranker.checkpoint=some/minilm")
    found = map_methods(read_published("pu2021_table2"), sketched(of))
    assert found["BERT + V3"] == [
        ("cross_encoder", "bm25 · uniform · objective=sir_v3 pick=top · sampling.negatives=11")
    ]
    assert found["ELECTRA + V3"] == []


def test_lists_may_come_from_run_files_and_other_levels_may_be_asked_for():
    files = ["function=run_file", "function.run_file.path=a", "origin=[run_file]", "origin.run_file.path=b"]
    of = study("pu2021_table2", "scale=small", *files, "validation.origin=run_file")
    (run,) = plan(of.points()[-1], [], [0])
    assert (*run.config["function"], *run.config["origin"]) == ("run_file", "run_file")
    assert run.config["validation"]["origin"] == "run_file"
    points = study("pu2021_table3", "scale=small", "objective.levels=[10,5]").points()
    levels = [text for point in points for text in point.overrides if text.startswith("objective.levels")]
    assert levels == ["objective.levels=[10,5]"] * 8
    assert len(points) == 11
    (run,) = plan(study("pu2021_table2", "scale=small", "objective.levels=[48]").points()[-1], [], [0])
    with pytest.raises(BadInput, match=r"block of 1 \+ 23 documents can't be compressed to 48"):
        check_run(run.config, None)


def test_adore_takes_the_papers_short_steps_or_the_users():
    assert {run.config["optimizer"]["lr"] for run in planned(study("adore"))} == {5e-6}
    assert {run.config["optimizer"]["lr"] for run in planned(study("adore", "optimizer.lr=1e-5"))} == {1e-5}
    assert {run.config["validation"]["origin"] for run in planned(study("adore"))} == {"full"}


@pytest.mark.nightly
def test_a_study_learns_its_agents_and_says_how_reliably(base, ray_session, tmp_path):
    """A reward of table 2, with an agent, on the made-up collection."""
    learn = "['reward=diff','episodes=2','copies=2','random_baseline=0']"
    mine = [text for text in base if not text.startswith("scale=")]
    few = ["scale=tiny", "training.max_epochs=1", "policy.agent=3", f"policy.learn={learn}", "seeds=1"]
    assert command("study", "experiment=cohen2019_table2", *mine, *few, "concurrent=1", f"out={tmp_path}") == 0
    assert len(list((tmp_path / "agents").iterdir())) == 1
    trials = pl.read_parquet(tmp_path / "trials.parquet")
    assert trials["status"].to_list() == ["done"] * 2
    rates = pl.read_csv(tmp_path / "convergence.csv")
    assert rates["agents"].unique().to_list() == [1]
    assert set(rates["rate"]) <= {0.0, 1.0}
    chance = trials.filter(policy="random")["bm25:AP@10"].mean()
    assert rates.filter(candidates="bm25", measure="AP@10")["random_mean"].to_list() == [pytest.approx(chance)]


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "experiment").glob("*.yaml")))
def test_a_baseline_and_contrasts_of_a_file_name_methods_of_it(name):
    of = study(name, "scale=tiny")
    baseline, contrasts = of.design.get("baseline"), of.design.get("contrasts")
    if not (baseline or contrasts) or of.scaled.get("methods"):
        return
    known, proposed = of.runs()
    if known and not proposed:
        study_tables.check_comparison(baseline, None, tiny(name), collections_of(tiny(name)), contrasts)
