"""Which keys tell methods apart; how methods are named is tested in `tests/cluster/reports/test_summary.py`."""

import polars as pl
import pytest

from cluster.output.methods import factors, measurements, with_factors
from ranking.errors import BadInput
from tests.cluster.trial_rows import trials_of


def study(swept: dict[str, list[str]], drawn: tuple[str, ...] = ()) -> pl.DataFrame:
    """As many runs as the longest list has values."""
    count = max(map(len, swept.values()), default=1)
    rows = [
        {
            "run": str(number), "ranker": "ff", "selector": "top", "bm25:RR": 0.1 * number, "drawn": list(drawn),
            "swept": [{"key": key, "value": values[number % len(values)]} for key, values in swept.items()],
        }
        for number in range(count)
    ]  # fmt: skip
    return trials_of(rows)


def test_names_and_few_numbers_are_factors_but_no_draws_agents_collections_and_checkpoints():
    eight, nine = list("12345678"), list("123456789")
    assert factors(study({"training.patience": eight, "width": nine, "pooling": ["max", "mean"]})) == [
        *("pooling", "training.patience"),
    ]
    assert factors(study({"pooling": [f"kind{number}" for number in nine]})) == ["pooling"]
    kept = {"policy.agent": ["0", "1"], "selector.agent": ["0", "1"], "collection.fold": ["1", "2"]}
    assert factors(study({**kept, "ranker.checkpoint": ["1", "2"]})) == []
    assert factors(study({"rate": ["0.1", "0.2"]}, drawn=("rate",))) == []
    assert factors(study({"rate": ["0.1", "0.2"]}).drop("drawn")) == ["rate"]


def test_the_user_names_the_factors():
    trials = study({"rate": list("123456789"), "width": ["1", "2"]}, drawn=("rate",))
    assert factors(with_factors(trials, ["rate"])) == ["rate"]
    assert factors(with_factors(trials, [])) == []
    assert factors(with_factors(with_factors(trials, []), None)) == ["width"]
    assert measurements(with_factors(trials, ["rate"]))["method"].n_unique() == 9
    with pytest.raises(BadInput, match=r"'depth' is not swept.*rate, width"):
        with_factors(trials, ["depth"])
    with pytest.raises(BadInput, match="sweeps methods and seeds alone"):
        with_factors(study({}), ["depth"])


def test_what_repeats_a_method_or_belongs_to_its_label_is_said_of_its_runs():
    trials = study({"policy.agent": ["3", "4"], "rate": ["0.1", "0.2"], "width": ["1", "2"]}, drawn=("rate",))
    found = measurements(trials).select("method", "agent", "settings").rows()
    assert found == [
        ("bm25 · top · width=1", "3", [{"key": "rate", "value": "0.1"}]),
        ("bm25 · top · width=2", "4", [{"key": "rate", "value": "0.2"}]),
    ]
    assert measurements(study({})).select("agent", "settings", "diverged").rows() == [("-", [], False)]
    trials = study({
        "label": ["a", "b", "a", "b"],
        "selector.bm25": ["simans", "top", "simans", "top"],
        "rate": ["1", "1", "2", "2"],
    })  # fmt: skip
    kept = measurements(trials)["settings"].to_list()
    assert [[pair["key"] for pair in pairs] for pairs in kept] in ([[]] * 4, [["rate"]] * 4)
