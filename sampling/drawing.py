"""Draws the negatives of one batch by policy, functions and selectors, and checks what was picked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampling.filtered import FilteredFunction, check_selected
from sampling.function_stats import FunctionStats
from sampling.policies.policy import SamplingPolicy
from sampling.relevant_pairs import RelevantPairs
from sampling.retrieval.function import CandidateBatch, RetrievalFunction
from sampling.selection.selector import Selector
from sampling.windowed import WindowedFunction

if TYPE_CHECKING:
    from ranking.training import Batch, RankerTraining


class Selection(NamedTuple):
    """What a selector picked: for which rows and columns of the negatives, and of which part of the batch."""

    selector: Selector
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    part: Batch
    selected: CandidateBatch


@dataclass
class Drawn:
    """The negatives of a batch, with all that is noted when they are shown.

    Args:
        batch: whose negatives they are.
        rng: state of the generator before they were drawn.
        assigned: int64 [b, n], the function of each.
        negatives: int32 [b, n].
        source_scores: float32 [b, n].
        selections: all that was picked, in the order in which it was.
        stats: by function, of this batch alone.
    """

    batch: Batch
    rng: Mapping[str, Any]
    assigned: NDArray[np.int64]
    negatives: NDArray[np.int32]
    source_scores: NDArray[np.float32]
    selections: list[Selection]
    stats: dict[str, FunctionStats]

    def of(self, batch: Batch) -> bool:
        """Whether they are of a batch."""
        same = (np.array_equal(getattr(self.batch, name), getattr(batch, name)) for name in ("queries", "positives"))
        return all(same)


def draw(
    batch: Batch,
    training: RankerTraining,
    policy: SamplingPolicy,
    functions: Mapping[str, RetrievalFunction],
    selectors: Mapping[str, Selector],
    count: int,
    relevant: RelevantPairs,
    rng: np.random.Generator,
) -> Drawn:
    """Draw a batch's negatives; nothing but the generator changes.

    Args:
        batch: whose negatives they are.
        training: of the ranker that is shown them.
        policy: says which function supplies each negative.
        functions: by name.
        selectors: by the name of each function, what picks from it.
        count: negatives of each query.
        relevant: what may be nobody's negative.
        rng: every random draw comes from it.

    Raises:
        BadInput: where a selector picked what it may not.
    """
    drawn_from = rng.bit_generator.state
    assigned = policy.assign(batch, count, training, rng)
    window = policy.window
    negatives = np.full((len(batch), count), -1, np.int32)
    source_scores = np.full(negatives.shape, np.nan, np.float32)
    selections: list[Selection] = []
    every = {name: FunctionStats() for name in functions}
    # Those last that are told what the others have supplied.
    for index, name in sorted(enumerate(functions), key=lambda each: functions[each[1]].reads_mined):
        function, selector = functions[name], selectors[name]
        whole = replace(batch, mined=negatives.copy()) if function.reads_mined else batch
        seen = WindowedFunction(function, *window) if window and function.depth else function
        stats, counts = every[name], (assigned == index).sum(1)
        stats.batches += bool(counts.any())
        for wanted in np.unique(counts[counts > 0]).tolist():
            rows = np.flatnonzero(counts == wanted)
            part = whole if len(rows) == len(batch) else whole.part(rows)
            before = (assigned[rows] >= 0) & (assigned[rows] < index)
            first = before.sum(1)[:, None]  # a function's negatives stand together
            taken = negatives[rows] if function.reads_mined else negatives[rows, : first.max()]
            offered = FilteredFunction(seen, relevant, taken)
            selected = selector.select(part, offered, wanted, training, rng)
            check_selected(selected, part, offered, wanted, type(selector).__name__, name)
            columns = first + np.arange(wanted)
            negatives[rows[:, None], columns[:, : selected.documents.shape[1]]] = selected.documents
            source_scores[rows[:, None], columns[:, : selected.documents.shape[1]]] = selected.scores
            selections.append(Selection(selector, rows, columns, part, selected))
            stats.fallback += offered.fallback(selected.documents)
            stats.wanted += len(rows) * wanted
            stats.missing += int(np.count_nonzero(negatives[rows[:, None], columns] < 0))
    return Drawn(batch, drawn_from, assigned, negatives, source_scores, selections, every)
