"""Plays every order of judging in plain Python, as a reference and a timing baseline for the compiled loops.

Written from the methods' descriptions, as loops over lists that are easy to verify. Only the options of a method are
read, never its compiled functions. A method that is not written here is run by its formula, not compiled, in the
plain loop of its kind; its test works that formula out by hand. Random numbers are drawn in the same order, so the
orders must be equal, document for document. Floats are added one after another in the order of the runs, or of
judging.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.plain_orders import plain
from pyrite.pooling.across_topics import NAME, AcrossTopics
from pyrite.pooling.adjudicators.adjudicator import Adjudicator, topic_rng
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.bandit.index import ArmIndex, Arms
from pyrite.pooling.adjudicators.bandit.play import TIES
from pyrite.pooling.adjudicators.compiled import options_of
from pyrite.pooling.adjudicators.epsilon_greedy import EpsilonGreedy
from pyrite.pooling.adjudicators.fusion import LEAST, Fusion
from pyrite.pooling.adjudicators.hedge import MOST, Hedge
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.adjudicators.moffat import MoffatA, MoffatB, MoffatC
from pyrite.pooling.adjudicators.move_to_front import MoveToFront
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.adjudicators.static import DocID, Rank, StaticOrder
from pyrite.pooling.adjudicators.thompson import Thompson
from pyrite.pooling.adjudicators.uniform import AnyRun
from pyrite.pooling.adjudicators.upper_confidence import UCB1, UCB1Tuned
from pyrite.pooling.judging_order import JudgingOrder, side_by_side
from pyrite.pooling.pool import Pool, TopicPool
from pyrite.pooling.run_regression import RunRegression
from pyrite.pooling.shared_fusion import SharedFusion, rounds
from pyrite.pooling.simulation import Method, adjudicator_of

TIE_NAMES = {number: name for name, number in TIES.items()}
Rankings = list[list[int]]
"""The documents of each run."""


def plain_simulation(method: Method, pool: Pool, seed: int) -> JudgingOrder:
    """Return the result of `pyrite.pooling.simulation.simulate` for one seed."""
    adjudicator = adjudicator_of(method)
    documents, rewards = [], []
    if isinstance(method, SharedFusion):
        return in_lockstep(method, pool, seed)
    for topic in pool.topics:
        heard = adjudicator.reward(topic.grades, pool.relevant_from, pool.highest).tolist()
        order = plain_order(adjudicator, topic.pool, heard, topic_rng(seed, topic.name), pool.runs)
        documents.append(np.array(order, np.int32))
        if isinstance(method, AcrossTopics):
            heard = method.topics.reward(topic.grades, pool.relevant_from, pool.highest).tolist()
        rewards.append([heard[document] for document in order])
    turns = plain_turns(method, rewards, seed) if isinstance(method, AcrossTopics) else None
    return JudgingOrder(documents, None if turns is None else np.array(turns, np.int32))


def plain_order(
    adjudicator: Adjudicator, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    """Return the order of `pyrite.pooling.adjudicators.adjudicator.judging_order`."""
    rankings = [[document for document in row if document >= 0] for row in pool.ranking.tolist()]
    if isinstance(adjudicator, Bandit):
        alpha, beta = adjudicator.arm.prior(pool, runs)
        arms = [Arm(*parameters) for parameters in zip(alpha.tolist(), beta.tolist(), strict=True)]
        return play(adjudicator, arms, rankings, pool.teams.tolist(), rewards, rng, runs)
    if isinstance(adjudicator, Fusion):
        return fuse(adjudicator, rankings, pool.ranking.shape[1], rewards, rng)
    if isinstance(adjudicator, StaticOrder):
        return line_up(adjudicator, pool, rankings)
    return plain(adjudicator, pool, rewards, rng, runs)


def plain_turns(method: AcrossTopics, rewards: list[list[float]], seed: int) -> list[int]:
    """The topic of each judgement; each topic's rewards come in the order in which its documents are judged."""
    topics, slots = list(range(len(rewards))), []
    for of_topic in rewards:
        first = sum(map(len, slots))
        slots.append(list(range(first, first + len(of_topic))))
    guarded = [slots[topic][turn] for turn in range(method.least) for topic in topics if turn < len(slots[topic])]
    arms, by_slot = [Arm(1.0, 1.0) for _ in topics], [reward for of_topic in rewards for reward in of_topic]
    order = play(method.topics, arms, slots, topics, by_slot, topic_rng(seed, NAME), [str(t) for t in topics], guarded)
    topic_of = {slot: topic for topic in topics for slot in slots[topic]}
    return [topic_of[slot] for slot in order]


