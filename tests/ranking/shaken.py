"""Arithmetic whose last bits depend on a row's place in its block, as a processor with matrix units has it."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F


def shake(monkeypatch: pytest.MonkeyPatch, size: float = 3e-7) -> None:
    """Have every fully connected layer round by the row's place and the block's size: some rows up, some down.

    Args:
        monkeypatch: puts the layer back.
        size: of the rounding, relative; a float32 has a precision of 6·10⁻⁸.
    """
    linear = F.linear

    def uneven(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        found = linear(inputs, weight, bias)
        rows = found.detach().flatten(0, -2)
        places = torch.arange(len(rows), device=rows.device)
        shift = ((places * 7 + len(rows)) % 5 - 2).to(found.dtype) * (size / 2)
        return found * (1 + shift[:, None].view(*found.shape[:-1], 1))

    monkeypatch.setattr(F, "linear", uneven)


def pytest_configure(config: Any) -> None:
    """As a plugin (`pytest -p tests.ranking.shaken`): all tests run on such a processor."""
    shake(pytest.MonkeyPatch())
