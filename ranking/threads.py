"""Limits the threads with which PyTorch computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyrite.ranking.lazy import torch


def use_threads(cores: float) -> None:
    """Compute with a thread per core, at least one. The last bits of a sum depend on their number."""
    torch.set_num_threads(max(1, int(cores)))


@contextmanager
def threads(cores: float) -> Iterator[None]:
    """Compute with a thread per core within, at least one."""
    before = torch.get_num_threads()
    use_threads(cores)
    try:
        yield
    finally:
        torch.set_num_threads(before)
