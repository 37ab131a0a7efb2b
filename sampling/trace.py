"""Records, update by update, what a ranker was shown and how it scored it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampling.retrieval.function import RetrievalFunction


class Trace:
    """What each update was shown, a value a step: how hard negatives are while a ranker learns.

    The figures of a step: `positive` and `negative`, mean scores before the update; `misranked`, the share of
    negatives that score at least as high as their positive (nan where there was no negative); `function`, the
    chosen one by its place, −1 where a batch mixes them; `version` and `age` in steps of what the first chosen function
    with versions ranked by, −1 where none has.
    """

    FIGURES = {
        "positive": np.float32, "negative": np.float32, "misranked": np.float32,
        "function": np.int32, "version": np.int32, "age": np.int32,
    }  # fmt: skip

    def __init__(self) -> None:
        self.steps: list[tuple[float, ...]] = []

    def add(
        self,
        functions: Sequence[RetrievalFunction],
        assigned: NDArray[np.int64],
        negatives: NDArray[np.int32],
        scores: NDArray[np.float32],
    ) -> None:
        """Note a step.

        Args:
            functions: all there are.
            assigned: int64 [b, n], the place of each negative's, −1 for none.
            negatives: int32 [b, n], −1 for none.
            scores: float32 [b, 1 + n], the positive's first.
        """
        present = negatives >= 0
        positives, shown = scores[:, 0], scores[:, 1:]
        found, some = np.unique(assigned[assigned >= 0]), present.any()
        versioned = [functions[place] for place in found if functions[place].version >= 0]
        self.steps.append((
            float(positives.mean(dtype=np.float64)) if len(positives) else math.nan,
            float(shown[present].mean(dtype=np.float64)) if some else math.nan,
            float((shown >= positives[:, None])[present].mean()) if some else math.nan,
            int(found[0]) if len(found) == 1 else -1,
            versioned[0].version if versioned else -1,
            versioned[0].age if versioned else -1,
        ))  # fmt: skip

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Each figure by step [steps]."""
        columns = zip(*self.steps, strict=True) if self.steps else [()] * len(self.FIGURES)
        return {name: np.array(column, self.FIGURES[name]) for name, column in zip(self.FIGURES, columns, strict=True)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from `arrays`."""
        self.steps = list(zip(*(arrays[name].tolist() for name in self.FIGURES), strict=True))
