"""Stops a training that does not improve, and keeps the best weights for each origin of candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn


class EarlyStopping:
    """The history of validations, with the best weights.

    Args:
        origins: the origins of validation candidates. The first one leads: its values are reported.
        patience: the number of validations without a better value, for any origin, after which to stop.
    """

    def __init__(self, origins: Sequence[str], patience: int) -> None:
        self.patience = patience
        self.values: dict[str, list[float]] = {origin: [] for origin in origins}
        self.best_epochs = dict.fromkeys(origins, 0)
        self._best_checks = dict.fromkeys(origins, 0)
        self._weights: dict[str, dict[str, Tensor]] = {}

    @property
    def leading(self) -> str:
        """The first origin, whose values are reported."""
        return next(iter(self.values))

    @property
    def waited(self) -> bool:
        """Whether no origin has had a better value for `patience` validations."""
        checks = len(self.values[self.leading])
        return checks > 0 and all(checks - best >= self.patience for best in self._best_checks.values())

    def note(self, values: Mapping[str, float], epoch: int, model: nn.Module) -> None:
        """Record the values of a validation, and the weights if they are better than any before.

        Args:
            values: values by origin; nan if the training has diverged.
            epoch: the epoch in which they were measured, from 1.
        """
        weights: dict[str, Tensor] | None = None
        for origin, value in values.items():
            before = self.values[origin]
            if not math.isnan(value) and value > max(before, default=-math.inf):
                if weights is None:  # one copy for all origins for which it is the best
                    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
                self._weights[origin] = weights
                self.best_epochs[origin], self._best_checks[origin] = epoch, len(before) + 1
            before.append(value)

    def best_weights(self, origin: str | None = None) -> dict[str, Tensor] | None:
        """Return the best weights for an origin, for the leading one if it is unknown; None if there are none yet."""
        return self._weights.get(origin if origin in self.values else self.leading)

    def state_dict(self) -> dict[str, Any]:
        """Return the values and the best weights. Weights that several origins share are kept once."""
        kept: list[dict[str, Tensor]] = []
        places = {}
        for origin, weights in self._weights.items():
            index = next((index for index, other in enumerate(kept) if other is weights), len(kept))
            kept += [weights] if index == len(kept) else []
            places[origin] = index
        return {
            "values": {origin: list(values) for origin, values in self.values.items()},
            "best_epochs": dict(self.best_epochs),
            "best_checks": dict(self._best_checks),
            "places": places,
            "weights": kept,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.values = {origin: list(values) for origin, values in state["values"].items()}
        self.best_epochs, self._best_checks = dict(state["best_epochs"]), dict(state["best_checks"])
        self._weights = {origin: state["weights"][index] for origin, index in state["places"].items()}
