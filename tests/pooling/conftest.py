"""Small pools, and a server for the judging page."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import uvicorn
from scipy.sparse import csr_array

from pyrite.pooling.judging.connection import TimedProtocol
from pyrite.pooling.pool import Pool, Terms, Topic, team_numbers, topic_pool

PoolOf = Callable[..., Pool]


def with_texts_and_machine(topic: Topic) -> Topic:
    """The topic with texts, of which relevant ones share a term or two with the topic, and with a machine's grades that
    are right more often than not."""
    rng = np.random.default_rng(topic.pool.size)
    relevant = np.append(topic.grades > 0, True)
    vectors = (rng.random((len(relevant), 12)) < 0.3).astype(float)
    vectors[:, :2] = rng.random((len(relevant), 2)) < np.where(relevant, 0.7, 0.2)[:, None]
    matrix = csr_array(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1))
    terms = Terms(matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data)
    machine = np.where(rng.random(topic.pool.size) < 0.2, -1, topic.grades + rng.integers(0, 2, topic.pool.size))
    machine = machine.astype(np.int32)
    for array in (*terms, machine):
        array.flags.writeable = False
    return replace(topic, pool=topic.pool._replace(terms=terms, machine=machine))


@pytest.fixture
def listen() -> Iterator[Callable[[Any], int]]:
    """Serves applications of the judging page, each on a port that it returns, until the test ends."""
    running = []

    def start(app: Any) -> int:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, http=TimedProtocol, log_level="warning", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        running.append((server, thread))
        return int(listening.getsockname()[1])

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


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
        topics = [
            Topic(
                str(number),
                topic_pool(np.array(ranked, np.int32), len(of_topic), team_numbers(teams)),
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
def random_pool(pool_of) -> Callable[..., Pool]:
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
        pool = pool_of(rankings, grades, teams=[f"team{run // 2}" for run in range(runs)])
        return replace(pool, topics=[with_texts_and_machine(topic) for topic in pool.topics])

    return make
