"""Makes the optimizer's steps: learning rate, scaled gradients, and gradients of several workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ranking.rankers.ranker import Ranker
from ranking.schedules.constant import Constant
from ranking.schedules.schedule import Schedule

OptimizerFactory = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class GradientSync(Protocol):
    """The workers that train one ranker together: each takes its rows of every batch and all make the same step."""

    def rows(self, size: int) -> slice:
        """This worker's rows of a batch of `size`; there may be none."""

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: float, scores: Tensor) -> tuple[float, Tensor]:
        """Add up the gradients of all workers, in place.

        Args:
            parameters: those that are trained; the gradient of one that this worker's rows do not touch is None.
            loss: this worker's share of the batch's loss.
            scores: [rows, 1 + n] of its rows.

        Returns:
            The loss of the whole batch, and the scores of all its rows.
        """


class SingleProcess:
    """One process trains."""

    def rows(self, size: int) -> slice:
        return slice(0, size)

    def join(self, parameters: Sequence[torch.nn.Parameter], loss: float, scores: Tensor) -> tuple[float, Tensor]:
        return loss, scores


class Optimization:
    """Takes gradients and makes steps of them.

    Args:
        ranker: whose weights are trained.
        factory: makes the optimizer from the parameters.
        schedule: of the learning rate; None keeps it.
        steps: that the training makes at most.
    """

    def __init__(self, ranker: Ranker, factory: OptimizerFactory, schedule: Schedule | None, steps: int) -> None:
        self.optimizer = factory([each for each in ranker.parameters() if each.requires_grad])
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
        self, loss: float, parameters: Iterable[torch.nn.Parameter], top: Iterable[torch.nn.Parameter]
    ) -> tuple[float, bool]:
        """Step, unless loss or gradient are not finite.

        Args:
            loss: of the batch.
            parameters: all that are trained.
            top: those over which the norm is told.

        Returns:
            ‖∇L‖₂ over `top`, and whether all was finite; an overflow of scaled gradients counts as finite, it skips
            the step and lowers the scale.
        """
        if not math.isfinite(loss):
            return 0.0, False
        self.scaler.unscale_(self.optimizer)
        norm = gradient_norm(top)
        finite = math.isfinite(gradient_norm(parameters))
        if not finite and not self.scaler.is_enabled():
            return norm, False
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm if math.isfinite(norm) else 0.0, True

    def state_dict(self) -> dict[str, Any]:
        """Of optimizer and scaler."""
        return {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])


def gradient_norm(parameters: Iterable[torch.nn.Parameter]) -> float:
    """‖∇L‖₂ over the parameters that have a gradient."""
    return float(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