# StaticOrder orders


def line_up(static: StaticOrder, pool: TopicPool, rankings: Rankings) -> list[int]:
    pooled = sorted({document for ranking in rankings for document in ranking})
    if isinstance(static, DocID):
        return pooled
    if not isinstance(static, Rank):
        return [int(document) for document in static.order(pool)]
    order: list[int] = []
    for rank in range(max(map(len, rankings))):
        for ranking in rankings:
            if rank < len(ranking) and ranking[rank] not in order:
                order.append(ranking[rank])
    return order


# Bandits


@dataclass
class Arm:
    """The evidence about a run or a team."""

    alpha: float
    beta: float
    plays: float = 0.0
    wins: float = 0.0
    squares: float = 0.0

    def hear(self, reward: float, rate: float) -> None:
        self.plays = rate * self.plays + 1.0
        self.wins = rate * self.wins + reward
        self.squares = rate * self.squares + reward * reward

    def keep(self, share: float) -> None:
        self.plays, self.wins, self.squares = share * self.plays, share * self.wins, share * self.squares


def play(
    bandit: Bandit,
    arms: list[Arm],
    rankings: Rankings,
    team_of: list[int],
    rewards: Sequence[float],
    rng: np.random.Generator,
    names: Sequence[str],
    given: Sequence[int] = (),
) -> list[int]:
    """The order of judging; the `given` documents, each of one run alone, are judged before the bandit begins."""
    options = bandit.options()
    runs = range(len(rankings))
    holders: dict[int, list[int]] = {}
    for run in runs:
        for document in rankings[run]:
            holders.setdefault(document, []).append(run)
    members = [[run for run in runs if team_of[run] == team] for team in range(max(team_of) + 1)]
    teams = [
        Arm(added(arms[run].alpha for run in team) / len(team), added(arms[run].beta for run in team) / len(team))
        for team in members
    ]
    place = [0 for _ in runs]
    order: list[int] = []
    told: list[tuple[list[int], list[int], float]] = []  # for each judgement the runs and teams concerned
    judged: set[int] = set()
    listed = sorted(runs, key=lambda run: (names[run].casefold(), names[run]))
    current, played, turn, remembered = None, None, 0, 0.0

    def judge(document: int, supplier: int) -> None:
        nonlocal remembered
        order.append(document)
        judged.add(document)
        concerned = holders[document] if options.holders else [supplier]
        told.append((concerned, sorted({team_of[run] for run in concerned}), rewards[document]))
        for arm in (*arms, *teams):
            if options.discount != 1:
                arm.keep(options.discount)
            if options.window:
                arm.keep(0.0)
        remembered = options.discount * remembered + 1.0
        if options.window:
            remembered = min(remembered, float(options.window))
        for concerned, concerned_teams, reward in told[-max(options.window, 1) :]:
            for run in concerned:
                arms[run].hear(reward, options.rate)
            for team in concerned_teams:
                teams[team].hear(reward, options.rate)

    for document in given:
        judge(document, holders[document][0])
    while len(order) < len(holders):
        if not options.replays:
            for run in runs:
                while place[run] < len(rankings[run]) and rankings[run][place[run]] in judged:
                    place[run] += 1
        alive = [run for run in runs if place[run] < len(rankings[run])]
        last = None if played is None else rewards[played]
        if options.in_teams:
            at_home = None if current is None else team_of[current]
            alive_teams = sorted({team_of[run] for run in alive})
            team = best(bandit, teams, alive_teams, at_home, last, turn, remembered, rng, listed)
            alive = [run for run in alive if team_of[run] == team]
        run = best(bandit, arms, alive, current, last, turn, remembered, rng, listed)
        if options.forgets and current is not None and run != current:
            arms[current].keep(0.0)
        current, turn = run, turn + 1
        document = played = rankings[run][place[run]]
        place[run] += 1
        if document not in judged:
            judge(document, run)
        else:
            arms[run].hear(rewards[document], options.rate)
            teams[team_of[run]].hear(rewards[document], options.rate)
            remembered += 1.0
    return order


