"""What a report says of collections that nothing was learned from."""

import re

import polars as pl
import pytest

from cluster.reports.analysis_sections import zero_shot
from cluster.runs.collections import MEAN
from cluster.statistics.across_places import summarise_zero_shot

VALUES = {"random": (0.2, 0.5), "bm25": (0.4, 0.1)}


@pytest.fixture
def measured(made_up_study) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two methods with two seeds, on two collections: the second seed .02 better everywhere."""
    methods = [("fixed", name, "uniform", 0.3) for name in VALUES]
    trials, _ = made_up_study(seeds=2, methods=methods)
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
