"""What a sequential comparison says, and when."""

import math

import numpy as np
import polars as pl
import pytest

from pyrite.analysis.reports.analysis_sections import _decisions
from pyrite.analysis.statistics.crossed import CrossedDifference, crossed_difference
from pyrite.analysis.statistics.paired import by_seed
from pyrite.analysis.statistics.power import sample_of_both, seeds_of_a_test
from pyrite.analysis.statistics.sequential import SequentialRule, best_baseline, compare_all, contenders
from pyrite.analysis.study_comparison import Comparison
from tests.cluster.command_line import command
from tests.cluster.trial_rows import trials_of

RULE = SequentialRule()


def runs(mean: float, spread: float, count: int, seed: int) -> dict[int, float]:
    return dict(enumerate(np.random.default_rng(seed).normal(mean, spread, count)))


def test_verdicts():
    values = {
        "good": runs(0.5, 0.005, 40, 1), "same": runs(0.5, 0.005, 40, 2), "bad": runs(0.45, 0.005, 40, 3),
    }  # fmt: skip
    found = compare_all(values, values.keys(), RULE)
    assert found["bad", "good"].verdict == "worse"
    assert found["good", "bad"].verdict == "better"
    assert found["good", "same"].verdict == found["same", "good"].verdict == "equal"
    assert found["good", "bad"].more is None
    one, other = found["good", "bad"], found["bad", "good"]
    assert (one.difference, one.low, one.high) == (-other.difference, -other.high, -other.low)
    assert 0 < one.low < one.difference
    assert -0.01 < found["good", "same"].low < found["good", "same"].high < 0.01


def test_nothing_is_said_of_too_few_seeds_or_the_other_way_round():
    early = {"a": runs(0.9, 0.001, 2, 1), "b": runs(0.1, 0.001, 2, 2)}
    pair = compare_all(early, ["b"], RULE)["a", "b"]
    assert pair.verdict == "open"
    assert pair.more is not None
    assert 0 < pair.more < 20
    assert ("b", "a") not in compare_all(early, ["b"], RULE)
    assert compare_all({"a": {}, "b": {0: 0.5}}, ["b"], RULE)["a", "b"].more == math.inf


def test_what_is_said_once_stays_said_and_a_forecast_is_about_right():
    said = []
    for count in range(3, 41):
        values = {"a": runs(0.5, 0.01, count, 1), "b": runs(0.47, 0.01, count, 2)}
        said.append(compare_all(values, ["b"], RULE, intervals=False)["a", "b"].verdict)
    assert said[0] == "open"
    assert said[-1] == "better"
    assert said == sorted(said, key=["open", "better"].index)

    def at(count: int):
        values = {"a": runs(0.5, 0.004, count, 1), "b": runs(0.48, 0.004, count, 2)}
        return compare_all(values, ["b"], RULE, intervals=False)["a", "b"]

    needed = next(count for count in range(3, 61) if at(count).verdict != "open")
    assert at(6).more == pytest.approx(needed - 6, abs=4)


def test_a_run_that_never_learned_counts_as_the_bound_alone():
    usual = {seed: 0.5 + 0.001 * (seed % 3) for seed in range(30)}
    once = usual | {7: 0.0}
    base = dict.fromkeys(range(30), 0.46)
    verdicts = [compare_all({"a": of, "b": base}, ["b"], RULE)["a", "b"].verdict for of in (usual, once)]
    assert verdicts == ["better", "better"]
    assert by_seed(once, base).mean() < 0.03
    assert by_seed({0: 0.5, 2: 0.25}, {0: 0.25, 1: 9.0, 2: 0.5}).tolist() == [0.25, -0.25]  # of common seeds


def test_seeds_go_to_those_that_may_be_the_best_and_can_be_decided():
    values = {
        "best": runs(0.5, 0.004, 14, 1), "near": runs(0.494, 0.004, 14, 2), "far": runs(0.4, 0.004, 14, 3),
        "learned": runs(0.494, 0.004, 14, 4),
    }  # fmt: skip
    able = {"best", "near", "far"}
    assert best_baseline(values, able) == "best"
    assert best_baseline(values, able, "best") == "near"
    assert contenders(values, able, [], RULE) == {"best", "near", "learned"}
    assert contenders({"one": runs(0.5, 0.1, 5, 1)}, {"one"}, [], RULE) == set()
    values, early = ({"a": runs(0.5, 0.04, count, 1), "b": runs(0.5, 0.04, count, 2)} for count in (20, 19))
    assert contenders(early, {"b"}, [], RULE) == {"a", "b"}
    assert compare_all(values, ["b"], RULE)["a", "b"].verdict == "open"
    assert contenders(values, {"b"}, [], RULE) == set()


