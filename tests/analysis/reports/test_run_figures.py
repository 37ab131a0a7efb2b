import math
import re
import struct
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from pyrite.analysis.reports.canvas import COLOURS, INK, grid, looks, png, svg
from pyrite.analysis.reports.run_figures import curves, hyperparameters
from pyrite.analysis.reports.shown_negatives import at_the_end, hardness_figure, hardness_section
from pyrite.analysis.reports.study_report import StudyResults, study_report
from pyrite.cluster.runs.negative_tables import ROWS, SCHEMA, trace_table
from pyrite.sampling.shown import Trace
from tests.analysis.conftest import METHODS, files_of
from tests.cluster.command_line import command

MEASURE = "AP@100"


def titles(figure: Figure) -> list[str]:
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_a_panel_a_ranker_and_origin_in_which_a_run_that_stopped_keeps_its_last_value(made_up_study):
    trials, _ = made_up_study(rankers=("feed_forward", "match_pyramid"))
    assert titles(curves(trials))[1] == "feed_forward · training loss"
    trials, _ = made_up_study(seeds=2, methods=[("fixed", "bm25", "uniform", 0.3)])
    trials = trials.with_columns(curve_validation=pl.Series([[0.1, 0.3, 0.5], [0.2]]))
    thick, thin = curves(trials).axes[0].lines
    assert list(thick.get_ydata()) == pytest.approx([0.15])
    assert list(thin.get_ydata()) == pytest.approx([0.15, 0.25, 0.35])


def test_without_runs_nothing_is_drawn_and_no_figure_stays_open(made_up_study):
    before = pyplot.get_fignums()
    trials, _ = made_up_study(failed=100)
    assert not any(ax.lines or ax.collections for ax in curves(trials).axes)
    assert pyplot.get_fignums() == before


def test_one_colour_a_method_everywhere_told_apart_on_white_and_on_black(made_up_study):
    trials, _ = made_up_study()
    look = looks(["bm25 · dynamic", "bm25 · uniform"])
    assert [look[name].colour for name in sorted(look)] == list(COLOURS[:2])
    assert len({(one.colour, one.line) for one in looks(f"method {i}" for i in range(20)).values()}) == 20
    shown = {text.get_text() for text in curves(trials).legends[0].texts}
    assert len(shown) == len(METHODS)
    for colour in COLOURS:
        light = np.dot(np.array(to_rgb(colour)) ** 2.2, (0.2126, 0.7152, 0.0722))
        assert 1.05 / (light + 0.05) > 2
        assert (light + 0.05) / 0.06 > 2


def test_hyperparameters_on_their_scales_and_none_of_what_a_method_lacks(made_up_study):
    swept = [("rate", ["1e-4", "1e-2"]), ("width", ["64", "128"]), ("pooling", ["mean", "max"])]
    figure = hyperparameters(made_up_study(swept=swept)[0], MEASURE)
    shown = {ax.get_xlabel(): ax for ax in figure.axes}
    assert shown["rate"].get_xscale() == "log"
    assert shown["width"].get_xscale() == "linear"
    assert [text.get_text() for text in shown["width"].get_xticklabels()] == ["64", "128"]
    assert [text.get_text() for text in shown["pooling"].get_xticklabels()] == ["max", "mean"]
    trials = made_up_study(swept=[("negatives.bm25", ["1", "4"])])[0]
    alone = pl.col("function") == "random"
    trials = trials.with_columns(swept=pl.when(alone).then(pl.col("swept").list.head(0)).otherwise(pl.col("swept")))
    figure = hyperparameters(trials, MEASURE)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["0", "1", "4"]
    assert any(0.0 in points.get_offsets()[:, 0] for points in figure.axes[0].collections)
    learned = [("policy.agent", ["0", "1"]), ("policy.learn", ["['agent=ppo']", "['agent=ppo','gamma=1']"])]
    for swept in ([], [("rate", ["1e-3"])], learned):
        assert hyperparameters(made_up_study(swept=swept)[0], MEASURE) is None


def test_png_is_whole_and_svg_an_element_in_the_page_colours(made_up_study):
    figure = curves(made_up_study()[0])
    image = png(figure)
    assert image.startswith(b"\x89PNG")
    assert struct.unpack(">I", image[16:20]) == (1500,)
    element = svg(figure, 'a "name" <1>')
    root = ElementTree.fromstring(element)
    assert root.tag.endswith("svg")
    assert "viewBox" in root.attrib
    assert "width" not in root.attrib
    assert root.attrib["aria-label"] == 'a "name" <1>'
    assert INK not in element
    assert "currentColor" in element
    figure, (ax,) = grid(["one"], ["two"], 2.0)
    ax.set_xticks([0.125], ["0.12512"])
    assert ">0.12512<" in svg(figure, "ticks")  # not rounded


def test_names_are_drawn_as_they_are_written(made_up_study, recwarn):
    """Not as formulas, which a dollar sign begins and a wrong one ends with an error; and without a word on fonts."""
    trials, _ = made_up_study(swept=[("label", [r"$\foo$ and $", "标签", "1 · at 10", "1 · at 9"])])
    figures = [curves(trials)]
    labels = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert labels == ["1 · at 9", "1 · at 10", r"$\foo$ and $", "标签"]  # numbers by their value
    for figure in figures:
        assert png(figure)
        assert r"$\foo$ and $" in svg(figure, "f")
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


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
    assert at_the_end(trials.with_columns(status=pl.lit("failed")), steps).is_empty()


def test_the_figure_has_a_line_a_method_where_its_runs_still_trained(made_up_study):
    trials, _ = made_up_study(seeds=3, methods=[("fixed", "bm25", "uniform", 0.3), ("fixed", "random", "uniform", 0.2)])
    lengths = dict(zip(trials["run"].to_list(), (600, 600, 300, 600, 300, 300), strict=True))
    drawn = hardness_figure(trials, pl.concat([trace_table(run, ["x"], [trace(n)]) for run, n in lengths.items()]))
    scores, misranked = drawn.axes
    assert [ax.get_ylabel() for ax in drawn.axes] == ["mean score of negatives", "share of misranked negatives"]
    assert sorted(line.get_xdata()[-1] for line in scores.get_lines()) == [295.0, 595.0]
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
    monkeypatch.setattr("pyrite.analysis.reports.shown_negatives.BLOCK", 2)  # of three runs a method
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
    assert re.findall(r"^\W*bm25\W+(\d)\W", capsys.readouterr().out, re.MULTILINE) == ["1", "2", "3"]
