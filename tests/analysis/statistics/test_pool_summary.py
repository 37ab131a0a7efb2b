"""What a pooling study's figures are summed up to, and which differences are said to be there."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel

from pyrite.analysis.reports.pool_words import pool_sentence
from pyrite.analysis.statistics.pool_summary import (
    WHOLE,
    conclude_pool,
    efforts,
    estimate_errors,
    over_seeds,
    pool_contrasts,
    summarise_pools,
)


def said(pool: str, summary: pl.DataFrame, effort: pl.DataFrame, baseline: str | None) -> str:
    """The conclusion of a pool in words."""
    return pool_sentence(conclude_pool(pool, summary, effort, baseline))


def budget_rows(found: dict[str, list[list[int]]], budget: int = 10) -> pl.DataFrame:
    known = {"pool": "p", "budget": budget, "judged": 5}
    return pl.DataFrame(
        known | {"method": method, "seed": seed, "topic": str(topic), "found": value}
        for method, seeds in found.items()
        for seed, topics in enumerate(seeds)
        for topic, value in enumerate(topics)
    )


# Topics differ far more than methods do: a test that forgets which topic a value is of finds nothing.
TOPICS = [[10, 80, 30, 55, 120], [12, 80, 30, 53, 120]]
MTF = TOPICS
BETTER = [[value + gain for value, gain in zip(seed, (3, 4, 3, 5, 4), strict=True)] for seed in TOPICS]
SLIGHT = [[value + gain for value, gain in zip(seed, (1, 0, 1, 2, 1), strict=True)] for seed in TOPICS]
ALIKE = [[value + gain for value, gain in zip(seed, (1, -1, 1, 0, -1), strict=True)] for seed in TOPICS]


def means(seeds: list[list[int]]) -> np.ndarray:
    return np.mean(seeds, axis=0)


def test_the_summary_of_two_methods():
    found = {"mtf": [[1, 2, 3], [3, 2, 3]], "mm": [[4, 5, 6], [4, 5, 8]]}
    summary = summarise_pools(budget_rows(found), ["mtf", "mm"], "mtf")
    mtf, mm = summary.iter_rows(named=True)
    assert (mtf["found_mean"], mm["found_mean"]) == (pytest.approx(14 / 6), pytest.approx(32 / 6))
    assert mtf["found_std"] == pytest.approx(np.std([2, 8 / 3], ddof=1))
    assert (mtf["best"], mm["best"]) == (False, True)
    assert mtf["p"] is None
    assert mm["p"] == pytest.approx(ttest_rel([4, 5, 7], [2, 2, 3]).pvalue)
    assert mm["difference"] == pytest.approx(3)
    assert mtf["difference"] == 0
    assert summary.equals(summarise_pools(budget_rows(found), ["mtf", "mm"], "mtf"))


def test_methods_are_tested_topic_by_topic_and_corrected_for_their_number():
    found = {"mtf": MTF, "better": BETTER, "slight": SLIGHT, "alike": ALIKE}
    p = dict(summarise_pools(budget_rows(found), list(found), "mtf").select("method", "p").iter_rows())
    raw = {name: ttest_rel(means(found[name]), means(MTF)).pvalue for name in ("better", "slight", "alike")}
    assert raw["better"] < raw["slight"] < 0.05 < raw["alike"]
    assert ttest_ind(means(BETTER), means(MTF)).pvalue > 0.8  # what a test without pairs would say
    # Holm: the least p times 3, the next times 2, the last as it is.
    assert p == {
        "mtf": None,
        "better": pytest.approx(3 * raw["better"]),
        "slight": pytest.approx(2 * raw["slight"]),
        "alike": pytest.approx(raw["alike"]),
    }
    assert p["slight"] > 0.05  # found significant, were it not for the others


def test_a_family_is_a_pool_and_a_budget_and_holds_methods_that_find_the_same():
    one = budget_rows({"mtf": MTF, "better": BETTER, "slight": SLIGHT})
    twice = pl.concat([one, one.with_columns(budget=pl.lit(20, pl.Int64))])
    pools = pl.concat([twice, twice.with_columns(pool=pl.lit("q"))])
    alone = summarise_pools(one, ["mtf", "better", "slight"], "mtf")
    every = summarise_pools(pools, ["mtf", "better", "slight"], "mtf")
    assert every["pool"].to_list() == ["p"] * 6 + ["q"] * 6
    assert every["judgements"].to_list() == ["10", "20"] * 6
    for (_, _), part in every.partition_by("pool", "budget", as_dict=True).items():
        assert part["p"].to_list() == alone["p"].to_list()
    found = {"mtf": MTF, "better": BETTER, "same": MTF}
    rows = budget_rows(found)
    p = dict(summarise_pools(rows, list(found), "mtf").select("method", "p").iter_rows())
    better = ttest_rel(means(BETTER), means(MTF)).pvalue
    assert p == {"mtf": None, "better": pytest.approx(2 * better), "same": 1}
    [row] = pool_contrasts(rows, [["same", "mtf"]]).iter_rows(named=True)
    assert (row["difference"], row["low"], row["high"], row["p"]) == (0, 0, 0, 1)


def test_neither_the_whole_pool_nor_without_a_baseline_is_anything_tested():
    for baseline in (None, "absent"):
        summary = summarise_pools(budget_rows({"mtf": MTF, "better": BETTER}), ["mtf", "better"], baseline)
        assert summary["p"].null_count() == summary["difference"].null_count() == 2
    summary = summarise_pools(budget_rows({"a": [[1, 2]], "b": [[1, 2]]}, WHOLE), ["a", "b"], "a")
    assert summary["judgements"].to_list() == ["all", "all"]
    assert summary["p"].null_count() == 2
    assert summary["found_std"].null_count() == 2
    assert summary["best"].all()
    both = pl.concat([budget_rows({"a": [[1, 2]]}, WHOLE), budget_rows({"a": [[0, 2]]})])
    assert summarise_pools(both, ["a"], None)["judgements"].to_list() == ["10", "all"]  # however the rows came


def test_the_interval_holds_topics_and_seeds_to_be_draws():
    [row] = summarise_pools(budget_rows({"a": [[0, 100] * 50, [0, 100] * 50]}), ["a"], None).iter_rows(named=True)
    # The mean of 100 topics, half of them 0 and half 100, has the standard error 5.
    assert row["low"] == pytest.approx(50 - 1.96 * 5, abs=1.5)
    assert row["high"] == pytest.approx(50 + 1.96 * 5, abs=1.5)
    [row] = summarise_pools(budget_rows({"a": [[50] * 100, [60] * 100]}), ["a"], None).iter_rows(named=True)
    assert (row["low"], row["high"]) == (50, 60)  # two seeds: both may be the same one


def test_contrasts_are_tested_by_themselves_if_they_have_spread():
    found = {"mtf": MTF, "better": BETTER, "slight": SLIGHT, "alike": ALIKE}
    rows = pl.concat([budget_rows(found), budget_rows(found, WHOLE)])
    asked = pool_contrasts(rows, [["slight", "mtf"], ["mtf", "better"], ["slight", "absent"]])
    slight, better = asked.iter_rows(named=True)
    test = ttest_1samp(means(SLIGHT) - means(MTF), 0)
    assert (slight["pool"], slight["method"], slight["against"], slight["judgements"]) == ("p", "slight", "mtf", 10)
    assert slight["difference"] == pytest.approx(1)
    assert slight["p"] == pytest.approx(test.pvalue)
    assert (slight["low"], slight["high"]) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert better["difference"] == pytest.approx(-3.8)
    assert better["high"] < 0
    for found in ({"a": [[1, 2]], "b": [[2, 3]]}, {"a": [[1]], "b": [[2]]}):
        [row] = pool_contrasts(budget_rows(found), [["b", "a"]]).iter_rows(named=True)
        assert row["difference"] == 1
        assert row["p"] is row["low"] is row["high"] is None
    assert pool_contrasts(budget_rows(found), []).is_empty()


def test_means_over_seeds_leave_names_out_and_estimates_are_off():
    table = pl.DataFrame(
        {"pool": "p", "method": "m", "seed": [0, 1], "budget": 5, "tau": [0.5, float("nan")], "dropped": "x"}
    )
    assert over_seeds(table, "budget").to_dicts() == [{"pool": "p", "method": "m", "budget": 5, "tau": 0.5}]
    assert efforts(table.select("pool", "method", "seed", area=pl.lit(0.5))).to_dicts() == [
        {"pool": "p", "method": "m", "area": 0.5}
    ]
    # Of two seeds: 3 above and 1 below the truth; the first's interval ends before it.
    estimates = pl.DataFrame(
        {"pool": "p", "method": "m", "seed": [0, 1], "budget": 5}
        | {"relevant": [13.0, 9.0], "relevant_low": [11.0, 8.0], "relevant_high": [15.0, 10.0]}
        | {"relevant_true": [10.0, 10.0], "tau": [0.5, float("nan")]}
    )
    [row] = estimate_errors(estimates).to_dicts()
    assert row["bias"] == 1
    assert row["rmse"] == pytest.approx(5**0.5)
    assert row["covered"] == 0.5  # an interval that ends at the truth holds it
    assert (row["relevant"], row["tau"]) == (11, 0.5)
    assert "seed" not in row
    assert estimate_errors(estimates.with_columns(budget=pl.Series([5, 7])))["bias"].to_list() == [3, -1]


def test_the_sentence_names_the_first_to_find_most():
    """Of two that find nine of ten at once, it is the one that finds more before."""
    summary = summarise_pools(budget_rows({"a": [[1, 2, 1]], "b": [[3, 5, 3]], "c": [[2, 2, 2]]}), ["a", "b", "c"], "c")
    effort = pl.DataFrame(
        {"pool": "p", "method": ["a", "b", "c"], "area": [0.5, 0.7, 0.4], "to_90": [40.0, 40.0, 50.0]}
    )
    text = said("p", summary, effort, "c")
    assert text.startswith("p: b finds 90% of the relevant documents after 40 judgements per topic, c after 50. ")
    assert said("p", summary.clear(), effort, "a").endswith("per topic, a too.")


def test_the_leader_of_each_budget_is_named_if_it_changes():
    def at(budget: int, **found: float) -> list[dict[str, object]]:
        most = max(found.values())
        same = {"pool": "p", "judgements": str(budget), "budget": budget, "difference": None, "p": None}
        return [same | {"method": name, "found_mean": each, "best": each == most} for name, each in found.items()]

    effort = pl.DataFrame({"pool": "p", "method": ["late", "early"], "area": [0.5, 0.6], "to_90": [90.0, 120.0]})
    schema = {"difference": pl.Float64, "p": pl.Float64}
    rows = [
        *at(10, early=4.0, late=3.0),
        *at(50, early=7.0, late=7.0),
        *at(100, early=7.7, late=8.0),
        *at(1000, early=8.0, late=9.0),
    ]
    text = said("p", pl.DataFrame(rows, schema_overrides=schema), effort, None)
    assert text.endswith(
        "early after 120. By budget, within 5% of the most found: early up to 100 judgements, then late."
    )
    one = pl.DataFrame(at(10, early=1.0, late=2.0), schema_overrides=schema)
    assert "By budget" not in said("p", one, effort, None)
