"""Compares runs with a baseline, topic by topic."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pyrite.analysis.statistics.paired import mean_difference
from pyrite.pooling.run_measures import JUDGED, RESIDUAL, RunMeasures
from pyrite.ranking.errors import refuse
from pyrite.ranking.evaluation.significance import holm

SCHEMA = {
    "run": pl.String, "baseline": pl.String, "measure": pl.String, "topics": pl.Int64, "difference": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "p": pl.Float64, "p_holm": pl.Float64, "better": pl.Int64, "worse": pl.Int64,
}  # fmt: skip


def baseline_of(name: str, names: Sequence[str]) -> str:
    """Return the run that a baseline names.

    Raises:
        BadInput: if there is none, or it is the only run.
    """
    refuse(name not in names, f"there is no run {name!r}", "baseline", f"choose one of {', '.join(names)}")
    refuse(len(names) == 1, "is the only run", "baseline", "name further runs, or leave baseline= out")
    return name


def run_differences(measured: RunMeasures, baseline: str) -> pl.DataFrame:
    """Return the differences of all other runs from a baseline, with 95% intervals and tests.

    The tests are Student's, paired by topic; `p_holm` is adjusted for the runs that are compared by one measure (Holm
    1979). `better` and `worse` count topics. Interval and p are null with fewer than three topics, or if all differ by
    the same amount (`mean_difference`).

    Args:
        measured: the measures of the runs; those of unjudged documents are not compared.
        baseline: the name of a run.
    """
    baseline = baseline_of(baseline, measured.names)
    rows = [pl.DataFrame(schema=SCHEMA)]
    for measure in measured.measures:
        if JUDGED.fullmatch(measure) or measure.endswith(RESIDUAL):
            continue
        base = measured.of(baseline, measure).rename({"value": "base"})
        found = []
        for run in measured.names:
            if run == baseline:
                continue
            pairs = measured.of(run, measure).join(base, on="topic", maintain_order="left")
            differences = (pairs["value"] - pairs["base"]).to_numpy()
            test = mean_difference(differences)
            found.append((run, baseline, measure, test.pairs, test.mean, test.low, test.high, test.p, None,
                          int((differences > 0).sum()), int((differences < 0).sum())))  # fmt: skip
        frame = pl.DataFrame(found, schema=SCHEMA, orient="row")
        rows.append(frame.with_columns(p_holm=pl.Series(holm(frame["p"].to_numpy()))))
    return pl.concat(rows).fill_nan(None)
