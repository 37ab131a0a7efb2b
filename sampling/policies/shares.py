"""Shares out negatives among functions: each function's part of a query's negatives, or of the queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import refuse


def share_negatives(
    edges: NDArray[np.float64], queries: int, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the index of each negative's function, [queries, count], ascending within a row, so that each function has
    its share of every query's negatives.

    Systematic sampling: marks at distance 1 over the shares laid end to end, so that a function of share w gets the
    whole number below or above w · count, and w · count on average.

    Args:
        edges: float64 [functions − 1], the cumulative shares of all functions but the last.
        rng: draws where the marks begin.
    """
    marks = np.arange(count) + rng.random((queries, 1))
    return np.searchsorted(edges * count, marks, side="right").astype(np.int64)


def share_queries(
    shares: NDArray[np.float64], queries: int, count: int, each: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the index of each negative's function, [queries, count], ascending within a row, −1 for none, so that each
    function has its share of the queries.

    The first function supplies all queries with `count` minus what the others may supply. Every other function supplies
    `each` negatives to its share of the queries, drawn for every batch: in-batch negatives and a mined one for some
    queries. Of a share w the whole number below or above w · queries is drawn, and w · queries on average.

    Args:
        shares: float64 [functions], 0 to 1 each; the first one is ignored.
        count: negatives of a query that all functions supply.
        each: negatives that a function other than the first supplies to a query.

    Raises:
        BadInput: if nothing is left for the first function.
    """
    functions = len(shares)
    base = count - each * (functions - 1)
    refuse(
        base < 1,
        f"{functions - 1} functions supply {each} of {count} negatives each, which leaves none for the first",
        "policy.each",
        "give fewer, or more sampling.negatives",
    )
    assigned = np.full((queries, count), functions, np.int64)
    assigned[:, :base] = 0
    for index in range(1, functions):
        supplied = rng.permutation(queries) < np.floor(shares[index] * queries + rng.random())
        assigned[supplied, base + (index - 1) * each : base + index * each] = index
    assigned.sort(axis=1)
    return np.where(assigned == functions, -1, assigned)


def reindexed(assigned: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Translate a policy's function indices into indices among all functions of the run, ascending within a row.

    Args:
        assigned: int64 [queries, count], indices among the policy's functions, −1 for none.
        indices: int64, the index of each of the policy's functions among all functions.
    """
    if np.array_equal(indices, np.arange(len(indices))) and not (np.diff(assigned, axis=1) < 0).any():
        return assigned
    last = np.iinfo(np.int64).max
    translated = np.where(assigned < 0, last, indices[assigned])
    translated.sort(axis=1)
    return np.where(translated == last, -1, translated)
