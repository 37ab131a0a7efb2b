"""Figures of a comparison: differences with intervals beside costs, and quality against cost."""

import pytest

from pyrite.analysis.reports.comparison_figures import differences_figure, quality_figure
from pyrite.analysis.study_comparison import Comparison


def test_differences_are_drawn_with_their_intervals_and_costs(made_up_study):
    trials, queries = made_up_study()
    read = {run: 1000 * (number + 1) for number, run in enumerate(trials["run"])}
    trials = trials.with_columns(documents_read=trials["run"].replace_strict(read))
    summary = Comparison(trials, queries).summary("policy=fixed function=random")
    verdicts = Comparison(trials, queries).verdict(summary).verdicts
    forest, costs, *_ = differences_figure(verdicts).axes
    test = max(verdicts[0].tests.values(), key=lambda test: test.difference)
    intervals = [list(line.get_xdata()) for line in forest.lines]
    assert any(drawn == pytest.approx([test.low, test.high]) for drawn in intervals)
    assert len(costs.patches) == len(verdicts[0].tests)
    assert quality_figure(verdicts).axes[0].get_xscale() == "log"


def test_without_tests_or_costs_there_is_no_figure(made_up_study):
    trials, queries = made_up_study(seeds=2)
    verdicts = Comparison(trials, queries).verdict(Comparison(trials, queries).summary()).verdicts
    assert differences_figure(verdicts) is None
    assert quality_figure(verdicts) is None
