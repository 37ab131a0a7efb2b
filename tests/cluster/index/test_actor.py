"""A negative index on Ray actors and its shards: what it answers, when, and what it does when one is lost."""

import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from pyrite.cluster.index.client import RemoteIndex
from pyrite.cluster.index.encoder import TextBlock
from pyrite.cluster.index.encoder_pool import EncoderOptions, next_block
from pyrite.cluster.index.version_build import IndexSpec
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.index import IndexOptions
from pyrite.ranking.query_lists import Listed
from pyrite.ranking.ranges import shard_ranges
from pyrite.sampling.retrieval.dense import Refresh
from pyrite.sampling.retrieval.live_index import Answer, LocalIndex, NegativeIndex
from tests.cluster.index.toy_corpus import ToyCorpus, WordSums, exact, weights_of
from tests.cluster.waiting import until
from tests.ranking.trained import equal

QUERIES = np.arange(12)


def right(answer: Answer, depth: int = 5, dimension: int = 8) -> bool:
    """Whether an answer to `QUERIES` is that of the weights of its step, which are those of its seed here."""
    documents, products = exact(ToyCorpus(), weights_of(answer.step, dimension), depth)
    return bool((answer.documents == documents).all() and np.allclose(answer.scores, products, rtol=1e-5, atol=1e-6))


def start(folder: Path, refresh: Refresh, shards: int = 1, listed: Listed | None = None) -> RemoteIndex:
    """An index of the toy corpus, built by one encoder; `folder` is where the gate of its encoder may stand."""
    name, tags = f"negative-index:test:{refresh.mode}:{shards}", {"run": "test", "function": refresh.mode}
    spec = IndexSpec(
        name, ToyCorpus(folder=str(folder)), folder / "index", IndexOptions(), EncoderOptions(1, cpu=0.1), tags,
        block=7, ranges=shard_ranges(60, shards, 7), on_lost=refresh.on_lost_shard, listed=listed,
    )  # fmt: skip
    said: list[str] = []
    index = RemoteIndex(spec, refresh, said.append)
    index.said = said
    return index


def local(lag: int, shards: int = 1) -> LocalIndex:
    """An index in this process."""
    encoded: Any = SimpleNamespace(**dict(zip(("documents", "queries"), ToyCorpus().texts(), strict=True)))
    return LocalIndex(WordSums(), encoded, IndexOptions(), lag, shards=shards)


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
    actor = ray.get_actor(index.name)
    ray.get(actor.close.remote())
    ray.get(actor.publish.remote(999, 99, [ray.put(np.frombuffer(to_bytes(weights_of(1)), np.uint8))]))
    assert not index.folder.exists()  # what arrives late is not written
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


def publish(index: RemoteIndex, step: int, dimension: int = 8) -> None:
    """Publish the weights of a step, and wait until they are served."""
    index.publish(weights_of(step, dimension), step)
    until(lambda: step in index.status()["versions"])


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


def test_lagged_answers_are_those_of_an_index_in_the_trainers_own_process(lagged):
    runs = []
    for index in (local(15), lagged):
        index.publish(weights_of(0), 0)
        runs.append(drive(index))
    assert equal(*runs)
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
    assert equal(drive(lagged, 30), whole[6:])


@pytest.mark.nightly
def test_a_reader_never_sees_half_a_swap(asynchronous):
    asynchronous.publish(weights_of(0), 0)
    asynchronous.search(QUERIES, 5, 0)
    actor, over = ray.get_actor(asynchronous.name), threading.Event()
    heard: list[list[Answer]] = [[] for _ in range(8)]

    def read(answers: list[Answer]) -> None:
        while not over.is_set():
            answers.append(ray.get(actor.search.remote(QUERIES, 5, 100)).answer)

    threads = [threading.Thread(target=read, args=(answers,)) for answers in heard]
    for thread in threads:
        thread.start()
    for step in (10, 20, 30, 40):
        publish(asynchronous, step)
    over.set()
    for thread, answers in zip(threads, heard, strict=True):
        thread.join()
        assert all(right(answer) for answer in answers)
        assert [answer.version for answer in answers] == sorted(answer.version for answer in answers)
    assert {0, 10, 20, 30} <= {answer.step for answers in heard for answer in answers}


@pytest.mark.nightly
def test_the_newest_wins_where_weights_come_faster_than_builds(asynchronous, gate):
    asynchronous.publish(weights_of(0), 0)
    asynchronous.search(QUERIES, 5, 0)
    gate.touch()
    asynchronous.publish(weights_of(10), 10)
    until(lambda: asynchronous.status()["building"] == 10)
    for step in (20, 30, 40, 50):
        asynchronous.publish(weights_of(step), step)
    until(lambda: asynchronous.status()["pending"] == [50])
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
        publish(asynchronous, step, dimension)
        assert right(asynchronous.search(QUERIES, 5, step), dimension=dimension)


def test_scores_are_those_of_the_version_that_answered_last(asynchronous):
    asynchronous.publish(weights_of(0), 0)
    asynchronous.search(QUERIES, 5, 0)
    for step in (10, 20, 30):  # the version that answered stays, however many come after it
        publish(asynchronous, step)
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


