"""Each method's order, worked out by hand, and what all orders have in common."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators import compiled as compiling
from pyrite.pooling.adjudicators.adjudicator import Adjudicator
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.continuous_learning import ContinuousLearning
from pyrite.pooling.adjudicators.epsilon_greedy import EpsilonGreedy
from pyrite.pooling.adjudicators.hedge import Hedge
from pyrite.pooling.adjudicators.machine_prior import MachinePrior
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.minimal_test_collection import MinimalTestCollection
from pyrite.pooling.adjudicators.moffat import MoffatA, MoffatB, MoffatC
from pyrite.pooling.adjudicators.move_to_front import MoveToFront
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.adjudicators.rank_similarity import Borda, CombMNZ
from pyrite.pooling.adjudicators.reciprocal_rank import ReciprocalRank
from pyrite.pooling.adjudicators.sample_beside import SampleBeside
from pyrite.pooling.adjudicators.shallow_first import ShallowFirst
from pyrite.pooling.adjudicators.static import DocID, Rank
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.adjudicators.uniform import AnyRun
from pyrite.pooling.adjudicators.upper_confidence import UCB1, UCB1Tuned
from pyrite.pooling.pool import Pool, topic_pool
from pyrite.pooling.priors import AgreementPrior, CommonPrior, Prior, PriorFile
from pyrite.pooling.rewards import Binary, Graded
from pyrite.pooling.simulation import found_at, needs_of, simulate
from pyrite.ranking.errors import BadInput
from tests.made_up import write_files

# Three runs that share documents; 1, 4 and 5 are relevant.
SHARING = [[3, 1, 2, 0], [4, 1, 3, 5], [2, 5, -1, -1]], [0, 1, 0, 0, 1, 1]
# Two runs that share none; 1, 2 and 5 are relevant.
APART = [[0, 1, 2], [3, 4, 5]], [0, 1, 1, 0, 0, 1]
# The same of unequal length; 0, 1, 5 and 6 are relevant.
UNEQUAL = [[0, 1, 2, 3], [4, 5, 6, -1]], [1, 1, 0, 0, 0, 1, 1]
# One relevant document before one that is not in each, of grades 1 and 3.
OF_GRADES = [[0, 1], [2, 3]], [1, 1, 3, 0]
# Three runs, of which two are of one team; 1, 2 and 5 are relevant.
IN_TEAMS = [[0, 1], [2, 3], [4, 5]], [0, 1, 1, 0, 0, 1], "aab"


class Sure(Prior):
    """The chance of one run is next to certain, and each other's next to nothing."""

    def __init__(self, run: int) -> None:
        self.run = run

    def __call__(self, pool, runs):
        sure = np.arange(len(runs)) == self.run
        return np.where(sure, 1e9, 1.0), np.where(sure, 1.0, 1e9)


def order(pool_of: Callable[..., Pool], method: Adjudicator, rankings, grades, teams=None) -> list[int]:
    return simulate(method, pool_of([rankings], [grades], teams), [0])[0].documents[0].tolist()


class Given(DocID):
    """An order of the user's own."""

    def __init__(self, documents: list[int]) -> None:
        super().__init__()
        self.documents = documents

    def order(self, pool):
        return np.array(self.documents)


@pytest.mark.parametrize("documents", [[0, 1, 2], [0, 0, 0, 0, 0, 0]], ids=str)
def test_an_order_of_ones_own_that_leaves_documents_out_is_refused(pool_of, documents):
    with pytest.raises(BadInput, match=r"method: Given did not choose each of a topic's 6 documents once; choose one"):
        order(pool_of, Given(documents), *SHARING)


class Weighed(ReciprocalRank):
    """A fusion of the user's own."""

    def rank_weight(self, ranks):
        return np.log(ranks - 1)[: int(self.constant)]


@pytest.mark.parametrize("places", [1, 60])
def test_weights_of_ones_own_that_are_no_number_per_rank_are_refused(pool_of, places):
    with (
        np.errstate(divide="ignore"),
        pytest.raises(
            BadInput, match=r"method: Weighed.rank_weight returned \[ *-inf.* ranks; return one finite number"
        ),
    ):
        order(pool_of, Weighed(places), *SHARING)


