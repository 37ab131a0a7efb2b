"""Compares methods by more than their means: spread, which beats which, the best of k, and the risk of failing."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from pyrite.analysis.statistics.comparison import adjust, baselines, best_baselines
from pyrite.analysis.statistics.crossed import NAN, Floats
from pyrite.analysis.statistics.places import Place, Places

BEST_OF = (1, 2, 3, 5, 10)
RESAMPLES = 2000
SHARE = 0.5
"""The line below which a run counts as one that never learned, as a share of the best baseline's median."""
_number, _text = pl.Float64, pl.String
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "method", "against"), _text),
    "runs": pl.Int64,
    **dict.fromkeys(("std", "against_std", "brown_forsythe_p", "brown_forsythe_p_holm"), _number),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high"), _number),
    **dict.fromkeys(("beats", "beats_low", "beats_high"), _number),
    **{f"best_of_{k}": _number for k in BEST_OF},
    **dict.fromkeys(("line", "below", "below_low", "below_high"), _number),
}
"""Columns of spread.parquet."""


def seed_variation(places: Places, line: float | None = None) -> pl.DataFrame:
    """Compare the runs of each method with those of the best baseline, by the leading measure.

    Args:
        line: the value below which a run never learned; None: half of the best baseline's median.

    Returns:
        The columns that docs/reference/results.md documents. The test of the ratio is that of Brown and Forsythe 1974
        (Levene's with medians), `best_of_k` is equation 3 of Dodge et al. 2019 ("Show your work"), the interval of
        `below` is Wilson's, others are by the bootstrap. What can't be computed is null, as is an upper bound that few
        runs don't give.
    """
    rows = [{**place.key, **row} for place in places.at(places.leading) for row in _of_place(place, line)]
    origins = [origin for origin, _ in places.leading]
    rows.sort(key=lambda row: (row["collection"], row["ranker"], origins.index(row["candidates"]), row["method"]))
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None)


def _of_place(place: Place, line: float | None) -> list[dict[str, Any]]:
    methods, best = place.methods, best_baselines([*place.methods.values()])
    learned = [SHARE * float(np.median(runs.values)) for runs in baselines(methods.values())[:1]]
    lines = learned if line is None else [line]
    seed = crc32(f"{place.key}".encode())
    rows = []
    for method, runs in sorted(methods.items()):
        rng = np.random.default_rng([0, seed, crc32(method.encode())])
        row: dict[str, Any] = {"method": method, "runs": len(runs.values), "brown_forsythe_p": NAN}
        row |= {f"best_of_{k}": best_of(runs.values, k) for k in BEST_OF}
        for below in lines:
            row |= _below(runs.values, runs.failed, below)
        if method in best:
            row |= {"against": best[method].method, **_spreads(runs.values, best[method].values, rng)}
        rows.append(row)
    # The best two are each other's opponents, which is one test.
    tests = {frozenset((row["method"], row.get("against"))): row for row in rows}
    adjust(list(tests.values()), ["brown_forsythe_p"])
    adjusted = {pair: row["brown_forsythe_p_holm"] for pair, row in tests.items()}
    return [row | {"brown_forsythe_p_holm": adjusted[frozenset((row["method"], row.get("against")))]} for row in rows]


def best_of(values: Floats, k: int) -> float:
    """Return the best of k runs on average, drawn from these with replacement; nan without runs. `values` ascend."""
    at_most = np.arange(len(values) + 1) / max(len(values), 1)
    return float(values @ np.diff(at_most**k)) if len(values) else NAN


def beats(a: Floats, b: Floats) -> float:
    """The probability that a run of `a` is better than one of `b`, ties counting half."""
    ordered, pairs = np.sort(b), len(a) * len(b)
    better, as_good = (np.searchsorted(ordered, a, side).sum() for side in ("left", "right"))
    return float((better / pairs + as_good / pairs) / 2)


def _counts(drawn: NDArray[np.int64]) -> Floats:
    """How often each value was drawn in each row: float64 [rows, columns]."""
    rows, columns = drawn.shape
    cells = np.arange(rows)[:, None] * columns + drawn
    return np.bincount(cells.ravel(), minlength=drawn.size).reshape(rows, columns).astype(np.float64)


def _spreads(a: Floats, b: Floats, rng: np.random.Generator) -> dict[str, float]:
    if min(len(a), len(b)) < 2:
        return {}
    drawn = [rng.choice(len(values), (RESAMPLES, len(values))) for values in (a, b)]
    stds = a[drawn[0]].std(1, ddof=1), b[drawn[1]].std(1, ddof=1)
    # A sample that draws one run alone has no spread but rounding errors: its ratio has no bound.
    flat = 1e-9 * max(np.abs(a).max(), np.abs(b).max())
    able = (stds[0] > flat) | (stds[1] > flat)
    counts = [_counts(part) for part in drawn]
    won = ((counts[0] @ np.heaviside(a[:, None] - b, 0.5)) * counts[1]).sum(1) / (len(a) * len(b))
    std, other = float(a.std(ddof=1)), float(b.std(ddof=1))
    row: dict[str, float] = {"std": std, "against_std": other, "beats": beats(a, b)}
    if 0 < beats(a, b) < 1:  # otherwise all resamples are alike, which is no certainty
        row |= dict(zip(("beats_low", "beats_high"), np.quantile(won, [0.025, 0.975]).tolist(), strict=True))
    if std > 0 and other > 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(stds[1] > flat, stds[0] / stds[1], np.inf)
        bounds = np.quantile(ratios[able], [0.025, 0.975], method="higher")
        low, high = np.where(np.isfinite(bounds), bounds, NAN).tolist()
        row |= {"ratio": std / other, "ratio_low": low, "ratio_high": high}
        if min(len(a), len(b)) > 2:
            row["brown_forsythe_p"] = float(stats.levene(a, b, center="median").pvalue)
    return row


def _below(values: Floats, failed: int, line: float) -> dict[str, float]:
    count = len(values) + failed
    if not count:
        return {}
    below = int((values < line).sum()) + failed
    interval = stats.binomtest(below, count).proportion_ci(method="wilson")
    return {"line": line, "below": below / count, "below_low": interval.low, "below_high": interval.high}
