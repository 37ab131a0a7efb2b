"""A version on shards: what it does where a shard has no answer, with shards that this process plays."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyrite.cluster.index.sharded_build import ShardedVersion
from pyrite.ranking.index import IndexOptions, VectorIndex

VECTORS = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
QUERIES = np.eye(4, dtype=np.float32)


class Played:
    """A build with two shards of five documents: `without` lack the version, `lost` do not answer."""

    ranges = (range(5), range(5, 10))

    def __init__(self, without: set[int], lost: set[int]) -> None:
        self.actors, self.without, self.lost = self, without, lost
        self.done: list[tuple[str, int]] = []

    def call(self, number: int, method: str, step: int, digest: str, *arguments: Any) -> Any:
        if method == "has":
            return number not in self.without
        held = self.ranges[number]
        index = VectorIndex.build(VECTORS[held.start : held.stop], IndexOptions())
        return None if number in self.without else getattr(index, method)(*arguments)

    def ask(self, method: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        return [
            None if number in self.lost else self.call(number, method, *each) for number, each in enumerate(arguments)
        ]

    def repair(self, version: Any, number: int) -> None:
        self.done.append(("repair", number))
        self.without.discard(number)

    def repair_in_background(self, version: Any, number: int) -> None:
        self.done.append(("background", number))


@pytest.fixture(autouse=True)
def _no_object_store(monkeypatch) -> None:
    monkeypatch.setattr("pyrite.cluster.index.sharded_build.ray.put", lambda each: each)


def made(build: Any, skip: bool) -> tuple[ShardedVersion, list[tuple[str, int]]]:
    """A version, and what it has had done."""
    return ShardedVersion(build, SimpleNamespace(step=3, digest="digest"), skip), build.done


def test_a_shard_without_the_version_is_repaired_before_an_answer_and_a_lost_one_when_it_is_back():
    version, done = made(Played({1}, set()), skip=False)
    documents, products = version.search(QUERIES, 10)
    expected = VectorIndex.build(VECTORS, IndexOptions()).search(QUERIES, 10)
    assert (documents == expected[0]).all()
    assert products.tobytes() == expected[1].tobytes()
    assert done == [("repair", 1)]
    version, done = made(Played({1}, {1}), skip=True)
    assert set(np.unique(version.search(QUERIES, 10)[0])) == {-1, *range(5)}
    assert done == []
    version.build.lost.clear()
    version.search(QUERIES, 10)
    assert done == [("background", 1)]


def test_readers_that_skip_go_on_and_it_is_mended_meanwhile():
    version, done = made(Played({1}, set()), skip=True)
    assert set(np.unique(version.search(QUERIES, 10)[0])) == {-1, *range(5)}
    scores = version.scores(QUERIES, np.tile(np.arange(-1, 10), (4, 1)))
    assert np.isfinite(scores).sum(axis=1).tolist() == [5] * 4
    assert done == [("background", 1)] * 2
    version.build.without.add(0)
    assert (version.search(QUERIES, 3)[0] == -1).all()
    assert set(np.unique(replace(version, skip=False).search(QUERIES, 10)[0])) == set(range(10))
