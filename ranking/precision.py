"""Chooses the precision in which transformers compute."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final, Literal

from pyrite.ranking.lazy import torch

AUTO: Final = "auto"
"""The precision that a processor multiplies in fastest, without a loss that measures show."""
PRECISIONS = ("float32", "bfloat16", "float16")
Precision = Literal["auto", "float32", "bfloat16", "float16"]
FLAGS = {"amx_bf16", "avx512_bf16"}
"""What a processor that multiplies in bfloat16 has among its flags on Linux."""
CPUINFO = Path("/proc/cpuinfo")
CAPABILITY = (8, 0)
"""The compute capability from which CUDA's GPUs multiply in bfloat16."""
CHOSEN = "PYRITE_PRECISION"
"""An environment variable that replaces the choice, for machines that should all compute alike."""


def best_precision(gpu: bool) -> str:
    """Return bfloat16 if this machine multiplies in it, and float32 otherwise.

    Args:
        gpu: whether the machine's GPU computes, if it has one.
    """
    if chosen := os.environ.get(CHOSEN):
        return chosen
    return "bfloat16" if multiplies_in_bfloat16(gpu) else "float32"


def multiplies_in_bfloat16(gpu: bool) -> bool:
    """Return whether this machine's GPU or processor multiplies in bfloat16, rather than converting it."""
    if gpu and torch.cuda.is_available():
        return torch.cuda.get_device_capability() >= CAPABILITY
    return _cpu_multiplies()


@cache
def _cpu_multiplies() -> bool:
    try:
        lines = CPUINFO.read_text("utf-8", "replace").splitlines()
    except OSError:  # another system, whose processors are not distinguished
        return False
    return any(line.startswith("flags") and FLAGS & set(line.split()) for line in lines)
