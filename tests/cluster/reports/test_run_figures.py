import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import polars as pl
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cluster.reports.canvas import COLOURS, INK, grid, looks, png, svg
from cluster.reports.embedding_map import PALETTE
from cluster.reports.learning_figures import mixture_figure
from cluster.reports.run_figures import curves, density, hyperparameters, runs
from cluster.statistics.summary import summarise
from rl.mixture import MixtureActions, MixtureAgent
from rl.progress import ProgressOptions

MEASURE = "AP@100"


def titles(figure: Figure) -> list[str]:
    return [ax.get_title(loc="left") for ax in figure.axes]


def drawn(figure: Figure, panel: int) -> dict[str, int]:
    """How many lines (of a curve, not of marks) each colour has in a panel."""
    count: dict[str, int] = {}
    for line in figure.axes[panel].lines:
        if line.get_marker() in ("", "None", None):
            count[str(line.get_color())] = count.get(str(line.get_color()), 0) + 1
    return count


def test_a_panel_a_ranker_and_origin_in_which_a_run_that_stopped_keeps_its_last_value(made_up_study):
    trials, _ = made_up_study(rankers=("feed_forward", "match_pyramid"))
    expected = [f"{r} · {o} candidates" for r in ("feed_forward", "match_pyramid") for o in ("bm25", "random")]
    assert titles(density(trials, MEASURE)) == expected
    assert titles(runs(trials, summarise(trials), MEASURE)) == expected
    assert titles(curves(trials))[1] == "feed_forward · training loss"
    trials, _ = made_up_study(seeds=2, methods=[("fixed", "bm25", "uniform", 0.3)])
    trials = trials.with_columns(curve_validation=pl.Series([[0.1, 0.3, 0.5], [0.2]]))
    thick, thin = curves(trials).axes[0].lines
    assert list(thick.get_ydata()) == pytest.approx([0.15])
    assert list(thin.get_ydata()) == pytest.approx([0.15, 0.25, 0.35])


def test_too_few_equal_or_no_runs_have_no_density(made_up_study):
    trials, _ = made_up_study(seeds=2)
    assert set(drawn(density(trials, MEASURE), 0)) == {INK}
    equal = made_up_study(seeds=4)[0].with_columns(pl.lit(0.25).alias("bm25:AP@100"))
    figure = density(equal, MEASURE)
    assert set(drawn(figure, 0)) == {INK}
    assert len(drawn(figure, 1)) == 6
    before = pyplot.get_fignums()
    trials, _ = made_up_study(failed=100)
    for figure in (density(trials, MEASURE), runs(trials, summarise(trials), MEASURE), curves(trials)):
        assert not any(ax.lines or ax.collections for ax in figure.axes)
    assert pyplot.get_fignums() == before


def test_one_colour_a_method_everywhere_told_apart_on_white_and_on_black(made_up_study):
    trials, _ = made_up_study()
    look = looks(["bm25 · dynamic", "bm25 · uniform"])
    assert [look[name].colour for name in sorted(look)] == list(COLOURS[:2])
    many = looks(f"method {i}" for i in range(20))
    assert len({(one.colour, one.line) for one in many.values()}) == 20
    both = [{text.get_text() for text in f.legends[0].texts} for f in (density(trials, MEASURE), curves(trials))]
    assert both[0] == both[1]
    assert len(set(PALETTE)) == 9
    assert COLOURS[-1] not in PALETTE
    for colour in (*COLOURS, *PALETTE):
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


def test_lines_are_of_the_functions_and_ranks_that_they_are_named_by():
    actions, names = MixtureActions(window="from_to"), ["random", "bm25", "dense"]
    agent = MixtureAgent(names, actions, ProgressOptions(), 8, "linear", np.zeros(32), {})
    # By training and decision: step, a share of each function, first and last rank.
    one = [[0.0, 0.7, 0.2, 0.1, 1.0, 100.0], [8.0, 0.2, 0.3, 0.5, 2.0, 10.0]]
    other = [[0.0, 0.9, 0.0, 0.1, 1.0, 50.0], [8.0, 0.0, 0.5, 0.5, 4.0, 20.0]]
    shares, ranks = mixture_figure(agent, [one, other]).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in (*shares.lines, *ranks.lines)}
    assert drawn["bm25"] == pytest.approx([0.1, 0.4])
    assert drawn["dense"] == pytest.approx([0.1, 0.5])
    assert drawn["last rank that is seen"] == pytest.approx([75, 15])
    assert drawn["first rank"] == pytest.approx([1, 3])
    assert "random" not in drawn


def test_names_are_drawn_as_they_are_written(made_up_study, recwarn):
    """Not as formulas, which a dollar sign begins and a wrong one ends with an error; and without a word on fonts."""
    names = [r"$\foo$ and $", "标签", "1 · at 10", "1 · at 9"]
    trials, _ = made_up_study(swept=[("label", names)])
    figures = [density(trials, "AP@100"), runs(trials, summarise(trials), "AP@100")]
    labels = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert labels == ["1 · at 9", "1 · at 10", r"$\foo$ and $", "标签"]  # numbers by their value
    for figure in figures:
        assert png(figure)
        assert r"$\foo$ and $" in svg(figure, "f")
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]
