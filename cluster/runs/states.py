"""Saves and loads a run's state. Each worker that holds rows of split weights saves them in a separate file."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch.distributed as dist

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput
from pyrite.ranking.sharded_state import merge_state, split_state, split_tensors


class StateStore(Protocol):
    """A place for a run's state, from which it resumes after an interrupt: `SavedState`, or an actor's memory.

    It also keeps the rows of a state that single workers hold, under names that no earlier state has used.
    """

    def load(self) -> bytes | None: ...
    def save(self, state: bytes) -> None: ...
    def load_shard(self, name: str) -> bytes | None: ...
    def save_shard(self, name: str, rows: bytes) -> None: ...
    def drop_shards(self, but: Collection[str]) -> None: ...


@dataclass(frozen=True)
class Share:
    """This process's part of a run's state. If weights are split, each worker saves a file, or else the first does."""

    rank: int = 0
    workers: int = 1
    split: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Share:
        """Return the share of this process in a run of a configuration."""
        if dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size(), config["resources"]["shard"])
        return cls()

    def broadcast_from_first(self, due: bool) -> bool:
        """Return the first worker's value: clocks differ, and all workers must save a state together."""
        if not self.split:
            return due
        values = [due]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def save(self, store: StateStore, state: dict[str, Any]) -> None:
        """Save a state. All workers that share weights must call this.

        The first worker's file lists those of the others with their checksums, and is written when these exist. So a
        saved state is always whole.
        """
        if not self.split:
            if self.rank == 0:
                store.save(to_bytes(state))
            return
        own_rows = split_state(state)
        name = [uuid.uuid4().hex[:8]]
        dist.broadcast_object_list(name, src=0)
        shard: tuple[str, int] | None = None
        if self.rank:
            content = to_bytes(split_tensors(own_rows))
            shard = f"{name[0]}-{self.rank}", zlib.crc32(content)
            store.save_shard(shard[0], content)
        shards: list[Any] = [None] * self.workers
        dist.all_gather_object(shards, shard)
        if self.rank == 0:
            store.save(to_bytes(own_rows | {"shards": shards[1:]}))
            store.drop_shards([shard_name for shard_name, _ in shards[1:]])

    def load(self, store: StateStore) -> dict[str, Any] | None:
        """Return the last state, whatever the number of workers that saved it; None at the start."""
        saved = store.load()
        if saved is None:
            return None
        state: dict[str, Any] = from_bytes(saved)
        if "shards" not in state:
            return state
        rows = _read_shards(store, state.pop("shards"))
        rank, workers = (self.rank, self.workers) if self.split else (0, 1)
        try:
            whole: dict[str, Any] = merge_state(state, rows, rank, workers)
        except ValueError:
            raise _unusable("are not those of one state") from None
        return whole


def _read_shards(store: StateStore, shards: list[tuple[str, int]]) -> Iterator[Any]:
    for number, (name, digest) in enumerate(shards, start=2):
        content = store.load_shard(name)
        if content is None or zlib.crc32(content) != digest:
            fault = "missing" if content is None else "damaged"
            raise _unusable(f"are {fault}: those of worker {number} of {len(shards) + 1} ({name})")
        yield from_bytes(content, name)


def _unusable(what: str) -> BadInput:
    remedy = "delete states/ of the folder to start over"
    return BadInput(f"rows of weights that its workers have saved {what}", "the run's state", remedy)
