"""Draws the negatives of one batch by policy, functions and selectors, and checks what was picked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.batch import read_only
from pyrite.ranking.errors import refuse
from pyrite.sampling.filtered import FilteredFunction, WindowedFunction, check_selected
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.relevant_pairs import RelevantPairs
from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.shown import FunctionStats

if TYPE_CHECKING:
    from pyrite.ranking.training import Batch, RankerTraining


class Selection(NamedTuple):
    """The negatives that one selector picked from one function, for some rows of a batch.

    Args:
        rows: int [r], rows of the batch.
        columns: int [r, m], columns of the batch's negatives where the picks are stored.
        batch: the rows as a batch, as the selector received it.
        selected: the picks.
    """

    selector: Selector
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    batch: Batch
    selected: CandidateBatch


@dataclass
class BatchDraw:
    """The negatives of one batch, and what the sampler records once they are shown.

    Args:
        rng: the state of the generator before the draw.
        assigned: int64 [b, n], the index of the function that each negative comes from.
        negatives: int32 [b, n], −1 for none.
        source_scores: float32 [b, n], the functions' scores of the negatives.
        selections: the picks of each selector, in the order in which they were made.
        stats: counts for this batch, by function.
    """

    batch: Batch
    rng: Mapping[str, Any]
    assigned: NDArray[np.int64]
    negatives: NDArray[np.int32]
    source_scores: NDArray[np.float32]
    selections: list[Selection]
    stats: dict[str, FunctionStats]

    def is_for(self, batch: Batch) -> bool:
        """Return whether these negatives were drawn for `batch`."""
        same = (np.array_equal(getattr(self.batch, name), getattr(batch, name)) for name in ("queries", "positives"))
        return all(same)


def check_assigned(assigned: NDArray[np.int64], shape: tuple[int, int], functions: int, policy: str) -> None:
    """Refuse an assignment that would lose negatives, or place them in another function's columns.

    Args:
        assigned: what `SamplingPolicy.assign` returned.
        shape: queries and negatives per query.
        functions: the number of functions.
        policy: the class of the policy, for messages.
    """
    what = remedy = None
    if not isinstance(assigned, np.ndarray) or assigned.dtype.kind not in "iu" or assigned.shape != shape:
        got = f"{getattr(assigned, 'dtype', type(assigned).__name__)} of shape {np.shape(assigned)}"
        what, remedy = f"assigned {got}", f"return whole numbers of shape {shape}"
    elif assigned.size and not -1 <= assigned.min() <= assigned.max() < functions:
        what, remedy = f"chose a function from {assigned.min()} to {assigned.max()}", f"there are 0 to {functions - 1}"
    elif (np.diff(np.where(assigned < 0, functions, assigned), axis=1) < 0).any():
        what, remedy = "assigned functions in mixed order", "sort each row, −1 last"
    refuse(what, f"{policy} {what}", "policy", remedy)


@dataclass(frozen=True)
class NegativeSources:
    """The functions that negatives are drawn from, and what picks from them.

    Args:
        functions: prepared retrieval functions, by name.
        selectors: the selector of each function, by the function's name; those of a policy replace them.
        count: negatives per query.
        relevant: the documents that are never a query's negatives.
    """

    functions: Mapping[str, RetrievalFunction]
    selectors: Mapping[str, Selector]
    count: int
    relevant: RelevantPairs

    def draw(
        self,
        batch: Batch,
        training: RankerTraining,
        policy: SamplingPolicy,
        rng: np.random.Generator,
        barred: NDArray[np.integer] | None = None,
    ) -> BatchDraw:
        """Draw the negatives of a batch. Nothing but the generator changes.

        The policy assigns a function to each negative. Each function is then asked once for all rows that want the same
        number of negatives from it. A selector sees the function through two views: the policy's window of ranks
        (`WindowedFunction`), and without documents that the query may not be shown (`FilteredFunction`).

        Args:
            barred: ascending contents of further documents that must not be picked for any query; None for none.

        Raises:
            BadInput: if a selector picked a document that it must not pick.
        """
        functions, rng_before = self.functions, rng.bit_generator.state
        assigned = policy.assign(batch, self.count, training, rng)
        check_assigned(assigned, (len(batch), self.count), len(functions), type(policy).__name__)
        negatives = np.full((len(batch), self.count), -1, np.int32)
        source_scores = np.full(negatives.shape, np.nan, np.float32)
        selections: list[Selection] = []
        all_stats = {name: FunctionStats() for name in functions}
        # Functions that offer the other functions' negatives (`InBatch.hard`) come last.
        for index, name in sorted(enumerate(functions), key=lambda item: functions[item[1]].reads_mined):
            function, stats = functions[name], all_stats[name]
            in_window = WindowedFunction(function, *policy.window) if policy.window and function.depth else function
            selector = policy.selectors[name] if name in policy.selectors else self.selectors[name]
            readable = replace(batch, mined=negatives.copy()) if function.reads_mined else batch
            wanted_per_row = (assigned == index).sum(1)
            stats.batches += bool(wanted_per_row.any())
            for wanted in np.unique(wanted_per_row[wanted_per_row > 0]).tolist():
                rows = np.flatnonzero(wanted_per_row == wanted)
                part = readable if len(rows) == len(batch) else readable.part(rows)
                # `assigned` is ascending within a row: the negatives of earlier functions are to the left.
                first_column = ((assigned[rows] >= 0) & (assigned[rows] < index)).sum(1)[:, None]
                supplied = negatives[rows] if function.reads_mined else negatives[rows, : first_column.max()]
                allowed = FilteredFunction(in_window, self.relevant, supplied, barred)
                selected = selector.select(part, allowed, wanted, training, rng)
                check_selected(selected, part, allowed, wanted, type(selector).__name__, name)
                columns = first_column + np.arange(wanted)
                filled = columns[:, : selected.documents.shape[1]]
                negatives[rows[:, None], filled] = selected.documents
                source_scores[rows[:, None], filled] = selected.scores
                selections.append(Selection(selector, rows, columns, part, selected))
                stats.fallback += allowed.fallback(selected.documents)
                stats.wanted += len(rows) * wanted
                stats.missing += int(np.count_nonzero(negatives[rows[:, None], columns] < 0))
        # Functions and policies receive the negatives too, after they were checked.
        return BatchDraw(batch, rng_before, assigned, read_only(negatives), source_scores, selections, all_stats)
