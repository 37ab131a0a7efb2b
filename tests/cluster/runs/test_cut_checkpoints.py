"""What options cut of a checkpoint is said wherever its figures are shown; a whole one is called whole."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pyrite.analysis.reports.labels import with_cut
from pyrite.cluster.runs.cut_checkpoints import cut_of, frozen_of, layers_of
from tests.cluster.command_line import command

CUT = "2 of 3 layers, 5 subwords"


@pytest.fixture(scope="module")
def of_runs(base, checkpoint) -> list[str]:
    """Options of runs over a checkpoint that take a second."""
    mine = [text for text in base if not text.startswith(("ranker.preset", "training.max_epochs"))]
    return [*mine, "ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "training.max_epochs=1", "function=random"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({}, ""),
        ({"layers": None, "max_query": None}, ""),
        ({"layers": 2}, "2 of 3 layers"),
        ({"max_document": 64}, "64 subwords"),
        ({"max_query": 8}, "8 subwords of a query"),
        ({"layers": 1, "max_query": 8, "max_document": 64}, "1 of 3 layers, 8 + 64 subwords"),
    ],
)
def test_what_is_left_of_a_checkpoint(checkpoint, typed: dict[str, Any], said: str):
    assert cut_of({"ranker": {"checkpoint": checkpoint} | typed}) == said
    assert cut_of({"ranker": typed, "checkpoint": checkpoint}) == said  # of mining
    assert cut_of({"function": {"embedding": {"checkpoint": checkpoint} | typed, "bm25": {}}}) == (
        f"embedding {said}" if said else ""
    )
    assert cut_of({"ranker": {"max_document": 64}}) == ""  # words, of a ranker that starts from nothing


def test_what_is_frozen(checkpoint):
    assert frozen_of({"ranker": {"checkpoint": checkpoint, "frozen_layers": 2}}) == "2 of 3 layers frozen"
    assert frozen_of({"ranker": {"checkpoint": checkpoint, "frozen_layers": 1, "layers": 2}}) == "1 of 2 layers frozen"
    assert frozen_of({"ranker": {"checkpoint": checkpoint, "frozen_layers": 0}}) == ""
    assert frozen_of({"ranker": {}}) == ""


def test_layers_that_are_not_known_here(tmp_path, checkpoint):
    assert (layers_of(checkpoint), layers_of("a-name/at-the-hub")) == (3, None)
    (tmp_path / "config.json").write_text("{")
    assert cut_of({"ranker": {"checkpoint": str(tmp_path), "layers": 2}}) == "the first 2 layers"


def test_titles_name_whole_and_cut_runs():
    assert with_cut("bi_encoder", pl.DataFrame({"cut": [CUT, CUT]})) == f"bi_encoder ({CUT})"
    assert with_cut("bi_encoder", pl.DataFrame({"cut": [None, CUT]})) == f"bi_encoder (whole or {CUT})"
    assert with_cut("bi_encoder", pl.DataFrame({"cut": [None]})) == "bi_encoder"
    assert with_cut("bi_encoder", pl.DataFrame({"runs": [1]})) == "bi_encoder"  # of a study before there was the column


def test_a_training_says_it_first_in_its_table_and_on_its_card(of_runs, checkpoint, tmp_path, capsys):
    out = tmp_path / "cut"
    assert command("train", *of_runs, "ranker.layers=2", "ranker.max_document=5", "weights=true", f"out={out}") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"of the checkpoint only {CUT}" in said
    assert "subwords: 60 of 60 documents have more than 5, and no more of them is read" in said
    assert f"bi_encoder ({CUT}) after" in said
    (card,) = out.glob("weights/*/README.md")
    assert f"| checkpoint | {checkpoint} ({CUT}) |" in card.read_text()
    assert pl.read_parquet(out / "trials.parquet")["cut"].to_list() == [CUT]

    part = tmp_path / "part"
    assert command("train", *of_runs, "ranker.frozen_layers=2", "weights=true", f"out={part}") == 0
    assert "; 2 of 3 layers frozen" in " ".join(capsys.readouterr().out.split())
    (card,) = part.glob("weights/*/README.md")
    assert "| frozen | 2 of 3 layers frozen |" in card.read_text()

    whole = tmp_path / "whole"
    assert command("train", *of_runs, "weights=true", f"out={whole}") == 0
    said = capsys.readouterr().out
    assert "only" not in said
    assert "subwords" not in said
    (card,) = whole.glob("weights/*/README.md")
    assert f"| checkpoint | {checkpoint} (whole) |" in card.read_text()
    assert pl.read_parquet(whole / "trials.parquet")["cut"].to_list() == [None]


@pytest.mark.nightly
def test_a_study_says_it_in_its_tables_and_on_its_page(of_runs, tmp_path, capsys):
    out = tmp_path / "study"
    options = ["ranker.layers=2", "ranker.max_document=5", "policy=fixed", "selector=uniform", "seeds=1", "local=true"]
    assert command("study", *of_runs, *options, f"out={out}") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.index(f"of the checkpoint only {CUT}") < said.index("1 run (0 done)")
    assert f"bi_encoder ({CUT}): AP@10" in said
    summary = pl.read_csv(out / "summary.csv")
    assert dict(summary.select("ranker", "cut").unique().iter_rows()) == {"bi_encoder": CUT, "bm25": None}
    page = (out / "report.html").read_text()
    assert page.count(f"bi_encoder ({CUT})") >= 2
    assert f"of the checkpoint only {CUT}" in page


def test_mining_and_ranking_say_it(beir_folder, own_cache, checkpoint, tmp_path, capsys, caplog):
    node = "ranker={_target_: pyrite.ranking.rankers.bi_encoder.BiEncoder, layers: 2, max_document: 5}"
    shared = ["collection=beir", f"collection.path={beir_folder}", node]
    count = "subwords: 60 of 60 documents have more than 5, and no more of them is read"
    assert command("rank", checkpoint, *shared, "measures=[AP@10]", f"out={tmp_path / 'a.run'}") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"of the checkpoint only {CUT}" in said
    assert f"with {CUT}" in said
    mined = [*shared, f"checkpoint={checkpoint}", "function=dense", "count=1", f"out={tmp_path / 'mined'}"]
    assert command("mine", *mined) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"of the checkpoint only {CUT}" in said
    assert f"with {CUT}" in said
    assert CUT in (Path(tmp_path) / "mined" / "README.md").read_text()
    assert caplog.text.count(count) == 2
