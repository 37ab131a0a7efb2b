"""From Python a study is what it is from the command line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import pyrite


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