def test_the_first_seeds_set_the_bound_and_are_no_evidence():
    def bound(spread: float, rule: SequentialRule = RULE) -> float:
        values = {name: runs(0.5, spread, 12, seed) for seed, name in enumerate("abcdef")}
        return compare_all(values, values.keys(), rule)["a", "b"].bound

    assert bound(0.001) == pytest.approx(0.02)  # two to five times equal_within
    assert bound(0.1) == pytest.approx(0.05)
    assert 0.02 < bound(0.01) < 0.05  # 2.5 times the spread of differences, .014, as three seeds tell it
    assert bound(0.1, SequentialRule(clip=0.03)) == 0.03
    ahead = {"a": dict.fromkeys(range(12), 0.5), "b": dict.fromkeys(range(12), 0.4)}
    turned = {"a": ahead["a"] | dict.fromkeys(range(3), 0.0), "b": ahead["b"]}
    one, other = (compare_all(values, ["b"], RULE)["a", "b"] for values in (ahead, turned))
    assert one.p < 0.05
    assert compare_all(turned, ["b"], SequentialRule(clip=0.05))["a", "b"].p > one.p  # there they are
    assert other.seeds == 12


def test_seeds_of_a_t_test_and_the_sample_that_shows_a_difference_by_hand():
    # Two-sided at .05 and 80%: an effect of 1 deviation takes 10 pairs, of a half 34, of .2 199 (Cohen 1988).
    assert [seeds_of_a_test(effect, 1.0, 0.05) for effect in (1.0, 0.5, 0.2)] == [10, 34, 199]
    assert seeds_of_a_test(0.001, 1.0, 0.05) is None
    assert seeds_of_a_test(50.0, 1.0, 0.05) == 3  # nothing is tested with two
    test = CrossedDifference(0.0, 0.0, 0.0, 1.0, 1.0, 9.0, of_seed=0.01, of_query=0.1, of_cell=0.2)
    # (.05 / 2.8016)² = .000319, of which the queries take .0001; (.01² + .2² / 100) / .000219 = 2.3.
    assert sample_of_both(test, 5, 100, 0.05, 0.05) == (3, None)
    assert sample_of_both(test, 5, 100, 0.2, 0.05) == (3, None)
    # (.02 / 2.8016)² = .000051: less than the queries take alone. (.1² + .2² / 5) / (.000051 - .01² / 5) = 581.3.
    assert sample_of_both(test, 5, 100, 0.02, 0.05) == (5, 582)
    # (.01 / 2.8016)² = .0000127, of which 2 · .01² / .0000127 = 15.7 seeds take half; (.1² + .2² / 16) / .0000065.
    assert sample_of_both(test, 5, 100, 0.01, 0.05) == (16, 1926)


def test_the_queries_that_are_asked_for_show_the_difference_with_these_seeds():
    test = CrossedDifference(0.0, 0.0, 0.0, 1.0, 1.0, 4.0, of_seed=0.004, of_query=0.05, of_cell=0.05)
    rng = np.random.default_rng(0)
    for now in (100, 190, 196):
        seeds, queries = sample_of_both(test, 5, now, 0.01, 0.05)
        assert seeds == 5
        assert queries is not None
        found = 0
        for _ in range(200):
            of_seed, of_query, of_cell = (rng.standard_normal(shape) for shape in ((5, 1), (1, queries), (5, queries)))
            found += crossed_difference(0.01 + 0.004 * of_seed + 0.05 * of_query + 0.05 * of_cell).p < 0.05
        assert 0.68 < found / 200 < 0.9


@pytest.fixture
def pilot() -> pl.DataFrame:
    """Ten seeds of two methods, alike but for chance."""
    rng = np.random.default_rng(0)
    return trials_of(
        {"run": f"{name}{seed}", "function": name, "seed": seed, "bm25:AP@10": 0.5 + rng.normal(0, 0.01)}
        for name in ("bm25", "random")
        for seed in range(10)
    )


