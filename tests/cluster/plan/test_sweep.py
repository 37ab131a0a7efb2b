from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.compose import compose
from cluster.config.whole import takes_whole
from cluster.plan.sweep import Interval, draws, given_seeds, identity, labelled_points, plan, points
from ranking.errors import BadInput


def texts(methods: list[list[str]], given: list[str]) -> list[str]:
    return [" ".join(point.overrides) for point in points(methods, [], given)]


MAIN = [["policy=fixed", "function=random,bm25", "selector=uniform,dynamic"], ["policy=random", "selector=uniform"]]


def test_lines_are_united() -> None:
    assert len(texts(MAIN, [])) == 5


def test_what_the_user_gives_takes_the_place_of_a_lines() -> None:
    assert texts(MAIN, ["policy=fixed", "function=bm25", "selector=top,uniform"]) == [
        "policy=fixed function=bm25 selector=top",
        "policy=fixed function=bm25 selector=uniform",
    ]


def test_a_line_whose_policy_has_nothing_to_choose_is_left_out() -> None:
    assert all("policy=fixed" in text for text in texts(MAIN, ["function=bm25"]))
    assert any("policy=random" in text for text in texts(MAIN, ["function=bm25", "policy=random"]))


def test_a_policy_that_chooses_takes_the_functions_together() -> None:
    found = texts([], ["policy=fixed,random", "function=random,bm25"])
    assert found == [
        "policy=fixed function=random",
        "policy=fixed function=bm25",
        "policy=random function=[random,bm25]",
    ]


def test_functions_that_a_user_lists_are_compared_each_alone() -> None:
    found = texts(MAIN, ["function=random,bm25", "training.patience=2,10"])
    assert len(found) == 4
    assert all("policy=fixed" in text and "selector=uniform" in text for text in found)
    assert len(texts(MAIN, ["function=random,bm25", "selector=uniform,dynamic"])) == 4
    # One function, or a policy beside them, keeps the experiment's own lines.
    assert len(texts(MAIN, ["function=bm25"])) == 2
    assert any("policy=random" in text for text in texts(MAIN, ["policy=fixed,random", "function=random,bm25"]))


def test_ranges_and_choices() -> None:
    found = texts([], ["training.patience=range(1,4)", "objective=choice(softmax,hinge)"])
    assert len(found) == 6
    assert "training.patience=3 objective=hinge" in found


def test_swept_names_what_varies_also_between_lines() -> None:
    found = points([["selector=uniform", "sampling.negatives=1"], ["selector=dynamic"]], [], ["training.patience=1,2"])
    assert all(set(point.swept) == {"selector", "sampling.negatives", "training.patience"} for point in found)


def test_intervals_are_drawn_alike_for_all_methods() -> None:
    found = points([], [], ["selector=uniform,dynamic", "optimizer.lr=tag(log,interval(1e-4,1e-2))"])
    shares = draws(1, [4])
    assert [point.at(shares[0])[-1] for point in found] == [found[0].at(shares[0])[-1]] * 2
    values = [float(found[0].at(share)[-1].split("=")[1]) for share in shares]
    assert len(set(values)) == 4
    assert all(1e-4 <= value <= 1e-2 for value in values)


def test_interval_scales() -> None:
    assert Interval(1, 100, True, False).at(0.5) == pytest.approx(10)
    assert Interval(0, 10, False, False).at(0.25) == 2.5
    assert Interval(1, 5, False, True).at(0.6) == 4


def test_options_that_take_whole_numbers_are_drawn_as_such() -> None:
    (point,) = points([], [], ["policy=fixed", "function=bm25", "sampling.negatives=interval(1,12)"])
    drawn = sorted(int(point.at(share)[0].split("=")[1]) for share in draws(1, [12]))
    assert drawn == list(range(1, 13))  # a Latin hypercube has each of them once
    (run,) = plan(point, point.at(draws(1, [12])[0]), [0])
    assert type(run.config["sampling"]["negatives"]) is int
    assert point.intervals[0][1] == Interval(1, 12, False, True)


def test_whole_numbers_on_a_log_scale() -> None:
    (point,) = points([], [], ["training.batch_size=tag(log,interval(4,64))", "optimizer.lr=tag(log,interval(1,10))"])
    (_, size), (_, rate) = point.intervals
    assert (size.at(0.0), size.at(0.5), size.at(1.0)) == (4, 15, 64)
    assert size == Interval(4, 64, True, True)
    assert not rate.whole
    assert rate.at(0.5) == pytest.approx(10**0.5, rel=1e-5)


