"""The copy of a search that Optuna's dashboard reads."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from cluster.search.optuna_runs import StoredSearch
from ranking.errors import BadInput


def test_results_are_copied_and_a_resumed_search_replaces_them(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'search.db'}"
    search = optuna.create_study(direction="maximize")
    trial = search.ask({"optimizer.lr": optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)})
    result = search.tell(trial, 0.25)
    for _ in range(2):
        stored = StoredSearch(url, ["a", "b"])
        stored.add(1, result)
        assert [len(optuna.load_study(study_name=name, storage=url).trials) for name in "ab"] == [0, 1]
    (copied,) = optuna.load_study(study_name="b", storage=url).trials
    assert (copied.value, copied.params) == (0.25, trial.params)


def test_a_storage_that_can_not_be_opened() -> None:
    with pytest.raises(BadInput, match=r"can't be opened .*sqlite:///search.db"):
        StoredSearch("nothing://x", ["a"])
