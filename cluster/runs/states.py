"""Keeps and reads a run's state; workers that share a ranker's weights each keep their own rows beside the others'."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch.distributed as dist

from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from ranking.sharded_state import merge_state, split_state, split_tensors


class StateStore(Protocol):
    """Where a run keeps its state, to go on after an interrupt."""

    def load(self) -> bytes | None:
        """The last state, None at the start."""

    def save(self, state: bytes) -> None:
        """Keep the state whole."""


@runtime_checkable
class ShardStore(Protocol):
    """Where workers keep their own rows of a state besides, under names that no state before has used."""

    def load_shard(self, name: str) -> bytes | None:
        """What was kept under a name; None where nothing is."""

    def save_shard(self, name: str, rows: bytes) -> None:
        """Keep it whole."""

    def drop_shards(self, but: Collection[str]) -> None:
        """Forget all but some: those of states before, and what an interrupt has left of one."""


@dataclass(frozen=True)
class Share:
    """Which part of a run's state is this process's.

    Args:
        rank, workers: whose, of how many that share the weights.
        split: whether weights are split; a state of such workers is kept as one file each, the first one's last.
    """

    rank: int = 0
    workers: int = 1
    split: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Share:
        """The share of this process, in a run of a configuration."""
        if config["resources"]["shard"] and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size(), True)
        return cls()

    def agreed(self, due: bool) -> bool:
        """What the first worker says: clocks differ, and all keep a state together."""
        if not self.split:
            return due
        told = [due]
        dist.broadcast_object_list(told, src=0)
        return told[0]

    def keep(self, store: StateStore, state: dict[str, Any]) -> None:
        """Keep a state; all workers that share weights have to.

        The first worker's file names those of the others with their sums and is written when these are there, so that
        a state is whole or that of before.
        """
        if not self.split:
            store.save(to_bytes(state))
            return
        assert isinstance(store, ShardStore)
        own = split_state(state)
        name = [uuid.uuid4().hex[:8] if self.rank == 0 else ""]
        dist.broadcast_object_list(name, src=0)
        shard: tuple[str, int] | None = None
        if self.rank:
            content = to_bytes(split_tensors(own))
            shard = f"{name[0]}-{self.rank}", zlib.crc32(content)
            store.save_shard(shard[0], content)
        told: list[Any] = [None] * self.workers
        dist.all_gather_object(told, shard)
        if self.rank == 0:
            store.save(to_bytes(own | {"shards": told[1:]}))
            store.drop_shards([each for each, _ in told[1:]])

    def read(self, store: StateStore) -> dict[str, Any] | None:
        """The last state, by however many workers it was kept; None at the start.

        Raises:
            BadInput: where a worker's part of it is missing or damaged.
        """
        saved = store.load()
        if saved is None:
            return None
        state: dict[str, Any] = from_bytes(saved)
        if "shards" not in state:
            return state
        shards = state.pop("shards")
        try:
            whole: dict[str, Any] = merge_state(state, _read_shards(store, shards), self.rank, self.workers)
        except ValueError:
            raise _unfit("are not those of one state") from None
        return whole


def _read_shards(store: StateStore, shards: list[tuple[str, int]]) -> Iterator[Any]:
    for number, (name, digest) in enumerate(shards, start=2):
        content = store.load_shard(name) if isinstance(store, ShardStore) else None
        if content is None:
            raise _unfit(f"are missing: those of worker {number} of {len(shards) + 1} ({name})")
        if zlib.crc32(content) != digest:
            raise _unfit(f"are damaged: those of worker {number} of {len(shards) + 1} ({name})")
        yield from_bytes(content, name)


def _unfit(what: str) -> BadInput:
    return BadInput(
        f"rows of weights that its workers have kept {what}",
        "the run's state",
        "delete states/ of the folder to start over",
    )
