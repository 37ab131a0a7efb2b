"""From Python a study is what it is from the command line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import pyrite
from cluster.statistics.summary import COSTS
from tests.cluster.command_line import command

SWEEP = ["function=random,bm25", "policy=fixed", "selector=uniform", "seeds=2", "local=true"]


@pytest.mark.nightly
def test_a_study_has_its_tables(base: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = pyrite.study([*base, *SWEEP, f"out={tmp_path / 'api'}"])
    assert study.failed == 0
    assert study.trials.height == 4
    assert {"random", "bm25"} <= set(study.summary["function"])
    assert study.queries["run"].n_unique() == 4
    assert Path(study.report).read_text().lower().startswith("<!doctype html>")
    assert command("study", *base, *SWEEP, f"out={tmp_path / 'cli'}") == 0
    from_command = pyrite.StudyResult(str(tmp_path / "cli")).summary
    assert from_command.drop(COSTS).equals(study.summary.drop(COSTS))
    assert pyrite.StudyResult(study.folder).summary.equals(study.summary)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)  # where rich shows instead of writing
    assert "bm25" in repr(study)


def test_a_training_is_measured_and_kept(base: list[str], tmp_path: Path) -> None:
    training = pyrite.train([*base, "policy=fixed", "function=bm25", f"out={tmp_path / 'run'}"])
    assert 0 < training.measures["bm25:AP@10"] <= 1
    assert Path(training.weights).exists()
    row = pl.read_parquet(tmp_path / "run" / "trials.parquet").row(0, named=True)
    assert training.measures["bm25:AP@10"] == row["bm25:AP@10"]


def test_bad_input_is_an_exception(base: list[str], tmp_path: Path) -> None:
    with pytest.raises(pyrite.BadInput, match="colour"):
        pyrite.study([*base, "colour=red", f"out={tmp_path / 'none'}"])
    with pytest.raises(pyrite.BadInput, match=r"trials\.parquet"):
        pyrite.StudyResult(str(tmp_path)).trials  # noqa: B018
