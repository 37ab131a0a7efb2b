import io
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy import stats

from pyrite.analysis.methods import with_factors, with_methods
from pyrite.analysis.reports.analysis_sections import across as shown
from pyrite.analysis.reports.analysis_sections import across_terminal
from pyrite.analysis.reports.labels import value
from pyrite.analysis.reports.result_sections import side_by_side
from pyrite.analysis.reports.study_words import READING, SEEDS_OF_BOTH
from pyrite.analysis.statistics import across_places as across
from pyrite.analysis.statistics import seed_variation as spread
from pyrite.analysis.statistics.crossed import CrossedDifference, crossed_difference
from pyrite.analysis.statistics.pooled_effects import pool_effects
from pyrite.analysis.statistics.sequential import SequentialRule
from pyrite.analysis.study_comparison import Comparison
from tests.cluster.trial_rows import trials_of

BM25, RUN = "BM25 alone", "the run alone"
BASE = "policy=fixed function=bm25 selector=uniform"


@pytest.fixture(scope="module")
def usual(made_up_study) -> pl.DataFrame:
    """The summary of the usual study."""
    return Comparison(made_up_study()[0]).summary()


def row(summary: pl.DataFrame, method: str, candidates: str = "bm25", measure: str = "AP@100") -> dict[str, Any]:
    return summary.filter(method=method, candidates=candidates, measure=measure).row(0, named=True)


def printed(summary: pl.DataFrame, measure: str = "AP@100") -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(side_by_side(summary, measure))
    return out.getvalue()


def of(trials: pl.DataFrame, policy: str, function: str, selector: str) -> np.ndarray:
    return trials.filter(policy=policy, function=function, selector=selector, status="done")["bm25:AP@100"].to_numpy()


def test_figures_are_those_of_the_runs(made_up_study):
    trials, _ = made_up_study(seeds=5)
    found = row(Comparison(trials).summary(BASE), "bm25 · dynamic")
    values, best = of(trials, "fixed", "bm25", "dynamic"), of(trials, "fixed", "bm25", "uniform")
    p = stats.ttest_ind(values, best).pvalue
    numbers = {
        "mean": values.mean(), "std": values.std(ddof=1), "min": values.min(), "max": values.max(), "t_p": p,
        "difference": values.mean() - best.mean(), "ks_p": stats.ks_2samp(values, best).pvalue, "baseline_t_p": p,
    }  # fmt: skip
    assert {name: found[name] for name in numbers} == pytest.approx(numbers)
    assert (found["runs"], found["failed"]) == (5, 0)
    assert found["against"] == found["baseline"] == "bm25 · uniform"
    assert found["min"] <= found["ci_low"] < found["mean"] < found["ci_high"] <= found["max"]


def test_marks_follow_the_adjusted_p(made_up_study):
    summary = Comparison(made_up_study(seeds=6)[0]).summary()
    for found in summary.filter(pl.col("ranker") != "bm25").iter_rows(named=True):
        for mark, test in (("*", "paired"), ("‡", "t"), ("†", "ks")):
            assert (mark in found["marks"]) == (found[f"{test}_p_holm"] < 0.05)
    assert row(summary, "random · uniform")["marks"] == "*‡†"
    # With three runs no Kolmogorov-Smirnov test can find anything.
    assert not Comparison(made_up_study(seeds=3)[0]).summary()["marks"].str.contains("†").any()


def test_runs_that_failed_or_diverged_are_counted_and_left_out_beside(made_up_study):
    trials, _ = made_up_study(failed=1)
    lost = (pl.col("selector") == "dynamic") & (pl.col("seed") < 2)
    found = row(Comparison(trials.with_columns(diverged=lost)).summary(), "bm25 · dynamic")
    values = of(trials, "fixed", "bm25", "dynamic")
    assert (found["runs"], found["failed"], found["diverged"]) == (4, 0, 2)
    assert found["mean"] == pytest.approx(values.mean())
    assert found["trained_mean"] == pytest.approx(values[2:].mean())
    assert found["trained_std"] == pytest.approx(values[2:].std(ddof=1))
    hurt = row(Comparison(trials).summary(), "random · uniform")
    known = of(trials, "fixed", "random", "uniform")
    assert (hurt["runs"], hurt["failed"], hurt["diverged"]) == (3, 1, 0)
    assert hurt["trained_mean"] == hurt["mean"] == pytest.approx(known.mean())
    assert hurt["all_mean"] == pytest.approx(known.sum() / 4)
    assert hurt["all_std"] == pytest.approx(np.std([*known, 0], ddof=1))
    none = row(Comparison(trials.with_columns(diverged=pl.lit(True))).summary(), "random · uniform")
    assert (none["diverged"], none["trained_mean"], none["trained_std"]) == (3, None, None)
    summary = Comparison(made_up_study(failed=5)[0]).summary()
    lost, hurt = row(summary, "random · uniform"), row(summary, "bm25 · uniform")
    assert (lost["runs"], lost["failed"], lost["mean"], lost["against"], lost["marks"]) == (0, 4, None, None, "")
    assert (hurt["runs"], hurt["failed"]) == (3, 1)
    methods = summary.filter(ranker="feed_forward", candidates="bm25", measure="AP@100")["method"]
    assert methods[-1] == "random · uniform"
    trials, _ = made_up_study(failed=100)
    assert Comparison(trials).summary()["runs"].sum() == 0
    assert Comparison(trials.clear()).summary().is_empty()
    assert Comparison(trials.select(pl.exclude("^.*:.*$"))).summary().is_empty()


