"""Shares negatives out among functions: each function's part of a query's negatives, or of the queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.errors import BadInput


def share_negatives(
    edges: NDArray[np.float64], queries: int, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The function of each negative [queries, count], ascending: each function's share of every query's negatives.

    Systematic sampling: marks one apart over the shares laid end to end, so that a function of share w gets the whole
    number below or above w · count, and w · count on average.

    Args:
        edges: float64 [functions − 1], the cumulative shares of all functions but the last.
        queries: of the batch.
        count: negatives of each.
        rng: draws where the marks begin.
    """
    marks = np.arange(count) + rng.random((queries, 1))
    return np.searchsorted(edges * count, marks, side="right").astype(np.int64)


def share_queries(
    shares: NDArray[np.float64], queries: int, count: int, each: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The function of each negative [queries, count], ascending, −1 for none: each function's share of the queries.

    The first function supplies all queries with `count` less what the others may supply; each other one supplies
    `each` negatives to its share of the queries, drawn anew for every batch: in-batch negatives with a mined one for
    some. Of a share w the whole number below or above w · queries is drawn, and w · queries on average.

    Args:
        shares: float64 [functions], 0 to 1 each; the first one's is not looked at.
        queries: of the batch.
        count: negatives of each, where all functions supply it.
        each: negatives that a function other than the first supplies to a query.
        rng: draws which queries.

    Raises:
        BadInput: where nothing is left to the first function.
    """
    functions = len(shares)
    base = count - each * (functions - 1)
    if base < 1:
        raise BadInput(
            f"{functions - 1} functions supply {each} of {count} negatives each, and the first one none",
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


def placed(assigned: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Functions by their places among all of a run's, ascending in a row, −1 behind the others.

    Args:
        assigned: int64 [queries, count], functions of a policy, −1 for none.
        places: int64, the place of each of the policy's functions.
    """
    if np.array_equal(places, np.arange(len(places))) and not (np.diff(assigned, axis=1) < 0).any():
        return assigned
    last = np.iinfo(np.int64).max
    found = np.where(assigned < 0, last, places[assigned])
    found.sort(axis=1)
    return np.where(found == last, -1, found)
