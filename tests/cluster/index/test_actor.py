"""A negative index on Ray actors: what it answers, when, and what it does when it is lost."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from cluster.index.client import RemoteIndex
from cluster.index.encoder_pool import EncoderOptions
from cluster.index.version_build import IndexSpec
from ranking.checkpoint import from_bytes, to_bytes
from ranking.index import IndexOptions
from sampling.retrieval.dense import Refresh
from sampling.retrieval.live_index import Answer, LocalIndex, NegativeIndex
from tests.cluster.index.toy_corpus import ToyCorpus, WordSums, exact, weights_of

QUERIES = np.arange(12)


def until(true: Callable[[], Any]) -> None:
    """Wait for what must come."""
    given_up = time.monotonic() + 90
    while not true():
        assert time.monotonic() < given_up
        time.sleep(0.02)


def right(answer: Answer, depth: int = 5, dimension: int = 8) -> bool:
    """Whether an answer to `QUERIES` is that of the weights of its step, which are those of its seed here."""
    documents, products = exact(ToyCorpus(), weights_of(answer.step, dimension), depth)
    return bool((answer.documents == documents).all() and np.allclose(answer.scores, products, rtol=1e-5, atol=1e-6))


def start(folder: Path, refresh: Refresh) -> RemoteIndex:
    """An index of the toy corpus, built by one encoder; `folder` is where the gate of its encoder may stand."""
    name, tags = f"negative-index:test:{refresh.mode}", {"run": "test", "function": refresh.mode}
    corpus, options = ToyCorpus(folder=str(folder)), EncoderOptions(1, cpu=0.1)
    return RemoteIndex(IndexSpec(name, corpus, folder / "index", IndexOptions(), options, tags, block=7), refresh)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Of the asynchronous index."""
    return tmp_path_factory.mktemp("async")


@pytest.fixture(scope="module")
def of_one(ray_session, folder) -> Iterator[RemoteIndex]:
    """An index that is served as soon as it is built."""
    index = start(folder, Refresh("async", every=10))
    yield index
    index.close()


@pytest.fixture(scope="module")
def of_lag(ray_session, tmp_path_factory) -> Iterator[RemoteIndex]:
    """A lagged index."""
    index = start(tmp_path_factory.mktemp("lagged"), Refresh("lagged", every=10, lag=15))
    yield index
    index.close()


@pytest.fixture
def asynchronous(of_one) -> RemoteIndex:
    """An index that knows of nothing."""
    return emptied(of_one)


@pytest.fixture
def lagged(of_lag) -> RemoteIndex:
    """An index that knows of nothing."""
    return emptied(of_lag)


@pytest.fixture
def gate(folder) -> Iterator[Path]:
    """Encoders of the asynchronous index wait while this file is there."""
    path = folder / "gate"
    yield path
    path.unlink(missing_ok=True)


def emptied(index: RemoteIndex) -> RemoteIndex:
    """The index, which now knows of nothing."""
    index.load_state_dict({"token": index.token, "count": 0, "version": -1, "published": []})
    return index


def client_of(index: RemoteIndex, refresh: Refresh, note: Callable[[str], None]) -> RemoteIndex:
    """Another trainer's end of the same actors."""
    client = RemoteIndex(index.spec, refresh, note)
    client.token = index.token
    return client


def drive(
    index: NegativeIndex, first: int = 0, last: int = 60, at: Callable[[int], None] = lambda step: None
) -> list[Answer]:
    """A training that publishes every 10 steps and asks every 5."""
    answers = []
    for step in range(first, last, 5):
        at(step)
        answers.append(index.search(QUERIES, 5, step))
        if (step + 5) % 10 == 0:
            index.publish(weights_of(step + 5), step + 5)
    return answers


def same(left: list[Answer], right: list[Answer]) -> bool:
    """To the last bit."""
    return len(left) == len(right) and all(
        (a.version, a.step) == (b.version, b.step)
        and (a.documents.tobytes(), a.scores.tobytes()) == (b.documents.tobytes(), b.scores.tobytes())
        for a, b in zip(left, right, strict=True)
    )


def test_lagged_answers_are_those_of_an_index_in_the_trainers_own_process(lagged):
    encoded: Any = SimpleNamespace(**dict(zip(("documents", "queries"), ToyCorpus().texts(), strict=True)))
    local = LocalIndex(WordSums(), encoded, IndexOptions(), lag=15)
    runs = []
    for index in (local, lagged):
        index.publish(weights_of(0), 0)
        runs.append(drive(index))
    assert same(*runs)
    # Published at 10 and served from 25 on, at 20 and served from 35 on.
    served = [0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert [(answer.version, answer.step) for answer in runs[0]] == [(version, 10 * version) for version in served]
    assert all(right(answer) for answer in runs[0])


def test_a_lagged_index_goes_on_after_an_interrupt_as_if_there_had_been_none(lagged):
    lagged.publish(weights_of(0), 0)
    whole = drive(lagged)
    emptied(lagged).publish(weights_of(0), 0)
    states: list[bytes] = []
    drive(lagged, 0, 50, lambda step: states.append(to_bytes(lagged.state_dict())) if step == 30 else None)
    # The training went on to 50 after its state was kept at 30; it starts again there.
    lagged.load_state_dict(from_bytes(states[0]))
    assert same(drive(lagged, 30), whole[6:])


@pytest.mark.nightly
def test_a_reader_never_sees_half_a_swap(asynchronous):
    asynchronous.publish(weights_of(0), 0)
    asynchronous.search(QUERIES, 5, 0)
    actor, over = ray.get_actor(asynchronous.name), threading.Event()
    heard: dict[str, list[Answer]] = {f"reader {number}": [] for number in range(8)}

    def read(reader: str) -> None:
        while not over.is_set():
            heard[reader].append(ray.get(actor.search.remote(reader, QUERIES, 5, 100)).answer)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in heard]
    for thread in threads:
        thread.start()
    for step in (10, 20, 30, 40):
        asynchronous.publish(weights_of(step), step)
        until(lambda step=step: step in asynchronous.status()["versions"])
    over.set()
    for thread in threads:
        thread.join()
    for answers in heard.values():
        assert all(right(answer) for answer in answers)
        assert [answer.version for answer in answers] == sorted(answer.version for answer in answers)
    assert {0, 10, 20, 30} <= {answer.step for answers in heard.values() for answer in answers}


