"""The compiled orders are those of the plain loops in `benchmarks.plain_pooling`, document for document."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.plain_pooling import plain_simulation
from pooling.across_topics import AcrossTopics
from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.epsilon_greedy import EpsilonGreedy
from pooling.adjudicators.hedge import Hedge
from pooling.adjudicators.max_mean import MaxMean
from pooling.adjudicators.moffat import MoffatA, MoffatB, MoffatC
from pooling.adjudicators.move_to_front import MoveToFront
from pooling.adjudicators.posterior_fusion import PosteriorFusion
from pooling.adjudicators.thompson import Thompson
from pooling.adjudicators.uniform import Random
from pooling.adjudicators.upper_confidence import UCB1, UCB1Tuned
from pooling.pool import Pool, Topic, team_numbers, topic_pool
from pooling.priors import AgreementPrior, CommonPrior
from pooling.rewards import Binary, Graded
from pooling.simulation import Method, simulate
from tests.examples import few

ARMS = {
    "random": Random(),
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
    ways = st.fixed_dictionaries(
        {
            "rate": st.sampled_from([1.0, 0.0, 0.7]),
            "discount": st.sampled_from([1.0, 0.8]),
            "forget": st.booleans(),
            "judged": st.sampled_from(["skip", "replay"]),
        }
    )
    windows = st.fixed_dictionaries({"window": st.integers(1, 8)})
    return ways | windows


def bandits(arm) -> st.SearchStrategy[Bandit]:
    return st.builds(
        lambda forgets, tied, **options: Bandit(arm, **forgets, **tied, **options),
        forgetting(),
        st.fixed_dictionaries({"ties": st.sampled_from(TIES), "teams": st.booleans()}) | st.just({"ties": "r_sample"}),
        evidence=st.sampled_from(["holders", "played"]),
        reward=st.sampled_from(REWARDS),
    )


FUSIONS = {
    "moffat_a": st.builds(MoffatA, st.sampled_from([0.5, 0.8]), st.sampled_from(TIES), st.sampled_from(REWARDS)),
    "moffat_b": st.builds(MoffatB, st.sampled_from([0.5, 0.8]), st.sampled_from(TIES), st.sampled_from(REWARDS)),
    "moffat_c": st.builds(MoffatC, st.sampled_from([0.5, 0.8]), st.sampled_from(TIES), st.sampled_from(REWARDS)),
    "hedge": st.builds(Hedge, st.sampled_from([0.1, 0.9, 1e-9]), st.sampled_from(TIES), st.sampled_from(REWARDS)),
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


def assert_same(method: Method, pool: Pool, seed: int) -> None:
    [fast], plain = simulate(method, pool, [seed]), plain_simulation(method, pool, seed)
    for topic, judged, expected in zip(pool.topics, fast.documents, plain.documents, strict=True):
        assert judged.tolist() == expected.tolist(), topic.name
    assert (fast.turns is None) == (plain.turns is None)
    if fast.turns is not None and plain.turns is not None:
        assert fast.turns.tolist() == plain.turns.tolist()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("arm", ARMS)
@given(data=st.data(), pool=pools(), seed=st.integers(0, 99))
@few(5)
def test_bandits(arm, data, pool, seed):
    assert_same(data.draw(bandits(ARMS[arm])), pool, seed)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("fusion", FUSIONS)
@given(data=st.data(), pool=pools(), seed=st.integers(0, 99))
@few(5)
def test_fusions(fusion, data, pool, seed):
    assert_same(data.draw(FUSIONS[fusion]), pool, seed)


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
