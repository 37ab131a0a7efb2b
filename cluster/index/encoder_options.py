"""Declares how many actors encode texts for an index, and what each takes of the cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EncoderOptions:
    """How many actors encode, and what each of them takes.

    The vectors depend on none of it but `cpu`, `gpu` and `precision`.

    Args:
        encoders: actors.
        cpu: cores of each, or the share of one; torch has as many threads.
        gpu: GPUs of each, or the share of one.
        spread: over machines, where they take what is free and not their share of a trial's placement group.
        precision: in which they read; None: the ranker's own.
    """

    encoders: int = 1
    cpu: float = 1
    gpu: float = 0.0
    spread: bool = False
    precision: str | None = None

    @property
    def threads(self) -> int:
        """Of torch, in each."""
        return max(1, int(self.cpu))
