from __future__ import annotations

import pytest

from cluster.config.compose import compose
from cluster.config.groups import CHOICES
from cluster.plan import applicable
from cluster.plan.applicable import has_option
from cluster.plan.sweep import draws, plan, points
from ranking.errors import BadInput


def texts(given: list[str], methods: list[list[str]] | None = None, common: list[str] | None = None) -> list[str]:
    return [" ".join(point.overrides) for point in points(methods or [], common or [], given)]


def test_an_option_goes_to_the_policies_that_have_it() -> None:
    assert texts(["policy=learned,random,fixed", "policy.checkpoint=outputs/agent", "function=[bm25,random]"]) == [
        "policy=learned policy.checkpoint=outputs/agent function=[bm25,random]",
        "policy=random function=[bm25,random]",
        "policy=fixed function=[bm25,random]",
    ]


def test_a_sweep_of_an_option_multiplies_those_points_alone() -> None:
    assert texts(["policy=random,mixture", "policy.per=batch,query"]) == [
        "policy=random",
        "policy=mixture policy.per=batch",
        "policy=mixture policy.per=query",
    ]
    assert texts(["selector=uniform,dynamic,error_reduction", "selector.lam=0.1,0.9", "selector.candidates=4"]) == [
        "selector=uniform",
        "selector=dynamic selector.lam=0.1 selector.candidates=4",
        "selector=dynamic selector.lam=0.9 selector.candidates=4",
        "selector=error_reduction selector.candidates=4",
    ]


def test_options_of_any_part_go_to_the_alternatives_that_have_them() -> None:
    assert texts(["optimizer=adam,lazy_adam", "optimizer.weight_decay=0.1"]) == [
        "optimizer=adam optimizer.weight_decay=0.1",
        "optimizer=lazy_adam",
    ]
    assert texts(["peft=null,lora", "peft.rank=4,8"]) == ["peft=null", "peft=lora peft.rank=4", "peft=lora peft.rank=8"]


def test_levels_go_to_the_objectives_that_have_them() -> None:
    assert texts([], [["objective=sir_v0,sir_v3"]], ["objective.levels=[12,6]"]) == [
        "objective=sir_v0",
        "objective.levels=[12,6] objective=sir_v3",
    ]


def test_an_option_of_a_function_goes_to_the_points_that_choose_it() -> None:
    assert texts(["function=bm25,random,[random,bm25]", "policy=fixed", "function.bm25.k1=0.9,1.2"]) == [
        "function=bm25 policy=fixed function.bm25.k1=0.9",
        "function=bm25 policy=fixed function.bm25.k1=1.2",
        "function=random policy=fixed",
        "function=[random,bm25] policy=fixed function.bm25.k1=0.9",
        "function=[random,bm25] policy=fixed function.bm25.k1=1.2",
    ]
    one, other = points([], [], ["function=bm25,random", "function.bm25.k1=1.2"])
    assert one.swept == other.swept == ("function",)
    lines = [["policy=random"], ["policy=fixed", "function=random"]]  # the first chooses its functions by default
    assert texts(["function.bm25.k1=1.2"], lines) == [
        "policy=random function.bm25.k1=1.2",
        "policy=fixed function=random",
    ]
    assert texts(["origin=[bm25],[random]", "origin.bm25.depth=9"]) == [
        "origin=[bm25] origin.bm25.depth=9",
        "origin=[random]",
    ]


