"""The precision of transformers is chosen once, where runs go, and written into every run's command."""

import shlex

import polars as pl
import pytest
import yaml

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.precision import automatic, precision_lines, with_precision
from pyrite.ranking.precision import CHOSEN
from tests.cluster.command_line import command

PLAIN = ["ranker=bi_encoder", "ranker.checkpoint=x"]


@pytest.fixture(scope="module")
def options(base, checkpoint) -> list[str]:
    mine = [text for text in base if not text.startswith(("ranker.preset", "training.max_epochs"))]
    mine += ["ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "training.max_epochs=1", "origin=full"]
    return [*mine, "function=random", "policy=fixed", "selector=uniform"]


@pytest.fixture
def in_bfloat16(monkeypatch):
    monkeypatch.setenv(CHOSEN, "bfloat16")


def test_what_leaves_the_choice_to_the_machine():
    assert [*automatic(compose(PLAIN))] == ["ranker.precision"]
    assert [*automatic(compose([*PLAIN, "ranker.precision=float32"]))] == []
    assert [*automatic(compose(["ranker=static"]))] == []
    assert [*automatic({"a": {"b": {"precision": "auto"}}, "precision": "auto"})] == ["a.b.precision", "precision"]
    typed = [*PLAIN, "ranker.precision=auto", "seed=1"]
    assert with_precision(typed, compose(typed), "bfloat16") == [*PLAIN, "seed=1", "ranker.precision=bfloat16"]


def test_the_precision_of_stored_vectors_is_none_of_transformers():
    assert precision_lines(compose(["ranker=dssm", "function=dense"])) == []
    assert precision_lines(compose([*PLAIN, "function=dense"])) == ["transformers compute in auto (ranker.precision)"]


def commands_of(folder) -> list[str]:
    return pl.read_parquet(folder / "trials.parquet")["overrides"].to_list()


@pytest.mark.nightly
def test_a_study_its_resume_and_its_commands_use_one(options, tmp_path, monkeypatch, in_bfloat16, capsys):
    out, also = tmp_path / "study", ["ranker=bi_encoder,feed_forward", "local=true"]
    assert command("study", *options, *also, "seeds=1", f"out={out}") == 0
    assert "transformers compute in bfloat16 (ranker.precision)" in capsys.readouterr().out
    assert yaml.safe_load((out / "config.yaml").read_text())["precision"] == "bfloat16"
    of = {text.partition(" seed")[0]: "ranker.precision=bfloat16" in text for text in commands_of(out)}
    assert sorted(of.values()) == [False, True]  # of the other
    before = pl.read_parquet(out / "trials.parquet")

    monkeypatch.setenv(CHOSEN, "float32")  # another machine
    assert command("study", "--resume", str(out), "seeds=2") == 0
    after = pl.read_parquet(out / "trials.parquet")
    assert len(after) == 4
    again = after.filter(pl.col("run").is_in(before["run"].implode()))
    assert again.sort("run").equals(before.sort("run"))  # nothing was trained again
    assert sum("ranker.precision=bfloat16" in text for text in commands_of(out)) == 2

    (run,) = after.filter(ranker="bi_encoder", seed=0).to_dicts()
    assert command("train", *shlex.split(run["overrides"]), f"out={tmp_path / 'one'}") == 0
    (one,) = pl.read_parquet(tmp_path / "one" / "trials.parquet").to_dicts()
    assert (one["run"], one["full:AP@10"], one["curve_loss"]) == (run["run"], run["full:AP@10"], run["curve_loss"])


def test_precisions_differ_and_repeat_to_the_last_bit(options, tmp_path, monkeypatch):
    curves = {}
    for name, chosen in (("float32", "float32"), ("bfloat16", "bfloat16"), ("again", "bfloat16")):
        monkeypatch.setenv(CHOSEN, chosen)
        assert command("train", *options, f"out={tmp_path / name}") == 0
        curves[name] = pl.read_parquet(tmp_path / name / "trials.parquet")["curve_loss"][0].to_list()
    assert curves["bfloat16"] == curves["again"] != curves["float32"]
    assert curves["bfloat16"] == pytest.approx(curves["float32"], abs=0.05)


def test_a_mined_set_records_it(beir_folder, own_cache, checkpoint, tmp_path, in_bfloat16, refusal):
    shared = ["collection=beir", f"collection.path={beir_folder}", f"checkpoint={checkpoint}", "ranker=bi_encoder"]
    shared += ["function=dense"]
    assert command("mine", *shared, "count=1", f"out={tmp_path / 'mined'}") == 0
    saved = yaml.safe_load((tmp_path / "mined" / "config.yaml").read_text())
    assert saved["precision"] == "bfloat16"
    assert "precision=bfloat16" in saved["command"]
    assert "bfloat16" in (tmp_path / "mined" / "README.md").read_text()
    assert command("mine", *shared, "count=1", "ranker.precision=float32", f"out={tmp_path / 'other'}") == 0
    assert yaml.safe_load((tmp_path / "other" / "config.yaml").read_text())["precision"] == "float32"
    assert "precision" in refusal("mine", *shared, "precision=half", f"out={tmp_path / 'no'}")


def test_a_ranking_reads_in_it(beir_folder, own_cache, checkpoint, tmp_path, monkeypatch):
    shared = ["rank", checkpoint, "collection=beir", f"collection.path={beir_folder}", "origin=full"]
    for chosen in ("float32", "bfloat16"):
        monkeypatch.setenv(CHOSEN, chosen)
        assert command(*shared, f"out={tmp_path / chosen}.run") == 0
    assert command(*shared, "ranker.precision=float32", f"out={tmp_path / 'typed'}.run") == 0
    read = {name: (tmp_path / f"{name}.run").read_text() for name in ("float32", "bfloat16", "typed")}
    scores = {name: [line.split()[4] for line in text.splitlines()] for name, text in read.items()}
    assert scores["float32"] == scores["typed"] != scores["bfloat16"]
