"""Sums gradients over the workers that train one ranker, by torch.distributed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ranking.row_gradients import wants_rows

BUCKET = 1 << 24
"""Numbers that are added up in one call: 64 MiB of float32, enough for the wire and little beside the gradients."""


def share_of(rank: int, workers: int, size: int) -> slice:
    """The rows of `size` that a worker takes: as even as they come, in the workers' order."""
    return slice(size * rank // workers, size * (rank + 1) // workers)


class AllReduce:
    """`ranking.training.GradientSync` over a process group: gradients are added up, so the step is that of one process.

    Every worker holds the same weights and draws the same batch and negatives. What an update costs is its own rows
    and one exchange of the gradients (Li et al. 2020, "PyTorch Distributed", without their overlap: gradients are
    exchanged once, after the last of the accumulated parts).

    Dropout masks depend on the rows that are scored together, so with dropout the numbers depend on how many workers
    there are. Without it only their rounding does: sums are taken in another order. Adam with its usual epsilon makes
    whole steps of gradients that are zero but for rounding (of a last bias under a softmax, which no loss sees), so
    that such weights drift apart, and scores with them, though the loss does not.
    """

    def __init__(self) -> None:
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        self._size = 0

    def rows(self, size: int) -> slice:
        """This worker's rows; none where the batch has fewer than there are workers."""
        self._size = size
        return share_of(self.rank, self.workers, size)

    def join(self, parameters: Sequence[nn.Parameter], loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Add up gradients and loss over all workers and gather the scores (see `GradientSync`)."""
        loss, whole, touched = self._exchange(parameters, loss, scores)
        for each, anywhere in zip(parameters, touched, strict=True):
            if anywhere and each.grad is None:
                each.grad = torch.zeros_like(each)
            elif each.grad is not None and each.grad.is_sparse:
                each.grad = each.grad.to_dense()
        add_up([each.grad for each in parameters if each.grad is not None])
        for each in parameters:
            if wants_rows(each) and each.grad is not None:
                each.grad = each.grad.to_sparse(1)  # those that any worker has read
        return loss, whole

    def _exchange(
        self, parameters: Sequence[nn.Parameter], loss: Tensor, scores: Tensor
    ) -> tuple[Tensor, Tensor, list[bool]]:
        """The loss, the scores of all rows, and which parameters have a gradient on any worker."""
        columns, rows = scores.shape[1], self.rows(self._size)
        # One small exchange for all that is not a gradient; float64 holds float32 scores exactly.
        small = scores.new_zeros(1 + len(parameters) + self._size * columns, dtype=torch.float64)
        touched, whole = small[1 : 1 + len(parameters)], small[1 + len(parameters) :].view(self._size, columns)
        small[0] = loss
        touched += torch.tensor([each.grad is not None for each in parameters], dtype=small.dtype, device=small.device)
        whole[rows] = scores.to(small.dtype)
        dist.all_reduce(small)
        return small[0], whole.to(scores.dtype), (touched > 0).tolist()


def add_up(tensors: Sequence[Tensor]) -> None:
    """Sum each tensor over all workers, in place, in few exchanges."""
    for bucket in _buckets(tensors):
        flat = torch.cat([each.reshape(-1) for each in bucket])
        dist.all_reduce(flat)
        for each, summed in zip(bucket, flat.split([each.numel() for each in bucket]), strict=True):
            each.copy_(summed.view_as(each))


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours of one type, as many as fit together."""
    bucket: list[Tensor] = []
    held = 0
    for each in tensors:
        if bucket and (held + each.numel() > BUCKET or each.dtype != bucket[0].dtype):
            yield bucket
            bucket, held = [], 0
        bucket.append(each)
        held += each.numel()
    if bucket:
        yield bucket
