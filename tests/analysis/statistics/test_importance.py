"""How much each setting explains."""

import logging
import sys

import numpy as np
import optuna
import polars as pl
import pytest

from pyrite.analysis.reports.analysis_sections import _importance
from pyrite.analysis.statistics.importance import importance
from tests.cluster.trial_rows import trials_of

KEYS = ("optimizer.lr", "training.patience", "sampling.negatives")


def searched(reached, count: int = 60, methods: tuple[str, ...] = ("bm25",)) -> pl.DataFrame:
    """Runs whose first setting is drawn on a logarithmic scale from 1e-4 to 1e-2, and two from 0 to 1."""
    rng = np.random.default_rng(0)
    rows = []
    for method in methods:
        for number, share in enumerate(rng.random((count, 3))):
            values = [10 ** (-4 + 2 * share[0]), share[1], share[2]]
            own = [{"key": key, "value": f"{value:.6g}"} for key, value in zip(KEYS, values, strict=True)]
            overrides = " ".join(["policy=fixed", f"function={method}", *(f"{o['key']}={o['value']}" for o in own)])
            rows.append({
                "run": f"{method}{number}", "function": method, "overrides": overrides, "swept": own,
                "drawn": list(KEYS),
                "bm25:AP@10": float(reached(method, *share)),
            })  # fmt: skip
    return trials_of(rows)


def shares_of(frame: pl.DataFrame) -> dict[str, float]:
    return dict(frame.select("setting", "share").rows())


def test_optuna_reports_nothing(monkeypatch):
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO)
    said: list[str] = []
    monkeypatch.setattr(logging.StreamHandler, "emit", lambda handler, record: said.append(record.getMessage()))
    try:
        importance(searched(lambda method, a, b, c: 0.3 + 0.2 * a))
    finally:
        optuna.logging.set_verbosity(before)
    assert said == []


def test_the_setting_that_matters_has_the_share():
    trials = searched(lambda method, a, b, c: 0.3 + 0.2 * a)
    found = importance(trials)
    shares = shares_of(found)
    assert set(shares) == set(KEYS)
    assert shares["optimizer.lr"] > 0.9
    assert sum(shares.values()) == pytest.approx(1)
    assert found["runs"].to_list() == [60] * 3
    assert importance(trials).equals(found)  # the same again


def test_two_that_matter_share_it_in_their_order():
    shares = shares_of(importance(searched(lambda method, a, b, c: 0.3 + 0.2 * a + 0.1 * b)))
    assert shares["optimizer.lr"] > shares["training.patience"] > shares["sampling.negatives"]


@pytest.mark.nightly
def test_methods_are_a_setting_too():
    trials = searched(lambda method, a, b, c: 0.3 + 0.02 * a + 0.2 * (method == "bm25"), 40, ("bm25", "random"))
    shares = shares_of(importance(trials))
    assert shares["method"] > 0.8
    (section,) = _importance(trials)
    page = section.to_html()
    assert "Which settings mattered" in page
    assert "optimizer.lr" in page
    assert list(section.frames) == ["importance.parquet"]
    other = trials.with_columns(run="x" + pl.col("run"), collection=pl.lit("other"), fingerprint=pl.lit("o"))
    (section,) = _importance(pl.concat([trials, other]))
    assert section.parts[0].head[:2] == ["collection", "ranker"]


def test_nothing_is_told_without_a_search():
    few = searched(lambda method, a, b, c: a, 7)
    assert importance(few).is_empty()
    assert _importance(few) == []
    assert importance(searched(lambda method, a, b, c: 0.5)).is_empty()  # all alike


def test_without_optuna_the_section_is_a_line_that_names_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "optuna"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    (section,) = _importance(searched(lambda method, a, b, c: 0.3 + 0.2 * a))
    (line,) = section.parts
    assert "pip install 'pyrite-ir[search]'" in line
    assert not section.frames
    assert _importance(searched(lambda method, a, b, c: 0.3, count=3)) == []  # nothing to say, extra or not