def test_where_a_run_failed_the_difference_has_the_sign_of_its_test(made_up_study):
    """The better method has the lower mean: it finished the hard seed, which the other did not."""
    methods = [("fixed", "bm25", "uniform", 0.2), ("fixed", "bm25", "dynamic", 0.22)]
    trials, queries = made_up_study(seeds=6, methods=methods)
    measure, hard = pl.col("bm25:AP@100"), pl.col("seed") == 5
    fails = hard & (pl.col("selector") == "uniform")
    easier = pl.when(pl.col("run").str.ends_with("-5")).then(0.0).otherwise(0.3)
    trials = trials.with_columns(status=pl.when(fails).then(pl.lit("failed")).otherwise("status"))
    trials = trials.with_columns(pl.when(~fails).then(measure + pl.when(hard).then(0.0).otherwise(0.3)))
    of_both = of(trials, "fixed", "bm25", "dynamic")[:5] - of(trials, "fixed", "bm25", "uniform")
    for known in (queries.with_columns(pl.col("AP@100") + easier), None):
        summary = Comparison(trials, known).summary(BASE)
        found = row(summary, "bm25 · dynamic")
        assert found["mean"] < row(summary, "bm25 · uniform")["mean"]
        assert found["difference"] == found["baseline_difference"] == pytest.approx(of_both.mean())
        assert found["difference"] > 0
        assert known is None or 0 < found["low_both"] < found["difference"] < found["high_both"]
        assert row(summary, "bm25 · uniform")["difference"] == -found["difference"]
        assert "*" in found["marks"]
    assert SEEDS_OF_BOTH in " ".join(printed(summary).split())
    whole = Comparison(made_up_study(methods=methods)[0]).summary()
    assert SEEDS_OF_BOTH not in " ".join(printed(whole).split())


def test_bm25s_own_order_is_one_value_and_so_is_a_runs(made_up_study, usual):
    own = row(usual, BM25, "random")
    assert (own["ranker"], own["policy"], own["runs"], own["mean"], own["std"]) == ("bm25", "-", 1, 0.7, None)
    varied = made_up_study()[0].with_columns(pl.int_range(pl.len()).cast(pl.Float64).alias("bm25:AP@100:bm25"))
    several = row(Comparison(varied).summary(), BM25)
    assert (several["runs"], several["ci_low"], several["ci_high"]) == (20, None, None)
    for noise, values in ((1e-13, 1), (1e-9, 20)):  # what rounding makes is one value still
        noisy = (0.5 + noise * pl.int_range(pl.len()) / 20).alias("bm25:AP@100:bm25")
        assert row(Comparison(made_up_study()[0].with_columns(noisy)).summary(), BM25)["runs"] == values
    none = made_up_study()[0].with_columns(pl.lit(None, pl.Float64).alias("bm25:AP@100:bm25"))
    assert Comparison(none).summary().filter(ranker="bm25", candidates="bm25", measure="AP@100").is_empty()
    trials = made_up_study()[0].rename(lambda name: name.replace("random:", "run_file:"))
    summary = Comparison(trials).summary().filter(ranker="bm25", measure="AP@100")
    assert summary.select("candidates", "method", "mean").rows() == [("bm25", BM25, 0.5), ("run_file", RUN, 0.7)]
    assert [line.split()[-2] for line in printed(Comparison(trials).summary()).splitlines() if RUN in line] == [".7000"]


