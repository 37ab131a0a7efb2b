"""Tests the few differences that a study was made for: one method against some others, named beforehand."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.analysis.methods import LABEL, leading_evaluations, with_methods
from pyrite.analysis.statistics.by_query import Queries, named_values
from pyrite.analysis.statistics.paired import Floats, crossed_difference
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.significance import holm, paired_t_test

OR = " | "
_number, _text = pl.Float64, pl.String
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "method", "against"), _text),
    "seeds": pl.Int64,
    **dict.fromkeys(("mean", "against_mean", "std", "against_std"), _number),
    **dict.fromkeys(
        ("difference", "low_both", "high_both", "p_both", "p_both_holm", "equal_p", "p", "p_holm"), _number
    ),
}
"""Columns of contrasts.parquet."""


def planned_contrasts(
    trials: pl.DataFrame, queries: Queries, requested: Sequence[str], equal_within: float | None = None
) -> tuple[pl.DataFrame, list[str]]:
    """Test one method against each of some others, by the leading measure.

    Args:
        requested: the label of one method each, or words of its overrides; the first is compared with the others. Of
            several, with ` | ` between them, the one whose runs validated best represents all: the best of a kind, or
            of one method's rates, by dev queries.
        equal_within: the margin of the tests of equivalence; None makes none.

    Returns:
        The columns that docs/reference/results.md documents, one row per origin and opponent, which are one family of
        Holm's method; and a line for each contrast that can't be made.
    """
    named = with_methods(trials).select("run", "method")
    done = trials.filter(pl.col("status") == "done").join(named, on="run")
    chosen: list[pl.DataFrame] = []
    lines: list[str] = []
    for words in requested:
        runs = _named(done, words)
        if runs is None:
            lines.append(f"no finished run has {words!r} in its overrides; it is left out")
        elif chosen and runs[0, "method"] == chosen[0][0, "method"]:
            lines.append(f"{requested[0]!r} and {words!r} are both {runs[0, 'method']}; the second is left out")
        else:
            chosen.append(runs)
        if not chosen:  # nothing to compare the others with
            return pl.DataFrame(schema=SCHEMA), lines
    leading = leading_evaluations(trials)
    seeds_of = [dict(runs.select("run", "seed").rows()) for runs in chosen]
    names, values_of = named_values(queries, {run for runs in seeds_of for run in runs}, leading[0][1])
    order, rows = np.argsort(np.array(names)), list[dict[str, Any]]()
    for origin, measure in leading:
        first, *others = (_by_seed(runs, order, values_of.get(origin, {})) for runs in seeds_of)
        for values, other in zip(others, chosen[1:], strict=True):
            pair = {"method": chosen[0][0, "method"], "against": other[0, "method"]}
            both = f"{pair['method']} and {pair['against']}"
            seeds = sorted(first.keys() & values.keys())
            if not seeds:
                lines.append(f"{both} have no finished run of the same seed over {origin}; they are not compared")
                continue
            sides = [[side[seed] for seed in seeds] for side in (first, values)]
            if len({np.isnan(row).tobytes() for side in sides for row in side}) > 1:
                lines.append(f"{both} have values of different queries over {origin}; they are not compared")
                continue
            one, two = (np.array([row[~np.isnan(row)] for row in side]) for side in sides)
            tested = _contrast(one, two, equal_within)
            rows.append({"candidates": origin, "measure": measure, **pair, **tested})
    for name in ("p_both", "p"):
        adjusted = holm([math.nan if row[name] is None else row[name] for row in rows])
        for row, p in zip(rows, adjusted, strict=True):
            row[f"{name}_holm"] = float(p)
    return pl.DataFrame(rows, schema=SCHEMA).fill_nan(None), lines


def check_contrasts(trials: pl.DataFrame, requested: Sequence[str], complete: bool = True) -> None:
    """Check that the methods of contrasts are planned, each another one; not `complete` if a search adds runs."""
    if len(requested) < 2:
        raise BadInput("a contrast takes two methods", "contrasts", "give words of each")
    runs: dict[frozenset[str], str] = {}
    for words in requested:
        matching = frozenset(_matching(trials, words)["run"]) or frozenset([words])
        if complete and matching == {words}:
            raise BadInput(f"no run of this study has {words!r} in its overrides", "contrasts", _choices(trials))
        if matching in runs:
            same = f"{words!r} twice" if words == runs[matching] else f"{runs[matching]!r} and {words!r}, the same runs"
            raise BadInput(f"compares {same}", "contrasts", "leave one of them out")
        runs[matching] = words


def _choices(trials: pl.DataFrame) -> str:
    """Return the words of the overrides that only some runs have, for messages."""
    texts = [shlex.split(text) for text in trials["overrides"]]
    shared = set[str]().union(*texts[:1]).intersection(*texts)
    named = dict.fromkeys(
        word for text in texts for word in text if word not in shared and not word.startswith("seed=")
    )
    labels = dict.fromkeys(
        pair["value"] for pairs in trials["swept"].to_list() for pair in pairs or [] if pair["key"] == LABEL
    )
    return f"choose from {', '.join([*labels, *named])}" if labels or named else "this study has one method"


def _matching(trials: pl.DataFrame, requested: str) -> pl.DataFrame:
    """Return the runs whose method has a label, or else words in its overrides."""
    labelled = pl.col("swept").list.eval(
        (pl.element().struct.field("key") == LABEL) & (pl.element().struct.field("value") == requested)
    )
    of_label = trials.filter(labelled.list.any())
    named = pl.any_horizontal(pl.col("overrides").str.contains(words, literal=True) for words in requested.split(OR))
    return of_label if len(of_label) else trials.filter(named)


def _named(done: pl.DataFrame, requested: str) -> pl.DataFrame | None:
    """The runs of the named method; of several, of the one that validated best; None if there is none."""
    matching = _matching(done, requested).with_columns(dev=pl.col("curve_validation").list.max())
    if matching.is_empty():
        return None
    best = matching.group_by("method").agg(pl.col("dev").mean()).sort("dev", "method", descending=[True, False])
    return matching.filter(pl.col("method") == best[0, "method"]).sort("seed")


def _by_seed(runs: Mapping[str, int], order: NDArray[np.intp], by_run: Mapping[str, Floats]) -> dict[int, Floats]:
    """Return the values of a method's runs by their seed, in an order of the queries; NaN if missing."""
    values: dict[int, list[Floats]] = {}
    for run in by_run:
        if run in runs:
            values.setdefault(runs[run], []).append(by_run[run][order])
    return {seed: np.array(same).T.ravel() for seed, same in values.items()}


def _contrast(first: Floats, second: Floats, equal_within: float | None) -> dict[str, Any]:
    """Compare the values of two methods, float64 [seeds, queries]."""
    means, test = (first.mean(axis=1), second.mean(axis=1)), crossed_difference(first - second)
    std, against_std = (float(side.std(ddof=1)) if len(first) > 1 else None for side in means)
    return {
        "seeds": len(first),
        "mean": float(means[0].mean()),
        "against_mean": float(means[1].mean()),
        "std": std,
        "against_std": against_std,
        "difference": float((first - second).mean()),
        "low_both": test and test.low,
        "high_both": test and test.high,
        "p_both": test and test.p,
        "equal_p": None if test is None or equal_within is None else test.p_equal(equal_within),
        "p": paired_t_test(*means),
    }