def best(
    bandit: Bandit,
    arms: list[Arm],
    alive: list[int],
    current: int | None,
    last: float | None,
    turn: int,
    remembered: float,
    rng: np.random.Generator,
    listed: list[int],
) -> int:
    """The arm to play; the last play was of the current one, and was rewarded so."""
    index = index_of(bandit, arms, turn, remembered, rng)
    values = [index(arms[arm]) for arm in alive]
    highest = max(values)
    tied = [arm for arm, value in zip(alive, values, strict=True) if value == highest]
    stay = bandit.arm.stay
    if current in tied and (stay == "best" or (stay in ("rewarded", "until_missed") and last)):
        return current
    if current in tied and stay == "until_missed" and len(tied) > 1:
        tied.remove(current)
    ties = TIE_NAMES[bandit.options().ties]
    if ties == "r_sample" and highest == math.inf:
        return min(tied, key=listed.index)
    if ties == "r_sample" and len(tied) == 1:
        tied = [arm for arm in alive if listed.index(arm) <= listed.index(tied[0])]
    if len(tied) == 1 or ties == "first":
        return tied[0]
    return tied[int(rng.random() * len(tied))]


def index_of(
    bandit: Bandit, arms: list[Arm], turn: int, remembered: float, rng: np.random.Generator
) -> Callable[[Arm], float]:
    """The index by which this play is decided."""
    arm = bandit.arm
    if isinstance(arm, AnyRun):
        return lambda arm: 0.0
    if isinstance(arm, MoveToFront):
        return lambda arm: arm.wins - arm.plays
    if isinstance(arm, MaxMean):
        return lambda arm: (arm.alpha + arm.wins) / ((arm.alpha + arm.wins) + (arm.beta + arm.plays - arm.wins))
    if isinstance(arm, Thompson):
        return lambda arm: rng.beta(arm.alpha + arm.wins, arm.beta + arm.plays - arm.wins)
    if isinstance(arm, EpsilonGreedy):
        if rng.random() < min(1.0, arm.c * len(arms) / (arm.d * arm.d * (turn + 1))):
            return lambda arm: 0.0
        return lambda arm: arm.wins / arm.plays if arm.plays > 0 else 0.5
    if not isinstance(arm, UCB1 | UCB1Tuned):
        return formula_of(arm, arms, turn, remembered, rng)
    logarithm = math.log(remembered) if remembered > 1 else 0.0
    if isinstance(arm, UCB1):
        exploration = arm.exploration
        return lambda arm: upper(arm, lambda mean: math.sqrt(exploration * logarithm / arm.plays))

    def tuned(arm: Arm) -> float:
        def bound(mean: float) -> float:
            variance = max(arm.squares / arm.plays - mean * mean, 0.0)
            most = min(0.25, variance + math.sqrt(2.0 * logarithm / arm.plays))
            return math.sqrt(logarithm / arm.plays * most)

        return upper(arm, bound)

    return tuned


def formula_of(
    index: ArmIndex, arms: list[Arm], turn: int, remembered: float, rng: np.random.Generator
) -> Callable[[Arm], float]:
    """Use the index's formula, not compiled, if it is not written here; the loop around it is still plain."""
    begin, value = type(index).begin.py_func, type(index).index.py_func
    known = Arms(*(np.array([getattr(arm, name) for arm in arms]) for name in Arms._fields))
    now = begin(known, turn, remembered, rng, *options_of(begin, index, 4))
    named = options_of(value, index, 3)
    return lambda arm: float(value(arm, now, rng, *named))


def upper(arm: Arm, bound: Callable[[float], float]) -> float:
    if arm.plays <= 0:
        return math.inf
    mean = arm.wins / arm.plays
    return mean + bound(mean)


# Fusions


