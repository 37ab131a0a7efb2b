"""Sums the gradients of the workers that train one ranker, by torch.distributed, while they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pyrite.ranking.row_gradients import wants_rows

BUCKET = 1 << 22
"""Numbers per call: 16 MiB of float32, which uses the network well and is complete early."""


def share_of(rank: int, workers: int, size: int) -> slice:
    """Return the rows of `size` that a worker takes: as even as possible, in the workers' order."""
    return slice(size * rank // workers, size * (rank + 1) // workers)


class WorkerRows:
    """Assigns each worker its rows of every batch."""

    def __init__(self) -> None:
        self.rank, self.workers = dist.get_rank(), dist.get_world_size()
        self._size = 0

    def rows(self, size: int) -> slice:
        """Return this worker's rows; none if the batch has fewer rows than there are workers."""
        self._size = size
        return share_of(self.rank, self.workers, size)


class AllReduce(WorkerRows):
    """`pyrite.ranking.training.GradientSync` over a process group: gradients are added up, so the step is that of one
    process.

    Every worker holds the same weights and draws the same batch and negatives. An update costs a worker its rows and
    one exchange of the gradients, which begins during the last backward pass (Li et al. 2020, "PyTorch Distributed",
    section 3.2): parameters are put into buckets from the output down, in the order of their gradients, and a bucket is
    exchanged as soon as it and all before it are complete.

    `DistributedDataParallel` does not fit: it wraps a model's `forward`, and a ranker is also called by
    `represent_queries` and `interact`, in several passes per backward pass.

    Dropout masks depend on the rows that are scored together, so with dropout the numbers depend on the number of
    workers. Without dropout only the rounding does, because sums are taken in another order. Adam with its usual
    epsilon turns gradients that are zero but for rounding into whole steps (for a last bias under a softmax, on which
    no loss depends), so such weights drift apart, and scores with them, though the loss does not.
    """

    _exchange: _Exchange | None = None

    @contextmanager
    def last_backward(self, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
        self._exchange = exchange = _Exchange(parameters)
        hooks = [parameter.register_post_accumulate_grad_hook(exchange.complete) for parameter in parameters]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def join(self, parameters: Sequence[nn.Parameter], loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        mine = [parameter.grad is not None for parameter in parameters]
        exchange, self._exchange = self._exchange or _Exchange(parameters), None
        exchange.finish()  # a worker without rows has begun none, and one with rows none that lacks a gradient
        loss, whole, touched = share_scores(self._size, loss, scores, mine)
        for parameter, anywhere in zip(parameters, touched, strict=True):
            if not anywhere:
                parameter.grad = None
            elif wants_rows(parameter):
                assert parameter.grad is not None
                parameter.grad = parameter.grad.to_sparse(1)  # the rows that any worker has read
        return loss, whole

    def total(self, share: Tensor) -> Tensor:
        whole = share.double()  # as in `share_scores`
        dist.all_reduce(whole)
        return whole.float()


def share_scores(
    size: int, loss: Tensor, scores: Tensor, marks: Sequence[bool] = ()
) -> tuple[Tensor, Tensor, list[bool]]:
    """Exchange loss, scores and some marks of an update in one call, each worker those of its rows.

    Args:
        size: rows of the batch.
        marks: equally many on each worker.

    Returns:
        The sum of the losses, the scores of all rows, and which marks any worker has.
    """
    columns, rows = scores.shape[1], share_of(dist.get_rank(), dist.get_world_size(), size)
    # float64 holds float32 scores exactly.
    small = scores.new_zeros(1 + len(marks) + size * columns, dtype=torch.float64)
    marked, whole = small[1 : 1 + len(marks)], small[1 + len(marks) :].view(size, columns)
    small[0] = loss
    marked += torch.tensor(marks, dtype=small.dtype, device=small.device)
    whole[rows] = scores.to(small.dtype)
    dist.all_reduce(small)
    return small[0], whole.to(scores.dtype), (marked > 0).tolist()


class _Exchange:
    """The exchange of the gradients of one update; all workers send buckets in the same order, from the output down."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._buckets = list(_buckets(parameters[::-1]))
        self._bucket_of = {id(parameter): index for index, bucket in enumerate(self._buckets) for parameter in bucket}
        self._missing = [len(bucket) for bucket in self._buckets]
        self._complete: set[int] = set()
        self._started: list[dist.Work] = []

    def complete(self, parameter: Tensor) -> None:
        """Mark the gradient of a parameter as complete, and exchange the buckets that it completes."""
        if id(parameter) in self._complete:
            # Its gradient may be in transit: the other workers would miss what is added now.
            raise RuntimeError("a gradient came in two parts; checkpoint with use_reentrant=False")
        self._complete.add(id(parameter))
        self._missing[self._bucket_of[id(parameter)]] -= 1
        while len(self._started) < len(self._buckets) and not self._missing[len(self._started)]:
            self._start()

    def finish(self) -> None:
        """Exchange the remaining buckets, with zeros for missing gradients, and wait for all of them."""
        while len(self._started) < len(self._buckets):
            self._start()
        for work in self._started:
            work.wait()

    def _start(self) -> None:
        """Start adding up the next bucket. Its gradients become views of the exchanged tensor, which saves memory."""
        bucket = self._buckets[len(self._started)]
        gradients = (torch.zeros_like(each) if each.grad is None else each.grad.to_dense() for each in bucket)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        for parameter, gradient in zip(bucket, flat.split([parameter.numel() for parameter in bucket]), strict=True):
            parameter.grad = gradient.view_as(parameter)
        work = dist.all_reduce(flat, async_op=True)
        assert work is not None
        self._started.append(work)


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yield neighbouring parameters of one type, as many as fit into a bucket."""
    bucket: list[nn.Parameter] = []
    held = 0
    for parameter in parameters:
        if bucket and (held + parameter.numel() > BUCKET or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket, held = [], 0
        bucket.append(parameter)
        held += parameter.numel()
    if bucket:
        yield bucket