@given(st.integers(1, 30), st.integers(1, 30), st.booleans(), st.booleans(), st.floats(0, 1))
def test_a_value_lies_where_it_was_drawn(low: int, more: int, log: bool, whole: bool, share: float) -> None:
    interval = Interval(low, low + more, log, whole)
    value = interval.at(share)
    assert low <= value <= low + more


@pytest.mark.parametrize(
    ("key", "whole"),
    [
        *(("sampling.negatives", True), ("negatives.bm25", True), ("limits.train", True), ("training.patience", True)),
        *(("function.bm25.depth", True), ("selector.candidates", True), ("optimizer.lr", False)),
        *(("training.clip_norm", False), ("function.bm25.k1", False), ("resources.cpu", False), ("no.such", False)),
    ],
)
def test_what_takes_whole_numbers(key: str, whole: bool) -> None:
    assert takes_whole(compose(["selector=dynamic"]), key) is whole


@pytest.mark.parametrize("text", ["a=interval(3,1)", "a=tag(log,interval(0,1))", "a=[", "=3"])
def test_broken_sweeps(text: str) -> None:
    with pytest.raises(BadInput):
        points([], [], [text])


def test_a_run_is_named_by_its_overrides(base: list[str]) -> None:
    (point,) = points([], [], [*base, "selector=dynamic"])
    runs = plan(point, [], [0, 1])
    assert [run.config["seed"] for run in runs] == [0, 1]
    assert runs[0].overrides[-1] == "seed=0"
    assert runs[0].name != runs[1].name
    again = plan(points([], [], list(runs[1].overrides))[0], [], [0])
    assert again[0].name == runs[1].name
    assert identity(again[0].config) == identity(runs[1].config)


def test_draws_fill_the_space() -> None:
    shares = draws(2, [8])
    assert shares.shape == (8, 2)
    for column in shares.T:
        assert sorted(math.floor(share * 8) for share in column) == list(range(8))


def test_seeds_are_read_from_a_sweep() -> None:
    assert given_seeds(["selector=top"]) == []
    assert given_seeds(["seed=range(2,5)"]) == [2, 3, 4]
    assert given_seeds(["seed=7,7,1"]) == [7, 1]
    for text in ("seed=a,1", "seed=-1", "seed=interval(0,3)", "seed=true"):
        with pytest.raises(BadInput):
            given_seeds([text])


def test_numbers_put_into_a_composed_point_are_what_composing_gives(base: list[str]) -> None:
    sweep = ["optimizer.lr=tag(log,interval(1e-6,1e-2))", "training.patience=int(interval(1,4))"]
    (point,) = points([], [], [*base, *sweep])
    for shares in draws(2, [5]):
        (run,) = plan(point, point.at(shares), [3])
        assert run.config == compose(run.overrides)
    (refers,) = points([], [], [*base, "training.max_epochs=${training.patience}", sweep[1]])
    for share in (0.0, 1.0):
        (run,) = plan(refers, refers.at([share]), [0])
        assert run.config["training"]["max_epochs"] == run.config["training"]["patience"]


def test_a_run_says_which_of_its_values_were_drawn(base: list[str]) -> None:
    point = points([], [], [*base, "training.patience=1,2", "optimizer.lr=interval(0.1,0.2)"])[0]
    planned = plan(point, point.at([0.5]), [0])[0]
    assert planned.drawn == ("optimizer.lr",)
    assert dict(planned.swept).keys() == {"training.patience", "optimizer.lr"}


def test_names_are_names_of_files() -> None:
    overrides = [f"+function.{'long' * 9}{number}=${{function.bm25}}" for number in range(9)]
    (run,) = plan(points([], [], overrides)[0], [], [0])
    assert len(run.name) < 128


def test_a_policy_of_the_user_goes_with_those_lines_alone_that_have_functions_for_it() -> None:
    lines = [
        ["policy=fixed", "function=random,bm25", "selector=uniform"],
        ["policy=fixed", "function=in_batch", "selector=uniform"],
        ["policy=mixture", "policy.per=negative", "function=[in_batch,bm25]", "selector=uniform"],
    ]
    found = [tuple(sorted(each.overrides)[:2]) for each in points(lines, [], ["policy=fixed,random"])]
    assert sorted(found) == [
        ("function=[in_batch,bm25]", "policy=random"),
        ("function=[random,bm25]", "policy=random"),
        ("function=bm25", "policy=fixed"),
        ("function=in_batch", "policy=fixed"),
        ("function=random", "policy=fixed"),
    ]
    assert len(points(lines, [], ["policy=random", "function=bm25"])) > 0  # so that it can complain


