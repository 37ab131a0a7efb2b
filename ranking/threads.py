"""Limits the threads with which PyTorch computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyrite.ranking.lazy import torch


@contextmanager
def threads(cores: float) -> Iterator[None]:
    """Compute with a thread per core within, at least one."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, int(cores)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
