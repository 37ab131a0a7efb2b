"""More than a mean: spread, which beats which, the best of k, duds, and several places."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from cluster.reports.analysis_figures import across_figure, variation_figure
from cluster.statistics import across_places as across
from cluster.statistics import seed_variation as spread
from tests.cluster.trial_rows import trials_of


def trials(values: dict[tuple[str, str], list[float | None]]) -> pl.DataFrame:
    """A frame of runs, by collection and function; None failed."""
    rows = [
        {
            "run": f"{collection}{function}{seed}", "function": function, "seed": seed, "collection": collection,
            "status": "failed" if value is None else "done", "fingerprint": collection, "bm25:AP@10": value,
        }
        for (collection, function), of in values.items() for seed, value in enumerate(of)
    ]  # fmt: skip
    return trials_of(rows)


def test_how_often_a_run_beats_another_and_the_best_of_k_is_that_of_all_draws():
    assert spread.beats(np.array([1.0, 3.0]), np.array([2.0, 3.0])) == pytest.approx((0 + 0 + 1 + 0.5) / 4)
    a, b = np.array([0.1, 0.2, 0.2, 0.5]), np.array([0.1, 0.2, 0.3])
    row, rng = spread._spreads(a, b, np.random.default_rng(3)), np.random.default_rng(3)
    drawn = [rng.choice(each, (spread.RESAMPLES, len(each))) for each in (a, b)]
    low, high = np.quantile([spread.beats(*each) for each in zip(*drawn, strict=True)], [0.025, 0.975])
    assert (row["beats_low"], row["beats_high"]) == pytest.approx((low, high))
    values = np.array([0.1, 0.2, 0.6])
    assert spread.best_of(values, 1) == pytest.approx(0.3)
    draws = [max(a, b) for a in values for b in values]
    assert spread.best_of(values, 2) == pytest.approx(np.mean(draws))
    assert spread.best_of(values[:0], 2) is None


def test_runs_that_are_all_better_give_no_interval():
    """Every resample of them is all better too, from which an interval of no width would follow."""
    found = spread.seed_variation(trials({("c", "bm25"): [0.1, 0.11, 0.12], ("c", "random"): [0.5, 0.51, 0.53]}))
    assert found["beats"].sort().to_list() == [0.0, 1.0]
    assert found["beats_low"].null_count() == found["beats_high"].null_count() == 2


def test_methods_are_compared_with_the_best_baseline():
    rng = np.random.default_rng(0)
    steady, wild = rng.normal(0.5, 0.005, 12), rng.normal(0.48, 0.05, 12)
    wild[3] = 0.1
    found = spread.seed_variation(trials({("c", "bm25"): list(steady), ("c", "random"): [*wild, None]}))
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
    assert spread.seed_variation(trials({("c", "bm25"): [0.5, 0.1]}), line=0.2)["below"].to_list() == [0.5]
    again = spread.seed_variation(trials({("c", "random"): [*wild, None], ("c", "bm25"): list(steady)}))
    assert again.equals(found)
    assert variation_figure(found) is not None
    assert variation_figure(spread.seed_variation(trials({("c", "bm25"): [0.5]}))) is None


def test_random_effects_by_hand():
    """Two places, by the formulas of DerSimonian and Laird: weights 100 and 100, Q = 50 · .04, tau² = (2 − 1) / 100."""
    found = across.pool_effects(np.array([0.0, 0.2]), np.array([0.01, 0.01]))
    assert found.mean == pytest.approx(0.1)
    assert found.between == pytest.approx(0.1)
    error = np.sqrt(0.1**2 * 2 / (1 * 2))  # Hartung and Knapp: weights are alike
    assert found.high - found.mean == pytest.approx(stats.t.isf(0.025, 1) * error)
    assert found.next_high > found.high
    alike = across.pool_effects(np.array([0.1, 0.1, 0.1]), np.array([0.01, 0.01, 0.01]))
    assert alike.between == 0


def test_places_are_summed_up_where_there_are_two():
    rng = np.random.default_rng(1)
    of = {(c, f): list(rng.normal(mean, 0.01, 6)) for c in "cde" for f, mean in (("bm25", 0.5), ("random", 0.4))}
    found = across.across_places(trials(of))
    assert found["against"].unique().to_list() == ["bm25 · uniform"]
    assert found["place"].to_list() == ["static on c", "static on d", "static on e", across.ALL]
    whole = found.row(-1, named=True)
    assert whole["places"] == 3
    assert whole["pairs"] == 18
    assert whole["low"] < -0.1 < whole["high"] < 0
    assert across_figure(found) is not None
    one = {key: values for key, values in of.items() if key[0] == "c"}
    assert across.across_places(trials(one)).is_empty()
    assert across_figure(across.across_places(trials(one))) is None