@pytest.mark.parametrize("policy", ["recommended", "aligned", "refined", "learned"])
def test_a_policy_whose_file_names_functions_keeps_them(policy: str) -> None:
    assert texts(MAIN, [f"policy={policy}"]) == [f"policy={policy}"]
    assert texts(MAIN, ["selector=uniform,top", f"policy={policy}"]) == [
        f"selector=uniform policy={policy}",
        f"selector=top policy={policy}",
    ]
    lines = [["objective=softmax,hinge", "function=bm25", "negatives.bm25=2"]]  # what is not about negatives stays
    assert texts(lines, [f"policy={policy}"]) == [f"objective={name} policy={policy}" for name in ("softmax", "hinge")]
    asked = [f"policy={policy}", "function=[random,bm25]"]
    assert all("function=[random,bm25]" in text for text in texts(MAIN, asked))


def test_policies_that_keep_their_functions_beside_one_that_does_not() -> None:
    assert texts(MAIN[:1], ["policy=aligned,fixed,recommended"]) == [
        "policy=aligned",
        "policy=recommended",
        *(
            f"policy=fixed function={name} selector={how}"
            for name in ("random", "bm25")
            for how in ("uniform", "dynamic")
        ),
    ]


def test_lines_add_nothing_to_negatives_that_the_user_chooses_whole() -> None:
    lines = [*MAIN, ["policy=mixture", "policy.per=negative", "function=[in_batch,bm25]"]]
    assert texts(lines, ["policy=mixture,fixed", "function=[random,bm25]", "selector=uniform"]) == [
        "policy=mixture function=[random,bm25] selector=uniform",
        "policy=fixed function=[random,bm25] selector=uniform",
    ]
    assert texts([["objective=hinge", "policy.per=query"]], ["policy=random", "function=[bm25]", "selector=top"]) == [
        "objective=hinge policy=random function=[bm25] selector=top"
    ]


def test_a_pattern_is_a_sweep_over_the_names_that_it_matches() -> None:
    swept = points([], [], ["function=glob(sub*)", "selector=glob(to*)"])
    assert [point.overrides for point in swept] == [("function=subcategory", "selector=top")]
    for text, message in (("function=glob(zz*)", "choose from bm25"), ("seed=glob(1*)", "names of a group")):
        with pytest.raises(BadInput, match=message):
            points([], [], [text])


def test_a_class_that_would_replace_every_name_of_a_sweep_is_refused() -> None:
    with pytest.raises(BadInput) as refusal:
        points([], [], ["selector=uniform,top", "selector._target_=mine.Selector"])
    assert "selector=uniform selector._target_=sampling.selection.uniform.Uniform," in str(refusal.value)
    assert len(points([], [], ["selector=uniform", "selector._target_=mine.A,mine.B"])) == 2


def test_a_labelled_method_without_a_swept_option_runs_once() -> None:
    methods = [
        {"label": "agents", "overrides": ["policy=learned", "function=[random,bm25]"]},
        {"label": "coin", "overrides": ["policy=random", "function=[random,bm25]"]},
    ]
    found = labelled_points(methods, ["policy.agent=range(0,2)"], [])
    assert [point.label for point in found] == ["agents", "agents", "coin"]
    assert found[2].overrides == ("policy=random", "function=[random,bm25]")


def test_two_methods_of_one_label_are_refused() -> None:
    methods = [{"label": "a", "overrides": [f"function={name}"]} for name in ("bm25", "random")]
    with pytest.raises(BadInput, match="methods: two are labelled 'a'; "):
        labelled_points(methods, [], [])
    together = [{"label": "a", "overrides": [each["overrides"] for each in methods]}]  # on purpose
    assert [point.label for point in labelled_points(together, [], [])] == ["a", "a"]


def test_a_value_that_a_sweep_gives_twice_is_refused() -> None:
    for text in ("function=bm25,bm25", "training.patience=1,2,1"):
        with pytest.raises(BadInput, match=rf"{text}: gives \S+ twice"):
            points([], [], [text])


def test_two_labels_of_one_method_are_refused() -> None:
    methods = [{"label": name, "overrides": ["policy=random"]} for name in ("a", "b")]
    with pytest.raises(BadInput, match="'b' is the same as 'a'"):
        labelled_points(methods, [], [])
