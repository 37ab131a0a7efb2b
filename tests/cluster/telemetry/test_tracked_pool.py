from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.cluster.command_line import command
from tests.cluster.telemetry.read_back import of_mlflow, of_tensorboard


@pytest.mark.nightly
def test_a_pool_is_tracked_by_seeds(of_small_pool: list[str], tmp_path: Path) -> None:
    out = tmp_path / "pool"
    options = ["method=rank,mtf", "seeds=2", "ranking_quality=false", "budgets=[3]", "track=mlflow", "local=true"]
    assert command("pool", *of_small_pool, *options, f"out={out}") == 0
    effort = pl.read_parquet(out / "effort.parquet")
    found = pl.read_parquet(out / "budgets.parquet")
    for read in (of_tensorboard, of_mlflow):
        runs = {run.parameters["method"]: run for (run,) in read(out).values()}
        assert sorted(runs) == ["mtf", "rank"]
        for method, run in runs.items():
            areas = effort.filter(method=method)["area"].to_list()
            assert [value for _, value in run.told["area"][:2]] == pytest.approx(areas)
            assert run.final["mean/area"] == pytest.approx(sum(areas) / 2)
            shares = []
            for seed in (0, 1):
                own = found.filter(method=method, seed=seed).group_by("budget").agg(pl.col("found").sum())
                shares.append(own.filter(budget=3)["found"].item() / own["found"].max())
            assert [value for _, value in run.told["found/3"][:2]] == pytest.approx(shares)
