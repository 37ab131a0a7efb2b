"""Splits a training's state into each worker's part, and merges the parts for any number of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

ROWS, SIZE = "rows of a tensor", "of size"
"""Keys of the dict that replaces, in a state, a tensor of which a worker keeps some rows."""


@dataclass(frozen=True)
class Rows:
    """A worker's rows of a split tensor, and the shape of the whole one."""

    rows: Tensor
    size: tuple[int, ...]


def rows_of(size: int, rank: int, workers: int) -> slice:
    """Return the rows that FSDP gives a worker: equally many each, the last workers the rest, or none."""
    share = -(-size // workers)
    return slice(min(size, rank * share), min(size, (rank + 1) * share))


def split_state(state: Any) -> Any:
    """Return a state with this worker's rows instead of each split tensor, as `pyrite.ranking.checkpoint` can store
    it.
    """
    from torch.distributed.tensor import DTensor

    def convert(value: Any) -> Any:
        if isinstance(value, DTensor):
            return {ROWS: value.to_local(), SIZE: list(value.shape)}
        return value

    return _mapped(state, convert)


def split_tensors(state: Any) -> list[Tensor]:
    """Return the rows in a result of `split_state`, one tensor after the other: in the same order on each worker."""
    return [entry[ROWS] for entry in _entries(state)]


def merge_state(state: Any, others: Iterator[list[Tensor]], rank: int, workers: int) -> Any:
    """Return a state for one of any number of workers.

    Rows are copied as they come, so a worker never holds more than its rows and those of one file.

    Args:
        state: the first worker's state, from `split_state`.
        others: the `split_tensors` of each of the others, in their order.
        workers: the number of workers that continue. For several, split tensors are `Rows`; for one they are whole.

    Raises:
        ValueError: if rows are missing, or do not fit.
    """
    entries = list(_entries(state))
    wanted = [rows_of(entry[SIZE][0], rank, workers) for entry in entries]
    sizes = [(max(0, rows.stop - rows.start), *entry[SIZE][1:]) for rows, entry in zip(wanted, entries, strict=True)]
    merged = [torch.empty(size, dtype=entry[ROWS].dtype) for size, entry in zip(sizes, entries, strict=True)]
    starts = [0] * len(entries)
    for tensors in chain([split_tensors(state)], others):
        for number, (rows, tensor) in enumerate(zip(wanted, tensors, strict=True)):
            start, stop = starts[number], starts[number] + len(tensor)
            first, last = max(start, rows.start), min(stop, rows.stop)
            if first < last:
                merged[number][first - rows.start : last - rows.start] = tensor[first - start : last - start]
            starts[number] = stop
    if starts != [entry[SIZE][0] for entry in entries]:
        raise ValueError("rows are missing")
    filled = iter(merged)

    def put(value: Any) -> Any:
        if not _is_split(value):
            return value
        tensor = next(filled)
        return tensor if workers == 1 else Rows(tensor, tuple(value[SIZE]))

    return _mapped(state, put)


def gathered(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the whole weights on the CPU of the first worker, gathered one by one; nothing on the others.

    All workers have to call it.
    """
    whole: dict[str, Tensor] = {}
    for name, tensor in state.items():
        full = getattr(tensor, "full_tensor", lambda whole=tensor: whole)()
        if dist.get_rank() == 0:
            whole[name] = full.detach().cpu()
    return whole


def _is_split(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {ROWS, SIZE}


def _entries(state: Any) -> Iterator[dict[str, Any]]:
    """Yield the dicts that replace split tensors, in order."""
    if _is_split(state):
        yield state
    elif isinstance(state, dict | list | tuple):
        for value in state.values() if isinstance(state, dict) else state:
            yield from _entries(value)


def _mapped(state: Any, of: Callable[[Any], Any]) -> Any:
    """Apply `of` to each value of a nest; a value that it changes is not searched further."""
    changed = of(state)
    if changed is not state:
        return changed
    if isinstance(state, dict):
        return {key: _mapped(value, of) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [_mapped(value, of) for value in state]
    return state
