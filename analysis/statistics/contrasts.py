"""Tests the few differences that a study was made for: one method against some others, named beforehand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, product
from typing import Any

import polars as pl

from pyrite.analysis.statistics.compared_runs import Pair, compared_runs
from pyrite.analysis.statistics.comparison import LEAST_SEEDS, MethodRuns, adjust, compare
from pyrite.analysis.statistics.crossed import Floats, deviation, mean
from pyrite.analysis.statistics.named_methods import NamedRuns, named_methods
from pyrite.analysis.statistics.paired import differences
from pyrite.analysis.statistics.places import Place, Places

TESTED = ("low_both", "high_both", "p_both", "equal_p", "p")
"""Columns that are empty with fewer than LEAST_SEEDS pairs."""
_number, _text = pl.Float64, pl.String
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "ranker", "method", "against_ranker", "against"), _text),
    "pairs": pl.Int64,
    **dict.fromkeys(("mean", "against_mean", "std", "against_std"), _number),
    **dict.fromkeys(
        ("difference", "low_both", "high_both", "p_both", "p_both_holm", "equal_p", "p", "p_holm"), _number
    ),
}
"""Columns of contrasts.parquet."""


def planned_contrasts(
    places: Places, requested: Sequence[str], equal_within: float | None = None
) -> tuple[pl.DataFrame, list[str]]:
    """Test one method against each of some others, by the leading measure, for each ranker that has both.

    Agents and seeds are a sample as in `pyrite.analysis.statistics.summary.summarise`; runs of other settings of one
    seed count as one, by their mean. The queries of all collections count together. Only what is complete on both sides
    is compared.

    Args:
        requested: the label of one method each, or words of its overrides; the first is compared with the others. Of
            several, with ` | ` between them, the one whose runs validated best represents all: the best of a kind, or
            of one method's rates, by dev queries.
        equal_within: the margin of the tests of equivalence; None makes none.

    Returns:
        The columns that docs/reference/results.md documents, one row per origin, opponent and ranker, which are one
        family of Holm's method; and a line for each contrast that can't be made, or lacks runs.
    """
    chosen, lines = named_methods(places.trials, requested)
    if not chosen:
        return pl.DataFrame(schema=SCHEMA), lines
    pairs, repeated = _pairs(chosen)
    lines += repeated
    several = places.results["ranker"].n_unique() > 1
    rows = list[dict[str, Any]]()
    for evaluation in places.leading:
        by_ranker = defaultdict[str, dict[str, Place]](dict)
        for place in places.at([evaluation]):
            by_ranker[place.key["ranker"]][place.key["collection"]] = place
        for pair in pairs:
            found = compared_runs(pair, [by_ranker[method.ranker] for method in pair])
            both = " and ".join(f"{method.name} ({method.ranker})" if several else method.name for method in pair)
            if found.fault:
                lines.append(f"{both} have {found.fault} over {evaluation[0]}; they are not compared")
                continue
            if found.compared < found.planned:
                counts = f"{found.compared} of {found.planned} runs of {both} are compared"
                lines.append(f"{counts}; the others have not finished, or lack one of the same seed to compare with")
            named = zip(("ranker", "method", "against_ranker", "against"), chain(*pair), strict=True)
            row = {"candidates": evaluation[0], "measure": evaluation[1], **dict(named)}
            rows.append(row | _contrast(*found.methods, found.by_query, equal_within))
    adjust(rows, ("p_both", "p"))
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None), list(dict.fromkeys(lines))


def _pairs(chosen: Mapping[str, NamedRuns]) -> tuple[list[Pair], list[str]]:
    """Pair the first method with each of the others, ranker by ranker, or of all rankers if no ranker has runs of
    both; return a line for each that is named twice, too."""
    (words, (planned, first)), *others = chosen.items()
    by_words = {(method.ranker, method): words for method in first.values()}
    pairs, lines = list[Pair](), list[str]()
    for words, other in others:
        across = planned.isdisjoint(other.planned)
        for one, two in product(first.values(), other.methods.values()):
            if not across and one.ranker != two.ranker:
                continue
            before = by_words.setdefault((one.ranker, two), words)
            if before == words:
                pairs.append((one, two))
            else:
                lines.append(f"{before!r} and {words!r} are both {two.name}; the second is left out")
    return pairs, lines


def _contrast(
    first: MethodRuns, second: MethodRuns, by_query: Mapping[str, Floats], equal_within: float | None
) -> dict[str, Any]:
    """Compare two methods whose runs are complete."""
    tests = compare([first, second], {first.method: second}, by_query, equal_within)[first.method]
    tests["p"] = tests["paired_p"]
    able = tests["pairs"] >= LEAST_SEEDS
    return {
        "pairs": tests["pairs"],
        "mean": first.mean,
        "against_mean": second.mean,
        "std": deviation(first.values),
        "against_std": deviation(second.values),
        "difference": mean(differences(first.runs, second.runs)),
        **{name: tests[name] if able else float("nan") for name in TESTED},
    }
