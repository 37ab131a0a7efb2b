import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.cluster.commands.study_plan import plan as planned_study
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.takes import takes_whole
from pyrite.cluster.plan.sweep import (
    Interval,
    draws,
    given_seeds,
    identity,
    plan,
    points,
    refuse_sweeps,
)
from pyrite.ranking.errors import BadInput


def texts(methods: list[list[str]], given: list[str]) -> list[str]:
    return [" ".join(point.overrides) for point in points(methods, [], given)]


MAIN = [["policy=fixed", "function=random,bm25", "selector=uniform,dynamic"], ["policy=random", "selector=uniform"]]


def test_lines_are_united_and_give_way_to_what_the_user_gives():
    assert len(texts(MAIN, [])) == 5
    assert texts(MAIN, ["policy=fixed", "function=bm25", "selector=top,uniform"]) == [
        "policy=fixed function=bm25 selector=top",
        "policy=fixed function=bm25 selector=uniform",
    ]
    # A line whose policy has nothing to choose is left out.
    assert all("policy=fixed" in text for text in texts(MAIN, ["function=bm25"]))
    assert any("policy=random" in text for text in texts(MAIN, ["function=bm25", "policy=random"]))
    # So is a point of a line with other policies.
    assert texts([["policy=fixed,random", "selector=top"]], ["function=bm25"]) == [
        "policy=fixed selector=top function=bm25"
    ]


def test_a_policy_that_chooses_takes_the_functions_together_and_others_each_alone():
    found = texts([], ["policy=fixed,random", "function=random,bm25"])
    assert found == [
        "policy=fixed function=random",
        "policy=fixed function=bm25",
        "policy=random function=[random,bm25]",
    ]
    found = texts(MAIN, ["function=random,bm25", "training.patience=2,10"])
    assert len(found) == 4
    assert all("policy=fixed" in text and "selector=uniform" in text for text in found)
    assert len(texts(MAIN, ["function=random,bm25", "selector=uniform,dynamic"])) == 4
    # One function, or a policy beside them, keeps the experiment's own lines.
    assert len(texts(MAIN, ["function=bm25"])) == 2
    assert any("policy=random" in text for text in texts(MAIN, ["policy=fixed,random", "function=random,bm25"]))


def test_swept_names_what_varies_also_between_lines_and_a_run_what_was_drawn(base):
    found = points([["selector=uniform", "sampling.negatives=1"], ["selector=dynamic"]], [], ["training.patience=1,2"])
    assert all(set(point.swept) == {"selector", "sampling.negatives", "training.patience"} for point in found)
    point = points([], [], [*base, "training.patience=1,2", "optimizer.lr=interval(0.1,0.2)"])[0]
    planned = plan(point, point.at([0.5]), [0])[0]
    assert planned.drawn == ("optimizer.lr",)
    assert dict(planned.swept).keys() == {"training.patience", "optimizer.lr"}


def test_draws_fill_the_space_alike_for_all_methods():
    found = points([], [], ["selector=uniform,dynamic", "optimizer.lr=tag(log,interval(1e-4,1e-2))"])
    shares = draws(1, [4])
    assert [point.at(shares[0])[-1] for point in found] == [found[0].at(shares[0])[-1]] * 2
    values = [float(found[0].at(share)[-1].split("=")[1]) for share in shares]
    assert len(set(values)) == 4
    assert all(1e-4 <= value <= 1e-2 for value in values)
    shares = draws(2, [8])
    assert shares.shape == (8, 2)
    for column in shares.T:
        assert sorted(math.floor(share * 8) for share in column) == list(range(8))


def test_what_depends_on_a_drawn_number_follows_each_draw():
    (point,) = points([], [], ["function=in_batch", "training.batch_size=int(interval(4,64))"])
    for size in (8, 32):
        (run,) = plan(point, [f"training.batch_size={size}"], [0])
        assert run.config["sampling"]["negatives"] == size - 1


