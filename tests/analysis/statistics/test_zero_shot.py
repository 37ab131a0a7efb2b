"""`evaluate=[…]`: collections that a run has not learned from, and what a report says of them."""

import io
import re
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import pyrite
from pyrite.analysis.methods import MEAN
from pyrite.analysis.reports.analysis_sections import zero_shot
from pyrite.analysis.statistics.across_places import summarise_zero_shot
from pyrite.cluster.commands.train_tables import by_collection
from pyrite.cluster.runs.collections import collections_of
from pyrite.ranking.errors import BadInput
from tests.cluster.command_line import command
from tests.made_up import write_beir

VALUES = {"random": (0.2, 0.5), "bm25": (0.4, 0.1)}


@pytest.fixture
def measured(made_up_study) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two methods with two seeds, on two collections: the second seed .02 better everywhere."""
    trials, _ = made_up_study(seeds=2, methods=[("fixed", name, "uniform", 0.3) for name in VALUES])
    rows = []
    for run, function, seed in trials.select("run", "function", "seed").rows():
        values = [value + 0.02 * seed for value in VALUES[function]]
        for place, value in zip(("near", "far", MEAN), [*values, sum(values) / 2], strict=True):
            for measure in ("AP@100", "RR@10"):
                rows.append((run, place, "bm25", measure, 7, value, 0.25))
    schema = ["run", "collection", "origin", "measure", "queries", "value", "bm25"]
    return trials, pl.DataFrame(rows, schema=schema, orient="row")


def test_a_row_is_the_mean_of_its_runs(measured):
    found = summarise_zero_shot(*measured).filter(measure="AP@100")
    values = {(row["method"].split(" ")[0], row["collection"]): row["mean"] for row in found.iter_rows(named=True)}
    assert values == pytest.approx({
        ("random", "near"): 0.21, ("random", "far"): 0.51, ("random", MEAN): 0.36,
        ("bm25", "near"): 0.41, ("bm25", "far"): 0.11, ("bm25", MEAN): 0.26,
    })  # fmt: skip
    assert set(found["runs"]) == {2}
    assert found["std"].to_list() == pytest.approx([0.02 / 2**0.5] * 6)


def test_the_page_shows_each_collection_and_their_mean(measured):
    (part,) = zero_shot(*measured)
    shown = part.to_html()
    first = shown.split("<details>")[0]
    rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?>(.*?)</tr>", first, re.DOTALL)]
    words = [[re.sub(r"<.*?>", "", cell).strip() for cell in row] for row in rows]
    assert words[0] == ["method", "near (7)", "far (7)", "mean (7)", "runs"]
    assert [row[0].split(" ")[0] for row in words[2:]] == ["random", "bm25", "BM25"]  # by their mean
    assert words[2][3].startswith(".3600")
    assert "<b>.5100</b>" in rows[2][2]
    assert "<b>.4100</b>" in rows[3][1]
    assert words[4][1:4] == [".2500"] * 3
    assert shown.count("<table") == 2  # the other measure is folded
    assert zero_shot(measured[0], None) == []


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


def test_queries_without_a_relevant_document_are_not_measured(base, tmp_path, own_cache, capsys):
    """As in a run, and as `pyrite rank` measures: a mean over them would be a share of the value."""
    own, out = write_beir(tmp_path / "own"), tmp_path / "run"
    test = own / "qrels" / "test.tsv"
    test.write_text(re.sub(r"(q[49]\td\d\t)1", r"\g<1>0", test.read_text()))  # two of eight
    options = ["measures=[AP@10]", "origin=bm25"]
    training = ["ranker=static", "function=random", "training.max_epochs=1"]
    overrides = [*base, f"collection.path={own}", *options, *training]
    assert command("train", *overrides, f"evaluate=[{own}]", f"out={out}") == 0
    run = pyrite.TrainingResult(str(out))
    said = "queries without a relevant document{} (not measured): 2"
    assert said.format(" in own") in capsys.readouterr().out
    (row, _) = run.frame("zero_shot").rows(named=True)
    assert row["queries"] == 6
    assert row["value"] == run.measures["bm25:AP@10"]
    of_rank = ["collection=beir", f"collection.path={own}", *options]
    assert command("rank", str(out), *of_rank, f"out={tmp_path / 'r.run'}") == 0
    output = capsys.readouterr().out
    assert "ranking for 8 test queries" in output
    assert said.format("") in output
    assert re.search(rf"AP@10 +{row['value']:.4f} +{row['bm25']:.4f}", output)
    test.write_text(re.sub(r"\t1\n", r"\t0\n", test.read_text()))
    assert command("rank", str(out), *of_rank, f"out={tmp_path / 'none.run'}") == 0
    assert "(not measured): 8\n" in (output := capsys.readouterr().out)
    assert "AP@10" not in output
    with pytest.raises(BadInput, match="evaluate, own: no query to be measured has a relevant document"):
        pyrite.train([*base, *options, *training, f"evaluate=[{own}]"])


def test_the_terminal_shows_all_figures_whole():
    measures = {"AP@100": 0.1234, "RR@10": 0.2345, "nDCG@20": 0.3456, "R@1": 0.4567}
    rows = pl.DataFrame([
        {"collection": name, "origin": origin, "measure": measure, "queries": 1500, "value": value, "bm25": value / 2}
        for name in ("nfcorpus", "webis-touche2020", MEAN) for origin in ("bm25", "random")
        for measure, value in measures.items()
    ])  # fmt: skip
    console = Console(width=80, file=io.StringIO())
    with console.capture() as shown:
        console.print(by_collection(rows, "zero-shot"))
    text = shown.get()
    assert "…" not in text
    for value in measures.values():
        for figure in (value, value / 2):  # without the zero before the point
            assert text.count(f"{figure:.4f}"[1:]) == 6


def test_what_is_no_collection_is_refused(base, others, tmp_path):
    for places, said in (
        ([tmp_path], "is no collection, and holds none"),
        ([others, others / "one"], "two collections are called one"),
    ):
        with pytest.raises(BadInput, match=said):
            collections_of([str(place) for place in places])
        with pytest.raises(BadInput, match=said):
            pyrite.train([*base, f"evaluate=[{','.join(map(str, places))}]"])


def test_what_collection_path_reads_is_evaluated_on(tmp_path):
    (tmp_path / "pairs.csv").write_text("query,answer\n" + "".join(f"who {n},answer {n}\n" for n in range(9)))
    for name in ("corpus", "queries", "qrels"):
        for subset in ("NanoA", "NanoB"):
            (tmp_path / "nano" / name).mkdir(parents=True, exist_ok=True)
            rows = (
                {"query-id": ["q"], "corpus-id": ["d"]} if name == "qrels" else {"_id": [name[0]], "text": ["a text"]}
            )
            pl.DataFrame(rows).write_parquet(tmp_path / "nano" / name / f"{subset}-00000-of-00001.parquet")
    readers = collections_of([str(tmp_path / "pairs.csv"), str(tmp_path / "nano")])
    assert list(readers) == ["pairs", "NanoA", "NanoB"]
    assert readers["pairs"].read_queries(readers["pairs"].faults(True)).height == 9
    assert readers["NanoB"].read_queries(readers["NanoB"].faults(True)).height == 1
