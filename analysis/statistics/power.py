"""Estimates from the spread of runs how many seeds it takes to see a difference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from pyrite.analysis.statistics.comparison import unit_of
from pyrite.analysis.statistics.crossed import EQUAL, CrossedDifference
from pyrite.analysis.statistics.paired import LEAST_PAIRS, differences, values_by_seed
from pyrite.analysis.statistics.places import Place, Places
from pyrite.analysis.statistics.sequential import ALPHA, SequentialRule, best_baseline
from pyrite.ranking.evaluation.anytime import p_values

POWER = 0.8
DIFFERENCES = (0.01, 0.02, 0.05)
CURVE = tuple(float(f"{difference:.3g}") for difference in np.geomspace(0.002, 0.1, 15))
SIZES = sorted({*CURVE, *DIFFERENCES})
MOST = 1000
"""The highest number of seeds that is tried for a single test; for a sequential one it is LONGEST."""
STUDIES, LONGEST = 200, 200
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "method", "against"), pl.String),
    "pairs": pl.Int64,
    "unit": pl.String,
    "spread": pl.Float64,
    "difference": pl.Float64,
    **dict.fromkeys(("seeds", "seeds_of_many", "seeds_sequential"), pl.Int64),
}
"""Columns of power.parquet; a number of seeds is null if it is larger than what is tried."""


def power(places: Places, rule: SequentialRule | None = None) -> pl.DataFrame:
    """Return the seeds that it takes to see differences, from the spread of the runs' paired differences.

    The columns are those that docs/reference/results.md documents. Methods with several agents are left out.
    `seeds_of_many` is for the first of Holm's steps,
    `seeds_sequential` of studies resampled from these runs.
    """
    rule = rule or SequentialRule()
    rows = [row for place in places.at(finished=True) for row in _of_place(place, rule)]
    return pl.DataFrame(rows, schema=SCHEMA).sort("collection", "ranker", "method", "difference")


def _of_place(place: Place, rule: SequentialRule) -> Iterator[dict[str, Any]]:
    values, methods = values_by_seed(place.results), place.methods
    pairs = max(len(values) * (len(values) - 1) // 2, 1)
    for method in sorted(values):
        other = best_baseline(values, place.able, method)
        if other is None:
            continue
        one, two = methods[method], methods[other]
        leads = differences(one.runs, two.runs)
        unit = unit_of(one, two, len(leads))
        # More seeds do not make agents alike.
        if unit == "agents" or len(leads) < LEAST_PAIRS or np.ptp(leads) < EQUAL:
            continue
        spread = float(leads.std(ddof=1))
        counted = {"pairs": len(leads), "unit": unit, "spread": spread}
        known = {**place.key, "method": method, "against": other, **counted}
        for size in SIZES:
            yield known | {
                "difference": size,
                "seeds": seeds_of_a_test(size, spread, ALPHA),
                "seeds_of_many": seeds_of_a_test(size, spread, ALPHA / max(len(values) - 1, 1)),
                "seeds_sequential": _sequential(leads, size, rule, pairs) if size in DIFFERENCES else None,
            }


def sample_of_both(
    test: CrossedDifference, seeds: int, queries: int, difference: float, alpha: float
) -> tuple[int, int | None]:
    """Return the seeds, and the queries if more are needed, with which a test over both finds a difference with a power
    of 80%, about.

    More seeds do not make the effects of queries smaller. If these alone hide the difference, it takes more queries,
    with the seeds that there are: or with more, if these leave less than half of the error to the queries.

    Args:
        test: the comparison of two methods over these numbers of seeds and queries, for the variances.
    """
    error = difference / (stats.norm.isf(alpha / 2) + stats.norm.isf(1 - POWER))
    left = error**2 - test.of_query**2 / queries
    if left > 0:
        needed = (test.of_seed**2 + test.of_cell**2 / queries) / left
        if needed <= MOST:
            return max(math.ceil(needed), LEAST_PAIRS), None
    needed = max(seeds, math.ceil(2 * test.of_seed**2 / error**2))
    return needed, math.ceil((test.of_query**2 + test.of_cell**2 / needed) / (error**2 - test.of_seed**2 / needed))


def seeds_of_a_test(difference: float, spread: float, alpha: float) -> int | None:
    """Return the pairs with which a two-tailed paired t-test finds a difference with a power of 80%, at least
    LEAST_PAIRS; None above `MOST`."""
    n = np.arange(LEAST_PAIRS, MOST + 1)
    critical = stats.t.isf(alpha / 2, n - 1)
    centre = difference / spread * np.sqrt(n)
    reached = stats.nct.sf(critical, n - 1, np.minimum(centre, 30.0))
    enough = np.flatnonzero((reached >= POWER) | (centre > 30.0 + critical))
    return int(n[enough[0]]) if len(enough) else None


def _sequential(differences: NDArray[np.float64], size: float, rule: SequentialRule, pairs: int) -> int | None:
    """The seeds after which 80% of studies are decided, resampled from these differences and shifted to `size`."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(differences - differences.mean() + size, (LONGEST, STUDIES))
    bound = rule.of_spread(float(differences.std(ddof=1)))
    above, below = p_values(drawn, 0.0, -bound, bound)
    share = (2 * np.minimum(above, below) <= ALPHA / pairs).mean(1)
    enough = np.flatnonzero(share >= POWER)
    pilot = rule.first if rule.clip is None else 0
    return max(int(enough[0]) + 1 + pilot, rule.first) if len(enough) else None
