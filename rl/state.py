"""Describes a ranker's training to an agent before it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.training import Batch, RankerTraining, UpdateResult
from pyrite.rl.compression import Compressed
from pyrite.rl.similarity import STATISTICS

FEATURES = ("loss", "gradient", "step", "epoch", "validation")
Observation = dict[str, NDArray[np.float32]]


@checked
@dataclass(frozen=True)
class StateOptions:
    """How a state is described (`state` of the configuration).

    Args:
        features: features of the model and its training: any of loss, gradient, step, epoch (the paper's four) and
            validation (the last epoch's measure, 0 before the first).
        beta: β, the scale of the gradient's norm.
        weighting: weights of words in φ: `tf` counts each occurrence as 1, `idf` as the word's idf.
        batch: whether the agent sees the matrix B of the incoming batch.

    Raises:
        BadInput: if a feature or weighting is unknown, or β is not above 0.
    """

    features: Sequence[str] = FEATURES[:4]
    beta: Annotated[float, Positive] = 1.0
    weighting: Literal["tf", "idf"] = "tf"
    batch: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        unknown = [name for name in self.features if name not in FEATURES]
        refuse(
            bool(unknown) or not self.features,
            f"features are {list(self.features)}",
            "state.features",
            f"choose among {', '.join(FEATURES)}",
        )


@dataclass(frozen=True)
class StateTables:
    """Constant tables that states are looked up in, shared by all copies on a host.

    Args:
        similarity: by function, float32 [queries, 4] (see `pyrite.rl.similarity.similarity_table`).
        pairs: |b|, the pairs of a full batch.
        candidates: M of each query, float32 [queries, s_d, 5] (see `pyrite.rl.candidates.candidate_table`); None unless
            the agent picks documents.
    """

    options: StateOptions
    compressed: Compressed
    similarity: dict[str, NDArray[np.float32]]
    pairs: int
    candidates: NDArray[np.float32] | None = None

    @property
    def space(self) -> spaces.Dict:
        """The observation space: every feature is bounded."""
        low, high = np.float32(-1), np.float32(1)
        shapes: dict[str, tuple[int, ...]] = {"similarity": (self.pairs, len(self.similarity), len(STATISTICS))}
        if self.options.batch:
            shapes["batch"] = (2 * self.pairs, self.compressed.dimension)
        if self.candidates is not None:
            shapes["candidates"] = (self.pairs, *self.candidates.shape[1:])
        return spaces.Dict(
            {
                "model": spaces.Box(0, 1, (len(self.options.features),), np.float32),
                "present": spaces.Box(0, 1, (self.pairs,), np.float32),
                **{name: spaces.Box(low, high, shape, np.float32) for name, shape in shapes.items()},
            }
        )


class State:
    """One training as the agent sees it (Cohen et al. 2019, section 3.1.2 and figure 1).

    The model's features are the loss of the last batch over the largest loss so far (1 before the first),
    β‖∇L‖₂ / (1 + β‖∇L‖₂) of the top layers, t/T_e, and e / (1 + e). They are followed by the matrix B of the incoming
    batch and the similarity statistics of its queries for each function. A value that is not finite is replaced by the
    bound that it passed, so no NaN or infinity reaches the agent.
    """

    def __init__(self, tables: StateTables) -> None:
        self.tables = tables
        self.loss, self.largest, self.gradient = 1.0, 1.0, 0.0

    def note(self, step: UpdateResult, first: bool) -> None:
        """Record the result of an update. The loss of the `first` one of an episode sets the scale."""
        loss = _bounded(abs(step.loss), 1e6)
        self.largest = max(loss, 1e-6) if first else max(self.largest, loss)
        self.loss, self.gradient = loss, _bounded(step.gradient_norm, 1e6)

    def observe(self, batch: Batch, training: RankerTraining) -> Observation:
        """Return the state before `batch` is trained on."""
        pairs, queries = self.tables.pairs, batch.queries
        refuse(len(batch) > pairs, f"a batch has {len(batch)} pairs and the agent reads {pairs}", "training.batch_size")
        present = np.zeros(pairs, np.float32)
        present[: len(batch)] = 1
        tables = self.tables.similarity.values()
        similarity = np.zeros((pairs, len(tables), len(STATISTICS)), np.float32)
        for index, table in enumerate(tables):
            similarity[: len(batch), index] = table[queries]
        observation = {
            "model": self._model(training),
            "present": present,
            "similarity": np.nan_to_num(np.clip(similarity, -1, 1)),
        }
        if self.tables.options.batch:
            observation["batch"] = np.nan_to_num(np.clip(self.tables.compressed.matrix(batch, pairs), -1, 1))
        if self.tables.candidates is not None:
            candidates = np.zeros((pairs, *self.tables.candidates.shape[1:]), np.float32)
            candidates[: len(batch)] = self.tables.candidates[queries]
            observation["candidates"] = np.nan_to_num(np.clip(candidates, -1, 1))
        return observation

    def _model(self, training: RankerTraining) -> NDArray[np.float32]:
        scaled = self.tables.options.beta * self.gradient
        validation = training.validations[-1] if training.validations else 0.0
        features = {
            "loss": self.loss / self.largest,
            "gradient": scaled / (1 + scaled),
            "step": training.position / max(len(training.examples), 1),
            # Not relative to the limit: the first epoch differs most from the rest of the training.
            "epoch": training.epoch / (1 + training.epoch),
            "validation": _bounded(validation, 1.0) if validation == validation else 0.0,
        }
        return np.array([_bounded(features[name], 1.0) for name in self.tables.options.features], np.float32)

    def state_dict(self) -> dict[str, Any]:
        """Return what the state of a resumed training needs."""
        return {"loss": self.loss, "largest": self.largest, "gradient": self.gradient}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.loss, self.largest, self.gradient = state["loss"], state["largest"], state["gradient"]


def _bounded(value: float, highest: float) -> float:
    """Return the value within 0 … `highest`; NaN and infinity become `highest`."""
    return min(max(value, 0.0), highest) if value == value else highest