def test_the_newest_wins_where_weights_come_faster_than_builds(asynchronous, gate):
    asynchronous.publish(weights_of(0), 0)
    asynchronous.search(QUERIES, 5, 0)
    gate.touch()
    asynchronous.publish(weights_of(10), 10)
    until(lambda: asynchronous.status()["building"] == 10)
    for step in (20, 30, 40, 50):
        asynchronous.publish(weights_of(step), step)
    until(lambda: asynchronous.status()["pending"] == [50])
    assert len(list((asynchronous.folder / "published").iterdir())) == 2  # 10 and 50
    before = asynchronous.search(QUERIES, 5, 50)
    assert (before.step, before.version) == (0, 0)  # nobody waits for the build
    gate.unlink()
    until(lambda: 50 in asynchronous.status()["versions"])
    assert asynchronous.status()["versions"] == {0: 0, 10: 1, 50: 2}
    after = asynchronous.search(QUERIES, 5, 50)
    assert (after.step, after.version) == (50, 2)
    assert right(after)


def test_a_bound_on_staleness_makes_readers_wait(asynchronous, gate):
    bounded = client_of(asynchronous, Refresh("async", every=10, max_staleness=10), print)
    bounded.publish(weights_of(0), 0)
    bounded.search(QUERIES, 5, 10)
    gate.touch()
    bounded.publish(weights_of(10), 10)
    assert bounded.search(QUERIES, 5, 10).step == 0
    answers: list[Answer] = []
    reader = threading.Thread(target=lambda: answers.append(bounded.search(QUERIES, 5, 11)))
    reader.start()
    reader.join(0.3)
    assert not answers
    gate.unlink()
    reader.join()
    assert answers[0].step == 10


def test_vectors_may_change_their_dimension(asynchronous):
    for step, dimension in ((0, 8), (10, 3), (20, 16)):
        asynchronous.publish(weights_of(step, dimension), step)
        until(lambda step=step: step in asynchronous.status()["versions"])
        assert right(asynchronous.search(QUERIES, 5, step), dimension=dimension)


def test_scores_are_those_of_the_version_that_answered_last(asynchronous):
    asynchronous.publish(weights_of(0), 0)
    asynchronous.search(QUERIES, 5, 0)
    for step in (10, 20, 30):  # the version that answered stays, however many come after it
        asynchronous.publish(weights_of(step), step)
        until(lambda step=step: step in asynchronous.status()["versions"])
    everything = np.tile(np.arange(60), (12, 1))
    documents, products = exact(ToyCorpus(), weights_of(0), 60)
    scores = asynchronous.scores(QUERIES, np.append(everything, np.full((12, 1), -1), axis=1))
    np.testing.assert_allclose(np.take_along_axis(scores, documents, 1), products, rtol=1e-5, atol=1e-6)
    assert (scores[:, -1] == -np.inf).all()
    assert asynchronous.status()["versions"].keys() == {0, 20, 30}
    # Vectors that are given take the place of the version's own.
    given = np.ones((12, 8), np.float32)
    answer = asynchronous.search(QUERIES, 5, 30, given)
    assert (answer.documents == answer.documents[0]).all()
    assert answer.step == 30


@pytest.mark.nightly
def test_it_comes_back_when_it_is_killed_in_the_middle_of_a_build_and_of_a_query(asynchronous, gate):
    said: list[str] = []
    bounded = client_of(asynchronous, Refresh("async", every=10, max_staleness=10), said.append)
    bounded.publish(weights_of(0), 0)
    bounded.search(QUERIES, 5, 0)
    gate.touch()
    bounded.publish(weights_of(10), 10)
    answers: list[Answer] = []
    waiting = threading.Thread(target=lambda: answers.append(bounded.search(QUERIES, 5, 20)))
    waiting.start()
    until(lambda: asynchronous.status()["building"] == 10)
    ray.kill(ray.get_actor(asynchronous.name), no_restart=False)  # as a crash would: Ray starts it again
    last_good = asynchronous.search(QUERIES, 5, 20)  # of a reader who does not mind its age
    assert right(last_good)
    assert last_good.step == 0
    assert not answers
    gate.unlink()
    waiting.join()
    assert right(answers[0])
    assert (answers[0].step, answers[0].version) == (10, 1)
    assert [line.removeprefix(bounded.name) for line in said] == [" is lost; waiting", " is back"]
