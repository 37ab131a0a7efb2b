"""Which settings mattered, and the rank of the defaults."""

import numpy as np
import optuna
import polars as pl
import pytest

from pyrite.cluster.reports.analysis_sections import _importance
from pyrite.cluster.statistics.importance import importance
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


def shares_of(found: pl.DataFrame) -> dict[tuple[str, str | None], float]:
    return {tuple(names): share for *names, share in found.select("setting", "together_with", "share").rows()}


def test_the_setting_that_matters_has_the_share():
    found, ranks = importance(searched(lambda method, a, b, c: 0.3 + 0.2 * a))
    shares = shares_of(found)
    assert shares["optimizer.lr", None] > 0.9
    assert all(share < 0.05 for key, share in shares.items() if key != ("optimizer.lr", None))
    assert len(shares) == 3 + 3
    lr = found.filter(pl.col("together_with").is_null(), setting="optimizer.lr").row(0, named=True)
    assert 0.8 < lr["low"] <= lr["share"] <= lr["high"] + 0.05
    assert lr["explained"] > 0.9
    # The defaults, lr 1e-3, patience 2 and 4 negatives: the middle of what was drawn, by the one setting that matters.
    (row,) = ranks.rows(named=True)
    assert row["settings"] == "optimizer.lr=0.001 sampling.negatives=4 training.patience=2"
    assert (row["drawn"], row["inside"]) == (60, False)
    assert 20 < row["rank"] < 42
    assert row["expected"] == pytest.approx(0.4, abs=0.02)


@pytest.mark.nightly
def test_methods_are_a_setting_too():
    trials = searched(lambda method, a, b, c: 0.3 + (0.2 * a if method == "bm25" else -0.2 * a), 40, ("bm25", "random"))
    found, ranks = importance(trials)
    shares = shares_of(found)
    assert shares["optimizer.lr", "method"] > 0.1 > shares["training.patience", None]
    assert shares["method", None] > 0.3
    assert ranks["method"].to_list() == ["bm25 · uniform", "random · uniform"]
    (section,) = _importance(trials)
    page = section.to_html()
    assert "optimizer.lr with method" in page
    assert "outside what was drawn" in page


@pytest.mark.nightly
def test_shares_of_single_settings_are_those_of_optuna():
    def reached(method: str, a: float, b: float, c: float) -> float:
        return 0.3 + 0.2 * a + 0.1 * b

    study = optuna.create_study()
    space: dict[str, optuna.distributions.BaseDistribution] = {
        key: optuna.distributions.FloatDistribution(0, 1) for key in KEYS
    }
    for share in np.random.default_rng(0).random((60, 3)):  # those of `searched`
        params = dict(zip(KEYS, share, strict=True))
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=reached("", *share)))
    theirs = optuna.importance.FanovaImportanceEvaluator(seed=0).evaluate(study)
    ours = shares_of(importance(searched(reached))[0])
    for key in KEYS:
        assert ours[key, None] == pytest.approx(theirs[key], abs=0.12)


def test_nothing_is_told_without_a_search():
    few = searched(lambda method, a, b, c: a, 7)
    found, ranks = importance(few)
    assert found.is_empty()
    assert ranks.is_empty()
    assert _importance(few) == []
    assert importance(searched(lambda method, a, b, c: 0.5))[0].is_empty()  # all alike
