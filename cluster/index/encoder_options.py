"""Declares how many actors encode texts for an index, and their resources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EncoderOptions:
    """Number and resources of the encoder actors.

    Only `cpu`, `gpu` and `precision` can change the vectors.

    Args:
        encoders: number of actors.
        cpu: cores per actor, or a share of one; torch uses as many threads.
        gpu: GPUs per actor, or a share of one.
        spread: place actors on different nodes, on free resources instead of the trial's placement group.
        precision: precision of the ranker's weights while it encodes; None keeps that of the ranker.
    """

    encoders: int = 1
    cpu: float = 1
    gpu: float = 0.0
    spread: bool = False
    precision: str | None = None

    @property
    def threads(self) -> int:
        """Threads of torch in each actor."""
        return max(1, int(self.cpu))
