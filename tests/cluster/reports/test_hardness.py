import math
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.reports.canvas import png
from cluster.reports.hardness import at_the_end, hardness_figure, hardness_section
from cluster.reports.study_report import StudyResults, study_report
from cluster.runs.negative_tables import ROWS, SCHEMA, trace_table
from sampling.shown import Trace
from tests.cluster.command_line import command
from tests.cluster.reports.conftest import METHODS, files_of


def trace(count: int, **given: Any) -> dict[str, np.ndarray]:
    """A fold's record of `count` steps: scores 0, 1, 2, … of negatives and ten more of positives."""
    steps = np.arange(count)
    figures: dict[str, Any] = {"positive": steps + 10, "negative": steps, "misranked": steps % 2}
    figures |= {"function": 0, "version": -1, "age": -1, **given}
    return {
        name: np.broadcast_to(np.asarray(figures[name]), count).astype(kind) for name, kind in Trace.FIGURES.items()
    }


def made_up_steps(trials: pl.DataFrame, count: int = 1200, index: bool = False) -> pl.DataFrame:
    """Steps of a made-up study's runs: negatives of each method climb to a height of its own."""
    rng, steps, tables = np.random.default_rng(3), np.arange(count), []
    built = {"version": steps // 200, "age": steps % 200 + 200 * (steps >= 200)} if index else {}
    for number, run in enumerate(trials["run"]):
        climb = (1 - np.exp(-steps / 300)) * (1 + number // 4)
        positive, negative = (center + rng.normal(0, 0.3, count) for center in (3 + climb / 2, climb))
        misranked = np.clip(0.1 * climb + rng.normal(0, 0.05, count), 0, 1)
        own = trace(count, positive=positive, negative=negative, misranked=misranked, **built)
        tables.append(trace_table(run, ["bm25"], [own]))
    return pl.concat(tables)


def test_short_trainings_are_kept_step_by_step_and_long_ones_averaged_over_windows():
    table = trace_table("a", ["bm25", "dense"], [trace(3, function=[0, 1, -1], version=[-1, 4, -1], age=[-1, 7, -1])])
    assert table.schema == SCHEMA
    assert table.rows() == [
        ("a", 0, 0, 1, 10.0, 0.0, 0.0, "bm25", None, None),
        ("a", 0, 1, 1, 11.0, 1.0, 1.0, "dense", 4, 7.0),
        ("a", 0, 2, 1, 12.0, 2.0, 0.0, None, None, None),
    ]
    versions = np.repeat([0, 1], [601, 600])
    ages = np.arange(1201) - 600 * versions
    table = trace_table("a", ["bm25", "dense"], [trace(1201, function=1, version=versions, age=ages)])
    assert len(table) == math.ceil(1201 / 3)
    assert table.row(0) == ("a", 0, 0, 3, 11.0, 1.0, pytest.approx(1 / 3), "dense", 0, 1.0)
    assert table.row(200) == ("a", 0, 600, 3, 611.0, 601.0, pytest.approx(1 / 3), "dense", 1, (600 + 1 + 2) / 3)
    assert table.row(-1) == ("a", 0, 1200, 1, 1210.0, 1200.0, 0.0, "dense", 1, 600.0)
    table = trace_table("a", ["x", "y"], [trace(600, function=np.arange(600) % 2, negative=[math.nan, 4.0] * 300)])
    assert set(table["function"]) == {None}
    assert set(table["negative"]) == {4.0}
    empty = trace_table("a", ["x"], [trace(600, negative=math.nan)])
    assert empty["negative"].null_count() == len(empty)
    assert trace_table("a", ["x"], []).schema == trace_table("a", ["x"], [trace(0)]).schema == SCHEMA


@pytest.mark.nightly
@given(counts=st.lists(st.integers(0, 3000), min_size=1, max_size=5))
def test_no_run_has_more_rows_and_no_step_is_lost(counts):
    table = trace_table("a", ["x"], [trace(count) for count in counts])
    assert len(table) <= ROWS
    for fold, count in enumerate(counts):
        here = table.filter(fold=fold)
        assert here["steps"].sum() == count
        assert (here["negative"] * here["steps"]).sum() == pytest.approx(count * (count - 1) / 2)
        assert here["step"].to_list() == [0, *here["steps"].cum_sum().to_list()][:-1]


def test_the_last_tenth_by_hand(made_up_study):
    trials, _ = made_up_study(seeds=2, methods=[("fixed", "bm25", "uniform", 0.3)])
    traces = {run: trace(n, version=np.arange(n) // 5, age=n) for run, n in zip(trials["run"], (10, 20), strict=True)}
    steps = pl.concat([trace_table(run, ["bm25"], [one]) for run, one in traces.items()])
    (row,) = at_the_end(trials, steps).iter_rows(named=True)
    # Of 10 steps the last alone, of 20 the last two.
    assert (row["negative"], row["negative_std"]) == (13.75, pytest.approx(np.std([9, 18.5], ddof=1)))
    assert (row["positive"], row["misranked"], row["age"], row["versions"]) == (23.75, 0.75, 15.0, 4)
    failed = trials.with_columns(status=pl.lit("failed"))
    assert at_the_end(failed, steps).is_empty()


def test_the_figure_has_a_line_a_method_where_its_runs_still_trained(made_up_study):
    trials, _ = made_up_study(seeds=3, methods=[("fixed", "bm25", "uniform", 0.3), ("fixed", "random", "uniform", 0.2)])
    runs = trials["run"].to_list()
    lengths = dict(zip(runs, (600, 600, 300, 600, 300, 300), strict=True))
    drawn = hardness_figure(trials, pl.concat([trace_table(run, ["x"], [trace(n)]) for run, n in lengths.items()]))
    scores, misranked = drawn.axes
    assert [ax.get_ylabel() for ax in drawn.axes] == ["mean score of negatives", "share of misranked negatives"]
    ends = sorted(line.get_xdata()[-1] for line in scores.get_lines())
    assert ends == [295.0, 595.0]
    (long,) = (line for line in scores.get_lines() if line.get_xdata()[-1] == 595.0)
    assert long.get_ydata() == pytest.approx(np.arange(60) * 10 + 4.5, abs=1.01)
    assert len(misranked.get_lines()) == 2
    nothing = pl.DataFrame(schema=SCHEMA)
    assert hardness_figure(trials, nothing) is None
    assert hardness_section(trials, nothing) == []


def test_the_report_shows_it(made_up_study):
    trials, queries = made_up_study(seeds=2, methods=[("fixed", "bm25", "dynamic", 0.3)])
    report = study_report(StudyResults(trials, queries, made_up_steps(trials, index=True)))
    html = report.to_html()
    assert "negatives" in files_of(report)
    assert "How hard the negatives were" in html
    for part in ("versions of the index", "its age (steps)"):
        assert part in html
    rows = re.findall(r"<tr><td>bm25 · dynamic</td>.*?</tr>", html.partition("in the last tenth")[2])
    # Of steps 1080 to 1199 the ages are 280 to 399.
    assert re.sub(r"<[^>]+>", "|", rows[0]).endswith("|6||340 |± 0|||2||")
    plain = hardness_section(trials, made_up_steps(trials))[0].to_html()
    assert "last tenth" in plain
    assert "versions of" not in plain


@pytest.mark.nightly
def test_a_few_runs_at_a_time_give_the_same(made_up_study, monkeypatch):
    trials, _ = made_up_study(seeds=3, methods=METHODS[:2])
    steps = made_up_steps(trials, 300, index=True)
    whole, ends = hardness_figure(trials, steps), at_the_end(trials, steps)
    monkeypatch.setattr("cluster.reports.hardness.BLOCK", 2)  # of three runs a method
    assert png(hardness_figure(trials, steps)) == png(whole)
    assert at_the_end(trials, steps).equals(ends)


def test_a_run_of_several_stages_leaves_and_prints_its_steps(base, tmp_path, capsys):
    mine = ["objective=sir_v1", "objective.levels=[4,3]", "training.max_epochs=1"]
    assert command("train", *base, *mine, f"out={tmp_path / 'run'}") == 0
    samplers, steps = (pl.read_parquet(tmp_path / "run" / f"{name}.parquet") for name in ("samplers", "steps"))
    assert samplers["stage"].to_list() == [0, 1, 2]
    assert steps.schema == SCHEMA
    assert steps["steps"].sum() == samplers["batches"][-1] > 0
    assert set(steps["function"]) == {"bm25"}
    assert (steps["negative"] * steps["steps"]).mean() == pytest.approx(samplers["negative_mean"][-1], rel=1e-3)
    printed = re.findall(r"^\W*(\d)\W+bm25", capsys.readouterr().out, re.MULTILINE)
    assert printed == ["1", "2", "3"]