def test_rows_have_an_order_whatever_that_of_the_trials(made_up_study):
    summary = Comparison(made_up_study(rankers=("match_pyramid", "feed_forward"))[0]).summary()
    places = summary.select("candidates", "measure", "ranker").unique(maintain_order=True).rows()
    rankers = ("feed_forward", "match_pyramid", "bm25")
    assert places == [(c, m, r) for c in ("bm25", "random") for m in ("AP@100", "RR@10") for r in rankers]
    for _, part in summary.group_by("candidates", "measure", "ranker"):
        assert part["mean"].is_sorted(descending=True)
    trials, _ = made_up_study(swept=[("objective", ["softmax", "hinge"])])
    assert Comparison(trials.sample(fraction=1, shuffle=True, seed=1)).summary().equals(Comparison(trials).summary())


def test_other_methods_do_not_move_an_interval(made_up_study):
    trials, _ = made_up_study(seeds=6)
    fewer = trials.filter(pl.col("function") == "bm25")
    intervals = [row(Comparison(some).summary(), "bm25 · dynamic")["ci_low"] for some in (trials, fewer)]
    assert intervals[0] == intervals[1]


def test_interpolated_figures_stand_beside(made_up_study):
    trials, _ = made_up_study(failed=1)
    assert Comparison(trials).summary()["interpolated_mean"].null_count() == len(Comparison(trials).summary())
    mixed = trials.with_columns((pl.col("bm25:AP@100") + 0.2).alias("bm25:AP@100:interpolated"))
    found = row(Comparison(mixed).summary(), "bm25 · dynamic")
    assert found["interpolated_mean"] == pytest.approx(found["mean"] + 0.2)
    assert found["interpolated_std"] == pytest.approx(found["std"])
    assert row(Comparison(mixed).summary(), "bm25 · dynamic", "random")["interpolated_mean"] is None
    text = printed(Comparison(mixed).summary())
    (line,) = [line for line in text.splitlines() if "bm25 · dynamic" in line]
    assert f" {value(found['interpolated_mean'])} " in line
    assert "ranker + BM25" in text


def test_swept_names_and_few_numbers_make_methods_and_hide_no_column(made_up_study):
    trials = made_up_study(swept=[("training.rate", ["1e-3", "0.01"]), ("objective", ["softmax", "hinge"])])[0]
    summary = Comparison(trials).summary()
    assert summary.columns[5:8] == ["objective", "training.rate", "method"]
    assert row(summary, "bm25 · uniform · objective=hinge · training.rate=0.01")["runs"] == 2
    assert set(summary["objective"]) == {"softmax", "hinge", "-"}
    pooled = Comparison(with_factors(trials, ["objective"])).summary()
    assert "training.rate" not in pooled.columns
    assert row(pooled, "bm25 · uniform · objective=hinge")["runs"] == 2
    assert row(Comparison(with_factors(trials, [])).summary(), "bm25 · uniform")["runs"] == 4
    summary = Comparison(made_up_study(swept=[("candidates", ["a", "b"])])[0]).summary()
    assert set(summary["candidates"]) == {"bm25", "random"}
    assert set(summary["swept.candidates"]) == {"a", "b", "-"}


def test_objectives_are_told_apart_when_no_sweep_says_so_and_collections_are_families(made_up_study, usual):
    trials, _ = made_up_study()
    other = trials.with_columns(objective=pl.lit("hinge"), run=pl.format("{}-hinge", "run"))
    assert with_methods(pl.concat([trials, other]))["method"].n_unique() == 10
    # Rankers that have one each are told apart already.
    own = other.with_columns(ranker=pl.lit("match_pyramid"))
    assert with_methods(pl.concat([trials, own]))["method"].n_unique() == 5
    one, two = made_up_study()[0], made_up_study(collection="medquad")[0]
    assert Comparison(pl.concat([one, two])).summary().filter(collection="pydocs").equals(usual)
    same_name = two.with_columns(collection=pl.lit("pydocs"), fingerprint=pl.lit("fedcba9876543210"))
    names = Comparison(pl.concat([one, same_name])).summary()["collection"].unique().sort().to_list()
    assert names == ["pydocs (01234567)", "pydocs (fedcba98)"]


def test_one_run_a_method_has_no_tests_and_two_have_a_spread(made_up_study):
    found = row(Comparison(made_up_study(seeds=1)[0]).summary(), "bm25 · dynamic")
    assert found["difference"] < 0
    assert all(found[name] is None for name in ("std", "ci_low", "t_p", "t_p_holm", "ks_p", "effect", "trained_std"))
    assert found["marks"] == ""
    trials, _ = made_up_study(seeds=2)
    summary = Comparison(trials).summary()
    found, values = row(summary, "bm25 · dynamic"), of(trials, "fixed", "bm25", "dynamic")
    assert found["std"] == found["trained_std"] == pytest.approx(abs(values[1] - values[0]) / 2**0.5)
    assert summary.schema["pairs"] == pl.Int64