def test_options_that_take_whole_numbers_are_drawn_as_such():
    assert Interval(0, 10, False, False).at(0.25) == 2.5
    assert Interval(1, 5, False, True).at(0.6) == 4
    (point,) = points([], [], ["policy=fixed", "function=bm25", "sampling.negatives=interval(1,12)"])
    drawn = sorted(int(point.at(share)[0].split("=")[1]) for share in draws(1, [12]))
    assert drawn == list(range(1, 13))  # a Latin hypercube has each of them once
    (run,) = plan(point, point.at(draws(1, [12])[0]), [0])
    assert type(run.config["sampling"]["negatives"]) is int
    assert point.intervals[0][1] == Interval(1, 12, False, True)
    # On a scale of logarithms.
    (point,) = points([], [], ["training.batch_size=tag(log,interval(4,64))", "optimizer.lr=tag(log,interval(1,10))"])
    (_, size), (_, rate) = point.intervals
    assert (size.at(0.0), size.at(0.5), size.at(1.0)) == (4, 15, 64)
    assert size == Interval(4, 64, True, True)
    assert not rate.whole
    assert rate.at(0.5) == pytest.approx(10**0.5, rel=1e-5)


@given(st.integers(1, 30), st.integers(1, 30), st.booleans(), st.booleans(), st.floats(0, 1))
def test_a_value_lies_where_it_was_drawn(low, more, log, whole, share):
    assert low <= Interval(low, low + more, log, whole).at(share) <= low + more


def test_what_takes_whole_numbers():
    config = compose(["selector=dynamic"])
    others = "optimizer.lr training.clip_norm function.bm25.k1 resources.cpu no.such"
    whole = "sampling.negatives negatives.bm25 limits.train training.patience function.bm25.depth selector.candidates"
    assert [key for key in f"{whole} {others}".split() if takes_whole(config, key)] == whole.split()


def test_a_run_is_named_by_its_overrides_as_a_file_may_be(base):
    (point,) = points([], [], [*base, "selector=dynamic"])
    runs = plan(point, [], [0, 1])
    assert [run.config["seed"] for run in runs] == [0, 1]
    assert runs[0].overrides[-1] == "seed=0"
    assert runs[0].name != runs[1].name
    again = plan(points([], [], list(runs[1].overrides))[0], [], [0])
    assert again[0].name == runs[1].name
    assert identity(again[0].config) == identity(runs[1].config)
    overrides = [f"+function.{'long' * 9}{number}=${{function.bm25}}" for number in range(9)]
    (run,) = plan(points([], [], overrides)[0], [], [0])
    assert len(run.name) < 128


def test_seeds_are_read_from_a_sweep():
    assert given_seeds(["selector=top"]) == []
    assert given_seeds(["seed=range(2,5)"]) == [2, 3, 4]
    assert given_seeds(["seed=7,7,1"]) == [7, 1]
    for text in ("seed=a,1", "seed=-1", "seed=interval(0,3)", "seed=true"):
        with pytest.raises(BadInput):
            given_seeds([text])


def test_numbers_put_into_a_composed_point_are_what_composing_gives(base):
    sweep = ["optimizer.lr=tag(log,interval(1e-6,1e-2))", "training.patience=int(interval(1,4))"]
    (point,) = points([], [], [*base, *sweep])
    for shares in draws(2, [5]):
        (run,) = plan(point, point.at(shares), [3])
        assert run.config == compose(run.overrides)


