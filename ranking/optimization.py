"""Makes the optimizer's steps: learning rate, scaled gradients, and gradients of several workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Protocol

import torch
from torch import Tensor

from pyrite.ranking.batch import UpdateResult
from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.row_gradients import mark_rows
from pyrite.ranking.schedules import Constant, RateSchedule

OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class GradientSync(Protocol):
    """The workers that train one ranker together: each takes its rows of every batch and all make the same step."""

    def rows(self, size: int) -> slice:
        """Return this worker's rows of a batch of `size`; possibly none."""

    def last_backward(self, parameters: Sequence[torch.nn.Parameter]) -> AbstractContextManager[object]:
        """Return a context for the backward pass that completes this worker's gradients, to exchange them meanwhile.

        A worker without rows has no such pass. The trained parameters are in order, from the input up.
        """

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Add up the gradients of all workers, in place; return the loss and the scores of the whole batch.

        Args:
            parameters: the trained parameters. The gradient of one that this worker's rows do not use is None.
            loss: this worker's share of the batch loss, a scalar.
            scores: [rows, 1 + n], the scores of its rows.
        """

    def total(self, share: Tensor) -> Tensor:
        """Return the sum of all workers' shares of a loss, a scalar."""


class SingleProcess:
    """The gradient exchange of a single process, which does nothing."""

    def rows(self, size: int) -> slice:
        return slice(0, size)

    def last_backward(self, parameters: Sequence[torch.nn.Parameter]) -> AbstractContextManager[object]:
        return nullcontext()

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return loss, scores

    def total(self, share: Tensor) -> Tensor:
        return share


class Optimization:
    """The optimizer with its learning-rate schedule, gradient scaling and clipping.

    Args:
        schedule: the learning-rate schedule. None keeps the rate constant.
        steps: the maximum number of steps of the training.
        clip_norm: the maximum norm of the gradient of all weights; a longer one is scaled down to it (Pascanu et al.
            2013, algorithm 1). None does not clip.
    """

    @checked
    def __init__(
        self,
        ranker: Ranker,
        factory: OptimizerFactory,
        schedule: RateSchedule | None,
        steps: int,
        clip_norm: Annotated[float, Positive] | None = None,
    ) -> None:
        self.clip_norm = math.inf if clip_norm is None else clip_norm
        self.optimizer = without_decay(factory([weight for weight in ranker.parameters() if weight.requires_grad]))
        if getattr(self.optimizer, "by_rows", False):
            mark_rows(ranker.row_parameters())
        self.schedule, self.steps = schedule or Constant(), steps
        self._rates = [group["lr"] for group in self.optimizer.param_groups]
        # float16 gradients underflow unless the loss is scaled up; for other precisions this does nothing.
        self.scaler = torch.amp.GradScaler(ranker.device.type, enabled=ranker.needs_grad_scaler)

    def begin(self, step: int) -> None:
        """Set the learning rate of a step, counted from 0, and clear the last gradients."""
        factor = self.schedule.factor(step, self.steps)
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self.optimizer.zero_grad(set_to_none=True)

    def add(self, loss: Tensor) -> None:
        """Add the gradients of a part of the batch."""
        self.scaler.scale(loss).backward()

    def finish(
        self,
        loss: Tensor,
        scores: Tensor,
        parameters: Sequence[torch.nn.Parameter],
        top: Iterable[torch.nn.Parameter],
    ) -> tuple[UpdateResult, bool]:
        """Make a step, unless loss or gradient are not finite.

        All results of the step are read from the device at once, so the process waits for it a single time.

        Returns:
            The result, with ‖∇L‖₂ over `top`, and whether all was finite. An overflow of scaled gradients counts as
            finite: it skips the step and lowers the scale.
        """
        self.scaler.unscale_(self.optimizer)
        norms = [norm.to(loss).float() for norm in _norms(list(top), parameters)]
        numbers = torch.cat([torch.stack([loss.float(), *norms]), scores.float().flatten()]).cpu().numpy()
        of_batch, norm, whole = numbers[:3].tolist()
        seen = numbers[3:].reshape(tuple(scores.shape))
        if not math.isfinite(of_batch):
            return UpdateResult(of_batch, 0.0, seen), False
        if not math.isfinite(whole) and not self.scaler.is_enabled():
            return UpdateResult(of_batch, norm, seen), False
        if self.clip_norm < whole < math.inf:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(self.clip_norm / whole)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return UpdateResult(of_batch, norm if math.isfinite(norm) else 0.0, seen), True

    def state_dict(self) -> dict[str, Any]:
        """Return the states of optimizer and scaler."""
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])


def without_decay(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return the optimizer without weight decay for norms, biases and other parameters of one dimension.

    They keep the other options of their group, such as its learning rate.

    Decay is for matrices, whose size it holds down; pulling a norm's scale or a bias to 0 only does harm (the released
    code of Devlin et al. does the same). An optimizer without decay is returned unchanged.
    """
    groups = list(optimizer.param_groups)
    for group in groups:
        vectors = [weight for weight in group["params"] if weight.dim() < 2]
        if group.get("weight_decay") and vectors:
            group["params"] = [weight for weight in group["params"] if weight.dim() >= 2]
            optimizer.add_param_group(group | {"params": vectors, "weight_decay": 0.0})
    optimizer.param_groups = [group for group in optimizer.param_groups if group["params"]]
    return optimizer


def _norms(top: Sequence[torch.nn.Parameter], parameters: Sequence[torch.nn.Parameter]) -> tuple[Tensor, Tensor]:
    """Return the gradient norms over the top layers and over all parameters, of which the top may be all."""
    whole = gradient_norm(parameters)
    same = len(top) == len(parameters) and all(one is other for one, other in zip(top, parameters, strict=True))
    return (whole if same else gradient_norm(top)), whole


def gradient_norm(parameters: Iterable[torch.nn.Parameter]) -> Tensor:
    """Return ‖∇L‖₂ over the parameters that have a gradient, a scalar on their device."""
    gradients = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    # The norm of gradients that are split over workers is that of all of them.
    return getattr(norm, "full_tensor", lambda: norm)()
