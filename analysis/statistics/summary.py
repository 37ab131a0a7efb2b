"""Summarises a study: the mean of each method, how far its runs spread, and which differences are real.

Cohen et al. 2019 (sections 5.4 and 6) report the mean and deviation of many runs, and mark a policy that differs from
the best baseline by Student's t-test or the Kolmogorov-Smirnov test. Both take all runs as independent, which runs of
the same seeds are not. The test that leads here is paired by seed and query, and takes both as a sample
(`pyrite.analysis.statistics.paired.crossed_difference`). Only p values that are adjusted by Holm's method make marks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from zlib import crc32

import numpy as np
import polars as pl

from pyrite.analysis.methods import (
    BM25,
    RUN,
    UNTRAINED,
    evaluations_by_origin,
    first_stage_of,
    measurements,
    method_columns,
)
from pyrite.analysis.statistics.before_training import untrained_rows, untrained_twin
from pyrite.analysis.statistics.by_query import Queries, values_by_run
from pyrite.analysis.statistics.comparison import (
    LEAST_SEEDS,
    LEVEL,
    TESTS,
    MethodRuns,
    best_baselines,
    compare,
    methods_of,
    named_baseline,
)
from pyrite.analysis.statistics.paired import MeasuredRun
from pyrite.ranking.evaluation.significance import bootstrap_interval

MEASURED = ("seconds", "memory")
"""What no repetition repeats to the last bit; it is in `costs.csv`."""
COSTS = ("seconds", "documents_read", "memory")
"""Over runs: the median time of the training alone, because the first run of a process takes longer; the mean number of
distinct documents of each batch, or of its pairs if the ranker reads a query and a document together; the mean of the
MiB at the peak."""

PAIRED_TESTS = (
    "low_both",
    "high_both",
    "p_both",
    "p_both_holm",
    "equal_p",
    "paired_p",
    "paired_p_holm",
    "sign_p",
    "sign_p_holm",
)
UNPAIRED_TESTS = ("t_p", "t_p_holm", "ks_p", "ks_p_holm")

Row = dict[str, object]


def summarise(
    trials: pl.DataFrame,
    baseline: str | None = None,
    queries: Queries | None = None,
    equal_within: float | None = None,
) -> pl.DataFrame:
    """Summarise a study, one row per method, candidate origin and measure: the tables in `summary.csv` and, of
    seconds and memory, `costs.csv`.

    Each method is compared, within its ranker, collection, origin and measure, with the best baseline
    (`best_baselines`). Rows of ranker "bm25" hold the figures of BM25 alone over the same candidates, and rows without
    runs those of a ranker before its training, with an interval over queries. Rows are by
    collection, origin, measure, ranker, and mean from the highest. What cannot be computed is null.

    Args:
        baseline: a method to compare all others with as well, as "policy=fixed function=bm25
            selector=uniform"; with "ranker=…" the methods of all rankers are compared with that ranker's.
        queries: the frame of `queries.parquet`, for the tests over seeds and queries; None makes none.
        equal_within: the margin of the tests of equivalence; None makes none.
    """
    every = measurements(trials)
    columns = method_columns(trials)
    named, rankers = "", set[str]()
    if baseline is not None:
        named, rankers = named_baseline(every.select(columns).unique(), baseline)
    across = baseline is not None and any(part.startswith("ranker=") for part in baseline.split())
    spent = {name: row for name, *row in trials.select("run", *COSTS).iter_rows()}
    cuts = dict(trials.select("run", "cut").iter_rows()) if "cut" in trials.columns else {}
    evaluated = evaluations_by_origin(trials)
    measures = {measure for _, measure in evaluated}
    by_query = {name: values_by_run(queries, trials, name) for name in measures}

    rows: list[Row] = []
    for collection, (candidates, measure) in product(every["collection"].unique().sort(), evaluated):
        place = {"collection": collection, "candidates": candidates, "measure": measure}
        here = every.filter(pl.col(name) == value for name, value in place.items())
        values = by_query[measure].get(candidates)
        families = {
            ranker: sorted(
                methods_of(here.filter(ranker=ranker), columns).values(),
                key=lambda runs: (-runs.mean if len(runs.values) else math.inf, runs.method),
            )
            for ranker in here["ranker"].unique().sort()
        }
        elsewhere = [runs for ranker in rankers for runs in families.get(ranker, []) if runs.method == named]
        for ranker, family in families.items():
            best = best_baselines(family)
            of_ranker = elsewhere if across else [runs for runs in family if runs.method == named and ranker in rankers]
            fixed = {runs.method: other for runs in family for other in of_ranker if len(other.values)}
            of_this = here.filter(ranker=ranker)
            if named == UNTRAINED and ranker in rankers:
                twins = {runs.method: untrained_twin(runs, of_this) for runs in family}
                fixed = {method: twin for method, twin in twins.items() if twin is not None}
            compared = [
                (name, prefix, opponents, compare(family, opponents, values, equal_within))
                for name, prefix, opponents in (("against", "", best), ("baseline", "baseline_", fixed))
            ]
            for runs in family:
                # Its resamples depend on what a row is about alone, not on which other rows there are.
                about = crc32("\n".join((*place.values(), ranker, runs.method)).encode())
                row: Row = {**place, **runs.identity, **_spread(runs, np.random.default_rng([0, about]))}
                row |= _costs([spent[run.name] for run in runs.runs])
                row["cut"] = "; ".join(dict.fromkeys(cut for run in runs.runs if (cut := cuts.get(run.name)))) or None
                for name, prefix, opponents, tests in compared:
                    if runs.method in tests:
                        row[name] = opponents[runs.method].method
                        row |= {prefix + test: p for test, p in _with_enough(runs, opponents, tests).items()}
                rows.append(row | {"marks": marks(row)})
            cut = rows[-1]["cut"] if family else None
            about = crc32("\n".join((*place.values(), ranker, UNTRAINED)).encode())
            rows += [{**place, **row, "cut": cut} for row in untrained_rows(of_this, columns, values, about)]
        rows += [{**place, **row} for row in _first_stage(here["bm25"], columns, candidates)]
    return pl.DataFrame(rows, schema=_schema(columns, baseline is not None))


def _with_enough(
    runs: MethodRuns, opponents: Mapping[str, MethodRuns], tests: Mapping[str, Mapping[str, float | None]]
) -> dict[str, float | None]:
    """Return a method's comparison without the tests for which there are too few seeds, or runs."""
    row = dict(tests[runs.method])
    if (row["pairs"] or 0) < LEAST_SEEDS:
        row |= dict.fromkeys(PAIRED_TESTS)
    if min(len(runs.runs), len(opponents[runs.method].runs)) < LEAST_SEEDS:
        row |= dict.fromkeys(UNPAIRED_TESTS)
    return row