LISTED = Listed(np.arange(0, 12, 2), 9)


@pytest.fixture(scope="module")
def of_two(ray_session, tmp_path_factory) -> Iterator[RemoteIndex]:
    """A lagged index of two shards, and lists of half the queries."""
    index = start(tmp_path_factory.mktemp("two"), Refresh("lagged", every=10, lag=15), 2, LISTED)
    yield index
    index.close()
    assert not index.folder.exists()


def kill(index: RemoteIndex, number: int) -> None:
    """End a shard's actor as a crash would: Ray starts it again."""
    names = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
    (name,) = [name for name in names if name.startswith(f"{index.name}:shard-{number}#")]
    ray.kill(ray.get_actor(name), no_restart=False)


@pytest.mark.nightly
def test_lists_are_the_same_to_the_bit_in_one_two_and_five_shards(of_two, monkeypatch):
    monkeypatch.setattr("pyrite.ranking.shards.BLOCK", 7)
    runs, indexes = [], (local(15), local(15, 5), of_two)
    for index in indexes:
        index.publish(weights_of(0), 0)
        runs.append(drive(index))
        assert equal(runs[0], runs[-1])
    assert [answer.step for answer in runs[2]] == [0, 0, 0, 0, 0, 10, 10, 20, 20, 30, 30, 40]
    everything = np.tile(np.arange(-1, 60), (12, 1))
    assert len({index.scores(QUERIES, everything).tobytes() for index in indexes}) == 1
    held = sorted((of_two.folder / "shards").iterdir())
    sizes = [len(np.load(folder / "000000040" / "documents.npy")) for folder in held]
    assert sizes == [28, 32]  # nine blocks of seven, the last one with four


@pytest.mark.nightly
def test_queries_that_are_listed_are_read_and_others_searched(of_two):
    emptied(of_two).publish(weights_of(3), 3)
    whole = of_two.search(QUERIES, 5, 3)
    assert right(whole)
    listed = of_two.search(LISTED.queries, 5, 3)
    assert (listed.documents == whole.documents[LISTED.queries]).all()
    lists = np.load(of_two.folder / "versions" / "000000003" / "listed_documents.npy")
    assert lists.shape == (6, 9)
    assert (lists[:, :5] == listed.documents).all()
    assert right(of_two.search(QUERIES, 30, 3), depth=30)  # deeper than any list


@pytest.mark.nightly
def test_a_shard_that_is_killed_goes_on_from_its_disk_and_without_a_disk_is_built_again(of_two):
    emptied(of_two).publish(weights_of(7), 7)
    before = of_two.search(QUERIES, 20, 7)
    kept, lost = (of_two.folder / "shards" / name / "000000007" / "documents.npy" for name in "01")
    made = kept.stat().st_mtime_ns
    shutil.rmtree(of_two.folder / "shards" / "1")  # as on another machine
    kill(of_two, 1)
    kill(of_two, 0)
    assert equal([of_two.search(QUERIES, 20, 7)], [before])
    assert lost.is_file()
    assert kept.stat().st_mtime_ns == made
    of_two.publish(weights_of(17), 17)
    assert right(of_two.search(QUERIES, 20, 40), depth=20)


@pytest.mark.nightly
def test_the_serving_actor_finds_its_shards_again(of_two):
    emptied(of_two).publish(weights_of(5), 5)
    before, file = of_two.search(QUERIES, 20, 5), of_two.folder / "shards" / "1" / "000000005" / "documents.npy"
    made = file.stat().st_mtime_ns
    ray.kill(ray.get_actor(of_two.name), no_restart=False)
    assert equal([of_two.search(QUERIES, 20, 5)], [before])
    assert file.stat().st_mtime_ns == made


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_readers_may_go_on_without_a_shard(tmp_path):
    index = start(tmp_path, Refresh("async", every=10, on_lost_shard="skip"), 2)
    index.publish(weights_of(0), 0)
    whole = index.search(QUERIES, 60, 0)
    alone = local(0)
    alone.publish(weights_of(0), 0)
    assert equal([whole], [alone.search(QUERIES, 60, 0)])
    shutil.rmtree(index.folder / "shards" / "1")
    kill(index, 1)
    first = index.search(QUERIES, 60, 0)
    assert set(np.unique(first.documents)) == {-1, *range(28)}
    assert (first.documents[:, :28] == whole.documents[whole.documents < 28].reshape(12, 28)).all()
    until(lambda: equal([index.search(QUERIES, 60, 0)], [whole]))
    said = [line.removeprefix(index.name) for line in index.said]
    assert said == [": shard 1 is lost; continuing without its documents", ": shard 1 is back"]
    index.close()


def test_encoders_take_blocks_of_their_own_machine_first():
    waiting = {
        node: deque(TextBlock(start, start + 1, False, Path("file"), 0) for start in starts)
        for node, starts in (("here", [0, 3]), ("there", [1, 2, 4]))
    }
    taken = [next_block(waiting, node).start for node in ("here", "there", "here", "here", "elsewhere")]
    assert taken == [0, 1, 3, 2, 4]
    assert not waiting
