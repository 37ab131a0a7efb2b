"""Simulates judging a pool whose judgements are known: what would have been found, and when."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators.adjudicator import Adjudicator, judging_order, topic_rng
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.bandit.index import ArmIndex
from pyrite.pooling.judging_order import JudgingOrder, side_by_side
from pyrite.pooling.pool import Pool, Topic, topic_pool
from pyrite.pooling.shared_fusion import SharedFusion
from pyrite.ranking.errors import BadInput

Method = Adjudicator | AcrossTopics | SharedFusion


def adjudicator_of(method: Method) -> Adjudicator:
    """Return the method's adjudicator, which chooses the documents of a topic."""
    if isinstance(method, Adjudicator):
        return method
    if isinstance(method, AcrossTopics | SharedFusion):
        return method.adjudicator
    kind = type(method)
    if isinstance(method, ArmIndex):
        arm = f"`+method.NAME._target_={Bandit.__module__}.Bandit +method.NAME.arm._target_={kind.__module__}"
        remedy = f"give it to a bandit: {arm}.{kind.__name__}`, in Python Bandit({kind.__name__}(…))"
        raise BadInput(f"{kind.__name__} is the index of a bandit, not a method", remedy=remedy)
    raise BadInput(
        f"{kind.__name__} is not a method", remedy="name a subclass of Adjudicator, such as Bandit or Fusion"
    )


def needs_of(method: Method) -> tuple[str, ...]:
    """Return what the pool must have in addition to runs (`Adjudicator.needs`)."""
    reads_texts = isinstance(method, SharedFusion) and method.reads_texts
    return (*adjudicator_of(method).needs, *(["texts"] if reads_texts else []))


def is_compiled(method: Method) -> bool:
    """Return whether the cache of compiled functions has the method's loop, as it is now, or there is no cache."""
    loop = adjudicator_of(method).loop
    cache = loop.stats.cache_path if isinstance(loop, Dispatcher) else None  # without NUMBA_DISABLE_JIT
    if cache is None:
        return True
    name = loop.py_func.__qualname__.rpartition(".")[2]  # has a digest of the sources
    return any(Path(cache).glob(f"*{name}-*.nbi"))


def compile_loop(method: Method) -> None:
    """Compile the method's loop into the cache, by judging one document of one run."""
    adjudicator, pool = adjudicator_of(method), topic_pool(np.zeros((1, 1), np.int32), 1)
    judging_order(adjudicator, pool, np.zeros(1), topic_rng(0, ""), [""])


def simulate(method: Method, pool: Pool, seeds: Sequence[int], threads: int = 1) -> list[JudgingOrder]:
    """Judge every document of a pool, once per seed.

    The order depends only on the method, the pool and the seed: not on the other topics or seeds, nor on the threads
    (the compiled loops release Python's lock).
    """
    adjudicator = adjudicator_of(method)
    limits = (pool.relevant_from, pool.highest)
    rewards = [adjudicator.reward(topic.grades, *limits) for topic in pool.topics]

    if isinstance(method, SharedFusion):
        in_turn = side_by_side(np.diff(pool.offsets))
        return [JudgingOrder(method.orders(pool, rewards, seed), in_turn, shared=False) for seed in seeds]

    def judge(task: tuple[int, Topic, NDArray[np.float64]]) -> NDArray[np.int32]:
        seed, topic, reward = task
        return judging_order(adjudicator, topic.pool, reward, topic_rng(seed, topic.name), pool.runs)

    tasks = [(seed, topic, reward) for seed in seeds for topic, reward in zip(pool.topics, rewards, strict=True)]
    orders = []
    with ThreadPoolExecutor(threads) as workers:
        judged = workers.map(judge, tasks) if threads > 1 else map(judge, tasks)
        for seed in seeds:
            documents = list(itertools.islice(judged, len(pool.topics)))
            turns = None
            if isinstance(method, AcrossTopics):
                report = [method.topics.reward(topic.grades, *limits) for topic in pool.topics]
                ordered = [reward[order] for reward, order in zip(report, documents, strict=True)]
                turns = method.turns(np.diff(pool.offsets), ordered, seed)
            orders.append(JudgingOrder(documents, turns))
    return orders


def found_at(pool: Pool, order: JudgingOrder, budgets: Sequence[int]) -> NDArray[np.int64]:
    """Count the relevant documents of each topic that are found when each budget is spent: int64 [budgets, topics]."""
    return order.found_after(pool.relevant, order.spent_at(budgets))
