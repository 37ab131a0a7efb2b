"""Tests of `pyrite fork`, from a kept run to its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.commands.cli import main
from cluster.runs.fork import base_states
from tests.cluster.runs.test_fork import SMALL


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.mark.nightly
def test_forks_on_ray_are_those_of_this_process_and_a_kept_state_saves_training(
    ray_session: None, beir_folder: Path, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = str(tmp_path / "run")
    assert run("train", "collection=beir", f"collection.path={beir_folder}", *SMALL, "keep_at=[5]", f"out={kept}") == 0
    begun: list[set[int]] = []

    def noted(**arguments: Any) -> Any:
        begun.append(set(arguments["kept"]))
        return base_states(**arguments)

    monkeypatch.setattr("cluster.runs.fork.base_states", noted)
    asked = ["at=5", "actions=[random]", "length=2", "replicates=2", "bases=2"]
    assert run("fork", kept, *asked, "workers=0", f"out={tmp_path / 'here'}") == 0
    assert begun == [{5}, set()]  # the run's own training is kept, that of the next seed is not
    assert run("fork", kept, *asked, "workers=2", f"out={tmp_path / 'ray'}") == 0
    here, there = (pl.read_parquet(tmp_path / place / "forks.parquet") for place in ("here", "ray"))
    assert here.equals(there)
    assert here.height == 2 * 2 * 2


def test_a_kept_run_is_forked_and_gone_on_with(
    beir_folder: Path, own_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, out = str(tmp_path / "run"), tmp_path / "forks"
    assert run("train", "collection=beir", f"collection.path={beir_folder}", *SMALL, f"out={kept}") == 0
    asked = ["at=[0,5]", "actions=[random,bm25@dynamic:4]", "length=2", "replicates=2", "bases=2", "workers=0"]
    assert run("fork", kept, *asked, f"out={out}") == 0
    said = capsys.readouterr().out
    assert "one decision of an oracle" in said
    assert pl.read_parquet(out / "forks.parquet").height == 2 * 2 * 2 * 3
    worth = pl.read_csv(out / "values.csv")
    assert set(worth["action"]) == {"random", "bm25@dynamic:4"}
    assert (out / "figures" / "forks.png").stat().st_size > 5000
    assert run("fork", "--resume", str(out), "--regress") == 2  # two trainings are too few
    before = pl.read_parquet(out / "forks.parquet")
    lost = sorted((out / "forks").iterdir())[0]
    lost.unlink()
    assert run("fork", "--resume", str(out)) == 0
    assert lost.is_file()
    assert pl.read_parquet(out / "forks.parquet").equals(before)
    assert run("fork", kept, *asked, f"out={out}") == 2
    assert run("fork", str(tmp_path / "nowhere"), "at=0") == 2
    assert run("fork", kept, "at=100000", "workers=0", f"out={tmp_path / 'late'}") == 2
    assert "never reaches" in capsys.readouterr().err
