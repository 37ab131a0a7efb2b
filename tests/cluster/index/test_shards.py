"""A negative index in shards: the same lists whatever their number, and what happens when one is lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from cluster.index.client import RemoteIndex
from cluster.index.encoder import TextBlock
from cluster.index.encoder_pool import EncoderOptions, WaitingBlocks
from cluster.index.version_build import IndexSpec
from ranking.index import IndexOptions
from ranking.query_lists import Listed
from sampling.retrieval.dense import Refresh
from sampling.retrieval.live_index import LocalIndex
from tests.cluster.index.test_actor import QUERIES, drive, emptied, right, same, until
from tests.cluster.index.toy_corpus import ToyCorpus, WordSums, weights_of

LISTED = Listed(np.arange(0, 12, 2), 9)


def start(folder: Path, refresh: Refresh, shards: int, listed: Listed | None = None) -> RemoteIndex:
    spec = IndexSpec(
        f"negative-index:shards:{refresh.mode}:{shards}", ToyCorpus(), folder / "index", IndexOptions(),
        EncoderOptions(1, cpu=0.1), {"run": "test", "function": "shards"}, block=7, shards=shards,
        on_lost=refresh.on_lost_shard, listed=listed,
    )  # fmt: skip
    said: list[str] = []
    index = RemoteIndex(spec, refresh, said.append)
    index.said = said
    return index


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


def local(shards: int, lag: int = 15) -> LocalIndex:
    """An index in this process."""
    encoded: Any = SimpleNamespace(**dict(zip(("documents", "queries"), ToyCorpus().texts(), strict=True)))
    return LocalIndex(WordSums(), encoded, IndexOptions(), lag, shards=shards)


@pytest.mark.nightly
def test_lists_are_the_same_to_the_bit_in_one_two_and_five_shards(of_two, monkeypatch):
    monkeypatch.setattr("ranking.shards.BLOCK", 7)
    runs, indexes = [], (local(1), local(5), of_two)
    for index in indexes:
        index.publish(weights_of(0), 0)
        runs.append(drive(index))
    assert same(runs[0], runs[1])
    assert same(runs[0], runs[2])
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
    assert same([of_two.search(QUERIES, 20, 7)], [before])
    assert lost.is_file()
    assert kept.stat().st_mtime_ns == made
    of_two.publish(weights_of(17), 17)
    assert right(of_two.search(QUERIES, 20, 40), depth=20)


@pytest.mark.nightly
def test_the_serving_actor_finds_its_shards_again(of_two):
    emptied(of_two).publish(weights_of(5), 5)
    before = of_two.search(QUERIES, 20, 5)
    made = (of_two.folder / "shards" / "1" / "000000005" / "documents.npy").stat().st_mtime_ns
    ray.kill(ray.get_actor(of_two.name), no_restart=False)
    assert same([of_two.search(QUERIES, 20, 5)], [before])
    assert (of_two.folder / "shards" / "1" / "000000005" / "documents.npy").stat().st_mtime_ns == made


@pytest.mark.nightly
@pytest.mark.usefixtures("ray_session")
def test_readers_may_go_on_without_a_shard(tmp_path):
    index = start(tmp_path, Refresh("async", every=10, on_lost_shard="skip"), 2)
    index.publish(weights_of(0), 0)
    whole = index.search(QUERIES, 60, 0)
    alone = local(1, 0)
    alone.publish(weights_of(0), 0)
    assert same([whole], [alone.search(QUERIES, 60, 0)])
    shutil.rmtree(index.folder / "shards" / "1")
    kill(index, 1)
    first = index.search(QUERIES, 60, 0)
    assert set(np.unique(first.documents)) == {-1, *range(28)}
    assert (first.documents[:, :28] == whole.documents[whole.documents < 28].reshape(12, 28)).all()
    until(lambda: same([index.search(QUERIES, 60, 0)], [whole]))
    said = [line.removeprefix(index.name) for line in index.said]
    assert said == [": shard 1 is lost; continuing without its documents", ": shard 1 is back"]
    index.close()


def test_encoders_take_blocks_of_their_own_machine_first():
    blocks = [TextBlock(start, start + 1, False, Path("file"), 0, shard) for start, shard in enumerate([0, 1, 1, 0, 1])]
    waiting = WaitingBlocks(blocks, {0: "here", 1: "there"})
    assert [waiting.take(node).start for node in ("here", "there", "here", "here", "elsewhere")] == [0, 1, 3, 2, 4]
    assert not waiting
