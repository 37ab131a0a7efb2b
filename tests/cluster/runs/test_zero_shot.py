"""`evaluate=[…]`: collections that a run has not learned from."""

import io
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import pyrite
from cluster.commands.train import _zero_shot
from cluster.runs.collections import MEAN, collections_of
from ranking.errors import BadInput
from tests.made_up import write_beir


@pytest.fixture(scope="module")
def others(tmp_path_factory) -> Path:
    """A folder of two small collections, one of them without splits."""
    folder = tmp_path_factory.mktemp("nano")
    write_beir(folder / "one", seed=3)
    write_beir(folder / "two", seed=4, split=False)
    return folder


def test_a_row_each_and_their_mean(base, beir_folder, others, tmp_path):
    options = [*base, "ranker=static", "function=random", "origin=[bm25,full]", "training.max_epochs=1"]
    run = pyrite.train([*options, f"evaluate=[{others},{beir_folder}]", f"out={tmp_path / 'run'}"])
    rows = run.frame("zero_shot").filter(pl.col("measure") == "AP@10")
    names = ["one", "two", beir_folder.name, MEAN]
    assert rows["collection"].unique(maintain_order=True).to_list() == names
    for origin in ("bm25", "full"):
        values = rows.filter(pl.col("origin") == origin)
        assert values["value"][3] == pytest.approx(values["value"][:3].mean())
        # Its own test queries are among them: read anew by the same words, they are measured alike.
        assert values["value"][2] == pytest.approx(run.measures[f"{origin}:AP@10"])
        assert values["queries"].to_list() == [8, 40, 8, 56]
    assert (rows["value"] > 0).all()
    assert not rows["value"].equals(rows["bm25"])
    plain = pyrite.train([*options, f"out={tmp_path / 'plain'}"])
    assert plain.measures == run.measures  # it learns nothing from them
    with pytest.raises(BadInput, match=r"no zero_shot\.parquet"):
        plain.frame("zero_shot")


def test_the_terminal_shows_all_figures_whole():
    measures = {"AP@100": 0.1234, "RR@10": 0.2345, "nDCG@20": 0.3456, "R@1": 0.4567}
    rows = pl.DataFrame([
        {"collection": name, "origin": origin, "measure": measure, "queries": 1500, "value": value, "bm25": value / 2}
        for name in ("nfcorpus", "webis-touche2020", MEAN) for origin in ("bm25", "random")
        for measure, value in measures.items()
    ])  # fmt: skip
    console = Console(width=80, file=io.StringIO())
    with console.capture() as shown:
        console.print(_zero_shot(rows))
    text = shown.get()
    assert "…" not in text
    for value in measures.values():
        assert text.count(f"{value:.4f}") == text.count(f"{value / 2:.4f}") == 6


def test_what_is_no_collection_is_refused(base, others, tmp_path):
    for places, said in (
        ([tmp_path], "is no BEIR folder"),
        ([others, others / "one"], "two collections are called one"),
    ):
        with pytest.raises(BadInput, match=said):
            collections_of([str(place) for place in places])
        with pytest.raises(BadInput, match=said):
            pyrite.train([*base, f"evaluate=[{','.join(map(str, places))}]"])