def test_power_has_a_row_a_method_and_difference(pilot, tmp_path):
    found = Comparison(pilot).power()
    assert set(found["method"]) == {"bm25 · uniform", "random · uniform"}
    at = found.filter(method="bm25 · uniform", difference=0.02).row(0, named=True)
    assert at["pairs"] == 10
    assert 2 < at["seeds"] <= at["seeds_of_many"] < 40
    assert at["seeds"] < at["seeds_sequential"]
    (tmp_path / "config.yaml").write_text("study: {}\noverrides: []\ndesign: {}\ncommand: pyrite study\n")
    pilot.write_parquet(tmp_path / "trials.parquet")
    assert command("study", "--power", str(tmp_path)) == 0
    assert len(pl.read_parquet(tmp_path / "power.parquet")) == len(found) == 2 * 18


def test_power_counts_each_setting_of_a_seed(pilot):
    rng = np.random.default_rng(1)
    drawn = pl.concat([
        pilot.with_columns(
            run=pl.col("run") + f"-{rate}", swept=pl.lit([{"key": "optimizer.lr", "value": f"{rate}"}]),
            **{"bm25:AP@10": pl.col("bm25:AP@10") + pl.Series(rng.normal(0, 0.01, 20))},
        ) for rate in range(10)
    ])  # fmt: skip
    found = Comparison(drawn).power()
    assert found.select("pairs", "unit").unique().rows() == [(100, "runs")]
    assert set(Comparison(pilot).power()["unit"]) == {"seeds"}
    assert found.equals(Comparison(drawn.reverse()).power())


def test_power_leaves_methods_with_several_agents_out(pilot):
    """Agents are their units, which more seeds do not make alike."""
    agents = pl.concat([
        pilot.filter(function="bm25").with_columns(
            run=pl.lit(f"agent {agent} ") + pl.col("run"), policy=pl.lit("learned"),
            swept=pl.lit([{"key": "policy.agent", "value": f"{agent}"}]),
            **{"bm25:AP@10": pl.col("bm25:AP@10") + 0.01 * agent},
        ) for agent in range(4)
    ])  # fmt: skip
    found = Comparison(pl.concat([pilot, agents])).power()
    assert set(found["method"]) == {"bm25 · uniform", "random · uniform"}


def test_decisions_are_tabled(pilot):
    found = Comparison(pilot).decisions(SequentialRule(), "function=random")
    assert found.select("method", "against", "seeds").rows() == [
        ("bm25 · uniform", "random · uniform", 10),
        ("random · uniform", "bm25 · uniform", 10),
    ]
    assert set(found["verdict"]) == {"open"}
    assert found["p_both"].null_count() == 2
    queries = pl.DataFrame([
        {"run": run, "query": f"q{query}", "origin": "bm25", "AP@10": value + 0.01 * query * (run[:4] > "bm25")}
        for run, value in pilot.select("run", "bm25:AP@10").rows() for query in range(3)
    ])  # fmt: skip
    both = Comparison(pilot, queries).decisions(SequentialRule(), "function=random")
    assert both["low_both"].to_list() == pytest.approx([-high for high in both["high_both"].reverse()])
    assert both["low_both"][0] < both["difference"][0] < both["high_both"][0]
    (section,) = _decisions(Comparison(pilot), SequentialRule(), "function=random")
    page = section.to_html()
    assert "about" in page
    assert "more for 0.01" in page
    assert len(section.terminal) == 1


def test_decisions_of_several_collections_are_told_apart(pilot):
    ahead = pl.col("bm25:AP@10") + 0.2 * (pl.col("function") == "random")
    other = pilot.with_columns(ahead, run="x" + pl.col("run"), collection=pl.lit("other"), fingerprint=pl.lit("o"))
    both = Comparison(pl.concat([pilot, other]))
    (section,) = _decisions(both, SequentialRule(), "function=random")
    assert [line.partition(":")[0] for line in section.terminal] == ["static on c", "static on other"]
    assert "can't be told apart" in section.terminal[0]
    assert "is worse than" in section.terminal[1]
    assert section.parts[0].head[0] == "collection"
