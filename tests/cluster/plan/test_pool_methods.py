import pytest

import pyrite
from pyrite.cluster.commands.pool import DEFAULT
from pyrite.cluster.commands.pool import plan as read_plan
from pyrite.cluster.config.groups import group_options
from pyrite.cluster.plan.pool_methods import split, variants
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.bandit.play import FIRST, RANDOM
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.adjudicators.upper_confidence import UCB1
from pyrite.ranking.errors import BadInput
from pyrite.ranking.part import Part


def test_methods_are_a_list_and_all_stands_for_every_method_and_none_is_named_twice():
    assert split(["method=mm", "method.mm.rate=0,1", "depth=10"]) == (["mm"], ["method.mm.rate=0,1"], ["depth=10"])
    assert split(["method=[rrf,rank]"])[0] == split(["method=rrf,rank"])[0] == ["rrf", "rank"]
    assert split(["method=mtf,mm,mtf"])[0] == ["mtf", "mm"]
    there = [name for name in group_options()["method"] if name != "mm"]
    grades, texts = {"machine_prior"}, {"autotar", "cal", "scal"}
    assert split(["method=mm,all"])[0] == ["mm", *(name for name in there if name not in grades)]
    # What reads texts or a machine's grades is left out where there are none.
    assert split(["method=mm,all", "runs=x"])[0] == ["mm", *(name for name in there if name not in grades | texts)]
    assert split(["method=mm,all", "runs=x", "collection=beir", "machine=y"])[0] == ["mm", *there]
    assert set(DEFAULT) <= set(group_options()["method"])


def test_a_class_from_elsewhere_is_a_method_under_the_name_that_it_is_given():
    own = "+method.mine._target_=pyrite.pooling.adjudicators.reciprocal_rank.ReciprocalRank"
    names, options, _ = split(["method=mtf", own, "+method.mine.constant=30,60"])
    assert names == ["mtf", "mine"]
    _, thirty, sixty = variants(names, options, [])
    assert [each.label for each in (thirty, sixty)] == ["mine[constant=30]", "mine[constant=60]"]
    assert sixty.build().constant == 60
    names, options, _ = split(sixty.overrides)  # what a study prints to repeat it
    assert [each.node for each in variants(names, options, [])] == [sixty.node]
    with pytest.raises(BadInput, match="nowhere"):
        variants(["mine"], ["+method.mine._target_=nowhere.Class"], [])
    # An index is played by a bandit.
    of_arm = "+method.mine.arm._target_=pyrite.pooling.adjudicators.max_mean.MaxMean"
    names, options, _ = split([f"+method.mine._target_={Bandit.__module__}.Bandit", of_arm, "+method.mine.rate=0,1"])
    labels = {each.label: each.build().options().rate for each in variants(names, options, [])}
    assert labels == {"mine[rate=0]": 0, "mine[rate=1]": 1}


@pytest.mark.parametrize(
    ("outer", "option", "inner"),
    [
        (pyrite.AcrossTopics, "adjudicator", pyrite.BLA()),
        (pyrite.AcrossTopics, "adjudicator", pyrite.MMNonStationary()),
        (pyrite.AcrossTopics, "topics", pyrite.MM()),  # the rate of the option's own MM is .9
        (pyrite.AcrossTopics, "adjudicator", pyrite.Hedge()),
        (pyrite.ShallowFirst, "adjudicator", pyrite.MM(rate=0.5)),
        (pyrite.SampleBeside, "adjudicator", pyrite.MTF()),
        (pyrite.SlidingUCB, "arm", UCB1()),
        (pyrite.MM, "arm", Thompson()),
    ],
)
def test_an_order_inside_another_one_has_its_own_options(outer, option, inner):
    whole = outer(**{option: inner})
    overrides = pyrite.Pool("runs", "qrels.txt").overrides(whole)
    (variant,) = variants(*split(overrides)[:2], [])
    built = variant.build()
    assert type(built) is type(whole)
    assert described(built) == described(whole)


def described(part: object) -> object:
    """Return a part with its parts as nested names and options."""
    if not isinstance(part, Part):
        return part
    return type(part).__name__, {name: described(value) for name, value in vars(part).items() if name[0] != "_"}


def test_options_of_an_order_inside_another_one_hold_in_any_sequence():
    mtf = "method.shared.topics={_target_:pyrite.pooling.adjudicators.bandit.methods.MTF}"
    for options in ([mtf, "method.shared.topics.rate=0.5"], ["method.shared.topics.rate=0.5", mtf]):
        (variant,) = variants(["shared"], options, [])
        topics = variant.build().topics
        assert (type(topics).__name__, topics.rate, type(topics.arm).__name__) == ("MTF", 0.5, "MoveToFront")
    with pytest.raises(BadInput, match=r"no option method\.shared\.topics\.rat; .* did you mean .*rate=0"):
        variants(["shared"], [mtf, "method.shared.topics.rat=0"], [])


