"""Takes a training's state apart into what each worker keeps of it, and puts it together for any number of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

ROWS, SIZE = "rows of a tensor", "of size"
"""Keys of a dict that stands in a state for a tensor of which a worker keeps some rows."""


@dataclass(frozen=True)
class Rows:
    """A worker's rows of a tensor that is split.

    Args:
        rows: [own rows, …].
        size: of the whole tensor.
    """

    rows: Tensor
    size: tuple[int, ...]


def rows_of(size: int, rank: int, workers: int) -> slice:
    """The rows that FSDP gives a worker: equally many each, the last workers what is left of them, or none."""
    each = -(-size // workers)
    return slice(min(size, rank * each), min(size, (rank + 1) * each))


def apart(state: Any) -> Any:
    """A state with this worker's rows in place of each tensor that is split, as `ranking.checkpoint` can keep it."""
    from torch.distributed.tensor import DTensor

    def take(value: Any) -> Any:
        if isinstance(value, DTensor):
            return {ROWS: value.to_local(), SIZE: list(value.shape)}
        return value

    return _mapped(state, take)


def split_tensors(state: Any) -> list[Tensor]:
    """The rows that a worker keeps, of one tensor after the other: the same ones in the same order on each worker.

    Args:
        state: of `apart`.
    """
    return [found[ROWS] for found in _found(state)]


def together(state: Any, others: Iterator[list[Tensor]], rank: int, workers: int) -> Any:
    """A state for one of any number of workers.

    Rows are copied as they come, so that a worker never holds more than its own and those of one file.

    Args:
        state: the first worker's, of `apart`.
        others: `split_tensors` of each of the others, in their order.
        rank, workers: who goes on, of how many. For several, tensors that are split are `Rows`; for one they are whole.

    Raises:
        ValueError: where rows are missing, or do not fit.
    """
    found = list(_found(state))
    wanted = [rows_of(each[SIZE][0], rank, workers) for each in found]
    sizes = [(max(0, rows.stop - rows.start), *each[SIZE][1:]) for rows, each in zip(wanted, found, strict=True)]
    own = [torch.empty(size, dtype=each[ROWS].dtype) for size, each in zip(sizes, found, strict=True)]
    starts = [0] * len(found)
    for tensors in _with_first(state, others):
        for place, (rows, tensor) in enumerate(zip(wanted, tensors, strict=True)):
            start, stop = starts[place], starts[place] + len(tensor)
            first, last = max(start, rows.start), min(stop, rows.stop)
            if first < last:
                own[place][first - rows.start : last - rows.start] = tensor[first - start : last - start]
            starts[place] = stop
    if starts != [each[SIZE][0] for each in found]:
        raise ValueError("rows are missing")
    filled = iter(own)

    def put(value: Any) -> Any:
        if not _is_split(value):
            return value
        tensor = next(filled)
        return tensor if workers == 1 else Rows(tensor, tuple(value[SIZE]))

    return _mapped(state, put)


def gathered(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The whole weights on the CPU of the first worker, gathered one by one; nothing on the others.

    All workers have to call it.

    Args:
        state: `state_dict` of a ranker, on a worker.
    """
    whole: dict[str, Tensor] = {}
    for name, tensor in state.items():
        full = getattr(tensor, "full_tensor", lambda own=tensor: own)()
        if dist.get_rank() == 0:
            whole[name] = full.detach().cpu()
    return whole


def _with_first(state: Any, others: Iterator[list[Tensor]]) -> Iterator[list[Tensor]]:
    yield split_tensors(state)
    yield from others


def _is_split(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {ROWS, SIZE}


def _found(state: Any) -> Iterator[dict[str, Any]]:
    """What stands for tensors that are split, in order."""
    if _is_split(state):
        yield state
    elif isinstance(state, dict | list | tuple):
        for each in state.values() if isinstance(state, dict) else state:
            yield from _found(each)


def _mapped(state: Any, of: Callable[[Any], Any]) -> Any:
    """A nest with `of` each of its values; one that `of` changes is not looked into."""
    changed = of(state)
    if changed is not state:
        return changed
    if isinstance(state, dict):
        return {key: _mapped(each, of) for key, each in state.items()}
    if isinstance(state, list | tuple):
        return [_mapped(each, of) for each in state]
    return state
