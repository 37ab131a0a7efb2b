"""Makes the optimizer's steps: learning rate, scaled gradients, and gradients of several workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.batch import UpdateResult
from ranking.errors import BadInput
from ranking.rankers.ranker import Ranker
from ranking.row_gradients import mark_rows
from ranking.schedules.constant import Constant
from ranking.schedules.schedule import Schedule

OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class GradientSync(Protocol):
    """The workers that train one ranker together: each takes its rows of every batch and all make the same step."""

    def rows(self, size: int) -> slice:
        """This worker's rows of a batch of `size`; there may be none."""

    def last_backward(self, parameters: Sequence[torch.nn.Parameter]) -> AbstractContextManager[object]:
        """Around the backward pass that completes this worker's gradients: they may be exchanged as it does.

        A worker without rows has none.

        Args:
            parameters: those that are trained, from the input up.
        """

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Add up the gradients of all workers, in place.

        Args:
            parameters: those that are trained; the gradient of one that this worker's rows do not touch is None.
            loss: this worker's share of the batch's loss, a scalar.
            scores: [rows, 1 + n] of its rows.

        Returns:
            The loss of the whole batch, and the scores of all its rows.
        """


class SingleProcess:
    """One process trains."""

    def rows(self, size: int) -> slice:
        return slice(0, size)

    def last_backward(self, parameters: Sequence[torch.nn.Parameter]) -> AbstractContextManager[object]:
        return nullcontext()

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        return loss, scores


class Optimization:
    """Takes gradients and makes steps of them.

    Args:
        ranker: whose weights are trained.
        factory: makes the optimizer from the parameters.
        schedule: of the learning rate; None keeps it.
        steps: that the training makes at most.
        clip_norm: the longest that the gradient of all weights may be; a longer one is scaled down to it (Pascanu et
            al. 2013, algorithm 1). None leaves gradients alone.

    Raises:
        BadInput: where the longest is not above 0.
    """

    def __init__(
        self,
        ranker: Ranker,
        factory: OptimizerFactory,
        schedule: Schedule | None,
        steps: int,
        clip_norm: float | None = None,
    ) -> None:
        if clip_norm is not None and not clip_norm > 0:
            raise BadInput(f"clip_norm is {clip_norm}", "training.clip_norm", "choose a number above 0")
        self.clip_norm = clip_norm
        self.optimizer = without_decay(factory([each for each in ranker.parameters() if each.requires_grad]))
        if getattr(self.optimizer, "by_rows", False):
            mark_rows(ranker.row_parameters())
        self.schedule, self.steps = schedule or Constant(), steps
        self._rates = [group["lr"] for group in self.optimizer.param_groups]
        # float16 gradients underflow unless the loss is scaled up; for other precisions this does nothing.
        self.scaler = torch.amp.GradScaler(ranker.device.type, enabled=ranker.needs_grad_scaler)

    def begin(self, step: int) -> None:
        """Set the learning rate of a step, from 0 up, and forget the last gradients."""
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
        """Step, unless loss or gradient are not finite.

        All that the step has to tell is read from the device at once, so that it waits for it a single time.

        Args:
            loss: of the batch.
            scores: [b, 1 + n], of the batch.
            parameters: all that are trained.
            top: those over which the norm is told.

        Returns:
            What the step showed, with ‖∇L‖₂ over `top`, and whether all was finite; an overflow of scaled gradients
            counts as finite, it skips the step and lowers the scale.
        """
        self.scaler.unscale_(self.optimizer)
        norms = [gradient_norm(each).to(loss).float() for each in (top, parameters)]
        told = to_host(torch.cat([torch.stack([loss.float(), *norms]), scores.float().flatten()]))
        of_batch, norm, whole = told[:3].tolist()
        seen = told[3:].reshape(tuple(scores.shape))
        if not math.isfinite(of_batch):
            return UpdateResult(of_batch, 0.0, seen), False
        if not math.isfinite(whole) and not self.scaler.is_enabled():
            return UpdateResult(of_batch, norm, seen), False
        if math.isfinite(whole) and self.clip_norm is not None and whole > self.clip_norm:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.mul_(self.clip_norm / whole)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return UpdateResult(of_batch, norm if math.isfinite(norm) else 0.0, seen), True

    def state_dict(self) -> dict[str, Any]:
        """Of optimizer and scaler."""
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])


def without_decay(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer, with no weight decay for norms, biases and all else of one dimension.

    Decay is for matrices, whose size it holds down; a norm's scale or a bias that is drawn to 0 is only worse (Devlin
    et al.'s released code does the same). One without decay stays as it is.
    """
    groups = list(optimizer.param_groups)
    for group in groups:
        vectors = [each for each in group["params"] if each.dim() < 2]
        if group.get("weight_decay") and vectors:
            group["params"] = [each for each in group["params"] if each.dim() >= 2]
            optimizer.add_param_group({"params": vectors, "weight_decay": 0.0})
    optimizer.param_groups = [group for group in optimizer.param_groups if group["params"]]
    return optimizer


def gradient_norm(parameters: Iterable[torch.nn.Parameter]) -> Tensor:
    """‖∇L‖₂ over the parameters that have a gradient, a scalar on their device."""
    gradients = [p.grad.coalesce().values() if p.grad.is_sparse else p.grad for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    # Of gradients that are split over workers it is over all of them.
    return getattr(norm, "full_tensor", lambda: norm)()


def to_host(tensor: Tensor) -> NDArray[np.float32]:
    """What a step reads from its device."""
    return tensor.cpu().numpy()