def test_a_scale_cuts_topics_depth_and_seeds_and_the_user_has_the_last_word():
    def sizes(*arguments: str) -> tuple[int, int | None, int]:
        config = read_plan(["method=mm", *arguments]).options
        return config["seeds"], config["most_topics"], config["depth"]

    assert sizes() == sizes("pool_scale=full") == (10, None, 100)
    assert sizes("pool_scale=tiny") == (1, 5, 10)
    assert sizes("pool_scale=small", "depth=7") == sizes("depth=7", "pool_scale=small") == (3, 20, 7)
    with pytest.raises(BadInput, match="there is no pool_scale 'huge'"):
        read_plan(["pool_scale=huge"])


def test_swept_options_make_a_variant_each_whose_label_may_be_the_baseline():
    found = variants(["mtf", "mm"], ["method.mm.rate=0,0.5", "method.mm.ties=first"], [])
    assert [variant.label for variant in found] == ["mtf", "mm[rate=0]", "mm[rate=0.5]"]
    built = found[1].build()
    assert isinstance(built, Bandit)
    assert (built.options().rate, built.options().ties) == (0.0, FIRST)
    assert found[1].overrides == ("method=mm", "method.mm.rate=0", "method.mm.ties=first")
    assert found[1].identity != found[2].identity
    plan = read_plan(["method=mtf,mm", "method.mm.rate=0,1", "baseline='mm[rate=1]'", "contrasts=[['mm[rate=0]',mtf]]"])
    assert (plan.options["baseline"], plan.options["contrasts"]) == ("mm[rate=1]", [["mm[rate=0]", "mtf"]])
    assert read_plan(["method=mtf", "method.mtf.rate=0,1"]).options["baseline"] == "mtf[rate=0]"  # by default


def test_a_preset_is_for_the_methods_that_are_there_and_the_user_has_the_last_word():
    preset = ["method.mtf.judged=replay", "method.mtf.ties=first"]
    (only,) = variants(["mm"], [], preset)
    assert only.overrides == ("method=mm",)
    (mtf,) = variants(["mtf"], ["method.mtf.ties=random"], preset)
    options = mtf.build().options()
    assert (options.replays, options.ties) == (True, RANDOM)


@pytest.mark.by_day(6)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["method=best"], "no method 'best'"),
        (["method=mtf", "method.mm.rate=0"], "method.mm.rate is an option of none"),
        (["method=mm", "method.mm.rate=0,0,1"], "gives a value twice; give each once"),
        (["method=mm", "method.mm.rats=0"], "no option method.mm.rats"),
        (["method=mm", "method.mm.rate=fast"], "method.mm.rate is 'fast'"),
        (["method=mm", "method.mm.rate=interval(0,1)"], "sweeps over an interval"),
        (["method=mm", "method.mm.window=5", "method.mm.rate=0.0"], "another way to forget"),
        (
            ["+method.mine._target_=pyrite.pooling.adjudicators.max_mean.MaxMean"],
            "MaxMean is no method; name a subclass of pyrite.pooling.method.Method",
        ),
        (["+method.mine._target_=pyrite.pooling.priors.CommonPrior"], "CommonPrior is no method; name a subclass of"),
        (["depth=0"], "depth is 0"),
        (["order=alphabetical"], "order is 'alphabetical'"),
        (["method=mm", "baseline=mtf"], "baseline 'mtf' is none of the methods"),
        (["method=mm,mtf", "contrasts=[[mm,bla]]"], "the contrast's 'bla' is none of the methods"),
        (["method=mm,mtf", "contrasts=[[mm,mm]]"], "a contrast of mm with itself"),
        (["method=mm,mtf", "contrasts=[[mm]]"], "contrasts"),
        (
            ["method=docid,mm", "method.mm.rate=0,1", "baseline=mm"],
            "the baseline 'mm' has 2 variants; name one: 'mm[rate=0]', 'mm[rate=1]'",
        ),
        (["method=docid,mm", "method.mm.rate=0,1", "contrasts=[[mm,docid]]"], "the contrast's 'mm' has 2 variants"),
        (["stopping=[nothing]"], "there is no stopping 'nothing'; there is certified_recall, found_nothing,"),
        (["depth=5,10"], "depth takes one value here, not 5,10; see"),
        (["seeds=choice(1,2)"], "seeds takes one value here, not choice(1,2); see"),
        (["budgets=5,10"], "budgets takes a list; write budgets=[5,10]; see"),
        (["preset=nobody2030"], "no preset 'nobody2030'"),
        (["colour=red"], "no option colour"),
        (["worth=false"], "there is no option worth; see"),
        (
            ["method=mm", "method.mm.arm.prior={_target_: pyrite.pooling.priors.Same}"],
            "Same is called CommonPrior now; write pyrite.pooling.priors.CommonPrior",
        ),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused_in_one_line(arguments, says):
    with pytest.raises(BadInput) as refused:
        read_plan(arguments)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