def test_the_methods_of_all_rankers_are_compared_with_a_baseline_of_one(made_up_study):
    """A method of this name of another ranker is another one: its verdict and its decisions have no baseline."""
    trials, queries = made_up_study(rankers=("feed_forward", "match_pyramid"))
    comparison, named = Comparison(trials, queries), f"{BASE} ranker=feed_forward"
    summary = comparison.summary(named)
    compared = summary.filter(pl.col("baseline").is_not_null())
    assert set(compared["ranker"]) == {"feed_forward", "match_pyramid"}
    assert set(compared["baseline_ranker"]) == {"feed_forward"}
    assert "bm25 · uniform" not in set(compared.filter(ranker="feed_forward")["method"])
    other = row(compared.filter(ranker="match_pyramid"), "bm25 · uniform")
    own = row(summary.filter(ranker="feed_forward"), "bm25 · uniform")
    assert other["baseline_difference"] == pytest.approx(other["mean"] - own["mean"])
    assert "bm25 · uniform (feed_forward)" in side_by_side(summary, "AP@100").note
    verdicts = {verdict.place["ranker"]: verdict.baseline for verdict in comparison.verdict(summary).verdicts}
    assert verdicts == {"feed_forward": "bm25 · uniform", "match_pyramid": None}
    decided = comparison.decisions(SequentialRule(), named)
    for ranker, baseline in (("feed_forward", BASE), ("match_pyramid", None)):
        expected = comparison.decisions(SequentialRule(), baseline)
        assert decided.filter(ranker=ranker).equals(expected.filter(ranker=ranker))


def test_the_table_fits_a_terminal_shows_all_and_explains_its_marks(made_up_study, usual):
    assert list(map(value, (0.1234567, 1.0, -0.05, None))) == [".1235", "1.0000", "-.0500", None]
    summary = Comparison(made_up_study(rankers=("feed_forward", "match_pyramid"), failed=1)[0]).summary()
    text = printed(summary)
    assert "…" not in text
    lines = text.splitlines()
    assert [line for line in lines if "bm25 · dynamic" in line and "±" in line][1:]
    assert any(BM25 in line and ".5000" in line and ".7000" in line for line in lines)
    assert "3 (1 failed)" in text
    assert "RR@10" not in text
    assert "RR@10" in printed(summary, "RR@10")
    assert side_by_side(usual, "AP@100").note == READING.format("the best baseline")
    summary = Comparison(made_up_study()[0]).summary(BASE)
    assert "(your baseline)" in side_by_side(summary, "AP@100").note
    untested = usual.with_columns(pl.lit(None, pl.Float64).alias(name) for name in ("paired_p", "t_p", "ks_p"))
    assert side_by_side(untested, "AP@100").note == ""
    again = pl.read_csv(summary.write_csv().encode(), schema=summary.schema)
    assert again.drop("marks").equals(summary.drop("marks"))
    assert again["marks"].fill_null("").equals(summary["marks"])


MEASURE = "AP@100"
FIRST = {"a0": [1.0, 0.5, 0.2], "a1": [0.5, 0.5, 0.2]}
"""Two runs of the best method over queries 1, 2 and 3."""


