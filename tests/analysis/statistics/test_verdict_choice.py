"""Tests that a verdict's sentence says what its table shows, and what is said of methods that can't be tested."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from pyrite.analysis.reports.verdict_words import sentence, verdict_table
from pyrite.analysis.statistics.comparison import LEVEL, MethodRuns
from pyrite.analysis.statistics.method_comparison import MethodComparison
from pyrite.analysis.statistics.paired import MeasuredRun
from pyrite.analysis.statistics.verdict import Conclusion, Verdict, verdict_of

PLACE = {"collection": "c", "ranker": "static", "candidates": "bm25", "measure": "AP"}
QUERIES = 60


def methods_of(values: Mapping[str, list[float]]) -> dict[str, MethodRuns]:
    """Methods with these results, one for each seed."""
    return {
        name: MethodRuns({"method": name}, [MeasuredRun(v, seed, name=f"{name}{seed}") for seed, v in enumerate(runs)])
        for name, runs in values.items()
    }


def made(leads: Mapping[str, float], seeds: int, number: int) -> MethodComparison:
    """Methods with true leads, over what seeds and queries add by chance."""
    rng, by_query, values = np.random.default_rng(number), {}, {}
    for name, lead in leads.items():
        of_query = rng.normal(0, 0.01, QUERIES)
        for seed in range(seeds):
            luck = rng.normal(0, 0.0015) + rng.normal(0, 0.01, QUERIES)
            by_query[f"{name}{seed}"] = 0.4 + lead + of_query + luck
        values[name] = [float(by_query[f"{name}{seed}"].mean()) for seed in range(seeds)]
    family = methods_of(values)
    return MethodComparison(dict(sorted(family.items(), key=lambda item: -item[1].mean)), by_query)


def verdict_on(comparison: MethodComparison, baseline: str | None = None) -> Verdict:
    rows = [
        {"method": name, "mean": runs.mean, "runs": len(runs.runs), "failed": runs.failed, "seconds": 1.0}
        | {"baseline": baseline}
        for name, runs in comparison.methods.items()
    ]
    return verdict_of(comparison, PLACE, pl.DataFrame(rows, schema_overrides={"baseline": pl.String()}))


def test_a_baseline_that_is_kept_is_better_than_the_methods_with_a_star():
    """Shaffer's steps over all pairs find more than Holm's over those with the baseline, which the table shows."""
    kept = 0
    for number in range(150):
        verdict = verdict_on(made({"base": 0.0, "good": 0.004, "bad": -0.0045}, 3, number), "base")
        if verdict.take == "base":
            kept += 1
            assert verdict.better_than == [name for name, test in verdict.tests.items() if test.direction < 0]
    assert kept > 10


def test_the_best_has_a_star_against_all_others_and_one_interval_of_its_lead():
    named = 0
    for number in range(150):
        comparison = made({"A": 0.006, "B": 0.0, "C": 0.0}, 3, number)
        verdict = verdict_on(comparison)
        if verdict.best:
            named += 1
            assert all(test.direction < 0 and not test.with_zero for test in verdict.tests.values())
            nearest = verdict.tests[verdict.lead.against]
            assert verdict.lead.low <= -nearest.high <= -nearest.low
            assert min(-test.high for test in verdict.tests.values()) == pytest.approx(verdict.lead.low)
            assert not verdict.is_over_all_pairs
    assert named > 10


def test_a_method_without_enough_seeds_leaves_the_others_their_verdict():
    comparison = made({"A": 0.03, "B": 0.0, "C": -0.03, "D": 0.0}, 20, 0)
    few = replace(comparison.methods["D"], runs=comparison.methods["D"].runs[:2], failed=18)
    without = verdict_on(comparison.of(["A", "B", "C"]))
    verdict = verdict_on(MethodComparison({**comparison.methods, "D": few}, comparison.by_query))
    assert (verdict.take, verdict.lead, verdict.tests) == (without.take, without.lead, without.tests)
    assert verdict.left_out == ["D"]
    assert sentence(verdict) == f"{sentence(without)} D shares fewer than 3 seeds with others, and can't be compared."
    assert verdict_table(Conclusion([verdict]))["take"].to_list() == ["A"]


def test_the_baseline_is_not_left_out():
    comparison = made({"A": 0.03, "B": 0.0, "C": -0.03}, 4, 0)
    few = replace(comparison.methods["B"], runs=comparison.methods["B"].runs[:2], failed=2)
    verdict = verdict_on(MethodComparison({**comparison.methods, "B": few}, comparison.by_query), "B")
    assert not verdict.left_out
    assert sentence(verdict) == (
        "Nothing is tested with 2 seeds: a difference can be marked from 3 seeds on (--resume runs what failed)."
    )
    finished = replace(few, failed=0)  # of a study with fewer seeds
    whole = verdict_on(MethodComparison({**comparison.methods, "B": finished}, comparison.by_query), "B")
    assert "(seeds=3; --resume keeps the runs so far)" in sentence(whole)
    assert "(seeds=3; --resume keeps the runs so far)" in sentence(verdict_on(made({"A": 0.03, "B": 0.0}, 2, 0)))


@pytest.mark.parametrize(
    ("baseline", "said"),
    [
        (None, "No method can be told from the others with 4 seeds: two differ by the same in all of them, which "
               "bounds nothing."),
        ("C", "Keep C: no method is shown to be better; A and B may be better, by how much is not known, and take "
              "as long to train."),
    ],
)  # fmt: skip
def test_equal_differences_show_nothing(baseline, said):
    """Neither the same lead at each seed, where values of queries are not known, nor for each query can be tested."""
    above = {"A": 0.02, "B": 0.01, "C": 0.0}
    of_seeds = methods_of({name: [0.5 + lead + 0.01 * seed for seed in range(4)] for name, lead in above.items()})
    by_query = {f"{name}{seed}": np.full(30, 0.5 + lead) for name, lead in above.items() for seed in range(4)}
    alike = methods_of({name: [0.5 + lead] * 4 for name, lead in above.items()})
    for comparison in (MethodComparison(of_seeds), MethodComparison(alike, by_query)):
        verdict = verdict_on(comparison, baseline)
        assert all(math.isnan(test.p) and math.isnan(test.low) for test in verdict.tests.values())
        assert not verdict.better_than
        assert sentence(verdict) == said
        assert verdict_table(Conclusion([verdict]))["ahead"].to_list() == [None]


def test_equal_results_are_known_to_be_equal():
    verdict = verdict_on(MethodComparison(methods_of({"A": [0.5, 0.6, 0.7], "B": [0.5, 0.6, 0.7]})))
    (test,) = verdict.tests.values()
    assert (test.p, test.low, test.high) == (1.0, 0.0, 0.0)
    assert verdict.ahead == 0.0
    assert test.p > LEVEL
