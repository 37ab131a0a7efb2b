"""Defines the input of an objective: queries, documents, their gains and the scores that chose them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import no_teacher
from pyrite.ranking.pair_scores import PairScores


@dataclass(frozen=True)
class Block:
    """The documents of each query of a batch: its positive in column 0, negatives in the others.

    Args:
        present: bool [b, 1 + n], False if a query has fewer negatives.
        queries: int64 [b], indices in the collection. None if the scores are made up.
        documents: int64 [b, 1 + n], −1 for no document. None if the scores are made up.
        find_gains: returns the judged grades. Called at most once, and only if an objective reads them.
        find_source_scores: returns the scores of the functions that supplied the negatives, called in the same way.
        find_teacher_scores: returns the teacher's scores, called in the same way. None without a teacher.
        relevant_from: the lowest grade that counts as relevant.
        find_batch_scores: returns scores among the batch's queries and positives, called in the same way; given a
            number, those by the first dimensions of the vectors. None if the objective compares no others than those
            of a block.
        find_alike: returns which pairs of the batch are no negatives of each other, called in the same way.
    """

    present: Tensor
    queries: Tensor | None = None
    documents: Tensor | None = None
    find_gains: Callable[[], Tensor] | None = None
    find_source_scores: Callable[[], Tensor] | None = None
    find_teacher_scores: Callable[[], Tensor] | None = None
    relevant_from: int = 1
    find_batch_scores: Callable[..., Tensor] | None = None
    find_alike: Callable[[], Tensor] | None = None

    @classmethod
    def of(
        cls,
        encoded: EncodedCollection,
        queries: NDArray[np.integer],
        documents: NDArray[np.integer],
        source_scores: NDArray[np.floating] | None = None,
        device: torch.device | str = "cpu",
        teacher: PairScores | None = None,
        batch_scores: Callable[..., Tensor] | None = None,
    ) -> Block:
        """Make a block of a collection.

        Args:
            queries: int [b].
            documents: int [b, 1 + n], −1 for none.
            source_scores: [b, up to n], scores of the first negatives, nan if a function has none. None if unknown.
            batch_scores: see `find_batch_scores`.
        """

        def gains() -> Tensor:
            return torch.from_numpy(encoded.judgements.lookup(queries, documents)).float().to(device)

        def scores() -> Tensor:
            columns = np.full(documents.shape, np.nan, np.float32)
            if source_scores is not None:
                columns[:, 1 : 1 + source_scores.shape[1]] = source_scores
            return torch.from_numpy(columns).to(device)

        def alike() -> Tensor:
            positives = np.broadcast_to(documents[:, 0], (len(documents), len(documents)))
            contents = encoded.contents(positives)
            same = encoded.judgements.are_relevant(queries, positives) | (contents == contents.T)
            if encoded.itself is not None:  # queries are documents
                own = np.broadcast_to(encoded.itself[queries], same.shape)
                same |= encoded.have_relevant_text(queries, own) | (contents == own.T)
            return torch.from_numpy(same | same.T).to(device)

        return cls(
            torch.from_numpy(documents >= 0).to(device),
            torch.from_numpy(np.array(queries, np.int64)).to(device),  # copies: those of a batch are read-only
            torch.from_numpy(np.array(documents, np.int64)).to(device),
            gains,
            scores,
            None if teacher is None else lambda: torch.from_numpy(teacher.lookup(queries, documents)).to(device),
            encoded.judgements.relevant_from,
            batch_scores,
            alike,
        )

    def shortened(self, dimension: int) -> Block:
        """Return the block as the first dimensions of the vectors compare it (`batch_scores`)."""
        if self.find_batch_scores is None:
            return self
        batch_scores = partial(self.find_batch_scores, dimension)
        return replace(self, find_batch_scores=batch_scores, find_alike=lambda: self.alike)

    @cached_property
    def gains(self) -> Tensor:
        """float32 [b, 1 + n], the judged grades; 0 if a document is not judged or missing."""
        assert self.find_gains is not None, "no judgements are known of this block"
        return self.find_gains()

    @cached_property
    def labels(self) -> Tensor:
        """float32 [b, 1 + n], the grades of relevant documents, 0 for all others. The positive has at least 1.

        If no judgements are known, the positive has 1.
        """
        first = torch.zeros(self.present.shape, device=self.present.device)
        first[:, 0] = 1
        if self.find_gains is None:
            return first
        return torch.maximum(first, self.gains.masked_fill((self.gains < self.relevant_from) | ~self.present, 0))

    @cached_property
    def source_scores(self) -> Tensor:
        """float32 [b, 1 + n], the scores that the retrieval functions gave the documents; nan if they have none.

        The positive is not chosen by a function and has none. A part that the objective makes itself
        (`Objective.rank`) may hold scores of positives too.
        """
        assert self.find_source_scores is not None, "no function has supplied this block"
        return self.find_source_scores()

    @cached_property
    def teacher_scores(self) -> Tensor:
        """float32 [b, 1 + n], the teacher's scores; nan if it has none or there is no document.

        Raises:
            BadInput: if there is no teacher.
        """
        if self.find_teacher_scores is None:
            raise no_teacher("there is no teacher to learn from", "objective")
        return self.find_teacher_scores()

    @cached_property
    def batch_scores(self) -> Tensor:
        """float32 [3, b, b], the scores of queries with positives, of queries with queries, and of positives with
        positives.
        """
        assert self.find_batch_scores is not None, "nothing compares the texts of this batch"
        return self.find_batch_scores()

    @cached_property
    def alike(self) -> Tensor:
        """bool [b, b], the pairs of which one's positive is relevant for the other's query, or has the text of its
        positive; if queries are documents, also those of which one's query is relevant for the other's, or has the text
        of its positive. Each pair is like itself.
        """
        if self.find_alike is None:
            return torch.eye(len(self.present), dtype=torch.bool, device=self.present.device)
        return self.find_alike()
