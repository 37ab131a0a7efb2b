"""Runs a function in two processes that form one group: rank 0 is this process, rank 1 is started beside it."""

import multiprocessing
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

LIMIT = timedelta(seconds=60)
"""For one exchange: where a worker fails, the other is not to wait half an hour."""


def in_two_processes(folder: Path, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What the work returns in each of them; the arguments are handed to the other."""
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    group = str(folder / "store"), work, *arguments
    process = context.Process(target=_other, args=(told, *group))
    process.start()
    first = _in_group(0, *group)
    second = told.get(timeout=600)
    process.join(60)
    return [first, second]


def _in_group(rank: int, file: str, work: Callable[..., Any], *arguments: Any) -> Any:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2, timeout=LIMIT)
    try:
        return work(*arguments)
    finally:
        dist.destroy_process_group()


def _other(told: Any, *arguments: Any) -> None:
    told.put(_in_group(1, *arguments))