BY_HAND = [
    (Given([0, 0, 1, 2, 3, 4, 5]), SHARING, [0, 1, 2, 3, 4, 5]),  # a repeated one is open only once
    (DocID(), SHARING, [0, 1, 2, 3, 4, 5]),
    # Firsts 3, 4, 2; seconds 1, 1 again, 5; thirds 2 and 3, both again; fourths 0, 5 again.
    (Rank(), SHARING, [3, 4, 2, 1, 5, 0]),
    # All are always tied: the first run to its end, then the second, of which 1 and 3 are judged.
    (Bandit(AnyRun(), ties="first"), SHARING, [3, 1, 2, 0, 4, 5]),
    # 3 is not relevant: the first run falls to -1. The second has 4, 1, (3 is judged) and 5, all relevant. The third
    # has 2, and 5 is judged: exhausted. The first has 0 left.
    (Bandit(MoveToFront(), "played", ties="first"), SHARING, [3, 4, 1, 5, 2, 0]),
    # As before up to 1; then the second run replays 3 and falls to -1. The third's 2 takes it to -1 too, where all are:
    # it is left, for the first, which replays 1, relevant, and stays; 2 takes it to -2. The second has 5, and 0 is
    # left.
    (Bandit(MoveToFront(), "played", "replay", ties="first"), SHARING, [3, 4, 1, 2, 5, 0]),
    # 3, no: the first two runs fall to 1/3. The third (1/2) has 2, no: 1/3, the first 1/4; it stays, tied with the
    # second, and has 5, relevant: the second rises to 2/4. It has 4 (3/5) and 1. The first has 0 left.
    (Bandit(MaxMean(), ties="first"), SHARING, [3, 2, 5, 4, 1, 0]),
    # 3, no: the first falls to 1/3. The second has 4 (2/3), 1 (3/4) and 5; the third, at 1/2, has 2; then 0.
    (Bandit(MaxMean(), "played", ties="first"), SHARING, [3, 4, 1, 5, 2, 0]),
    # Contributions 1/2, 1/4, 1/8 and 1/16. 0: .0625, 1: .5, 2: .625, 3: .625, 4: .5, 5: .3125.
    (MoffatA(0.5, "first"), SHARING, [2, 3, 1, 4, 5, 0]),
    # 2 leaves residuals .875, 1 and .5; 3 (.5625) .375, .875, .5; 4 (.4375, before 1's .3125) .375, .375, .5; 1 (.1875,
    # before 5's .1484).
    (MoffatB(0.5, "first"), SHARING, [2, 3, 4, 1, 5, 0]),
    # 2, no, leaves weights .0733, .125, .0078: 4 has .0625, 3 .0523, 1 .0496. 4, relevant, makes the second .2109:
    # 1 has .0710, 3 .0630. 1 makes them .1112, .1675, .0078: 3 has .0766, 5 .0124. Then 5 has .0061, 0 .0002.
    (MoffatC(0.5, "first"), SHARING, [2, 4, 1, 3, 5, 0]),
    # Stakes ½ ln(4 / rank): .693, .347, .144, 0. 2 and 3 are tied at .837. 2, no, leaves weights 10^-.144 = .718, 1,
    # 10^-.693 = .203: 4 has .693, 3 .642, 1 .596. 4 makes the second 10^.693 = 4.93: 1 has 1.96, 3 1.21. 5 has .07.
    (Hedge(0.1, "first"), SHARING, [2, 4, 1, 3, 5, 0]),
    # Shares 1/2, 1/3, 1/4, 1/5, means 1/2. 2 and 3 are tied at .375. 2 leaves 1/3, 1/2, 1/3: 3 has .292, 1 .278, 4 .25.
    # 3 leaves 1/4, 1/3, 1/3: 1 has .194, 5 .178, 4 .167. 1 makes them 2/5, 1/2, 1/3: 4 has .25, 5 .211.
    (PosteriorFusion(1, 1, 1, 1, "first"), SHARING, [2, 3, 1, 4, 5, 0]),
    # Similarities 1, .75, .5, .25 in runs of four and 1, .5 in the run of two.
    # 0: .25, 1: 1.5, 2: 1.5, 3: 1.5, 4: 1, 5: .75; times 1, 2, 2, 2, 1, 2 holders for CombMNZ: 5 goes before 4.
    (CombMNZ(0), SHARING, [1, 2, 3, 4, 5, 0]),
    (CombMNZ(1), SHARING, [1, 2, 3, 5, 4, 0]),
    # Points 6, 5, 4, 3 and 1.5 for what a run of four lacks; 6, 5 and 2.5 for what the run of two lacks.
    # 0: 3 + 1.5 + 2.5 = 7, 1: 5 + 5 + 2.5 = 12.5, 2: 4 + 1.5 + 6 = 11.5, 3: 6 + 4 + 2.5 = 12.5,
    # 4: 1.5 + 6 + 2.5 = 10, 5: 1.5 + 3 + 5 = 9.5.
    (Borda(), SHARING, [1, 3, 2, 4, 5, 0]),
    # Each once: 0 and 3, none relevant. Tied, the first has 1. ln 3 = 1.10: it is at .5 + √(2 · 1.10 / 2) = 1.55, the
    # second at √(2 · 1.10) = 1.48: the first has 2.
    (Bandit(UCB1(), ties="first"), APART, [0, 3, 1, 2, 4, 5]),
    # Exploration 8: .5 + √(8 · 1.10 / 2) = 2.60 against √(8 · 1.10) = 2.96: the second has 4. ln 4 = 1.39: .5 + 2.35
    # against 2.35: the first has 2.
    (Bandit(UCB1(8), ties="first"), APART, [0, 3, 1, 4, 2, 5]),
    # The same until 1 is judged: .5 + √(1.10 / 2 · min(1/4, 1/4 + …)) = .87 against √(1.10 · 1/4) = .52.
    (Bandit(UCB1Tuned(), ties="first"), APART, [0, 3, 1, 2, 4, 5]),
    # ε_n is next to nothing with a large d: 0 takes the first mean to 0, 3 the second, tied the first has 1 and 2.
    (Bandit(EpsilonGreedy(d=1e6), ties="first"), APART, [0, 3, 1, 2, 4, 5]),
    # ε_n is 1 with a large c: all are always tied.
    (Bandit(EpsilonGreedy(c=1e6), ties="first"), APART, [0, 1, 2, 3, 4, 5]),
    (Bandit(Thompson(Sure(1))), APART, [3, 4, 5, 0, 1, 2]),
    # Plays count, and not who hears of them. Both hear of 1: 0, 1 and 2 are three plays, of which they heard four
    # times. The first run's mean is 2/3 of three, the second's 0 of one. n = 3: .67 + √(2 ln 3 / 3) = 1.52 against
    # √(2 ln 3) = 1.48; n = 4 had 1.63 against 1.67.
    (Bandit(UCB1(), ties="first"), ([[0, 2, 4, 1], [1, 3, 5, 4]], [1, 0, 1, 0, 0, 1]), [0, 1, 2, 4, 3, 5]),
    # After 0, 1 and 2 the first run is at 3/5, above 1/2, and goes on to 3.
    (Bandit(MaxMean(), ties="first"), UNEQUAL, [0, 1, 2, 3, 4, 5, 6]),
    # Rate 0 remembers the last alone: 2 takes it to 1/3. The second's 4 takes it to 1/3 too; it stays, and has 5 and 6.
    (Bandit(MaxMean(), ties="first", rate=0), UNEQUAL, [0, 1, 2, 4, 5, 6, 3]),
    # 0 takes the first run to 1/3, 3 the second; it stays, 4 takes it to 1/4. The first has 1 and 2; 5 is left.
    (Bandit(MaxMean(), ties="first"), APART, [0, 3, 4, 1, 2, 5]),
    (Bandit(MaxMean(), ties="first", window=2), APART, [0, 3, 4, 1, 2, 5]),  # both are remembered: the second stays
    # The first run is back at 1/2 when the second falls to 1/3, or at 1 / (2 + 0.5) where half is kept.
    (Bandit(MaxMean(), ties="first", window=1), APART, [0, 3, 1, 2, 4, 5]),
    (Bandit(MaxMean(), ties="first", forget=True), APART, [0, 3, 1, 2, 4, 5]),
    (Bandit(MaxMean(), ties="first", discount=0.5), APART, [0, 3, 1, 2, 4, 5]),
    # It stays after a relevant document alone: 3 was none, and 1 is the first of those tied.
    (Bandit(MaxMean(stay="rewarded"), ties="first"), APART, [0, 3, 1, 2, 4, 5]),
    # Rate 0: 2 is relevant and takes the second to 2/3, where the third is already: it stays, for 3.
    (
        Bandit(MaxMean(stay="rewarded"), ties="first", rate=0),
        ([[0, 1], [2, 3], [2, 4]], [0, 0, 1, 1, 1]),
        [0, 2, 3, 4, 1],
    ),
    (Bandit(MaxMean(), ties="first"), OF_GRADES, [0, 1, 2, 3]),
    # 0 is worth 1/3 and takes the first run to 4/9; 2 is worth 1 and takes the second to 2/3, 3 to 2/4.
    (Bandit(MaxMean(), ties="first", reward=Graded()), OF_GRADES, [0, 2, 3, 1]),
    # Runs alone: 0 takes the first to 1/3; the second has 2 and 3; the third's 4 takes it to 1/3, it stays: 5.
    (Bandit(MaxMean(), ties="first"), IN_TEAMS, [0, 2, 3, 4, 5, 1]),
    # 0 takes team a to 1/3, 4 takes b there; b stays and has 5. Within a the second run (1/2) is before the first.
    (Bandit(MaxMean(), ties="first", teams=True), IN_TEAMS, [0, 4, 5, 2, 3, 1]),
    # 0 takes a to 1/3 (1/4 if it were counted for both its runs), 1 and 2 take b to 1/4: a is before b.
    (Bandit(MaxMean(), ties="first", teams=True), ([[0, 4, -1]] * 2 + [[1, 2, 3]], [0] * 5, "aab"), [0, 1, 2, 4, 3]),
    # Documents 0 and 3 have the same rank in both runs and decide nothing between them; 1 and 2 change places.
    (MinimalTestCollection(), ([[0, 1, 2, 3], [0, 2, 1, 3]], [0] * 4), [1, 2, 0, 3]),
    (MinimalTestCollection(), ([[0, 1, 2, 3], [0, 2, 1, 3]], [1] * 4), [1, 2, 0, 3]),
    # A document of one run comes before what both hold.
    (MinimalTestCollection(), ([[0, 1], [0, 2]], [1, 0, 1]), [1, 2, 0]),
    # 1/(1 + rank) is 1/2, 1/3, 1/4, 1/5. 0: .2, 1: .667, 2: .75, 3: .75, 4: .5, 5: .533; 2 is before 3 by its id.
    (ReciprocalRank(1, "first"), (SHARING[0], [0] * 6), [2, 3, 1, 5, 4, 0]),
    (ReciprocalRank(1, "first"), (SHARING[0], [1] * 6), [2, 3, 1, 5, 4, 0]),  # judgements change nothing
]
NAMES = [type(getattr(method, "arm", method)).__name__ for method, *_ in BY_HAND]


