"""Describes what an objective sees of a batch: queries, documents, their gains and how they were found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.encoding import EncodedCollection


@dataclass(frozen=True)
class Block:
    """Documents of each query of a batch: its positive in column 0, negatives in the others.

    Args:
        present: bool [b, 1 + n], False where a query fell short of negatives.
        queries: int64 [b], indices in the collection; None where scores were made up.
        documents: int64 [b, 1 + n], −1 where there is none; None likewise.
        find_gains: gives the judged grades, asked for at most once and only if an objective reads them.
        find_source_scores: gives the scores of the functions that supplied the negatives, likewise.
    """

    present: Tensor
    queries: Tensor | None = None
    documents: Tensor | None = None
    find_gains: Callable[[], Tensor] | None = None
    find_source_scores: Callable[[], Tensor] | None = None
    _found: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        encoded: EncodedCollection,
        queries: NDArray[np.integer],
        documents: NDArray[np.integer],
        source_scores: NDArray[np.floating] | None = None,
        device: torch.device | str = "cpu",
    ) -> Block:
        """A block of a collection.

        Args:
            encoded: the collection.
            queries: int [b].
            documents: int [b, 1 + n], −1 for none.
            source_scores: [b, n], of the negatives, nan where a function has none; None where nothing is known.
            device: where the tensors go.
        """

        def gains() -> Tensor:
            return torch.from_numpy(encoded.judgements.lookup(queries, documents)).float().to(device)

        def scores() -> Tensor:
            found = np.full(documents.shape, np.nan, np.float32)
            if source_scores is not None:
                found[:, 1:] = source_scores
            return torch.from_numpy(found).to(device)

        return cls(
            torch.from_numpy(documents >= 0).to(device),
            torch.from_numpy(np.asarray(queries, np.int64)).to(device),
            torch.from_numpy(np.asarray(documents, np.int64)).to(device),
            gains,
            scores,
        )

    @property
    def gains(self) -> Tensor:
        """float32 [b, 1 + n], the judged grades; 0 where a document is not judged, or there is none."""
        if "gains" not in self._found:
            assert self.find_gains is not None, "no judgements are known of this block"
            self._found["gains"] = self.find_gains()
        return self._found["gains"]

    @property
    def source_scores(self) -> Tensor:
        """float32 [b, 1 + n], the scores by which the functions found the documents; nan where they have none.

        The positive is not found by a function, and has none: a part of the objective's own (`Objective.rank`) may
        hold scores of positives too.
        """
        if "scores" not in self._found:
            assert self.find_source_scores is not None, "no function has supplied this block"
            self._found["scores"] = self.find_source_scores()
        return self._found["scores"]