def two_rankers(steady: list[float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A ranker whose methods differ by hand-made queries, and one whose methods differ by `steady`."""
    of = {**FIRST, "b0": [0.25, 0.5, 0.6, 1.0], "c0": [0.5, 0.6, 0.7]}
    of["d0"] = [own - less for own, less in zip(of["c0"], steady, strict=True)]
    trials = trials_of(
        {
            "run": run, "seed": int(run[1]), "ranker": "ff" if run[0] in "ab" else "mp", "overrides": "",
            "selector": "uniform" if run[0] in "ac" else "top", "bm25:RR": mean,
        }
        for run, mean in {"a0": 0.7, "a1": 0.6, "b0": 0.5, "c0": 0.6, "d0": 0.4}.items()
    )  # fmt: skip
    queries = pl.DataFrame(
        [
            {"run": run, "query": str(query), "origin": origin, "RR": value + (origin == "random")}
            for run, values in of.items()
            for query, value in enumerate(values, start=1)
            for origin in ("bm25", "random")
        ]
    )
    return trials, queries


def test_differences_by_query_by_hand():
    trials, queries = two_rankers([0.1, 0.1, 0.2])
    table = Comparison(trials, queries).by_query(Comparison(trials).summary(), "RR")
    found, other = table.iter_rows(named=True)
    assert (found["ranker"], found["candidates"]) == ("ff", "bm25")
    assert (found["first"], found["second"]) == ("bm25 · uniform", "bm25 · top")
    assert found["differences"] == pytest.approx([0.5, 0.0, -0.4])  # query 4 has been answered by one alone
    assert (found["wins"], found["ties"], found["losses"]) == (1, 1, 1)
    assert found["difference"] == pytest.approx(0.1 / 3)
    # Pairs, not samples: the queries of `other` differ by about the same and by much from one another.
    first, second = [0.75, 0.5, 0.2], [0.25, 0.5, 0.6]
    assert found["p"] == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert other["p"] == pytest.approx(stats.ttest_1samp([0.1, 0.1, 0.2], 0).pvalue)
    assert other["p"] < 0.1 < found["p"]
    # Two rows, of which the lesser p counts twice.
    assert other["p_holm"] == pytest.approx(2 * other["p"])
    assert found["p_holm"] == pytest.approx(found["p"])


def test_a_difference_that_is_always_the_same_has_no_test_and_one_method_no_difference(made_up_study):
    trials, queries = two_rankers([0.1, 0.1, 0.1])
    found, other = Comparison(trials, queries).by_query(Comparison(trials).summary(), "RR").iter_rows(named=True)
    assert (other["p"], other["p_holm"], other["wins"]) == (None, None, 3)
    assert found["p_holm"] == found["p"]  # the only test that is made
    trials, queries = made_up_study(methods=[("fixed", "bm25", "uniform", 0.3)])
    compared = Comparison(trials, queries).by_query(Comparison(trials).summary(), MEASURE)
    assert compared.is_empty()
    trials, _ = made_up_study()
    assert Comparison(trials, pl.DataFrame()).by_query(Comparison(trials).summary(), MEASURE).is_empty()


def trials(values: dict[tuple[str, str], list[float | None]]) -> pl.DataFrame:
    """A frame of runs, by collection and function; None failed."""
    return trials_of(
        {
            "run": f"{collection}{function}{seed}", "function": function, "seed": seed, "collection": collection,
            "status": "failed" if value is None else "done", "fingerprint": collection, "bm25:AP@10": value,
        }
        for (collection, function), of in values.items() for seed, value in enumerate(of)
    )  # fmt: skip


def test_how_often_a_run_beats_another_and_the_best_of_k_is_that_of_all_draws():
    assert spread.beats(np.array([1.0, 3.0]), np.array([2.0, 3.0])) == pytest.approx((0 + 0 + 1 + 0.5) / 4)
    a, b = np.array([0.1, 0.2, 0.2, 0.5]), np.array([0.1, 0.2, 0.3])
    row, rng = spread._spreads(a, b, np.random.default_rng(3)), np.random.default_rng(3)
    drawn = [rng.choice(each, (spread.RESAMPLES, len(each))) for each in (a, b)]
    low, high = np.quantile([spread.beats(*each) for each in zip(*drawn, strict=True)], [0.025, 0.975])
    assert (row["beats_low"], row["beats_high"]) == pytest.approx((low, high))
    values = np.array([0.1, 0.2, 0.6])
    assert spread.best_of(values, 1) == pytest.approx(0.3)
    assert spread.best_of(values, 2) == pytest.approx(np.mean([max(a, b) for a in values for b in values]))
    assert np.isnan(spread.best_of(values[:0], 2))


def test_runs_that_are_all_better_give_no_interval():
    """Every resample of them is all better too, from which an interval of no width would follow."""
    found = Comparison(trials({("c", "bm25"): [0.1, 0.11, 0.12], ("c", "random"): [0.5, 0.51, 0.53]})).spread()
    assert found["beats"].sort().to_list() == [0.0, 1.0]
    assert found["beats_low"].null_count() == found["beats_high"].null_count() == 2


def test_methods_are_compared_with_the_best_baseline():
    rng = np.random.default_rng(0)
    steady, wild = rng.normal(0.5, 0.005, 12), rng.normal(0.48, 0.05, 12)
    wild[3] = 0.1
    found = Comparison(trials({("c", "bm25"): list(steady), ("c", "random"): [*wild, None]})).spread()
    row = found.filter(method="random · uniform").row(0, named=True)
    assert row["against"] == "bm25 · uniform"
    assert row["ratio"] == pytest.approx(wild.std(ddof=1) / steady.std(ddof=1))
    assert 1 < row["ratio_low"] < row["ratio"] < row["ratio_high"]
    brown_forsythe = stats.levene(np.sort(wild), np.sort(steady), center="median").pvalue
    assert row["brown_forsythe_p"] == pytest.approx(brown_forsythe)
    assert row["brown_forsythe_p_holm"] < 0.05
    assert row["line"] == pytest.approx(np.median(steady) / 2)
    assert row["below"] == pytest.approx(2 / 13)  # one never learned, one failed
    assert row["below_low"] < 2 / 13 < row["below_high"]
    assert row["beats_low"] < row["beats"] < row["beats_high"]
    assert Comparison(trials({("c", "bm25"): [0.5, 0.1]})).spread(line=0.2)["below"].to_list() == [0.5]
    assert Comparison(trials({("c", "random"): [*wild, None], ("c", "bm25"): list(steady)})).spread().equals(found)
    assert Comparison(trials({("c", "bm25"): [0.5]})).spread().drop_nulls("beats").is_empty()


def test_random_effects_by_hand():
    """Two places, by the formulas of DerSimonian and Laird: weights 100 and 100, Q = 50 · .04, tau² = (2 − 1) / 100."""
    found = pool_effects(np.array([0.0, 0.2]), np.array([0.01, 0.01]))
    assert found.mean == pytest.approx(0.1)
    assert found.between == pytest.approx(0.1)
    error = np.sqrt(0.1**2 * 2 / (1 * 2))  # Hartung and Knapp: weights are alike
    assert found.high - found.mean == pytest.approx(stats.t.isf(0.025, 1) * error)
    assert found.next_high > found.high
    assert pool_effects(np.array([0.1, 0.1, 0.1]), np.array([0.01, 0.01, 0.01])).between == 0


def test_a_place_where_nothing_varies_is_not_the_mean_of_all():
    found = pool_effects(np.array([0.1, 0.1, 0.0]), np.array([0.01, 0.03, 0.0]))
    assert found == pytest.approx(pool_effects(np.array([0.1, 0.1, 0.0]), np.array([0.01, 0.03, 0.02])))
    assert found.low < -0.1 < 0.06 < found.mean < 0.3 < found.high
    none = pool_effects(np.array([0.1, 0.2, 0.3]), np.zeros(3))  # then places alone are the sample
    reach = stats.t.isf(0.025, 2) * 0.1 / np.sqrt(3)
    assert (none.mean, none.between, none.high) == pytest.approx((0.2, 0.1, 0.2 + reach))
    assert pool_effects(np.zeros(2), np.zeros(2)) == pytest.approx((0.0,) * 6, abs=1e-10)
    rng = np.random.default_rng(1)
    of = {(c, f): list(rng.normal(0.5, 0.1, 6)) for c in "cd" for f in ("bm25", "random")}
    of |= {("e", f): [1.0] * 6 for f in ("bm25", "random")}
    *places, whole = Comparison(trials(of)).across().iter_rows(named=True)
    assert (places[2]["low"], places[2]["high"]) == (0, 0)
    assert whole["high"] - whole["low"] > 0.1


def test_places_are_summed_up_where_there_are_two():
    rng = np.random.default_rng(1)
    of = {(c, f): list(rng.normal(mean, 0.01, 6)) for c in "cde" for f, mean in (("bm25", 0.5), ("random", 0.4))}
    found = Comparison(trials(of)).across()
    assert found["against"].unique().to_list() == ["bm25 · uniform"]
    assert found["place"].to_list() == ["static on c", "static on d", "static on e", across.ALL]
    whole = found.row(-1, named=True)
    assert whole["places"] == 3
    assert whole["pairs"] == 18
    assert whole["low"] < -0.1 < whole["high"] < 0
    assert [section.title for section in shown(found)] == ["Over collections and rankers"]
    one = {key: values for key, values in of.items() if key[0] == "c"}
    assert Comparison(trials(one)).across().is_empty()
    assert shown(Comparison(trials(one)).across()) == []


def with_queries(cells: dict[tuple[str, str], dict[int, Any]]) -> Comparison:
    """A study whose `random` differs from `bm25` by these values per query, by collection, ranker and seed.

    "c/2" is another version of the collection "c".
    """
    rows, values = [], []
    for (collection, ranker), by_seed in cells.items():
        for seed, of_queries in by_seed.items():
            for function, share in (("bm25", 0.0), ("random", 1.0)):
                run = f"{collection}{ranker}{function}{seed}"
                of_run = 0.5 + 0.01 * seed + share * np.array(of_queries)
                name = collection.split("/")[0]
                of = {"run": run, "collection": name, "ranker": ranker, "function": function, "seed": seed}
                rows.append(of | {"fingerprint": collection, "bm25:AP@10": float(np.nanmean(of_run))})
                values += [
                    {"run": run, "query": f"{name}{n}", "origin": "bm25", "AP@10": value}
                    for n, value in enumerate(of_run)
                    if not np.isnan(value)
                ]
    return Comparison(trials_of(rows), pl.DataFrame(values))


def drawn(rng: np.random.Generator, rankers: str, seeds: int = 4, queries: int = 30) -> dict[str, Any]:
    """Differences of rankers that share the effects of queries: [seeds, queries] by ranker."""
    shared = rng.normal(0, 0.04, queries)
    return {name: shared + rng.normal(0, 0.01, (seeds, queries)) for name in rankers}


def over_all(compared: Comparison) -> dict[str, Any]:
    return compared.across("bm25 · uniform").filter(place=across.ALL).row(0, named=True)


def test_rankers_of_one_collection_are_averaged_as_they_share_its_queries():
    """Six rankers on one collection are as sure of other queries as one is, not two and a half times as much."""
    cells = drawn(np.random.default_rng(2), "uvwxyz")
    compared = with_queries({("c", name): dict(enumerate(of)) for name, of in cells.items()})
    found, test = over_all(compared), crossed_difference(np.mean([*cells.values()], axis=0))
    assert (found["difference"], found["low"], found["high"]) == pytest.approx((test.mean, test.low, test.high))
    assert (found["places"], found["collections"], found["pairs"]) == (6, 1, 24)
    assert [found[name] for name in ("heterogeneity", "next_low", "next_high")] == [None] * 3
    alone = compared.across("bm25 · uniform").filter(pl.col("place") != across.ALL)
    assert found["high"] - found["low"] > 0.8 * (alone["high"] - alone["low"]).mean()
    (section,) = shown(compared.across("bm25 · uniform"))
    assert "The rankers of a collection share its test queries" in " ".join(map(str, section.parts))


def test_versions_of_a_collection_are_averaged_as_they_share_its_queries():
    rng = np.random.default_rng(8)
    cells, other = drawn(rng, "uvw"), drawn(rng, "x")
    of_versions = {(f"c/{name}", "y"): dict(enumerate(of)) for name, of in cells.items()}
    compared = with_queries(of_versions)
    found, test = over_all(compared), crossed_difference(np.mean([*cells.values()], axis=0))
    assert (found["difference"], found["low"], found["high"]) == pytest.approx((test.mean, test.low, test.high))
    assert (found["places"], found["collections"], found["pairs"]) == (3, 1, 12)
    frame = compared.across("bm25 · uniform")
    assert frame["collection"].to_list() == ["c", "c", "c", None]
    assert frame["place"].to_list() == ["y on c (c/u)", "y on c (c/v)", "y on c (c/w)", across.ALL]
    line = "3 versions of c count as one collection: they share test queries."
    (section,) = shown(frame)
    assert line in section.parts
    assert line in across_terminal(frame)
    with_another = with_queries({**of_versions, ("d", "y"): dict(enumerate(other["x"]))})
    assert over_all(with_another)["collections"] == 2
    # One name alone makes no versions.
    queries = pl.concat([compared.queries.lazy().with_columns(query=pl.col("run").str.slice(0, 3) + pl.col("query"))])
    apart = Comparison(compared.trials, queries)
    assert over_all(apart)["collections"] == 3
    assert not any("versions" in str(part) for part in shown(apart.across())[0].parts)


def test_collections_of_one_name_are_versions_if_the_texts_of_their_queries_are():
    """Numbered ids are the same in collections that have nothing else in common."""
    cells = drawn(np.random.default_rng(8), "uv")
    compared = with_queries({(f"c/{name}", "y"): dict(enumerate(of)) for name, of in cells.items()})
    unlike = pl.concat_list(pl.col("fingerprint"), pl.lit("another"), pl.col("fingerprint").str.reverse())
    for sketch, collections in ((unlike.list.unique(), 1), (pl.concat_list("fingerprint"), 2), (pl.lit(["a"]), 1)):
        trials = compared.trials.with_columns(test_sketch=sketch)
        assert over_all(Comparison(trials, compared.queries))["collections"] == collections


def test_a_method_with_too_few_runs_takes_no_test_away():
    rng = np.random.default_rng(5)
    of = {("c", name): list(rng.normal(mean, 0.004, 5)) for name, mean in (("random", 0.39), ("dense", 0.42))}
    few = {("c", "bm25"): [0.45, 0.46]}
    tested, with_few = (Comparison(trials(each)).summary() for each in (of, of | few))
    columns = ["method", "against", "paired_p", "marks"]
    assert with_few.filter(pl.col("method") != "bm25 · uniform").select(columns).equals(tested.select(columns))
    assert tested["paired_p"].drop_nans().null_count() == 0
    only_few = Comparison(trials({key: values[:2] for key, values in (of | few).items()})).summary()
    assert only_few.filter(method="random · uniform")["against"].item() == "bm25 · uniform"


def test_a_method_with_one_run_is_no_reference_over_places():
    rng = np.random.default_rng(6)
    of = {(c, f): list(rng.normal(mean, 0.01, 4)) for c in "cd" for f, mean in (("bm25", 0.5), ("random", 0.4))}
    one = {(c, "dense"): [0.6] for c in "cd"}
    compared = Comparison(trials(of | one)).across()
    assert compared["against"].unique().to_list() == ["bm25 · uniform"]
    assert compared.equals(Comparison(trials(of)).across())


def test_collections_are_pooled_after_their_rankers():
    rng = np.random.default_rng(3)
    of_collections = {name: drawn(rng, rankers) for name, rankers in (("c", "xyz"), ("d", "x"), ("e", "yz"))}
    every = {(name, ranker): dict(enumerate(of)) for name, by in of_collections.items() for ranker, of in by.items()}
    found = over_all(with_queries(every))
    tests = [crossed_difference(np.mean([*by.values()], axis=0)) for by in of_collections.values()]
    pooled = pool_effects(np.array([test.mean for test in tests]), np.array([test.error**2 for test in tests]))
    names = ("difference", "low", "high", "heterogeneity", "next_low", "next_high")
    assert [found[name] for name in names] == pytest.approx([*pooled])
    assert (found["places"], found["collections"], found["pairs"]) == (6, 3, 24)


def test_rankers_are_averaged_over_the_seeds_and_queries_that_all_have():
    cells = drawn(np.random.default_rng(4), "xyz")
    for of, column in ((cells["x"], 2), (cells["z"], 7)):
        of[:, column] = np.nan
    by_seed = {name: dict(enumerate(of)) for name, of in cells.items()}
    del by_seed["y"][1]
    found = over_all(with_queries({("c", name): of for name, of in by_seed.items()}))
    common = np.delete(np.delete(np.mean([*cells.values()], axis=0), 1, axis=0), [2, 7], axis=1)
    test = crossed_difference(common)
    assert (found["difference"], found["low"], found["high"]) == pytest.approx((test.mean, test.low, test.high))
    assert found["pairs"] == 9


def mean_interval(tests: list[CrossedDifference]) -> Any:
    return pytest.approx([np.mean([getattr(test, name) for test in tests]) for name in ("mean", "low", "high")])


def test_rankers_without_common_seeds_or_queries_have_the_mean_of_their_intervals():
    cells = drawn(np.random.default_rng(5), "xy")
    tests = [crossed_difference(of) for of in cells.values()]
    seeds = {("c", name): dict(enumerate(of, 4 * (name == "y"))) for name, of in cells.items()}
    found = over_all(with_queries(seeds))
    assert [found["difference"], found["low"], found["high"]] == mean_interval(tests)
    assert (found["pairs"], found["heterogeneity"]) == (8, None)
    gap = np.full((4, 30), np.nan)
    apart = {"x": np.hstack([cells["x"], gap]), "y": np.hstack([gap, cells["y"]])}
    queries = with_queries({("c", name): dict(enumerate(of)) for name, of in apart.items()})
    found = over_all(queries)
    assert [found["difference"], found["low"], found["high"]] == mean_interval(tests)
    unknown = Comparison(queries.trials, queries.queries.lazy().filter(~pl.col("run").str.starts_with("cy")))
    of_seeds = stats.ttest_1samp(cells["y"].mean(1), 0).confidence_interval()
    assert over_all(unknown)["high"] == pytest.approx((tests[0].high + of_seeds.high) / 2)


def test_rankers_whose_values_by_query_are_not_known_are_averaged_by_seed():
    compared = with_queries(
        {("c", name): dict(enumerate(of)) for name, of in drawn(np.random.default_rng(6), "xy").items()}
    )
    found = over_all(Comparison(compared.trials))
    means = compared.trials.group_by("function", "seed").agg(pl.col("bm25:AP@10").mean()).sort("seed")
    by_function = [means.filter(function=name)["bm25:AP@10"].to_numpy() for name in ("random", "bm25")]
    interval = stats.ttest_rel(*by_function).confidence_interval()
    assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high))


def test_one_ranker_on_each_collection_is_pooled_as_it_is():
    rng = np.random.default_rng(7)
    by_place = {place: drawn(rng, place[1])[place[1]] for place in (("c", "x"), ("d", "y"), ("e", "x"))}
    found = over_all(with_queries({place: dict(enumerate(of)) for place, of in by_place.items()}))
    tests = [crossed_difference(of) for of in by_place.values()]
    pooled = pool_effects(np.array([test.mean for test in tests]), np.array([test.error**2 for test in tests]))
    assert [found["low"], found["high"], found["next_low"]] == pytest.approx([pooled.low, pooled.high, pooled.next_low])
    assert (found["places"], found["collections"], found["pairs"]) == (3, 3, 12)
