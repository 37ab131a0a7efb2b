"""Defines an Adam that updates only the rows of a table that a step has read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn


class LazyAdam(torch.optim.Adam):
    """Adam (Kingma and Ba 2015) that leaves a row of a table without a gradient unchanged, moments too.

    Plain Adam moves every row at every step, by its moments, and so reads and writes three numbers for each number of a
    table. A batch reads few rows of a table of trigrams or words. They get the same step as from Adam, with the bias
    correction of the training's step; between two reads a row does not drift, and its moments do not decay (as in
    torch's `SparseAdam` and TensorFlow's `LazyAdam`). So results differ a little from Adam's.

    It uses gradients by rows (`Ranker.row_parameters`); all other weights are updated as by Adam.

    Args:
        params: the parameters, as for torch's optimizers.
        lr: the learning rate.
        betas: the decay rates of the two moments.
        eps: the constant added to the denominator.
    """

    by_rows = True

    def __init__(self, params: Any, lr: float = 1e-3, betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        super().__init__(params, lr=lr, betas=tuple(betas), eps=eps, fused=True)  # type: ignore[arg-type]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Make one step of all weights that have a gradient."""
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
        """Update the rows [n] of a table by their gradient [n, width]."""
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
    for index in range(len(rows)):
        row = rows[index]
        for column in range(table.shape[1]):
            slope = gradient[index, column]
            mean = old * means[row, column] + new * slope
            square = kept * squares[row, column] + added * slope * slope
            means[row, column], squares[row, column] = mean, square
            table[row, column] -= rate * mean / (by * np.sqrt(square) + eps)
