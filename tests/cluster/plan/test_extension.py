"""Plans: studies that are extended, the command that composes one again, how large one is and where it runs."""

import math
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import yaml

from pyrite.analysis.methods import SWEPT
from pyrite.analysis.statistics.named_methods import _matching
from pyrite.cluster.commands import experiment
from pyrite.cluster.commands.experiment import Load, runs_here
from pyrite.cluster.commands.resuming import read, started
from pyrite.cluster.commands.study import STUDY, StudyWork
from pyrite.cluster.commands.study_plan import continued
from pyrite.cluster.config.aliases import own_experiment
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.quoting import quoted_path
from pyrite.cluster.output.event_log import EventLog
from pyrite.cluster.plan import size
from pyrite.cluster.plan.extension import extended, refused_change
from pyrite.cluster.plan.size import RAY_START, pool_seconds, run_seconds, saved
from pyrite.cluster.plan.study import StudyPlan
from pyrite.cluster.plan.sweep import identity
from pyrite.cluster.search.decided_runs import DecidedRuns
from pyrite.cluster.search.optuna_runs import OptunaRuns
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.made_up import write_beir

SMALL = ["scale=tiny", "policy=fixed", "function=bm25", "selector=uniform"]


def plan_of(tmp_path: Path, *more: str) -> StudyPlan:
    return started(STUDY, [*SMALL, *more, f"out={tmp_path / 'out'}"]).plan


def ids(plan: StudyPlan) -> set[str]:
    return {identity(run.config) for run in plan.runs()[0]}


def test_more_seeds_are_added(tmp_path):
    for number, seeds in enumerate(("seeds=2", "seed=0,1", "seed=1,0")):
        plan = plan_of(tmp_path / str(number), seeds)
        more = extended(plan, {"seeds": 5}, [])
        assert ids(plan) < ids(more)
        assert sorted(run.config["seed"] for run in more.runs()[0]) == [0, 1, 2, 3, 4]


def test_more_samples_are_added_to_those_that_were_drawn(tmp_path):
    plan = plan_of(tmp_path, "seeds=1", "samples=3", "optimizer.lr=interval(0.001,0.1)")
    more = extended(plan, {"samples": 5}, [])
    assert (plan.sample_batches, more.sample_batches) == ((3,), (3, 2))
    assert len(ids(plan)) == 3
    assert ids(plan) < ids(more)
    assert len(ids(more)) == 5
    again = extended(more, {"samples": 6}, [])
    assert again.sample_batches == (3, 2, 1)
    assert ids(more) < ids(again)
    with pytest.raises(BadInput, match="samples=4 is less than the 5"):
        extended(more, {"samples": 4}, [])

    with pytest.raises(BadInput, match="samples= draws from intervals"):
        extended(plan_of(tmp_path / "no interval", "seeds=1"), {"samples": 20}, [])


def test_further_values_are_added_to_what_is_compared(tmp_path):
    plan = plan_of(tmp_path, "seeds=1")
    more = extended(plan, {}, ["selector=top"])
    assert {run.config["choices"]["selector"] for run in more.runs()[0]} == {"uniform", "top"}
    assert ids(plan) < ids(more)
    both = extended(more, {}, ["function=random,bm25"])
    assert len(ids(both)) == 4
    assert ids(more) < ids(both)
    of_option = extended(plan, {}, ["training.batch_size=16"])  # which was not given: the value of the runs is kept
    assert sorted(run.config["training"]["batch_size"] for run in of_option.runs()[0])[0] == 16
    assert ids(plan) < ids(of_option)
    same = extended(plan, {}, ["save_every=45"])
    assert ids(same) == ids(plan)
    assert same.runs()[0][0].config["save_every"] == 45


def methods(plan: StudyPlan) -> list[tuple[str, str, str]]:
    """Return label, function and selector of each method, with what its runs have of the guard and the batch."""
    found = []
    for run in plan.runs()[0]:
        values = run.parameters
        more = [values[key] for key in ("guard.relative", "training.batch_size") if key in values]
        found.append((values.get("label", "-"), values["function"], " ".join([values["selector"], *more])))
    return found