def test_what_the_user_chooses_goes_with_those_lines_alone_that_have_functions_for_it():
    lines = [
        ["policy=fixed", "function=random,bm25", "selector=uniform"],
        ["policy=fixed", "function=in_batch", "selector=uniform"],
        ["policy=mixture", "policy.per=negative", "function=[in_batch,bm25]", "selector=uniform"],
    ]
    assert sorted(tuple(sorted(each.overrides)[:2]) for each in points(lines, [], ["policy=fixed,random"])) == [
        ("function=[in_batch,bm25]", "policy=random"),
        ("function=[random,bm25]", "policy=random"),
        ("function=bm25", "policy=fixed"),
        ("function=in_batch", "policy=fixed"),
        ("function=random", "policy=fixed"),
    ]
    assert len(points(lines, [], ["policy=random", "function=bm25"])) > 0  # so that it can complain
    lines = [*MAIN, ["policy=mixture", "policy.per=negative", "function=[in_batch,bm25]"]]
    assert texts(lines, ["policy=mixture,fixed", "function=[random,bm25]", "selector=uniform"]) == [
        "policy=mixture function=[random,bm25] selector=uniform",
        "policy=fixed function=[random,bm25] selector=uniform",
    ]
    assert texts([["objective=hinge", "policy.per=query"]], ["policy=random", "function=[bm25]", "selector=top"]) == [
        "objective=hinge policy=random function=[bm25] selector=top"
    ]


@pytest.mark.parametrize("policy", ["recommended", "aligned", "refined", "learned"])
def test_a_policy_whose_file_names_functions_keeps_them(policy):
    assert texts(MAIN, [f"policy={policy}"]) == [f"policy={policy}"]
    assert texts(MAIN, ["selector=uniform,top", f"policy={policy}"]) == [
        f"selector=uniform policy={policy}",
        f"selector=top policy={policy}",
    ]
    lines = [["objective=softmax,hinge", "function=bm25", "negatives.bm25=2"]]  # what is not about negatives stays
    assert texts(lines, [f"policy={policy}"]) == [f"objective={name} policy={policy}" for name in ("softmax", "hinge")]
    assert all("function=[random,bm25]" in text for text in texts(MAIN, [f"policy={policy}", "function=[random,bm25]"]))


def test_policies_that_keep_their_functions_beside_one_that_does_not():
    assert texts(MAIN[:1], ["policy=aligned,fixed,recommended"]) == [
        "policy=aligned",
        "policy=recommended",
        *(
            f"policy=fixed function={name} selector={how}"
            for name in ("random", "bm25")
            for how in ("uniform", "dynamic")
        ),
    ]


def test_ranges_choices_and_patterns_of_names_are_sweeps_but_not_over_a_class():
    found = texts([], ["training.patience=range(1,4)", "objective=choice(softmax,hinge)"])
    assert len(found) == 6
    assert "training.patience=3 objective=hinge" in found
    swept = points([], [], ["function=glob(sub*)", "selector=glob(to*)"])
    assert [point.overrides for point in swept] == [("function=subcategory", "selector=top")]
    for text, message in (("function=glob(zz*)", "choose from bm25"), ("seed=glob(1*)", "names of a group")):
        with pytest.raises(BadInput, match=message):
            points([], [], [text])
    with pytest.raises(BadInput) as refusal:
        points([], [], ["selector=uniform,top", "selector._target_=mine.Selector"])
    assert "selector=uniform selector._target_=pyrite.sampling.selection.uniform.Uniform," in str(refusal.value)
    assert len(points([], [], ["selector=uniform", "selector._target_=mine.A,mine.B"])) == 2


def test_a_study_that_was_told_to_give_a_trainer_epochs_goes_on():
    """Reports once suggested it; what is typed for a new study is refused."""
    typed = ["trainer=train.py:train", "training.max_epochs=4"]
    assert points([["function=bm25"]], [], typed)
    with pytest.raises(BadInput, match="a trainer does not read it"):
        planned_study(typed)


