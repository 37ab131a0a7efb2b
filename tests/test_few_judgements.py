"""Conclusions from few judgements are held against those from all."""

import polars as pl
import pytest

from benchmarks.few_judgements import decided, few_judgements, profits
from tests.cluster.trial_rows import trials_of


def trials(values: dict[tuple[str, str, str, str], list[float]]) -> pl.DataFrame:
    """A row a run, of (function, order, budget, feeders) and the seeds' values."""
    rows = []
    for (function, order, budget, feeders), seeds in values.items():
        swept = [("judging.order", order), ("judging.budget", budget), ("judging.feeders", feeders)]
        for seed, value in enumerate(seeds):
            rows.append({
                "run": f"{function}-{order}-{budget}-{feeders}-{seed}", "function": function, "seed": seed,
                "fingerprint": f"{order}{budget}{feeders}",
                "swept": [{"key": key, "value": said} for key, said in swept if said], "bm25:AP@100": value,
            })  # fmt: skip
    return trials_of(rows)


def test_what_few_judgements_decide_is_held_against_what_all_do():
    table = few_judgements(trials({
        ("a", "", "", ""): [0.50, 0.51, 0.52, 0.50], ("b", "", "", ""): [0.40, 0.41, 0.41, 0.40],
        ("a", "mm", "5", ""): [0.30, 0.31, 0.32, 0.30], ("b", "mm", "5", ""): [0.40, 0.42, 0.41, 0.40],
        ("a", "mm", "20", ""): [0.48, 0.49, 0.50, 0.49], ("b", "mm", "20", ""): [0.40, 0.41, 0.41, 0.40],
    }))  # fmt: skip
    columns = ["budget", "tau", "winner", "by_all", "opposite", "same", "enough"]
    assert table.select(columns).rows() == [(5, -1, "b", "a", 1, 0, False), (20, 1, "a", "a", 0, 1, True)]


def test_who_fed_the_pool_profits():
    table = profits(trials({
        ("a", "", "", ""): [0.5, 0.5, 0.5], ("a", "mm", "5", ""): [0.30, 0.31, 0.32],
        ("a", "mm", "5", "[a]"): [0.34, 0.35, 0.36],
    }))  # fmt: skip
    assert table.select("policy", "feeders").rows() == [("a", "[a]")]
    assert table["gain"][0] == pytest.approx(0.04)


def test_no_pair_is_decided_by_chance():
    assert decided({"a": {0: 0.1, 1: 0.3, 2: 0.2}, "b": {0: 0.2, 1: 0.1, 2: 0.3}}, ["a", "b"]) == [0]
    assert decided({"a": {0: 0.3, 1: 0.31, 2: 0.33}, "b": {0: 0.1, 1: 0.12, 2: 0.11}}, ["a", "b"]) == [1]
    assert few_judgements(trials({("a", "", "", ""): [0.5, 0.5], ("b", "", "", ""): [0.4, 0.4]})).is_empty()
