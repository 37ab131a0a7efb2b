"""Defines an Adam that touches only the rows of a table that a step has read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn


class LazyAdam(torch.optim.Adam):
    """Adam (Kingma and Ba 2015) in which a row of a table without a gradient stays as it is, moments too.

    Plain Adam moves every row at every step, by what its moments remember, and so reads and writes three numbers for
    each of a table's. Of a table of trigrams or words a batch reads a few rows. They get the same step as from Adam,
    with the bias correction of the training's step; between two reads a row does not drift on, and its moments do not
    fade (as of torch's `SparseAdam` and TensorFlow's `LazyAdam`). So figures differ a little from Adam's.

    It asks rankers for gradients by rows (`Ranker.row_parameters`); all other weights are Adam's.

    Args:
        params: as of torch's optimizers.
        lr, betas, eps: as of Adam.
    """

    by_rows = True

    def __init__(self, params: Any, lr: float = 1e-3, betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        super().__init__(params, lr=lr, betas=tuple(betas), eps=eps, fused=True)  # type: ignore[arg-type]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of all weights that have a gradient."""
        by_rows: list[tuple[nn.Parameter, Tensor]] = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    gradient = parameter.grad.coalesce()
                    self._step_rows(parameter, gradient.indices()[0], gradient.values(), group)
                    by_rows.append((parameter, parameter.grad))
                    parameter.grad = None
        loss = super().step(closure)
        for parameter, gradient in by_rows:
            parameter.grad = gradient
        return loss

    def _step_rows(self, table: nn.Parameter, rows: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """Step the rows [n] of a table by their gradient [n, width]."""
        state = self.state[table]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        state["step"] += 1
        step, (beta, gamma) = float(state["step"]), group["betas"]
        rate = float(group["lr"]) / (1 - beta**step)
        fade = math.sqrt(1 - gamma**step)
        means, squares = state["exp_avg"], state["exp_avg_sq"]
        if table.device.type == "cpu" and table.dtype == torch.float32:
            _rows(
                table.detach().numpy(), means.numpy(), squares.numpy(), rows.numpy(), gradient.contiguous().numpy(),
                beta, gamma, rate, fade, group["eps"],
            )  # fmt: skip
            return
        mean = means[rows].lerp_(gradient, 1 - beta)
        square = squares[rows].mul_(gamma).addcmul_(gradient, gradient, value=1 - gamma)
        means[rows], squares[rows] = mean, square
        table[rows] -= rate * mean / (square.sqrt() / fade + group["eps"])


@njit(nogil=True, cache=True, fastmath={"contract"})
def _rows(table, means, squares, rows, gradient, beta, gamma, rate, fade, eps):  # type: ignore[no-untyped-def]  # pragma: no cover
    old, new = np.float32(beta), np.float32(1 - beta)
    kept, added = np.float32(gamma), np.float32(1 - gamma)
    by, rate, eps = np.float32(1 / fade), np.float32(rate), np.float32(eps)
    for place in range(len(rows)):
        row = rows[place]
        for column in range(table.shape[1]):
            slope = gradient[place, column]
            mean = old * means[row, column] + new * slope
            square = kept * squares[row, column] + added * slope * slope
            means[row, column], squares[row, column] = mean, square
            table[row, column] -= rate * mean / (by * np.sqrt(square) + eps)
