"""Tests of `pyrite fork`, from a kept run to its table."""

import polars as pl

from tests.cluster.command_line import command
from tests.cluster.runs.test_fork import SMALL


def test_a_kept_run_is_forked_and_gone_on_with(beir_folder, own_cache, tmp_path, capsys, refusal, monkeypatch):
    kept, out = str(tmp_path / "run"), tmp_path / "forks"
    monkeypatch.chdir(beir_folder.parent)
    assert command("train", "collection=beir", f"collection.path={beir_folder.name}", *SMALL, f"out={kept}") == 0
    monkeypatch.chdir(tmp_path)
    asked = ["at=[0,5]", "actions=[random,bm25@dynamic:4]", "length=2", "replicates=2", "bases=2", "workers=0"]
    assert command("fork", kept, *asked, f"out={out}") == 0
    said = capsys.readouterr().out
    assert "one decision of an oracle" in said
    assert pl.read_parquet(out / "forks.parquet").height == 2 * 2 * 2 * 3
    worth = pl.read_csv(out / "values.csv")
    assert set(worth["action"]) == {"random", "bm25@dynamic:4"}
    assert (out / "figures" / "forks.png").stat().st_size > 5000
    assert command("fork", "--resume", str(out), "--regress") == 2  # two trainings are too few
    before = pl.read_parquet(out / "forks.parquet")
    lost = sorted((out / "forks").iterdir())[0]
    lost.unlink()
    assert command("fork", "--resume", str(out)) == 0
    assert lost.is_file()
    assert pl.read_parquet(out / "forks.parquet").equals(before)
    assert command("fork", kept, *asked, f"out={out}") == 2
    halves, asked = tmp_path / "halves", ["actions=[random,bm25]", "replicates=2", "workers=0"]
    assert command("fork", kept, "by=positive_rank", *asked, f"out={halves}") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "are actions worth the same in both halves? p = " in said
    assert "gain of one action per half over one for all, at most (95%): +" in said
    assert pl.read_parquet(halves / "forks.parquet").height == 2 * (1 + 2 * 2)
    assert pl.read_csv(halves / "values.csv").columns[:4] == ["at", "action", "below", "below_low"]
    assert command("fork", kept, "by=positive_rank", "--regress", "bases=3", "workers=0") == 2
    assert command("fork", str(tmp_path / "nowhere"), "at=0") == 2
    assert "never reaches" in refusal("fork", kept, "at=100000", "workers=0", f"out={tmp_path / 'late'}")