def fuse(
    fusion: Fusion, rankings: Rankings, depth: int, rewards: Sequence[float], rng: np.random.Generator
) -> list[int]:
    rank_weights, evidence_weights, weight = terms(fusion, np.arange(1.0, depth + 1))
    held: dict[int, list[tuple[int, int]]] = {}
    for run, ranking in enumerate(rankings):
        for rank, document in enumerate(ranking):
            held.setdefault(document, []).append((run, rank))
    first = rng.permutation(len(held)).tolist() if fusion.random_ties else list(range(len(held)))
    seen, gained = [0.0 for _ in rankings], [0.0 for _ in rankings]
    left, order, lent = sorted(held), list[int](), 0.0
    while left:
        weights = [weight(seen[run] + lent, gained[run]) for run in range(len(rankings))]
        if fusion.relative and max(weights) < LEAST:
            lent = -min(seen[run] - 2.0 * gained[run] for run in range(len(rankings)))
            weights = [weight(seen[run] + lent, gained[run]) for run in range(len(rankings))]
        scores = {
            document: added(weights[run] * rank_weights[rank] for run, rank in held[document]) for document in left
        }
        document = max(left, key=lambda document: (scores[document], -first[document]))
        left.remove(document)
        order.append(document)
        for run, rank in held[document]:
            seen[run] += evidence_weights[rank]
            gained[run] += evidence_weights[rank] * rewards[document]
    return order


def in_lockstep(method: SharedFusion, pool: Pool, seed: int) -> JudgingOrder:
    """Fusions of all topics, a judgement each at a time; before each round all scores follow from all judgements."""
    fusion, runs, topics = method.adjudicator, range(len(pool.runs)), range(len(pool.topics))
    rank_weights, _, _ = terms(fusion, np.arange(1.0, pool.topics[0].pool.ranking.shape[1] + 1))
    rngs = [topic_rng(seed, topic.name) for topic in pool.topics]
    sizes = [topic.pool.size for topic in pool.topics]
    first = [rng.permutation(size).tolist() for rng, size in zip(rngs, sizes, strict=True)]
    held = [
        [{int(run): int(rank) for run, rank in zip(*np.nonzero(topic.pool.ranking == document), strict=True)}
         for document in range(topic.pool.size)]
        for topic in pool.topics
    ]  # fmt: skip
    grades = [fusion.reward(topic.grades, pool.relevant_from, pool.highest) for topic in pool.topics]
    orders: list[list[int]] = [[] for _ in topics]
    begun = 0
    for upto in rounds(max(sizes)):
        counts = [[[document for document in orders[t] if run in held[t][document]] for run in runs] for t in topics]
        judged = np.array([[float(len(counts[t][run])) for run in runs] for t in topics])
        gained = np.array([[added(float(grades[t][d]) for d in counts[t][run]) for run in runs] for t in topics])
        strength, means = method.prior(judged, gained) if begun else (0.0, np.zeros_like(judged))
        factors = plain_factors(method, pool, orders, grades) if begun else [np.ones(size) for size in sizes]
        for t in topics:
            while len(orders[t]) < min(upto, sizes[t]):
                weights = []
                for run in runs:
                    own = [document for document in orders[t] if run in held[t][document]]
                    hits = added(float(grades[t][document]) for document in own) + strength * means[t, run]
                    posterior = (fusion.alpha + hits) / (fusion.alpha + fusion.beta + (len(own) + strength))
                    weights.append(posterior**fusion.power)
                scores = {
                    document: added(
                        weights[run] * rank_weights[rank] for run, rank in sorted(held[t][document].items())
                    )
                    * factors[t][document]
                    for document in range(sizes[t])
                    if document not in orders[t]
                }
                orders[t].append(max(scores, key=lambda d: (scores[d], -first[t][d])))
        begun = upto
    documents = [np.array(order, np.int32) for order in orders]
    return JudgingOrder(documents, side_by_side(np.array(sizes)), shared=False)