def _costs(spent: Sequence[Sequence[float | None]]) -> Row:
    known = [[cost for cost in column if cost is not None] for column in zip(*spent, strict=True)]
    middle = {name: np.median if name == "seconds" else np.mean for name in COSTS}
    return {name: float(middle[name](costs)) if costs else None for name, costs in zip(COSTS, known, strict=False)}


def marks(row: Mapping[str, object], prefix: str = "") -> str:
    """The marks of what differs: "*" by the test over seeds and queries (or over seeds, if values per query are not
    known), "‡" by Student's t-test, "†" by Kolmogorov-Smirnov. Fewer than LEAST_SEEDS pairs, or runs, have none."""
    leading = "paired_p_holm" if row.get(f"{prefix}p_both") is None else "p_both_holm"
    columns = (("*", "pairs", leading), ("‡", "runs", "t_p_holm"), ("†", "runs", "ks_p_holm"))
    shown = ""
    for mark, unit, column in columns:
        count, p = row.get(unit if unit == "runs" else f"{prefix}{unit}"), row.get(f"{prefix}{column}")
        enough = not isinstance(count, int) or count >= LEAST_SEEDS
        shown += mark if enough and isinstance(p, float) and p < LEVEL else ""
    return shown


def _spread(runs: MethodRuns, generator: np.random.Generator) -> Row:
    values = runs.values
    low, high = bootstrap_interval(values, generator)
    spread: Row = {
        "runs": len(values),
        "failed": runs.failed,
        "diverged": len(runs.diverged),
        "min": float(values[0]) if len(values) else None,
        "max": float(values[-1]) if len(values) else None,
        "ci_low": None if math.isnan(low) else low,
        "ci_high": None if math.isnan(high) else high,
    }
    samples = {
        "": values,
        "trained_": np.sort(list((Counter(values.tolist()) - Counter(runs.diverged)).elements())),
        "all_": np.sort(np.concatenate([values, np.zeros(runs.failed)])),
        "interpolated_": np.array(runs.interpolated),
    }
    for name, sample in samples.items():
        spread[f"{name}mean"] = float(sample.mean()) if len(sample) else None
        spread[f"{name}std"] = float(sample.std(ddof=1)) if len(sample) > 1 else None
    return spread


def _first_stage(figures: pl.Series, columns: list[str], candidates: str) -> list[Row]:
    """The first stage alone over the same candidates: one value if all runs agree, as they do on one split."""
    values = figures.drop_nulls().sort().to_numpy()
    if not len(values):
        return []
    if np.ptp(values) <= 1e-12:
        values = values[:1]
    method = BM25 if first_stage_of(candidates) == "BM25" else RUN
    identity = {**dict.fromkeys(columns, "-"), "ranker": "bm25", "method": method}
    spread = _spread(MethodRuns(identity, [MeasuredRun(value) for value in values]), np.random.default_rng(0))
    return [{**identity, **spread, "ci_low": None, "ci_high": None, "marks": ""}]


def _schema(columns: list[str], baseline: bool) -> dict[str, pl.DataType]:
    text, number = pl.String(), pl.Float64()
    schema: dict[str, pl.DataType] = dict.fromkeys(("collection", *columns), text)
    schema |= dict.fromkeys(("measure", "candidates", "cut"), text)
    schema |= dict.fromkeys(("runs", "failed", "diverged"), pl.Int64())
    schema |= dict.fromkeys(("mean", "std", "min", "max", "ci_low", "ci_high"), number)
    schema |= dict.fromkeys(COSTS, number)
    schema |= {f"{name}_{figure}": number for name in ("trained", "all", "interpolated") for figure in ("mean", "std")}
    tests = {**dict.fromkeys(TESTS, number), "pairs": pl.Int64()}
    schema |= {"against": text, **tests, "marks": text}
    if baseline:
        schema |= {"baseline": text, **{f"baseline_{name}": kind for name, kind in tests.items()}}
    return schema


def baseline_of(summary: pl.DataFrame) -> str | None:
    """Return the method that is the study's baseline; None if it has none."""
    named = summary["baseline"].drop_nulls() if "baseline" in summary.columns else pl.Series([], dtype=pl.String)
    return None if named.is_empty() else str(named[0])