@pytest.mark.parametrize("ranker", ["feed_forward", "match_pyramid"])
def test_what_a_ranker_is_trained_with_by_default(ranker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    composed = compose([f"ranker={ranker}"])
    monkeypatch.setattr(applicable, "_options", lambda group, part: {part})
    assert has_option([f"ranker={ranker}"], f"objective.{composed[CHOICES]['objective']}")
    assert not has_option([f"ranker={ranker}"], "objective.hinge")


def test_an_experiments_option_of_a_function_gives_way_with_it() -> None:
    common = ["function=bm25", "function.bm25.depth=50", "origin=[bm25,random]", "origin.bm25.depth=50"]
    assert texts([], [[]], common) == [" ".join(common)]
    assert texts(["function=tfidf", "origin=[random]"], [[]], common) == ["function=tfidf origin=[random]"]
    assert texts(["origin=[ bm25 ]"], [[]], common) == [" ".join([*common[:2], "origin=[ bm25 ]", common[3]])]


def test_what_is_chosen_by_default_counts() -> None:
    assert texts(["policy.agent=0,1"], [["policy=learned"], ["selector=top"]]) == [
        "policy=learned policy.agent=0",
        "policy=learned policy.agent=1",
        "selector=top",
    ]
    assert has_option([], "selector.lam") is False
    assert has_option(["selector=dynamic"], "selector.lam") is True
    assert has_option(["selector=dynamic"], "seed") is True


def test_intervals_are_drawn_for_those_points_alone() -> None:
    found = points([], [], ["selector=uniform,dynamic", "selector.lam=interval(0.1,0.9)"])
    assert [len(point.intervals) for point in found] == [0, 1]
    (run,) = plan(found[1], found[1].at(draws(1, [1])[0]), [0])
    assert 0.1 <= run.config["selector"]["lam"] <= 0.9
    assert plan(found[0], [], [0])[0].config["selector"] == compose([])["selector"]


@pytest.mark.parametrize(
    "given",
    [
        ["policy=random,fixed", "policy.nope=3"], ["policy.weights=[1,2]"], ["policy=nope"],
        ["function=random,bm25", "function.tfidf.k1=1.2"], ["function=random,bm25", "function.bm25.nope=1"],
    ],
)  # fmt: skip
def test_what_nothing_takes_is_refused(given: list[str]) -> None:
    found = points([], [], given)
    with pytest.raises(BadInput, match=r"nope|weights|tfidf"):
        [plan(point, [], [0]) for point in found]


def test_an_experiments_option_gives_way_with_its_part() -> None:
    methods = [["selector=uniform,top"]]
    common = ["collection=beir", "collection.path='a/x','b/y'"]
    assert len(texts([], methods, common)) == 4
    assert texts(["collection=pydocs"], methods, common) == [
        "collection=pydocs selector=uniform",
        "collection=pydocs selector=top",
    ]
    assert texts(["collection.path=c"], methods, common) == [
        "collection=beir collection.path=c selector=uniform",
        "collection=beir collection.path=c selector=top",
    ]
    # But one that the user gives, and nothing takes, is not passed over in silence.
    with pytest.raises(BadInput, match=r"collection\.path"):
        plan(points(methods, common, ["collection=pydocs", "collection.path=c"])[0], [], [0])


def test_an_experiments_option_gives_way_to_a_class_of_ones_own() -> None:
    common = ["ranker=static", "ranker.spread=0.05"]
    given = ["ranker._target_=mine.MeanOfWords", "+ranker.scale=10"]
    assert texts(given, common=common) == [f"ranker=static {' '.join(given)}"]
    assert texts([*given, "ranker.spread=1"], common=common) == [f"ranker=static ranker.spread=1 {' '.join(given)}"]


def test_an_experiments_own_mistake_is_refused() -> None:
    with pytest.raises(BadInput, match="nope"):
        plan(points([["policy=random", "policy.nope=3"]], [], [])[0], [], [0])


def test_a_point_without_the_option_is_no_other_value_of_it() -> None:
    one, other = points([], [], ["policy=learned,random", "policy.checkpoint=outputs/agent"])
    assert one.swept == other.swept == ("policy",)
    several = points([["policy=learned", "policy.greedy=true"], ["policy=learned"], ["policy=random"]], [], [])
    assert all(set(point.swept) == {"policy", "policy.greedy"} for point in several)
