"""Classes from outside the repository, from the command line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from cluster.config.build import build
from ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.sampling.outside import IN_BATCH, WINDOW


def test_a_selector_and_a_function_of_ones_own(
    base: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(WINDOW + IN_BATCH)
    out = tmp_path / "out"
    overrides = [
        *base, "function=[]", "+function.others._target_=mine.OthersPositives",
        "selector._target_=mine.Window", "+selector.first=1", "+selector.last=6", f"out={out}",
    ]  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))  # as PYTHONPATH does
    assert command("train", *overrides) == 0
    samplers = pl.read_parquet(out / "samplers.parquet")
    assert samplers["function"].unique().to_list() == ["others"]
    assert samplers["negatives"].min() > 0  # type: ignore[operator]


def test_an_option_that_a_class_does_not_have_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_too.py").write_text(WINDOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match="Window has no option lam; Window has first, last"):
        build({"_target_": "mine_too.Window", "lam": 0.5})
