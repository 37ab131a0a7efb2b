"""Describes what an objective sees of a batch: queries, documents, their gains and how they were found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ranking.encoding import EncodedCollection
from ranking.pair_scores import PairScores
from ranking.teachers import no_teacher


@dataclass(frozen=True)
class Block:
    """Documents of each query of a batch: its positive in column 0, negatives in the others.

    Args:
        present: bool [b, 1 + n], False where a query fell short of negatives.
        queries: int64 [b], indices in the collection; None where scores were made up.
        documents: int64 [b, 1 + n], −1 where there is none; None likewise.
        find_gains: gives the judged grades, asked for at most once and only if an objective reads them.
        find_source_scores: gives the scores of the functions that supplied the negatives, likewise.
        find_teacher_scores: gives the teacher's scores, likewise; None where there is no teacher.
        relevant_from: the lowest grade that counts as relevant.
    """

    present: Tensor
    queries: Tensor | None = None
    documents: Tensor | None = None
    find_gains: Callable[[], Tensor] | None = None
    find_source_scores: Callable[[], Tensor] | None = None
    find_teacher_scores: Callable[[], Tensor] | None = None
    relevant_from: int = 1
    _found: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        encoded: EncodedCollection,
        queries: NDArray[np.integer],
        documents: NDArray[np.integer],
        source_scores: NDArray[np.floating] | None = None,
        device: torch.device | str = "cpu",
        teacher: PairScores | None = None,
    ) -> Block:
        """A block of a collection.

        Args:
            encoded: the collection.
            queries: int [b].
            documents: int [b, 1 + n], −1 for none.
            source_scores: [b, up to n], of the first negatives, nan where a function has none; None: nothing is known.
            device: where the tensors go.
            teacher: its scores, where there is one.
        """

        def gains() -> Tensor:
            return torch.from_numpy(encoded.judgements.lookup(queries, documents)).float().to(device)

        def scores() -> Tensor:
            found = np.full(documents.shape, np.nan, np.float32)
            if source_scores is not None:
                found[:, 1 : 1 + source_scores.shape[1]] = source_scores
            return torch.from_numpy(found).to(device)

        return cls(
            torch.from_numpy(documents >= 0).to(device),
            torch.from_numpy(np.asarray(queries, np.int64)).to(device),
            torch.from_numpy(np.asarray(documents, np.int64)).to(device),
            gains,
            scores,
            None if teacher is None else lambda: torch.from_numpy(teacher.lookup(queries, documents)).to(device),
            encoded.judgements.relevant_from,
        )

    @property
    def gains(self) -> Tensor:
        """float32 [b, 1 + n], the judged grades; 0 where a document is not judged, or there is none."""
        if "gains" not in self._found:
            assert self.find_gains is not None, "no judgements are known of this block"
            self._found["gains"] = self.find_gains()
        return self._found["gains"]

    @property
    def labels(self) -> Tensor:
        """float32 [b, 1 + n], the grades of what is judged relevant, 0 for all else; the positive has at least 1.

        Where no judgements are known, the positive has 1.
        """
        if "labels" not in self._found:
            first = torch.zeros(self.present.shape, device=self.present.device)
            first[:, 0] = 1
            if self.find_gains is not None:
                gains = self.gains
                first = torch.maximum(first, gains.masked_fill((gains < self.relevant_from) | ~self.present, 0))
            self._found["labels"] = first
        return self._found["labels"]

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

    @property
    def teacher_scores(self) -> Tensor:
        """float32 [b, 1 + n], the teacher's scores; nan where it has none, or there is no document.

        Raises:
            BadInput: where there is no teacher.
        """
        if "teacher" not in self._found:
            if self.find_teacher_scores is None:
                raise no_teacher("there is no teacher to learn from", "objective")
            self._found["teacher"] = self.find_teacher_scores()
        return self._found["teacher"]