HARD = "methods=[{function:bm25},{label:hard,function:bm25,selector:top}]"
TWO = "methods=[{label:plain,function:bm25},{label:hard,function:bm25,guard.relative:.05}]"


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("given", "added", "expected"),
    [
        (HARD, "selector=simans", [("-", "bm25", "simans")]),
        (HARD, "selector=top", []),  # of the labelled method
        (HARD, "training.batch_size=16", [("-", "bm25", "uniform 16"), ("-", "bm25", "top 16")]),
        (TWO, "guard.relative=.1", [("-", "bm25", "uniform .1")]),
        (
            "experiment=sampling",
            "selector=top",
            [
                ("-", "random", "top"), ("-", "bm25", "top"), ("-", "in_batch", "top"), ("-", "random+bm25", "top"),
                ("-", "in_batch+bm25", "top"),
            ],
        ),
        (
            "experiment=sampling",
            "function=category",
            [("-", "category", how) for how in ("uniform", "dynamic", "error_reduction")],
        ),
    ],
)  # fmt: skip
def test_methods_keep_their_own_values_and_labels_and_get_the_new_value_alone(given, added, expected, tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", given, f"out={tmp_path / 'out'}"]).plan
    more = extended(plan, {}, [added])
    assert methods(more) == [*methods(plan), *expected]
    assert ids(plan) <= ids(more)


def test_a_label_goes_on_with_the_value_of_an_option_that_the_user_typed(tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", TWO, "selector=uniform", f"out={tmp_path / 'out'}"]).plan
    assert [label for label, *_ in methods(plan)] == ["plain", "hard"]
    labels = [label for label, *_ in methods(extended(plan, {}, ["selector=top"]))]
    assert labels == ["plain · uniform", "plain · top", "hard · uniform", "hard · top"]


def test_what_was_added_is_recorded_and_extended_again(tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", HARD, f"out={tmp_path / 'out'}"]).plan
    saved = {"study": plan.options, "overrides": plan.arguments, "design": plan.design}
    for added in (["selector=simans"], ["seeds=2"], ["selector=uniform,dynamic"]):
        more = continued(added, saved, plan.storage)
        work: Any = SimpleNamespace(plan=more)
        saved = saved | {"overrides": more.arguments} | StudyWork.extension(work, saved)
        again = continued([], saved, plan.storage)
        assert methods(again) == methods(more)
    assert [method for method in methods(again) if method[0] == "hard"] == [("hard", "bm25", "top")] * 2
    assert len(methods(again)) == 2 * 4  # bm25 · uniform is there


@pytest.mark.parametrize(
    ("given", "baseline", "added", "expected"),
    [
        (["function=random,bm25"], "function=bm25", ["training.max_epochs=3"], "function=bm25 training.max_epochs=1"),
        (["function=bm25"], "selector=uniform", ["function=random"], "selector=uniform function=bm25"),
        (["function=random,bm25"], "function=bm25", ["function=in_batch"], "function=bm25"),
        (["function=bm25"], "selector=uniform", ["ranker=match_pyramid"], "selector=uniform"),
        ([HARD], "hard", ["training.batch_size=16"], "hard"),
        ([TWO, "selector=uniform"], "hard", ["selector=top"], "hard · uniform"),
        ([TWO, "training.batch_size=8"], "hard", ["training.batch_size=16"], "label=hard training.batch_size=8"),
        (["function=bm25"], "before training", ["selector=top"], "before training"),
        (["function=random,bm25", "factors=[]"], "function=bm25", ["optimizer.lr=.5"], "function=bm25"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else value,
)
def test_a_baseline_gets_its_values_of_what_is_compared_only_now(given, baseline, added, expected, tmp_path):
    base = ["scale=tiny", "policy=fixed", "seeds=1", "training.max_epochs=1", f"baseline='{baseline}'"]
    plan = started(STUDY, [*base, *given, f"out={tmp_path / 'out'}"]).plan
    more = extended(plan, {}, added)
    assert more.options["baseline"] == expected
    assert extended(more, {"seeds": 2}, []).options["baseline"] == expected


NEW = {"label": "new", "function": "tfidf", "selector": "top"}
BOTH = {"label": "both", "function": ["in_batch", "bm25"], "guard.relative": 0.1}


@pytest.mark.parametrize(
    ("given", "lines", "expected"),
    [
        ([TWO], [NEW], [("new", "tfidf", "top")]),  # one more, not a product
        ([TWO], [{"label": "hard", "function": "bm25", "guard.relative": 0.05}, NEW], [("new", "tfidf", "top")]),
        ([TWO], [["function=bm25", "selector=top"]], [("-", "bm25", "top")]),
        ([TWO], [{"function": "bm25", "selector": "uniform,top"}], [("-", "bm25", "top")]),  # uniform is "plain"
        (
            ["function=bm25,random", "selector=uniform,top", "training.batch_size=8"],
            [{"label": "new", "function": "tfidf", "training.batch_size": "16"}],
            [("new · uniform", "tfidf", "uniform 16"), ("new · top", "tfidf", "top 16")],
        ),
        (["function=bm25,random", "policy=fixed"], [BOTH], [("both", "in_batch+bm25", "uniform 0.1")]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_further_methods_keep_their_options_and_have_the_others_of_the_study(given, lines, expected, tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", *given, f"out={tmp_path / 'out'}"]).plan
    more = extended(plan, {}, [], lines)
    assert [name for name in methods(more) if name in expected] == expected
    assert len(ids(more) - ids(plan)) == len(expected)
    assert ids(plan) < ids(more)
    assert extended(more, {}, [], lines) == more  # again


def test_what_would_leave_out_runs_is_refused_with_what_adds_a_method(tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", "function=bm25", f"out={tmp_path / 'out'}"]).plan
    says = r"would leave out 2 runs of this study; add a method by 'methods=\[{KEY:VALUE,…}\]', or start another study"
    with pytest.raises(BadInput, match=f"function=random {says}"):
        extended(plan, {}, ["function=random"])
    more = extended(plan, {}, [], [{"function": "random"}])
    assert len(ids(more) - ids(plan)) == 1
    other = extended(plan, {}, [], [{"function": "random", "selector": "window"}])
    assert other.untyped == plan.untyped  # what the experiment varies
    with pytest.raises(BadInput, match="two methods have"):
        extended(plan, {}, [], [{"function": "random", "limits.test": 7}])


def test_a_label_that_is_given_later_names_one_method(tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", HARD, f"out={tmp_path / 'out'}"]).plan
    named = extended(plan, {}, [], [{"label": "plain", "function": "bm25"}])
    assert methods(named) == [("plain", "bm25", "uniform"), ("hard", "bm25", "top")]
    assert ids(named) == ids(plan)
    for line, says in (
        (
            {"label": "hard", "function": "random"},
            "hard names another method of this study; give the new one another l",
        ),
        ({"label": "x", "function": "bm25", "selector": "top"}, "'x' is the same as 'hard'; leave one of them out"),
        (
            {"label": "x", "function": "bm25", "policy": "fixed"},
            "x names a method that this study has already; leave it",
        ),
    ):
        with pytest.raises(BadInput, match=says):
            extended(plan, {}, [], [line])
    assert extended(plan, {}, [], [{"label": "x", "function": "random"}])


def test_methods_and_a_longer_file_extend_a_study_and_are_recorded(tmp_path):
    lines = [{"label": "plain", "function": "bm25"}, {"label": "hard", "function": "bm25", "selector": "top"}]
    content: dict[str, Any] = {"title": "Mine, 'quoted'", "seeds": 1, "methods": lines}

    def typed(**changes: Any) -> str:
        return own_experiment(content | changes, "mine.yaml")

    plan = started(STUDY, ["scale=tiny", typed(), f"out={tmp_path / 'out'}"]).plan
    first: dict[str, Any] = {"study": plan.options, "overrides": plan.arguments, "design": plan.design}
    saved = first
    for added, count in (
        (["methods=[{label:new,function:tfidf,selector:top}]"], 3),
        ([typed(methods=[*lines, {"label": "random", "function": "random"}])], 4),
        (["guard.relative=.05"], 8),
        (["methods=[{function:random,selector:top}]"], 9),  # without the guard
    ):
        more = continued(added, saved, plan.storage)
        work: Any = SimpleNamespace(plan=more)
        saved = yaml.safe_load(yaml.safe_dump(saved | {"overrides": more.arguments} | StudyWork.extension(work, saved)))
        assert methods(continued([], saved, plan.storage)) == methods(more)
        assert len(methods(more)) == count
    assert {label for label, *_ in methods(more)} == {"plain", "hard", "new", "random", "-"}
    for changes in ({"seeds": 2}, {"methods": lines[1:]}, {"baseline": "hard"}, {"title": "Other"}):
        with pytest.raises(
            BadInput, match="only methods may be added to it; leave it out, or start another study"
        ) as no:
            continued([typed(**changes)], first, plan.storage)
        assert "function" not in str(no.value)  # its title, not its content
    with pytest.raises(BadInput, match="is not what a study writes down"):
        continued([], saved | {"added": [3]}, plan.storage)


@pytest.mark.parametrize(
    ("given", "added", "expected"),
    [
        (["function=bm25,[in_batch,bm25]", "selector=uniform"], "selector.bm25=top", 4),
        (
            ["methods=[{function:[in_batch,bm25]},{function:[in_batch,bm25],selector.bm25:window}]"],
            "selector.bm25=top",
            3,
        ),
        (["methods=[{function:[in_batch,bm25]},{function:random}]"], "negatives.bm25=1", 3),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_option_that_only_some_runs_have_is_added_to_these(given, added, expected, tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", *given, f"out={tmp_path / 'out'}"]).plan
    more = extended(plan, {}, [added])
    assert ids(plan) < ids(more)
    assert len(ids(more)) == expected


LABELLED = "methods=[{label:hard,function:bm25,selector:top},{label:easy,function:random}]"
OPTUNA = ("search=optuna", "samples=2", "optimizer.lr=interval(0.001,0.1)")


@pytest.mark.parametrize(
    ("given", "added", "lines", "count"),
    [
        (["function=bm25", "selector=uniform", "training.batch_size=8,16"], ["function=random"], [], 2),
        (["function=bm25", "selector=uniform"], ["objective=hinge"], [], 2),
        ([LABELLED], ["policy=fixed"], [], 2),  # all have it
        ([LABELLED], ["selector=uniform"], [], 3),  # one has it
        ([LABELLED], [], [NEW], 3),
    ],
    ids=str,
)
def test_a_search_goes_on_as_it_was_beside_what_is_added(given, added, lines, count, tmp_path):
    plan = started(STUDY, ["scale=tiny", "seeds=1", *given, *OPTUNA, f"out={tmp_path / 'out'}"]).plan
    more = extended(plan, {}, added, lines)
    assert len(more.searches) == count
    (_, before), (_, after) = plan.runs(), more.runs()
    proposed, again = (
        OptunaRuns(each, points, lambda _: {}).proposed for each, points in ((plan, before), (more, after))
    )
    assert proposed
    assert {run.name for run in proposed} <= {run.name for run in again}


def test_a_label_can_not_be_given_to_a_search_that_has_begun(tmp_path):
    plan = plan_of(tmp_path, "seeds=1", *OPTUNA)
    with pytest.raises(
        BadInput, match=r"methods=\[…\] would change 1 method of this study whose runs depend on earlier"
    ):
        extended(plan, {}, [], [{"label": "x", "function": "bm25", "policy": "fixed"}])


@pytest.mark.parametrize(
    ("added", "lines", "count"),
    [(["selector=top"], [], 4), (["objective=hinge"], [], 4), ([], [NEW], 3), (["policy=fixed"], [NEW], 3)],
    ids=str,
)
def test_a_sequential_comparison_repeats_its_log_beside_what_is_added(added, lines, count, tmp_path):
    decided = ["stop=decided", "max_seeds=5", "function=bm25,random", "selector=uniform", "policy=fixed"]
    plan = started(STUDY, ["scale=tiny", *decided, f"out={tmp_path / 'out'}"]).plan
    first = DecidedRuns(plan, plan.runs()[1], lambda _: {})
    first.start(log := EventLog(plan.storage))
    log.flush()
    more = extended(plan, {}, added, lines)
    points = more.runs()[1]
    assert len(points) == count
    again = DecidedRuns(more, points, lambda _: {})
    assert {run.name for run in first.proposed} == {run.name for run in again.proposed}  # the round of the log


def test_what_would_rename_the_methods_of_a_sequential_comparison_is_refused(tmp_path):
    plan = plan_of(tmp_path, "stop=decided", "max_seeds=4", "objective=hinge")
    says = "objective=ranknet would change 1 method of this study whose runs depend on earlier results"
    with pytest.raises(BadInput, match=says):
        extended(plan, {}, ["objective=ranknet"])


PLAIN = ["function=bm25,random", "selector=uniform", "contrasts=['function=bm25','function=random']"]


@pytest.mark.parametrize(
    ("given", "added", "lines", "expected"),
    [
        (PLAIN, ["selector=top"], [], ["function=bm25 selector=uniform", "function=random selector=uniform"]),
        (PLAIN, ["function=tfidf"], [], None),
        (
            [*PLAIN[:2], "contrasts=[bm25,random]"],
            ["selector=top"],
            [],
            ["bm25 selector=uniform", "random selector=uniform"],
        ),
        (PLAIN, [], [{"function": "bm25", "selector": "top"}], ["function=bm25 selector=uniform", "function=random"]),
        (
            [TWO, "selector=uniform", "contrasts=[hard,plain]"],
            ["selector=top"],
            [],
            ["hard · uniform", "plain · uniform"],
        ),
        ([TWO, "contrasts=[hard,plain]"], ["training.batch_size=16"], [], None),
        (
            [
                "function=bm25,random",
                "selector=uniform,top",
                "contrasts=['function=random | selector=top','function=bm25']",
            ],
            ["selector=dynamic"],
            [],
            [
                "function=bm25 selector=top | function=random selector=top | function=random selector=uniform",
                "function=bm25 selector=top | function=bm25 selector=uniform",
            ],
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_contrasts_name_the_same_methods_in_the_extended_study(given, added, lines, expected, tmp_path):
    plan = started(STUDY, ["scale=tiny", "policy=fixed", "seeds=1", *given, f"out={tmp_path / 'out'}"]).plan
    more = extended(plan, {}, added, lines)
    assert more.options["contrasts"] == (expected or plan.options["contrasts"])
    for before, after in zip(plan.options["contrasts"], more.options["contrasts"], strict=True):
        assert contrasted(plan, before) == contrasted(more, after) != set()


def contrasted(plan: StudyPlan, words: str) -> set[str]:
    """Return the runs that some words name in the tables of a study."""
    runs = {run.name: run for run in plan.runs()[0]}
    swept = [[{"key": key, "value": value} for key, value in run.swept] for run in runs.values()]
    overrides = [shlex.join(run.overrides) for run in runs.values()]
    trials = pl.DataFrame({"run": list(runs), "overrides": overrides, "swept": pl.Series(swept, dtype=SWEPT)})
    return {identity(runs[name].config) for name in _matching(trials, words)["run"]}


def test_contrasts_of_the_experiment_stay_and_what_would_change_them_is_refused(tmp_path):
    lines = [{"label": "4 of BM25's", "function": "bm25"}, {"label": "4 random", "function": "random"}]
    content = {"title": "Mine", "seeds": 1, "methods": lines, "contrasts": ["4 of BM25's", "4 random"]}
    mine = ["scale=tiny", "training.batch_size=8", own_experiment(content, "mine.yaml"), f"out={tmp_path / 'mine'}"]
    for added in ("selector=top", "training.batch_size=16"):
        assert extended(started(STUDY, mine).plan, {}, [added], [NEW]).options["contrasts"] is None
    plan = plan_of(tmp_path, *PLAIN, "seeds=1")
    guarded = [{"function": "bm25", "guard.relative": 0.05}]  # no word is of the other one alone
    says = "named by the contrast 'function=bm25' too; give contrasts=…? of the extended study, or start another study"
    with pytest.raises(BadInput, match=says.replace("=…?", r"=\[…\]")):
        extended(plan, {}, [], guarded)
    given = ["function=random", "guard.relative=0.05"]
    assert extended(plan, {"contrasts": given}, [], guarded).options["contrasts"] == given


def test_what_can_not_be_added_is_refused(tmp_path):
    plan, decided = plan_of(tmp_path, "seeds=2"), plan_of(tmp_path, "stop=decided", "max_seeds=4")
    search = plan_of(tmp_path, "seeds=1", "search=optuna", "optimizer.lr=interval(0.001,0.1)")
    labelled = plan_of(tmp_path, "seeds=1", TWO)
    drawn = plan_of(tmp_path, "seeds=1", "samples=2", "optimizer.lr=interval(0.001,0.1)")
    for study, options, overrides, says in (
        (plan, {"seeds": 1}, [], "seeds=1 is less than the 2 of this study; nothing is removed"),
        (plan_of(tmp_path, "seed=1,3"), {"seeds": 3}, [], "names seeds that are not numbered from 0"),
        (plan, {}, ["seed=3"], "seed=3 can't change a study that has begun: seeds are numbered from 0"),
        (plan, {}, ["nothing=1"], "have no option nothing"),
        (plan, {}, ["optimizer.lr=interval(0.1,0.2)"], "sweeps over an interval"),
        (
            drawn,
            {},
            ["optimizer.lr=.3"],
            "optimizer.lr is drawn from an interval in this study; samples=N adds draws; or",
        ),
        (labelled, {}, ["measures=[AP@10]"], "all its runs are measured alike, and keep the same"),
        (search, {"seeds": 2}, [], "chose its settings by 1 seed each"),
        (search, {}, ["training.batch_size=16"], "can't change a search that has begun"),
        (decided, {"seeds": 9}, [], "can't change a study of stop=decided: it gives each method the seeds"),
        (decided, {}, ["training.batch_size=16"], "can't change a study of stop=decided: it gives each method the s"),
    ):
        with pytest.raises(BadInput, match=says):
            extended(study, options, overrides)
    assert "the settings of a search" in str(refused_change("search=optuna", "out"))
    assert len(extended(search, {"samples": 20}, []).runs()[1]) == 1
    assert len(extended(drawn, {"samples": 3}, []).runs()[0]) == 3
    assert "the study's results depend on it" in str(refused_change("stop=decided", "out"))


@pytest.mark.parametrize("text", [
    "measures=[nDCG@10]", "origin=[bm25]", "origin.bm25.depth=9", "evaluate=[x]", "weights=true", "sampling.recorded=1",
    "limits.test=9", "encoding.relevant_from=2",
])  # fmt: skip
def test_what_all_runs_of_a_study_share_can_not_be_added(text, tmp_path):
    """The sweep over the old and the new value was refused with a remedy that was refused as well."""
    says = "all its runs are measured alike, and keep the same; leave it out, or start another study"
    with pytest.raises(BadInput) as refused:
        extended(plan_of(tmp_path, "seeds=1"), {}, [text])
    assert str(refused.value) == f"{tmp_path / 'out'}: {text} can't change a study that has begun: {says}"


def test_where_work_is_done_is_replaced(tmp_path):
    plan = plan_of(tmp_path, "seeds=1", "resources.workers=2")
    more = extended(plan, {}, ["resources.workers=3", "resources.memory=4", "index.encoders=2"])
    assert ids(more) == ids(plan)
    for given in (OPTUNA, ["stop=decided", "max_seeds=4"]):
        later = plan_of(tmp_path, *given)
        assert len(extended(later, {}, ["resources.memory=4"]).runs()[1]) == len(later.runs()[1]) == 1
    (run,) = more.runs()[0]
    assert (run.config["resources"]["workers"], run.config["resources"]["memory"]) == (3, 4)


def test_another_scale_is_added_with_the_test_queries_and_folds_of_the_study(tmp_path):
    plan = plan_of(tmp_path, "seeds=1")
    for given, says in (([], "limits.test=50 and limits.test=400"), (["limits.test=50"], "folds=3 and folds=5")):
        with pytest.raises(BadInput, match=f"two methods have {says}"):
            extended(plan, {}, ["scale=small", *given])
    more = extended(plan, {}, ["scale=small", "limits.test=50", "folds=3"])
    assert ids(plan) < ids(more)


@pytest.mark.nightly
def test_a_finished_study_is_extended_by_the_command(base, tmp_path):
    out = tmp_path / "study"
    small = [*base, "function=random", "policy=fixed", "selector=uniform", "track=[]", "local=true", "seeds=1"]
    assert command("study", *small, f"out={out}") == 0
    (first,) = (out / "runs").iterdir()
    before = first.stat().st_mtime_ns
    assert command("study", "--resume", str(out), "seeds=2") == 0
    assert command("study", "--resume", str(out), "selector=top") == 0  # the seeds are recorded
    assert first.stat().st_mtime_ns == before  # what is there stays
    trials = pl.read_parquet(out / "trials.parquet")
    assert sorted(trials.select("selector", "seed").rows()) == [("top", 0), ("top", 1), ("uniform", 0), ("uniform", 1)]
    assert set(trials["status"]) == {"done"}
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert [text.partition(str(out))[2] for text in config["extended"]] == [" seeds=2", " selector=top"]
    for change, reason in (("seeds=1", "nothing is removed"), ("stop=decided", "depend on it"), ("out=x", "stay in")):
        with pytest.raises(BadInput, match=reason):
            read(STUDY, [change], str(out))


def test_a_baseline_beside_an_addition_is_recorded(base, tmp_path):
    out = tmp_path / "study"
    small = [*base, "function=random", "policy=fixed", "track=[]", "local=true", "seeds=1", "selector=uniform"]
    first = [*small, "baseline='selector=uniform'", f"out={out}"]
    assert command("study", *first) == 0
    assert not read(STUDY, ["baseline=function=random"], str(out)).additions
    further = ["methods=[{label:new,function:bm25}]"]
    assert read(STUDY, further, str(out)).additions == further
    assert read(STUDY, [*first, *further, "resume=auto"]).plan.added == ({"label": "new", "function": "bm25"},)
    assert command("study", "--resume", str(out), "selector=top", "baseline=selector=top") == 0
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert shlex.split(config["extended"][0])[4:] == ["selector=top", "baseline='selector=top'"]
    assert read(STUDY, [], str(out)).plan.options["baseline"] == "selector=top"
    # The whole command again repeats what is recorded.
    assert read(STUDY, [*first, "resume=auto"]).plan.options["baseline"] == "selector=top"
    assert command("report", str(out)) == 0
    assert set(pl.read_csv(out / "summary.csv")["baseline"].drop_nulls()) == {"random · top"}


RANDOM = ["scale=tiny", "policy=fixed", "function=random", "selector=uniform"]
EXPERIMENTS = ("adore", "cohen2019_patience", "negatives", "saeidi2017_figure5", "sampling")


def same_study(arguments: list[str]) -> str:
    """Compose a study, print its command, compose that, and compare both; returns the command."""
    study = started(STUDY, arguments)
    command = study.command
    words = shlex.split(command)
    assert words[:2] == ["pyrite", "study"]
    again = read(STUDY, words[2:])
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
    same_study([*RANDOM, *arguments, f"out={tmp_path / 'a b, c=d'}"])


@pytest.mark.by_day(1)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_command_of_each_experiment_composes_the_same_study(experiment):
    checkpoint = ["ranker.checkpoint=a b"] if experiment == "adore" else []
    assert f"experiment={experiment} " in same_study([f"experiment={experiment}", *checkpoint, "seeds=1"])


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "name", ["résultats", "20241125", "a&b", "a b/c", "x#1", "a,b", "run=3", "true", "1e5", "a'b", "(x)", "a;b[1]"]
)
def test_any_path_is_text(name, tmp_path):
    for path in (name, f"{tmp_path}/{name}"):
        assert compose([quoted_path(f"out={path}")], "mine")["out"] == path
        assert compose([f"out={path}"], "mine")["out"] == path
        assert quoted_path(quoted_path(f"out={path}")) == quoted_path(f"out={path}")
        assert read(STUDY, [*RANDOM, "seeds=1", f"out={path}/new"]).plan.storage.place == f"{path}/new"


def test_paths_of_the_home_folder_of_odd_names_lists_and_sweeps(monkeypatch, tmp_path, own_cache):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert quoted_path("out=~/x") == "out=/home/somebody/x"
    assert quoted_path("ranker.checkpoint=~/a,b c,é") == "ranker.checkpoint=/home/somebody/a,b c,'é'"
    unchanged = ["out=null", "runs=[a,b]", "collection.path=choice(a,b)", "cache=${oc.env:X}", "seed=3", "~teacher"]
    for override in [*unchanged, "actions.documents=20", "out='a b'"]:
        assert quoted_path(override) == override
    folder = write_beir(tmp_path / "Sammlung für a&b #1, neu")
    assert compose(["collection=beir", f"collection.path={folder}"])["collection"]["path"] == str(folder)


LITTLE, LARGE = Load(True, saved=RAY_START / 2), Load(True, saved=RAY_START * 2)


@pytest.fixture
def alone(monkeypatch) -> None:
    """No Ray to be found."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(experiment, "connected", lambda: False)


@pytest.mark.parametrize(
    ("local", "work", "here"),
    [
        ("auto", LITTLE, True), ("auto", LARGE, False), ("auto", Load(True), False), (False, LITTLE, False),
        (True, LARGE, True), (True, Load(True), True), ("auto", Load(True, saved=1, needs="an index"), False),
    ],
)  # fmt: skip
def test_a_plan_smaller_than_the_start_of_ray_runs_here(alone, local, work, here):
    assert runs_here({"address": None, "local": local}, work) is here


def test_a_ray_that_is_there_is_used_and_what_wants_one_refused_without_it(alone, monkeypatch):
    assert not runs_here({"address": "auto", "local": "auto"}, LITTLE)
    monkeypatch.setenv("RAY_ADDRESS", "somewhere:6379")
    assert not runs_here({"address": None, "local": "auto"}, LITTLE)
    assert runs_here({"address": None, "local": True}, LITTLE)
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setattr(experiment, "connected", lambda: True)
    assert not runs_here({"address": None, "local": "auto"}, LITTLE)
    with pytest.raises(BadInput, match="workers"):
        runs_here({"address": None, "local": True}, Load(True, needs="resources.workers=2"))


def test_what_takes_longer_is_larger_and_cores_save(monkeypatch):
    config = compose(["scale=tiny", "function=bm25"])
    small = run_seconds(config, "feed_forward", 500, 600)
    assert small is not None
    longer = config | {"training": config["training"] | {"max_epochs": 99}}
    assert small < (run_seconds(longer, "feed_forward", 500, 600) or 0)
    assert small <= (run_seconds(config, "match_pyramid", 500, 600) or 0)
    assert run_seconds(config, "cross_encoder", 500, 600) is None
    of_batch = run_seconds(compose(["scale=tiny", "function=in_batch"]), "feed_forward", 500, 600)
    assert (of_batch or 9) < small  # its documents are in the batch already
    assert pool_seconds(1000, 5000, 10) == pytest.approx(10 * pool_seconds(1000, 5000, 1))
    for count, less in ((1, 0), (2, 30), (4, 45)):
        monkeypatch.setattr(size, "cores", lambda count=count: count)
        assert saved(60) == pytest.approx(less)
        assert saved(60, processes=4) == saved(None, processes=4) == 0  # local processes use all cores
    monkeypatch.setattr(size, "cores", lambda: 8)
    assert saved(60, processes=4) == pytest.approx(60 / 4 - 60 / 8)
    assert saved(None, processes=4) == math.inf
