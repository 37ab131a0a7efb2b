import pytest

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.plan import applicable
from pyrite.cluster.plan.applicable import has_option
from pyrite.cluster.plan.sweep import draws, plan, points
from pyrite.ranking.errors import BadInput


def texts(given: list[str], methods: list[list[str]] | None = None, common: list[str] | None = None) -> list[str]:
    return [" ".join(point.overrides) for point in points(methods or [], common or [], given)]


def test_an_option_goes_to_the_alternatives_that_have_it_and_its_sweep_multiplies_those_alone():
    assert texts(["policy=learned,random,fixed", "policy.checkpoint=outputs/agent", "function=[bm25,random]"]) == [
        "policy=learned policy.checkpoint=outputs/agent function=[bm25,random]",
        "policy=random function=[bm25,random]",
        "policy=fixed function=[bm25,random]",
    ]
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
    assert texts(["optimizer=adam,lazy_adam", "optimizer.weight_decay=0.1"]) == [
        "optimizer=adam optimizer.weight_decay=0.1",
        "optimizer=lazy_adam",
    ]
    assert texts(["peft=null,lora", "peft.rank=4,8"]) == ["peft=null", "peft=lora peft.rank=4", "peft=lora peft.rank=8"]
    assert texts([], [["objective=sir_v0,sir_v3"]], ["objective.levels=[12,6]"]) == [
        "objective=sir_v0",
        "objective.levels=[12,6] objective=sir_v3",
    ]


def test_an_option_of_a_function_goes_to_the_points_that_choose_it():
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
    lines = [["policy=fixed", "origin=[bm25]"], ["policy=fixed", "origin=[random]"]]
    assert texts(["origin.bm25.depth=9"], lines) == [
        "policy=fixed origin=[bm25] origin.bm25.depth=9",
        "policy=fixed origin=[random]",
    ]
    one, other = points([], [], ["policy=learned,random", "policy.checkpoint=outputs/agent"])
    assert one.swept == other.swept == ("policy",)
    several = points([["policy=learned", "policy.greedy=true"], ["policy=learned"], ["policy=random"]], [], [])
    assert all(set(point.swept) == {"policy", "policy.greedy"} for point in several)


@pytest.mark.parametrize("ranker", ["feed_forward", "match_pyramid"])
def test_what_a_ranker_is_trained_with_by_default(ranker, monkeypatch):
    composed = compose([f"ranker={ranker}"])
    monkeypatch.setattr(applicable, "_options", lambda group, part: {part})
    assert has_option([f"ranker={ranker}"], f"objective.{composed[CHOICES]['objective']}")
    assert not has_option([f"ranker={ranker}"], "objective.hinge")


def test_an_experiments_option_of_a_function_gives_way_with_it():
    common = ["function=bm25", "function.bm25.depth=50", "origin=[bm25,random]", "origin.bm25.depth=50"]
    assert texts([], [[]], common) == [" ".join(common)]
    assert texts(["function=tfidf", "origin=[random]"], [[]], common) == ["function=tfidf origin=[random]"]
    assert texts(["origin=[ bm25 ]"], [[]], common) == [" ".join([*common[:2], "origin=[ bm25 ]", common[3]])]


def test_what_is_chosen_by_default_counts():
    assert texts(["policy.agent=0,1"], [["policy=learned"], ["selector=top"]]) == [
        "policy=learned policy.agent=0",
        "policy=learned policy.agent=1",
        "selector=top",
    ]
    assert has_option([], "selector.lam") is False
    assert has_option(["selector=dynamic"], "selector.lam") is True
    assert has_option(["selector=dynamic"], "seed") is True


def test_intervals_are_drawn_for_those_points_alone():
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
def test_what_nothing_takes_is_refused(given):
    found = points([], [], given)
    with pytest.raises(BadInput, match=r"nope|weights|tfidf"):
        [plan(point, [], [0]) for point in found]


def test_an_experiments_option_gives_way_with_its_part():
    methods = [["selector=uniform,top"]]
    common = ["collection=beir", "collection.path='a/x','b/y'"]
    assert len(texts([], methods, common)) == 4
    assert texts(["collection=pydocs"], methods, common) == [
        "collection=pydocs selector=uniform",
        "collection=pydocs selector=top",
    ]
    alone = ["collection.path=c selector=uniform", "collection.path=c selector=top"]
    assert texts(["collection.path=c"], methods, common) == alone
    # The options of the experiment's format go with it, though the path doesn't name the other format.
    of_format = ["collection=pydocs", "collection.documents=code"]
    assert texts(["collection.path=c"], methods, of_format) == [
        "selector=uniform collection.path=c",
        "selector=top collection.path=c",
    ]
    # But one that the user gives, and nothing takes, is not passed over in silence.
    with pytest.raises(BadInput, match=r"collection\.path"):
        plan(points(methods, common, ["collection=pydocs", "collection.path=c"])[0], [], [0])
    # It gives way to a class of one's own too, and a mistake of an experiment's own is refused.
    common = ["ranker=static", "ranker.spread=0.05"]
    given = ["ranker._target_=mine.MeanOfWords", "+ranker.scale=10"]
    assert texts(given, common=common) == [f"ranker=static {' '.join(given)}"]
    assert texts([*given, "ranker.spread=1"], common=common) == [f"ranker=static ranker.spread=1 {' '.join(given)}"]
    with pytest.raises(BadInput, match="nope"):
        plan(points([["policy=random", "policy.nope=3"]], [], [])[0], [], [0])
