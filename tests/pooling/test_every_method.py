"""What every order of judging promises; new ones are found by their files and classes, and held to it."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyrite.pooling.adjudicators
from benchmarks.plain_pooling import plain_simulation
from pyrite.cluster.config.groups import group_options
from pyrite.cluster.plan.pool_methods import Variant, variants
from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.bandit.index import ArmIndex
from pyrite.pooling.adjudicators.epsilon_greedy import EpsilonGreedy
from pyrite.pooling.adjudicators.hedge import Hedge
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.moffat import MoffatA, MoffatB, MoffatC
from pyrite.pooling.adjudicators.move_to_front import MoveToFront
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.adjudicators.static import Rank
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.adjudicators.uniform import AnyRun
from pyrite.pooling.adjudicators.upper_confidence import UCB1, UCB1Tuned
from pyrite.pooling.campaign import Campaign
from pyrite.pooling.pool import Pool, Topic, team_numbers, topic_pool
from pyrite.pooling.priors import AgreementPrior, CommonPrior
from pyrite.pooling.reusability import without_team
from pyrite.pooling.rewards import Binary, Graded
from pyrite.pooling.shared_fusion import SharedFusion
from pyrite.pooling.simulation import Method, adjudicator_of, simulate
from tests.classes import classes_in
from tests.examples import few
from tests.pooling.conftest import with_texts_and_machine
from tests.pooling.made_up import judged_by, judgements

VARIANTS: dict[str, Method] = {
    "max_mean in teams": Bandit(MaxMean(), teams=True),
    "max_mean with a window": Bandit(MaxMean(), "played", window=5),
    "move_to_front that replays": Bandit(MoveToFront(), "played", "replay"),
    "posterior_fusion of grades": PosteriorFusion(reward=Graded()),
    "shared": AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean(), rate=0.9), 3),
    "shared by grades": AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean(), reward=Graded()), 1),
    "shared by chance": AcrossTopics(PosteriorFusion(), Bandit(Thompson(), discount=0.9), 0),
    "shared alike": AcrossTopics(Rank(), Bandit(MaxMean()), 99),
}
"""Methods with options that no file has."""
METHODS = [*group_options()["method"], *VARIANTS]


def method_of(name: str) -> Method:
    return VARIANTS[name] if name in VARIANTS else with_defaults()[name].build()


@cache
def with_defaults() -> dict[str, Variant]:
    """The methods that have a name, composed together: that takes a tenth of one composition each."""
    return {variant.method: variant for variant in variants(group_options()["method"], [], [])}


@pytest.fixture(scope="module")
def pool(random_pool) -> Pool:
    """A pool with grades up to 3."""
    pool = random_pool(np.random.default_rng(12), topics=3)
    for topic in pool.topics:
        topic.grades[:] *= np.random.default_rng(5).integers(1, 4, len(topic.grades))
    return replace(pool, highest=3)


def assert_same(method: Method, pool: Pool, seed: int) -> None:
    """Compiled orders are those of the plain loops in `benchmarks.plain_pooling`, document for document."""
    [fast], plain = simulate(method, pool, [seed]), plain_simulation(method, pool, seed)
    for topic, judged, expected in zip(pool.topics, fast.documents, plain.documents, strict=True):
        assert judged.tolist() == expected.tolist(), topic.name
    assert (fast.turns is None) == (plain.turns is None)
    if fast.turns is not None and plain.turns is not None:
        assert fast.turns.tolist() == plain.turns.tolist()


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_it_judges_in_the_order_of_its_plain_form(name, pool):
    for seed in (0, 3):
        assert_same(method_of(name), pool, seed)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_it_judges_everything_once_and_alike_with_people_and_after_a_pause(name, pool):
    method = method_of(name)
    [order] = simulate(method, pool, [2])
    expected = judgements(order)
    assert len(set(expected)) == len(expected) == pool.size
    for pause in (0, 7, 25):
        begun, resumed = Campaign(pool, method, 2), Campaign(pool, method, 9)
        first = judged_by(begun, pool, pause)
        state = begun.state_dict()
        rest = judged_by(begun, pool)  # which leaves the state as it was taken
        resumed.load_state_dict(state)
        assert first + judged_by(resumed, pool) == first + rest == expected
        assert begun.next() is None
    adjudicator = adjudicator_of(method)
    for function in (adjudicator.choose, adjudicator.take, adjudicator.learn, adjudicator.loop):
        compiled = Counter(tuple(map(str, types[1:3])) for types in getattr(function, "signatures", []))
        assert max(compiled.values(), default=1) == 1, "compiled once more for other types of the same things"


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_the_seed_decides_and_not_what_is_simulated_beside_it(name, pool):
    method = method_of(name)

    def simulated(of: Pool, seeds: list[int], **options) -> list[list[tuple[int, int]]]:
        return [judgements(order) for order in simulate(method, of, seeds, **options)]

    alone = simulated(pool, [4, 5])
    assert simulated(pool, [4, 5], threads=2) == alone
    assert simulated(pool, [5]) == alone[1:]
    if not isinstance(method, AcrossTopics | SharedFusion):  # which learn from the other topics
        [some] = simulated(pool.only([pool.topics[1].name]), [4])
        assert some == [(0, document) for topic, document in alone[0] if topic == 1]


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_it_hands_out_nothing_twice_to_several_assessors(name, pool):
    campaign, rng = Campaign(pool, method_of(name), 1), np.random.default_rng(4)
    handed_out = judged_by(campaign, pool, 7)
    elsewhere = {(topic, 5) for topic in range(len(pool.topics))} - set(handed_out)
    for topic, document in elsewhere:
        campaign.judge(topic, document, 1)
    out: list[tuple[int, int]] = []
    while True:
        while len(out) < 4 and (asked := campaign.next()) is not None:
            out.append(asked)
            handed_out.append(asked)
        if not out:
            break
        topic, document = out.pop(int(rng.integers(len(out))))
        campaign.judge(topic, document, int(pool.topics[topic].grades[document]))
    assert len({*handed_out, *elsewhere}) == len(handed_out) + len(elsewhere) == pool.size


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", METHODS)
def test_it_judges_a_pool_whose_first_topic_only_the_team_had_that_is_left_out(name, pool_of):
    pool = pool_of([[[0, 1], [-1, -1], [-1, -1]], [[0, 1], [1, 2], [2, 3]]], [[1, 0], [0, 1, 0, 1]])
    described = replace(pool, topics=[with_texts_and_machine(topic) for topic in pool.topics])
    [order] = simulate(method_of(name), without_team(described, "run0"), [0])
    assert [sorted(documents.tolist()) for documents in order.documents] == [[], [0, 1, 2]]


def test_each_class_can_be_chosen_by_a_file():
    used: set[type] = set()
    for name in group_options()["method"]:
        method = method_of(name)
        for part in (method.adjudicator, method.topics) if isinstance(method, AcrossTopics) else (method,):
            used |= {type(part), type(part.arm)} if isinstance(part, Bandit) else {type(part)}
    kinds = classes_in(pyrite.pooling.adjudicators, Adjudicator, ArmIndex)
    found = {each for each in kinds if issubclass(each, Adjudicator) or hasattr(each, "index")}  # no shared base
    assert not {each.__name__ for each in found - used}, "give each of them a file in cluster/conf/method"
    assert not {each.__name__ for each in found if not each.__doc__}


ARMS = {
    "random": AnyRun(),
    "epsilon_greedy": EpsilonGreedy(),
    "epsilon_greedy that explores": EpsilonGreedy(c=0.5, d=0.5),
    "ucb1": UCB1(),
    "ucb1 that explores less": UCB1(0.5),
    "ucb1_tuned": UCB1Tuned(),
    "thompson": Thompson(),
    "thompson with a prior": Thompson(CommonPrior(0.5, 3.0)),
    "max_mean": MaxMean(),
    "max_mean rewarded": MaxMean(stay="rewarded"),
    "max_mean with a prior": MaxMean(AgreementPrior(strength=4)),
    "move_to_front": MoveToFront(),
}
TIES = ("random", "first")
NAMES = ["B", "C", "a", "b2", "b3"]  # in byte order, and not in that which ignores case
# Sums of quarters leave no rounding behind, in whatever order they are taken.
REWARDS = (None, Binary(), Graded())


@st.composite
def pools(draw) -> Pool:
    """Up to three topics, five runs and three teams; runs may be short or lack the topic; grades are 0 to 4."""
    runs = draw(st.integers(1, 5))
    teams = [f"team{draw(st.integers(0, 2))}" for _ in range(runs)]
    topics = []
    for name in range(draw(st.integers(1, 3))):
        lists = st.lists(st.integers(0, 11), max_size=7, unique=True)
        rankings = draw(st.lists(lists, min_size=runs, max_size=runs).filter(any))
        held = sorted({document for ranking in rankings for document in ranking})
        ranking = np.full((runs, 7), -1, np.int32)
        for run, documents in enumerate(rankings):
            ranking[run, : len(documents)] = np.searchsorted(held, documents)
        size = len(held)
        top = draw(st.sampled_from([0, 1, 4]))
        grades = draw(st.lists(st.integers(0, top) | st.just(top), min_size=size, max_size=size))
        pool = topic_pool(ranking, size, team_numbers(teams))
        ids = pl.Series([f"d{document:02}" for document in held])
        topics.append(Topic(str(name), pool, ids, np.array(grades, np.int32), np.ones(size, bool)))
    return Pool(topics, NAMES[:runs], teams, 7, draw(st.sampled_from([1, 2])), 4)


def forgetting() -> st.SearchStrategy[dict]:
    return st.fixed_dictionaries(
        {
            "rate": st.sampled_from([1.0, 0.0, 0.7]),
            "discount": st.sampled_from([1.0, 0.8]),
            "forget": st.booleans(),
            "judged": st.sampled_from(["skip", "replay"]),
        }
    ) | st.fixed_dictionaries({"window": st.integers(1, 8)})


def bandits(arm) -> st.SearchStrategy[Bandit]:
    return st.builds(
        lambda forgets, tied, **options: Bandit(arm, **forgets, **tied, **options),
        forgetting(),
        st.fixed_dictionaries({"ties": st.sampled_from(TIES), "teams": st.booleans()}) | st.just({"ties": "r_sample"}),
        evidence=st.sampled_from(["holders", "played"]),
        reward=st.sampled_from(REWARDS),
    )


FUSIONS = {
    kind.__name__: st.builds(kind, st.sampled_from(options), st.sampled_from(TIES), st.sampled_from(REWARDS))
    for kind, options in [*((each, [0.5, 0.8]) for each in (MoffatA, MoffatB, MoffatC)), (Hedge, [0.1, 0.9, 1e-9])]
} | {
    "posterior_fusion": st.builds(
        PosteriorFusion,
        st.sampled_from([0.0, 1.0, 20.0]),
        st.sampled_from([0.0, 60.0]),
        st.sampled_from([0.5, 1.0]),
        st.sampled_from([1.0, 2.0]),
        st.sampled_from(TIES),
        st.sampled_from(REWARDS),
    ),
}


STRATEGIES = {name: bandits(arm) for name, arm in ARMS.items()} | FUSIONS


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", STRATEGIES)
@given(data=st.data(), pool=pools(), seed=st.integers(0, 99))
@few(5)
def test_any_options_give_the_order_of_the_plain_form(name, data, pool, seed):
    assert_same(data.draw(STRATEGIES[name]), pool, seed)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("arm", ["max_mean", "thompson", "ucb1", "epsilon_greedy"])
@given(data=st.data(), pool=pools(), seed=st.integers(0, 99), least=st.integers(0, 4))
@few(5)
def test_shared_budgets(arm, data, pool, seed, least):
    topics = data.draw(
        bandits(ARMS[arm]).filter(lambda bandit: not (bandit.options().replays or bandit.options().in_teams))
    )
    assert_same(AcrossTopics(data.draw(bandits(ARMS["max_mean"])), topics, least), pool, seed)


@pytest.mark.nightly
@given(data=st.data(), pool=pools(), grades=st.sampled_from([Graded(), Graded(exponential=True)]))
@few(5)
def test_gains_that_leave_rounding_behind(data, pool, grades):
    pool = Pool(pool.topics, pool.runs, pool.teams, pool.depth, pool.relevant_from, 7)
    forgets = data.draw(forgetting().filter(lambda options: "window" not in options))
    for arm in (MaxMean(), UCB1Tuned()):
        assert_same(Bandit(arm, **forgets, reward=grades), pool, 3)
    for fusion in (MoffatC, Hedge, PosteriorFusion):
        assert_same(fusion(reward=grades), pool, 3)


@pytest.mark.nightly
def test_hedge_knows_runs_apart_after_a_thousand_documents_without_a_relevant_one(pool_of):
    # Both runs lose more than 10^308 stands for. The first finds one in its first documents, and goes before the other.
    lists, grades = np.arange(3000).reshape(2, 1500).tolist(), np.zeros(3000, int)
    grades[5] = 1
    pool = pool_of([lists], [grades.tolist()])
    assert_same(Hedge(), pool, 0)
    (order,) = simulate(Hedge(), pool, [0])[0].documents
    assert (np.diff(order[order < 1500]) > 0).all()  # no run ends in an order by chance
    assert (np.diff(order[order >= 1500]) > 0).all()


def test_a_window_of_gains_that_leave_rounding_behind(pool_of):
    rng = np.random.default_rng(0)
    for seed in range(20):
        pool = pool_of([np.array_split(rng.permutation(60), 4)], [rng.integers(0, 4, 60).tolist()])
        assert_same(Bandit(MaxMean(), window=4, reward=Graded()), pool, seed)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("window", [0, 1, 300])
def test_long_runs_of_which_little_is_relevant(pool_of, window):
    # Only after hundreds of plays does the variance decide UCB1-Tuned's bound, and not its limit of 1/4.
    lists = np.random.default_rng(0).permutation(1200).reshape(2, 600).tolist()
    pool = pool_of([lists], [(np.random.default_rng(1).random(1200) < 0.02).astype(int).tolist()])
    assert_same(Bandit(UCB1Tuned(), "played", window=window), pool, 1)
    assert_same(Bandit(Thompson(), "played", window=window), pool, 1)