def test_labelled_methods_run_once_and_have_a_label_of_their_own():
    methods = [
        {"label": "agents", "overrides": ["policy=learned", "function=[random,bm25]"]},
        {"label": "coin", "overrides": ["policy=random", "function=[random,bm25]"]},
    ]
    found = points(methods, ["policy.agent=range(0,2)"], [], named=True)
    assert [point.label for point in found] == ["agents", "agents", "coin"]
    assert found[2].overrides == ("policy=random", "function=[random,bm25]")
    methods = [{"label": "a", "overrides": [f"function={name}"]} for name in ("bm25", "random")]
    with pytest.raises(BadInput, match="methods: two are labelled 'a'; "):
        points(methods, [], [], named=True)
    together = [{"label": "a", "overrides": [each["overrides"] for each in methods]}]  # on purpose
    assert [point.label for point in points(together, [], [], named=True)] == ["a", "a"]
    with pytest.raises(BadInput, match="'b' is the same as 'a'"):
        points([{"label": name, "overrides": ["policy=random"]} for name in ("a", "b")], [], [], named=True)


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (["function=bm25,random"], ["a · bm25", "a · random", "b · bm25", "b · random"]),
        (["selector=uniform,top", "objective=hinge,softmax"], ["a · uniform", "a · top", "b · uniform", "b · top"] * 2),
        (["policy=fixed,random", "function=[in_batch,bm25],[in_batch,random]"], [
            f"{label} · {policy} · in_batch+{name}"
            for label in "ab"
            for policy in ("fixed", "random")
            for name in ("bm25", "random")
        ]),
        (["training.patience=2,10"], ["a", "a", "b", "b"]),  # a column of its own
        (["function=bm25"], ["a", "b"]),
    ],
)  # fmt: skip
def test_a_label_names_one_method_also_beside_a_sweep_over_negatives(given, labels):
    methods = [{"label": "a", "sampling.negatives": 1}, {"label": "b", "sampling.negatives": 2}]
    for named in (True, False):
        found = points(methods, [], given, named)
        assert sorted(point.label for point in found) == sorted(labels)


def test_sweeps_that_are_broken_or_give_a_value_twice_are_refused():
    for text in ("function=bm25,bm25", "training.patience=1,2,1"):
        with pytest.raises(BadInput, match=rf"{text}: gives \S+ twice"):
            points([], [], [text])
    for text in ("a=interval(3,1)", "a=tag(log,interval(0,1))", "a=[", "=3"):
        with pytest.raises(BadInput):
            points([], [], [text])


@pytest.mark.parametrize(("text", "remedy"), [
    ("origin=full,bm25", "write origin=[full,bm25]"),
    ("origin=[full],[bm25,random]", "write origin=[full,bm25,random]"),
    ("origin=glob(r*)", "write origin=[random,run_file]"),
    ("origin={bm25:{depth:5}},{bm25:{depth:9}}", "give it one value"),
    ("measures=AP@100,RR@10", "write measures=[AP@100,RR@10]"),
    ("evaluate=choice(a,b)", "write evaluate=[a,b]"),
    ("weights=true,false", "give it one value"),
    ("limits.test=10,20", "give it one value"),
    ("limits.test=interval(10,20)", "give it one value"),
    ("origin.bm25.depth=3,100", "give it one value"),
    ("encoding.relevant_from=1,2", "give it one value"),
    ("folds=3,5", "give it one value"),
    ("resources.workers=1,2", "give it one value"),
])  # fmt: skip
def test_a_sweep_over_an_option_that_all_runs_share_is_refused(text, remedy):
    with pytest.raises(BadInput) as refused:
        points(MAIN, [], [text])
    assert (
        str(refused.value) == f"{text}: sweeps over {text.partition('=')[0]}, which all compared runs share; {remedy}"
    )
    assert len(points(MAIN, [], ["resources.cpu=1,2", "validation.origin=bm25,random"])) == 20


def test_a_verb_without_sweeps_names_the_list():
    for text, remedy in {
        "function=bm25,random": r"takes a list; write function=\[bm25,random\]; train one$",
        "validation.origin=bm25,random": r"takes a list; write validation.origin=\[bm25,random\]; train one$",
        "function=bm25,nothing": "there is no function 'nothing'; there is bm25",
        "ranker=static,dssm": "ranker takes one value here, not static,dssm; train one$",
        "optimizer.lr=interval(1,2)": r"lr takes one value here, not interval\(1,2\); train one$",
        "origin=full,bm25": r"compared runs share; write origin=\[full,bm25\]$",
    }.items():
        with pytest.raises(BadInput, match=remedy):
            refuse_sweeps([text], "config", "train one")
