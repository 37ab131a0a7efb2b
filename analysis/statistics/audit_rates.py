"""Estimates each policy's share of false negatives, and what guards would have dropped, from a judged sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pyrite.pooling.false_negatives import RecordedQueries, rate

PAIR = ["query", "document"]
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)
"""Shares of the negatives that a guard would drop, those that score highest relative to their positive."""
GUARDS = {
    **dict.fromkeys(("method", "function"), pl.String()),
    **dict.fromkeys(("share", "margin", "relevant_dropped", "dropped_relevant", "left"), pl.Float64()),
}
"""Columns of guards.csv."""


def rates_of(negatives: pl.DataFrame) -> pl.DataFrame:
    """The share of relevant documents among the negatives shown, by method and by its functions.

    Args:
        negatives: method, query, document, function, times, recorded (the share of the queries whose negatives these
            are, null if it is not known), inclusion, relevant (null if not judged). The share of a method is the
            lowest of its runs. If it is not known, the queries count as few of many.

    Returns:
        method, function ("all"), shown (of the recorded queries), judged, rate, low, high (95% interval, for the
        negatives of all queries).
    """
    rows = []
    for (method,), shown in negatives.partition_by("method", as_dict=True, maintain_order=True).items():
        share = float(shown["recorded"].fill_null(0.0).to_numpy().min())
        functions = {str(name): part for (name,), part in shown.partition_by("function", as_dict=True).items()}
        for function, part in {"all": shown, **(functions if len(functions) > 1 else {})}.items():
            rows.append({"method": method, "function": function, **_rate(part, share)})
    return pl.DataFrame(rows, schema_overrides={"rate": pl.Float64})


def guards_of(negatives: pl.DataFrame) -> pl.DataFrame:
    """The negatives that a guard on the scores would have dropped.

    Args:
        negatives: see `rates_of`; with margin, the score less the positive's, and scale, the function whose scores
            these are (`all` if all are on one scale). Those without a margin are left out.

    Returns:
        method, function (the scale), share (of the negatives shown), margin (from which on they are dropped),
        relevant_dropped (share of all relevant ones shown, null if none is judged), dropped_relevant and left (shares
        of the dropped, and of the rest, that are relevant).
    """
    rows = []
    relevant = (
        pl.col("times") * pl.col("relevant") / pl.col("inclusion")
    ).sum()  # judged ones, each for all it stands for
    parts = scored(negatives).partition_by("method", "scale", as_dict=True, maintain_order=True)
    for (method, function), part in parts.items():
        shown = part.sort("margin", descending=True)
        upto = shown["times"].cum_sum() / shown["times"].sum()
        every = shown.select(relevant).item()
        for share in SHARES:
            dropped, kept = shown.filter(upto <= share), shown.filter(upto > share)
            if not len(dropped) or not len(kept):
                continue
            of_dropped, of_kept = _rate(dropped), _rate(kept)
            rows.append({
                "method": method, "function": function, "share": share, "margin": dropped["margin"].min(),
                "relevant_dropped": dropped.select(relevant).item() / every if every else None,
                "dropped_relevant": of_dropped["rate"], "left": of_kept["rate"],
            })  # fmt: skip
    return pl.DataFrame(rows, schema=GUARDS)


def scored(negatives: pl.DataFrame) -> pl.DataFrame:
    """Return the negatives that have a margin: mined ones have none if their function gives no scores, as random."""
    return negatives.filter(pl.col("margin").is_not_nan())  # null for null, which is left out too


def _rate(part: pl.DataFrame, share: float = 1.0) -> dict[str, Any]:
    pairs = part.group_by(PAIR, maintain_order=True).agg(
        pl.col("times").sum(), pl.col("inclusion").first(), pl.col("relevant").first()
    )
    relevant = pairs["relevant"].fill_null(float("nan")).to_numpy()
    queries = pairs["query"].rank("dense").cast(pl.Int64).to_numpy()
    recorded = RecordedQueries(share, queries) if share < 1 else None
    estimate = rate(pairs["times"].to_numpy().astype(np.float64), pairs["inclusion"].to_numpy(), relevant, recorded)
    return {"shown": int(pairs["times"].sum()), "judged": estimate.judged, "rate": estimate.rate,
            "low": estimate.low, "high": estimate.high}  # fmt: skip
