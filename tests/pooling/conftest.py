"""Small pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest

from pooling.pool import Pool, Topic, topic_pool

PoolOf = Callable[..., Pool]


@pytest.fixture(scope="session")
def pool_of() -> PoolOf:
    """Makes a pool of rankings [topics][runs][depth] (-1 after a run's end) and grades [topics][documents]."""

    def make(
        rankings: Sequence[Sequence[Sequence[int]]],
        grades: Sequence[Sequence[int]],
        teams: Sequence[str] | None = None,
        outside: int = 0,
        relevant_from: int = 1,
    ) -> Pool:
        runs = [f"run{number}" for number in range(len(rankings[0]))]
        teams = runs if teams is None else list(teams)
        dense = {team: number for number, team in enumerate(dict.fromkeys(teams))}
        numbers = np.array([dense[team] for team in teams], np.int32)
        topics = [
            Topic(
                str(number),
                topic_pool(np.array(ranked, np.int32), len(of_topic), numbers),
                pl.Series([f"d{document:03}" for document in range(len(of_topic))], dtype=pl.String),
                np.array(of_topic, np.int32),
                np.ones(len(of_topic), bool),
                sum(grade >= relevant_from for grade in of_topic) + outside,
            )
            for number, (ranked, of_topic) in enumerate(zip(rankings, grades, strict=True), 1)
        ]
        return Pool(topics, runs, list(teams), len(rankings[0][0]), relevant_from, max(map(max, grades)))

    return make


@pytest.fixture(scope="session")
def random_pool(pool_of: PoolOf) -> Callable[..., Pool]:
    """Makes a pool of runs of differing quality by chance; every document is in some run."""

    def make(rng: np.random.Generator, topics: int = 4, runs: int = 6, documents: int = 30, depth: int = 12) -> Pool:
        rankings, grades = [], []
        for _ in range(topics):
            relevant = rng.random(documents) < 0.3
            lists = [
                np.argsort(rng.random(documents) - quality * relevant, kind="stable")[:depth]
                for quality in np.linspace(0, 0.8, runs)
            ]
            held, numbers = np.unique(np.concatenate(lists), return_inverse=True)
            rankings.append(numbers.reshape(runs, depth).tolist())
            grades.append(relevant[held].astype(int).tolist())
        return pool_of(rankings, grades, teams=[f"team{run // 2}" for run in range(runs)])

    return make
