"""Tests the few differences that a study was made for: one method against some others, named beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from cluster.output.methods import evaluations, with_methods
from cluster.reports.page import Markup, rendered, table
from cluster.reports.query_values import QueryNumbers, values_of
from ranking.errors import BadInput
from ranking.evaluation.significance import bootstrap_over_both, holm, paired_t_test

OR = " | "
_number, _text = pl.Float64, pl.String
SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("candidates", "measure", "method", "against"), _text),
    "seeds": pl.Int64,
    **dict.fromkeys(("mean", "against_mean", "std", "against_std"), _number),
    **dict.fromkeys(("difference", "low", "high", "p", "p_holm"), _number),
}
"""Columns of contrasts.parquet."""


def contrasts(
    trials: pl.DataFrame, queries: pl.DataFrame | pl.LazyFrame, asked: Sequence[str], seed: int = 0
) -> pl.DataFrame:
    """Test one method against each of some others, by the leading measure.

    Args:
        trials: the frame of `trials.parquet`.
        queries: the frame of `queries.parquet`.
        asked: words of the overrides of one method each, the first being held against the others. Of several, with
            ` | ` between them, the one whose runs validated best stands for all: the best of a kind by dev queries.
        seed: of the bootstrap.

    Returns:
        A row an origin and opponent: means and deviations over the seeds that both have, the mean `difference` with an
        interval of 95% by a bootstrap over seeds and queries, p of a t-test paired by seed, and the same by Holm over
        the opponents (over one origin: the first origin's family is the primary one).

    Raises:
        BadInput: where words name no method.
    """
    named = with_methods(trials).select("run", "method")
    done = trials.filter(pl.col("status") == "done").join(named, on="run")
    if len(asked) < 2:
        raise BadInput("a contrast takes two methods", "contrasts", "give words of each")
    chosen = [_named(done, words) for words in asked]
    leading = evaluations(trials)[0][1]
    rows: list[dict[str, Any]] = []
    for origin, measure in evaluations(trials):
        if measure != leading:
            continue
        values = _by_seed(chosen, queries, origin, measure)
        family = [
            _contrast(values[0], other, np.random.default_rng([seed, number]))
            for number, other in enumerate(values[1:])
        ]
        adjusted = holm([row["p"] for row in family])
        for row, other, p in zip(family, chosen[1:], adjusted, strict=True):
            pair = {"method": chosen[0][0, "method"], "against": other[0, "method"]}
            rows.append({"candidates": origin, "measure": measure, **pair, **row, "p_holm": float(p)})
    return pl.DataFrame(rows, schema=SCHEMA)


def _named(done: pl.DataFrame, asked: str) -> pl.DataFrame:
    """The runs of a method, the best by validation of those that are named.

    Raises:
        BadInput: where there is none.
    """
    named = pl.any_horizontal(pl.col("overrides").str.contains(words, literal=True) for words in asked.split(OR))
    found = done.filter(named).with_columns(dev=pl.col("curve_validation").list.max())
    if found.is_empty():
        raise BadInput(f"no finished run has {asked!r} in its overrides", "contrasts", "see trials.parquet")
    best = found.group_by("method").agg(pl.col("dev").mean()).sort("dev", "method", descending=[True, False])
    return found.filter(pl.col("method") == best[0, "method"]).sort("seed")


def _by_seed(
    methods: Sequence[pl.DataFrame], queries: pl.DataFrame | pl.LazyFrame, origin: str, measure: str
) -> list[dict[int, NDArray[np.float64]]]:
    """Of each method, values of the queries in the order of their names, by seed."""
    seeds = [dict(runs.select("run", "seed").rows()) for runs in methods]
    wanted, numbers = {run for of in seeds for run in of}, QueryNumbers()
    found: list[dict[int, list[tuple[NDArray[np.int32], NDArray[np.float64]]]]] = [{} for _ in methods]
    for run, _, names, values in values_of(queries, wanted, [origin], measure):
        for of, kept in zip(seeds, found, strict=True):
            if run in of:
                kept.setdefault(of[run], []).append((numbers.of(names), values))
    place = np.argsort(np.argsort(np.array(numbers.names)))
    ordered = []
    for kept in found:
        own = {}
        for seed in sorted(kept):
            rows, values = (np.concatenate(each) for each in zip(*kept.pop(seed), strict=True))
            own[seed] = values[np.argsort(place[rows], kind="stable")]
        ordered.append(own)
    return ordered


def _contrast(
    one: dict[int, NDArray[np.float64]], other: dict[int, NDArray[np.float64]], rng: np.random.Generator
) -> dict[str, Any]:
    seeds = [seed for seed in one if seed in other]
    first, second = (np.array([values[seed] for seed in seeds]) for values in (one, other))
    means = first.mean(axis=1), second.mean(axis=1)
    low, high = bootstrap_over_both(first - second, rng)
    return {
        "seeds": len(seeds),
        "mean": float(means[0].mean()),
        "against_mean": float(means[1].mean()),
        "std": float(means[0].std(ddof=1)) if len(seeds) > 1 else None,
        "against_std": float(means[1].std(ddof=1)) if len(seeds) > 1 else None,
        "difference": float((first - second).mean()),
        "low": low,
        "high": high,
        "p": paired_t_test(*means),
    }


def cells(row: dict[str, Any]) -> list[str]:
    """A row as text: opponent, seeds, means, difference with its interval, p by Holm."""
    interval = f"{row['low']:+.4f} to {row['high']:+.4f}"
    means = [
        f"{row[name]:.4f} ± {row[std] or 0:.4f}" for name, std in (("mean", "std"), ("against_mean", "against_std"))
    ]
    return [row["against"], str(row["seeds"]), *means, f"{row['difference']:+.4f}", interval, f"{row['p_holm']:.2g}"]


HEAD = ["against", "seeds", "its mean", "the other's", "difference", "95%", "p (Holm)"]


def printed(found: pl.DataFrame) -> Table:
    """The first origin's, for the screen."""
    own = found.filter(candidates=found[0, "candidates"])
    title = f"{found[0, 'method']} against others: {found[0, 'measure']} over {found[0, 'candidates']} candidates"
    shown = Table(*HEAD, title=title, title_justify="left", box=None)
    for row in own.iter_rows(named=True):
        shown.add_row(*map(escape, cells(row)))
    return shown


def section(found: pl.DataFrame) -> Markup:
    """Its part of the report."""
    parts = found.partition_by("candidates", maintain_order=True)
    shown = [(part[0, "candidates"], table(HEAD, [cells(row) for row in part.iter_rows(named=True)])) for part in parts]
    return rendered("contrasts.html", method=found[0, "method"], measure=found[0, "measure"], parts=shown)
