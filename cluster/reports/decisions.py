"""Tables what a sequential comparison has decided, and what it still takes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from cluster.output.methods import METHOD, column_of, evaluations, factors, is_learned, measurements
from cluster.plan.sweep import Planned
from cluster.reports.comparison import named_baseline
from cluster.reports.html_tables import probability
from cluster.reports.page import Markup, rendered, table
from cluster.reports.sequential import Rule, Values, best_baseline, compare_all
from ranking.errors import BadInput

SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("collection", "ranker", "candidates", "measure", "method", "against", "verdict"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "bound", "p"), pl.Float64),
    "seeds": pl.Int64,
    "more": pl.Float64,
}
"""Columns of decisions.parquet."""


def rule_of(options: Mapping[str, Any]) -> Rule:
    """The rule that a study's options give."""
    return Rule(options["equal_within"], options["clip"], options["max_seeds"])


def is_baseline(named: str | None, planned: Planned) -> bool:
    """Whether a run is of the method that a user names as the baseline."""
    if not named:
        return False
    told = planned.parameters
    return all(told.get(key) == value for key, _, value in (part.partition("=") for part in named.split()))


def decisions(trials: pl.DataFrame, rule: Rule, baseline: str | None = None) -> pl.DataFrame:
    """What is decided of each method beside the best baseline, and beside a named one.

    Of the leading measure over the leading origin, by which seeds were given.

    Args:
        trials: the frame of `trials.parquet`.
        rule: of the study.
        baseline: key=value pairs of a method besides.

    Returns:
        The columns of SCHEMA: verdict is the method's, better, worse, equal or open; low and high bound the mean
        difference, all at once and whenever one stops; `more` is a guess at the seeds that an open one will still take,
        infinite where it will not be decided, null where it is.
    """
    candidates, measure = evaluations(trials)[0]
    every = measurements(trials).filter(candidates=candidates, measure=measure)
    keys = [column_of(key) for key in factors(trials)]
    named = _named(every, keys, baseline)
    rows: list[dict[str, Any]] = []
    for (collection, ranker), family in every.partition_by("collection", "ranker", as_dict=True).items():
        values: dict[str, dict[int, float]] = {}
        able: set[str] = set()
        for (method,), own in family.partition_by("method", as_dict=True).items():
            values[str(method)] = dict(own.drop_nulls("value").select("seed", "value").rows())
            able |= set() if is_learned(own.row(0, named=True)) else {str(method)}
        place = {"collection": collection, "ranker": ranker, "candidates": candidates, "measure": measure}
        rows += [place | row for row in _rows(values, able, named, rule)]
    order = ["collection", "ranker", "method", "against"]
    return pl.DataFrame(rows, schema=SCHEMA).sort(order)


def _rows(values: Values, able: Collection[str], named: Collection[str], rule: Rule) -> list[dict[str, Any]]:
    compared = compare_all(values, able, rule)
    found = []
    for method in values:
        for other in sorted({best_baseline(values, able, method), *named} - {None, method}, key=str):
            pair = compared.get((method, str(other)))
            if pair is not None:
                found.append({"method": method, "against": other, **vars(pair)})
    return found


def _named(every: pl.DataFrame, keys: list[str], baseline: str | None) -> set[str]:
    if baseline is None:
        return set()
    try:
        return {named_baseline(every.select("method", *METHOD, *keys).unique(), baseline)[0]}
    except BadInput:
        return set()


def section(found: pl.DataFrame, rule: Rule) -> Markup:
    """The part of the report."""
    rows = [
        [
            *(row["ranker"], row["method"], row["against"]),
            said(row, rule),
            *(f"{row['difference']:+.4f}", f"{row['low']:+.4f} to {row['high']:+.4f}", probability(row["p"])),
            *(row["seeds"], outlook(row, rule)),
        ]
        for row in found.iter_rows(named=True)
    ]
    head = ["ranker", "method", "against", "is", "difference", "interval at the end", "p", "seeds", "seeds to come"]
    told = {
        "rule": rule,
        "bounds": _bounds(found),
        "measure": found[0, "measure"],
        "candidates": found[0, "candidates"],
    }
    return rendered("decisions.html", table=table(head, rows, left=4), **told)


def _bounds(found: pl.DataFrame) -> str:
    """What seeds' differences are cut off at, by family."""
    known = found["bound"].unique().sort().to_list()
    return " or ".join(f"{bound:.3g}" for bound in known)


def said(row: Mapping[str, Any], rule: Rule) -> str:
    """A verdict in words."""
    return f"equal within {rule.equal_within:g}" if row["verdict"] == "equal" else str(row["verdict"])


def outlook(row: Mapping[str, Any], rule: Rule) -> str:
    """How many more seeds an open comparison will take."""
    more = row["more"]
    if more is None:
        return "decided"
    if math.isinf(more) or more > 50 * rule.most:
        return "can't be said"
    return f"about {more:.0f} more for {rule.equal_within:g}"