def plain_factors(
    method: SharedFusion, pool: Pool, orders: Sequence[Sequence[int]], grades: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """Return the factors of each topic's scores, with the regression over runs fitted to a dense matrix."""
    found = [np.zeros(topic.pool.size) for topic in pool.topics]
    for part in method.regressions:
        assert isinstance(part, RunRegression), (
            "scikit-learn fits those over texts: there is nothing to hold it against"
        )
        for log, odds, order in zip(found, plain_log_odds(part, pool, orders, grades), orders, strict=True):
            if len(order) < part.until * len(log):
                log += part.weight * (1 - len(order) / len(log) / part.until) ** part.fade * odds
    waiting = [[d for d in range(len(log)) if d not in order] for log, order in zip(found, orders, strict=True)]
    highest = [log[own].max() if own else 0.0 for log, own in zip(found, waiting, strict=True)]
    return [np.exp(np.minimum(log - most, 0)) for log, most in zip(found, highest, strict=True)]


def plain_log_odds(
    part: RunRegression, pool: Pool, orders: Sequence[Sequence[int]], grades: Sequence[NDArray[np.float64]]
) -> list[NDArray[np.float64]]:
    """`RunRegression.log_odds`, by scipy's minimizer."""
    teams = int(pool.topics[0].pool.teams.max()) + 1
    matrices = []
    for topic in pool.topics:
        x = np.zeros((topic.pool.size, teams + 1))
        x[:, 0] = 1
        for run, ranking in enumerate(topic.pool.ranking):
            for rank, document in enumerate(ranking[: topic.pool.lengths[run]]):
                team = topic.pool.teams[run] + 1
                x[document, team] = max(x[document, team], (part.constant + 1) / (part.constant + 1 + rank))
        matrices.append(x)

    def fitted(
        x: NDArray[np.float64], y: NDArray[np.float64], mean: NDArray[np.float64], deviations: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        def loss(b: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            odds = x @ b
            off = (b - mean) / deviations
            value = np.logaddexp(0, odds).sum() - y @ odds + (off**2).sum() / 2
            return float(value), x.T @ (1 / (1 + np.exp(-odds)) - y) + off / deviations

        return np.array(minimize(loss, mean, jac=True, method="BFGS", options={"gtol": 1e-9}).x)

    judged = [x[list(order)] for x, order in zip(matrices, orders, strict=True)]
    heard = [said[list(order)] for said, order in zip(grades, orders, strict=True)]
    mean = np.array([-2.0] + [3 / teams] * teams)
    common = fitted(np.vstack(judged), np.concatenate(heard), mean, np.array([10.0] + [part.spread] * teams))
    around = np.array([2.0] + [part.topic_spread] * teams)
    own = [fitted(x, y, common, around) for x, y in zip(judged, heard, strict=True)]
    return [np.round(x @ b, 6) for x, b in zip(matrices, own, strict=True)]


def terms(
    fusion: Fusion, ranks: NDArray[np.float64]
) -> tuple[list[float], list[float], Callable[[float, float], float]]:
    """Return a run's gain at each rank, how much a judgement there concerns it, and the weight of the run."""
    weight: Any
    if isinstance(fusion, MoffatA):
        contributions = ((1 - fusion.p) * fusion.p ** (ranks - 1)).tolist()

        def predicted(seen: float, gained: float) -> float:
            residual = 1.0 - seen
            middle = gained + residual / 2.0
            return residual * (middle * middle * middle)

        if isinstance(fusion, MoffatC):
            weight = predicted
        elif isinstance(fusion, MoffatB):
            weight = lambda seen, gained: 1.0 - seen  # noqa: E731
        else:
            weight = lambda seen, gained: 1.0  # noqa: E731
        return contributions, contributions, weight
    if isinstance(fusion, Hedge):
        stakes = (0.5 * np.log(len(ranks) / ranks)).tolist()
        logarithm = float(np.log10(fusion.beta))
        return stakes, stakes, lambda seen, gained: 10.0 ** min(logarithm * (seen - 2.0 * gained), MOST)
    if not isinstance(fusion, PosteriorFusion):  # the method's formula, if it is not written here
        own, named = type(fusion).weight.py_func, fusion.weight_options
        rank_weights, evidence_weights = fusion.rank_weight(ranks).tolist(), fusion.evidence_weight(ranks).tolist()
        return rank_weights, evidence_weights, lambda seen, gained: float(own(seen, gained, *named))
    alpha, beta, power = fusion.alpha, fusion.beta, fusion.power
    return (
        (1.0 / (fusion.constant + ranks)).tolist(),
        [1.0 for _ in ranks],
        lambda seen, gained: ((alpha + gained) / (alpha + beta + seen)) ** power,
    )


def added(numbers: Any) -> float:
    """The sum, one after another: Python's own `sum` compensates for rounding from version 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total
