"""Judges topics in plain Python by the orders that are neither a bandit, a fusion nor static."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from pyrite.pooling.adjudicators.active_sampling import SURE, ActiveSampling
from pyrite.pooling.adjudicators.adjudicator import Adjudicator, judging_order
from pyrite.pooling.adjudicators.machine_prior import MachinePrior
from pyrite.pooling.adjudicators.minimal_test_collection import MinimalTestCollection
from pyrite.pooling.adjudicators.sample_beside import SampleBeside
from pyrite.pooling.adjudicators.shallow_first import ShallowFirst
from pyrite.pooling.adjudicators.stratified_sampling import StratifiedSampling
from pyrite.pooling.adjudicators.text_learning import TextLearning
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.sentinels import NO_DOCUMENT


@singledispatch
def plain(
    method: Adjudicator, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    """Return the order of `pyrite.pooling.adjudicators.adjudicator.judging_order`, computed with lists."""
    raise NotImplementedError(f"{type(method).__name__} has no plain form")


@plain.register
def _(
    method: MachinePrior, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    state = method.start(pool, rng, runs)
    order: list[int] = []
    while len(order) < pool.size:
        odds = []
        for level, prior in enumerate(state.prior.tolist()):
            heard = [rewards[document] for document in order if state.level[document] == level]
            relevant, all_of_it = method.doubt * prior + sum(heard), method.doubt + len(heard)
            odds.append(float(np.log(relevant / (all_of_it - relevant))))
        left = [document for document in range(pool.size) if document not in order]
        order.append(max(left, key=lambda document: odds[state.level[document]] + state.by_runs[document]))
    return order


@plain.register
def _(
    method: ActiveSampling, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    depth, size = pool.ranking.shape[1], pool.size
    weights = [float(np.log((depth + 1) / rank)) for rank in range(1, depth + 1)]
    cells = [
        [(int(pool.holders[cell]), int(pool.ranks[cell])) for cell in range(*pool.offsets[document : document + 2])]
        for document in range(size)
    ]
    mass = [float(np.cumsum(weights)[length - 1]) if length else 0.0 for length in pool.lengths]
    missed = [0.0] * size
    order: list[int] = []
    while len(order) < size:
        merit = [float(method.doubt)] * len(runs)
        for document in range(size):
            if document in order and rewards[document] != 0:
                worth = rewards[document] / -np.expm1(missed[document])
                for run, rank in cells[document]:
                    merit[run] += worth * weights[rank] / mass[run]
        total = 0.0
        for run in range(len(runs)):
            total += merit[run] if mass[run] else 0.0
        chance, left = [], 0.0
        for document in range(size):
            at_ranks = 0.0
            for run, rank in cells[document]:
                at_ranks += merit[run] * weights[rank] / mass[run]
            chance.append(min((1.0 - method.uniform) * at_ranks / total + method.uniform / size, SURE))
            left += 0.0 if document in order else chance[-1]
        draws = 1.0
        if left < SURE:
            draws += np.floor(np.log(1.0 - rng.random()) / np.log1p(-left))
        missed = [before + draws * float(np.log1p(-each)) for before, each in zip(missed, chance, strict=True)]
        point, last = rng.random() * left, NO_DOCUMENT
        for document in range(size):
            if document not in order:
                last = document
                point -= chance[document]
                if point < 0:
                    break
        order.append(last)
    return order


@plain.register
def _(
    method: SampleBeside, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    lined_up = rng.permutation(pool.size).tolist()
    # The order learns the grades of only its documents, in its order, as if it were alone.
    heard = np.array(rewards, np.float64)
    greedy = judging_order(method.adjudicator, pool, heard, rng, runs).tolist()
    order: list[int] = []
    while len(order) < pool.size:
        turn = len(order)
        source = lined_up if int((turn + 1) * method.share) > int(turn * method.share) else greedy
        document = source.pop(0)
        while document in order:
            document = source.pop(0)
        order.append(document)
    return order


@plain.register
def _(
    method: TextLearning, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    priority, lot = rng.permutation(pool.size), rng.permutation(pool.size)
    size = method.first
    line: list[int] = []
    seen: list[int] = []
    order: list[int] = []
    while len(order) < pool.size:
        waiting = [document for document in range(pool.size) if document not in seen]
        if not line and waiting:
            presumed = method.presumed(np.array(waiting), rng)
            judged = sorted(order)
            relevant = np.array([rewards[document] >= 0.5 for document in judged], bool)
            scores = method.scores(pool, np.array(judged, np.int64), relevant, presumed)
            waiting.sort(key=lambda document: (-scores[document], priority[document]))
            # What is left of a batch is in `seen` in the order of its lots.
            batch, size = waiting[:size], method.next_size(size)
            seen += sorted(batch, key=lambda document: lot[document])
            line = method.to_judge(np.array(batch), lot).tolist()
        elif not line:
            line = [document for document in seen if document not in order]
        order.append(line.pop(0))
    return order


@plain.register
def _(
    method: MinimalTestCollection, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    ranks = [{int(d): rank for rank, d in enumerate(row, 1) if d >= 0} for row in pool.ranking.tolist()]
    order: list[int] = []
    while len(order) < pool.size:
        worth = {}
        for document in set(range(pool.size)) - set(order):
            sure, possible = [], []
            for of_run in ranks:
                if document not in of_run:
                    sure.append(0.0)
                    possible.append(0.0)
                    continue
                rank, gain, most = of_run[document], 1.0 / of_run[document], 1.0 / of_run[document]
                for other, its in of_run.items():
                    if other != document:
                        known = rewards[other] if other in order else 0.0
                        gain += known / max(rank, its)
                        most += (rewards[other] if other in order else 1.0) / max(rank, its)
                sure.append(gain)
                possible.append(most)
            worth[document] = max(float(np.var(sure)), float(np.var(possible)))
        order.append(max(sorted(worth), key=lambda document: round(worth[document], 9)))
    return order


@plain.register
def _(
    method: ShallowFirst, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    inner, options = method.adjudicator, method.adjudicator.options()
    state = inner.start(pool, rng, runs)
    order: list[int] = []
    for rank in range(min(method.depth, pool.ranking.shape[1])):
        for document in pool.ranking[:, rank].tolist():
            if document >= 0 and document not in order:
                order.append(document)
                holder = pool.holders[pool.offsets[document]]
                inner.take(pool, state, options, np.int64(document), np.int64(holder))
                inner.learn(pool, state, options, np.int64(document), rewards[document])
    while len(order) < pool.size:
        order.append(int(inner.choose(pool, state, options, rng)))
        inner.learn(pool, state, options, np.int64(order[-1]), rewards[order[-1]])
    return order


@plain.register
def _(
    method: StratifiedSampling, pool: TopicPool, rewards: Sequence[float], rng: np.random.Generator, runs: list[str]
) -> list[int]:
    state = method.start(pool, rng, runs)
    waiting: list[list[int]] = [[] for _ in method.rates]
    for document in state.order.tolist():
        waiting[state.strata[document]].append(document)
    sizes, order = [len(group) for group in waiting], []
    while any(waiting):
        open_strata = [number for number, group in enumerate(waiting) if group]
        due = max(
            open_strata,
            key=lambda number: (
                method.rates[number] * sizes[number] / (2.0 * (sizes[number] - len(waiting[number])) + 1.0),
                -number,
            ),
        )
        order.append(waiting[due].pop(0))
    return order