@pytest.mark.parametrize(("method", "lists", "expected"), BY_HAND, ids=NAMES)
def test_an_order_by_hand(pool_of, method, lists, expected):
    assert order(pool_of, method, *lists) == expected


def test_move_to_front_leaves_a_run_that_failed_for_another(pool_of):
    # 0 takes the first run to -1, 2 the second, where both are: the second is left for the first. 1 takes that to -2.
    assert order(pool_of, Bandit(MoveToFront(), "played", ties="first"), [[0, 1], [2, 3]], [0] * 4) == [0, 2, 1, 3]
    # With the last in the list failed, it would be read on were it not left: 4 and 5 are of the third.
    three = [[0, 1], [2, 3], [4, 5]]
    for seed in range(20):
        pool = pool_of([three], [[0] * 6])
        [judged] = simulate(Bandit(MoveToFront(), "played"), pool, [seed])
        runs = (judged.documents[0] // 2).tolist()
        assert all(one != next for one, next in pairwise(runs))


def test_a_single_best_run_is_drawn_as_r_draws_from_a_number(pool_of):
    # The third run is always the best: any of the first three is played, each as often. Never is the fourth.
    lists = np.arange(40).reshape(4, 10).tolist()
    pool = pool_of([lists], [[0] * 40])

    orders = simulate(Bandit(Thompson(Sure(2)), ties="r_sample"), pool, list(range(300)))
    counts = np.bincount([order.documents[0][0] // 10 for order in orders], minlength=4)
    assert counts[3] == 0
    assert (abs(counts[:3] - 100) < 30).all()
    # What is never played is played in the order of the list, and what is exhausted is not drawn.
    [judged] = simulate(Bandit(UCB1Tuned(), "played", ties="r_sample"), pool, [1])
    assert judged.documents[0][:4].tolist() == [0, 10, 20, 30]
    assert sorted(judged.documents[0].tolist()) == list(range(40))


def test_a_large_constant_counts_the_runs_that_hold_a_document(pool_of):
    assert set(order(pool_of, ReciprocalRank(1e6, "first"), *SHARING)[:4]) == {1, 2, 3, 5}  # held twice


@pytest.mark.parametrize(
    ("least", "turns"),
    [
        (0, [0, 1, 1, 1, 0, 0]),  # the first topic falls to 1/3; the second has 2/3, 3/4, 3/5
        (1, [0, 1, 1, 1, 0, 0]),
        (2, [0, 1, 0, 1, 1, 0]),  # 2/4 against 3/4
        (5, [0, 1, 0, 1, 0, 1]),
    ],
)
def test_a_shared_budget(pool_of, least, turns):
    pool = pool_of([[[0, 1, 2]], [[0, 1, 2]]], [[0, 1, 0], [1, 1, 0]])
    [judged] = simulate(AcrossTopics(DocID(), Bandit(MaxMean(), ties="first"), least), pool, [0])
    assert judged.turns.tolist() == turns
    assert [documents.tolist() for documents in judged.documents] == [[0, 1, 2], [0, 1, 2]]


def test_rewards():
    assert Binary()([-1, 0, 1, 2], 2, 3).tolist() == [0, 0, 0, 1]
    assert Graded()([-1, 0, 1, 2, 4], 1, 4).tolist() == [0, 0, 0.25, 0.5, 1]
    assert Graded(exponential=True)([-2, 0, 1, 2], 1, 2) == pytest.approx([0, 0, 1 / 3, 1])
    with pytest.raises(BadInput, match="highest grade is 0"):
        Graded()([0], 1, 0)


def test_what_was_found(pool_of):
    pool = pool_of([[[0, 1, 2]], [[0, 1, -1]]], [[0, 1, 1], [1, 0]])
    [judged] = simulate(DocID(), pool, [0])
    curves = np.split(judged.found(pool.relevant), judged.offsets[1:-1])
    assert [curve.tolist() for curve in curves] == [[0, 1, 2], [1, 1]]
    assert found_at(pool, judged, [0, 2, 9]).tolist() == [[0, 0], [1, 1], [2, 1]]


WRONG: dict[str, Callable[[], object]] = {
    "window and rate": lambda: Bandit(AnyRun(), window=5, rate=0),
    "window and discount": lambda: Bandit(AnyRun(), window=5, discount=0.9),
    "window and forget": lambda: Bandit(AnyRun(), window=5, forget=True),
    "as in R and teams": lambda: Bandit(AnyRun(), ties="r_sample", teams=True),
    "window and replay": lambda: Bandit(AnyRun(), window=5, judged="replay"),
    "least": lambda: AcrossTopics(DocID(), Bandit(AnyRun()), -1),
    "topics in teams": lambda: AcrossTopics(DocID(), Bandit(AnyRun(), teams=True)),
    "topics replayed": lambda: AcrossTopics(DocID(), Bandit(AnyRun(), judged="replay")),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_options_that_exclude_each_other(wrong):
    with pytest.raises(BadInput, match="; "):
        WRONG[wrong]()


def test_a_changed_source_gives_a_loop_another_name(tmp_path, monkeypatch):
    here = write_files(tmp_path / "adjudicators", {"a.py": "one = 1\n"})
    write_files(tmp_path, {"pool.py": "zero = 0\n", "sentinels.py": "none = -1\n"})
    monkeypatch.setattr(compiling, "HERE", here)
    digest = compiling._digest.__wrapped__
    before = digest(frozenset())
    assert digest(frozenset()) == before
    outside = tmp_path.parent / "method.py"
    outside.write_text("two = 2\n")
    assert digest(frozenset({str(outside)})) != before
    (here / "a.py").write_text("one = 2\n")
    assert digest(frozenset()) != before


def test_a_loop_is_named_after_its_method_and_sources():
    names = [Bandit(arm).choose.py_func.__qualname__ for arm in (UCB1(), UCB1(9), UCB1Tuned(), AnyRun())]
    assert names[0] == names[1]
    assert len(set(names)) == 3
    assert names[0].startswith("_choose_upper_confidence_UCB1_")


class ChoosesNothing(Adjudicator):
    def start(self, pool, rng, runs):
        return None


class NotCompiled(ChoosesNothing):
    @staticmethod
    def choose(pool, state, options, rng):
        return 0


def test_a_method_of_ones_own_without_a_compiled_function_is_named():
    with pytest.raises(
        BadInput, match=r"NotCompiled.choose: is not compiled; write @kernel of pyrite.pooling.adjudicators"
    ):
        _ = NotCompiled().loop
    with pytest.raises(BadInput, match=r"ChoosesNothing: has no choose; write a function with @kernel"):
        _ = ChoosesNothing().loop


def test_a_topic_without_documents():
    """As one that a single team has, when that team is left out."""
    empty = topic_pool(np.full((2, 3), -1, np.int32), 0)
    alpha, beta = AgreementPrior(strength=21)(empty, RUNS[:2])  # (0 · 20 + 1/2) / 21 of 21
    assert [*alpha, *beta] == pytest.approx([0.5, 0.5, 20.5, 20.5])
    assert MachinePrior().start(empty, np.random.default_rng(0), RUNS[:2]).by_runs.tolist() == []


@pytest.mark.parametrize("outer", [ShallowFirst, SampleBeside])
def test_an_order_around_another_one_needs_what_that_needs(outer):
    assert (needs_of(outer()), needs_of(outer(MachinePrior()))) == ((), ("machine",))
    says = rf"adjudicator: {outer.__name__} can't be put around ContinuousLearning, which is not compiled"
    with pytest.raises(BadInput, match=says):
        outer(ContinuousLearning())


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@given(sizes=SIZES, least=st.integers(0, 12), seed=st.integers(0, 5), data=st.data())
def test_every_document_once_and_the_least_first(sizes, least, seed, data):
    method = AcrossTopics(Rank(), Bandit(MaxMean()), least)
    rewards = [np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n))) for n in sizes]
    turns = method.turns(np.array(sizes), rewards, seed)
    assert np.bincount(turns, minlength=len(sizes)).tolist() == sizes
    guarded = np.minimum(sizes, least)
    assert np.bincount(turns[: guarded.sum()], minlength=len(sizes)).tolist() == guarded.tolist()
    assert turns.tolist() == method.turns(np.array(sizes), rewards, seed).tolist()


def test_a_shared_budget_goes_where_it_pays(pool_of):
    # Nothing is relevant in the first topic, everything in the second: of a budget of 5 judgements a topic, 10 in all,
    # each has its 2, and the second takes what is left.
    documents = list(range(8))
    pool = pool_of([[documents], [documents]], [[0] * 8, [1] * 8])
    [order] = simulate(AcrossTopics(Rank(), Bandit(MaxMean()), 2), pool, [0])
    assert order.spent(5).tolist() == [2, 8]
    assert order.judged(1, 5).tolist() == documents
    assert found_at(pool, order, [5, 8]).tolist() == [[0, 8], [0, 8]]
    [alone] = simulate(Rank(), pool, [0])
    assert alone.spent(5).tolist() == [5, 5]


RUNS = ["a", "b", "c"]


@pytest.fixture
def table(tmp_path) -> Callable[[str], PriorFile]:
    def make(text: str) -> PriorFile:
        (tmp_path / "priors.tsv").write_text(text)
        return PriorFile(str(tmp_path / "priors.tsv"))

    return make


def test_agreement():
    # 0 is held by both others, 1 by one other, 2 and 3 by none: the runs' means are 1/2 (of 1/1, 1/2, 0/1), 3/4 and
    # 1/2; drawn to 1/2 by one more document of which half the others think well: (mean · 3 + 1/2) / 4.
    pool = topic_pool(np.array([[0, 1, 2], [1, 0, -1], [0, 3, -1]], np.int32), 4)
    alpha, beta = AgreementPrior(strength=4, depth=3)(pool, RUNS)
    assert alpha == pytest.approx([2.0, 2.75, 2.0])
    assert beta == pytest.approx([2.0, 1.25, 2.0])
    # The first document of each alone: 1, 1/2 and 1; (mean + 1/2) / 2.
    alpha, beta = AgreementPrior(strength=1, depth=1)(pool, RUNS)
    assert alpha == pytest.approx([0.75, 0.5, 0.75])
    assert alpha + beta == pytest.approx([1, 1, 1])


def test_agreement_of_one_run_or_none():
    for ranking in ([[0, 1]], [[0, 1], [-1, -1]]):
        pool = topic_pool(np.array(ranking, np.int32), 2)
        assert (np.array(AgreementPrior()(pool, RUNS[: len(ranking)])) > 0).all()


def test_the_same_for_all_and_a_table(table):
    pool = topic_pool(np.array([[0], [1], [2]], np.int32), 3)
    alpha, beta = CommonPrior(0.5, 2)(pool, RUNS)
    assert (alpha.tolist(), beta.tolist()) == ([0.5] * 3, [2] * 3)
    prior = table("c 3 1\n\na,1,2\nb\t0.5\t.25\n")
    alpha, beta = prior(pool, RUNS)
    assert alpha.tolist() == [1, 0.5, 3]
    assert beta.tolist() == [2, 0.25, 1]
    with pytest.raises(BadInput, match=r"priors.tsv: no prior for the run 'd'"):
        prior(pool, [*RUNS, "d"])


@pytest.mark.parametrize("line", ["b 1", "b 1 2 3", "b one 2", "b 0 1", "b 1 -1", "b nan 1", "b 1 inf"])
def test_a_broken_table(table, line):
    with pytest.raises(BadInput, match=r"priors.tsv:2: .* is no prior"):
        table(f"a 1 1\n{line}\n")


def test_a_table_that_repeats_a_run_or_can_not_be_read(table, tmp_path):
    with pytest.raises(BadInput, match=r"priors.tsv:3: the run 'a' is given two priors"):
        table("a 1 1\na 1 1\na 2 1\n")
    with pytest.raises(BadInput, match="can't be read"):
        PriorFile(str(tmp_path / "absent"))
    (tmp_path / "binary").write_bytes(b"a 1 \xff\n")
    with pytest.raises(BadInput, match="can't be read"):
        PriorFile(str(tmp_path / "binary"))


def test_the_prior_decides_who_is_first_and_a_team_has_the_mean_of_its_runs(pool_of, table):
    prior, lists = table("run0 1 3\nrun1 1 1\nrun2 1 2\n"), [[0, 1], [2, 3], [4, 5]]
    # Means 1/4, 1/2, 1/3; each document that is not relevant adds one to β: 1/3 (stays), 1/4, 1/3, 1/4.
    assert order(pool_of, Bandit(MaxMean(prior), ties="first"), lists, [0] * 6) == [2, 3, 4, 5, 0, 1]
    prior, lists = table("run0 1 1\nrun1 5 1\nrun2 2 1\n"), [[0, -1], [1, 2], [3, 4]]
    # Team a begins at 3/4, b at 2/3. In a the second run is first: 1 takes a to 3/5. b has 3: 2/4. 2 takes a to 3/6 and
    # it stays: 0, which takes it to 3/7. 4 is left.
    method = Bandit(MaxMean(prior), ties="first", teams=True)
    assert order(pool_of, method, lists, [0] * 5, "aab") == [1, 3, 2, 0, 4]
