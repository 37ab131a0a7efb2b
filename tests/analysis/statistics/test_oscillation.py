import math
import re
from collections.abc import Sequence

import polars as pl
import pytest

from pyrite.analysis.reports.analysis_sections import steadiness
from pyrite.analysis.reports.run_figures import curves
from pyrite.analysis.statistics.oscillation import DEV_LOSS, SCHEMA, dev_losses, oscillation
from pyrite.ranking.evaluation.significance import t_test

STEADY = [4.0, 3.0, 2.0, 1.0]  # differences −1, −1, −1: 0
TURNS = [4.0, 2.0, 4.0, 2.0]  # differences −2, 2, −2, second differences 4, −4: 16 / 2
BENDS = [4.0, 2.0, 1.0]  # differences −2, −1, second difference 1: 1 / 2
TWO = [("fixed", "bm25", "uniform", 0.3), ("fixed", "random", "uniform", 0.2)]


def with_losses(trials: pl.DataFrame, losses: Sequence[list[float] | None]) -> pl.DataFrame:
    return trials.with_columns(pl.Series(DEV_LOSS, losses, pl.List(pl.Float64)))


def test_by_hand(made_up_study):
    found = oscillation(with_losses(made_up_study(seeds=2, methods=TWO)[0], [TURNS, BENDS, STEADY, [3.0, 2.0, 1.0]]))
    assert found.schema == pl.Schema(SCHEMA)
    turning, steady = found.iter_rows(named=True)
    assert (turning["collection"], turning["ranker"], turning["method"]) == ("pydocs", "feed_forward", "bm25 · uniform")
    assert (turning["runs"], turning["epochs"]) == (2, 3.5)
    assert (turning["first"], turning["best"], turning["last"]) == (4.0, 1.5, 1.5)
    assert turning["variance"] == pytest.approx((8 + 1 / 2) / 2)
    assert turning["variance_std"] == pytest.approx((8 - 1 / 2) / math.sqrt(2))
    assert turning["against"] == "random · uniform"
    assert turning["t_p"] == turning["t_p_holm"] == pytest.approx(t_test([8, 1 / 2], [0.0, 0.0]))
    assert (steady["variance"], steady["variance_std"], steady["last"]) == (0.0, 0.0, 1.0)
    assert steady["against"] is steady["t_p"] is steady["t_p_holm"] is None


def test_p_is_adjusted_within_a_ranker(made_up_study):
    methods = [*TWO, ("fixed", "bm25", "dynamic", 0.3)]
    trials, _ = made_up_study(seeds=3, rankers=("feed_forward", "match_pyramid"), methods=methods)
    trials = trials.sort("run")
    trials = with_losses(trials, [[2.0, 1.0, 1.0 + (9, 5, 1)[run // 3 % 3] * (1 + run % 3 / 10)] for run in range(18)])
    found = oscillation(trials)
    assert oscillation(trials.reverse()).equals(found)
    assert len(found) == 6
    for family in found.partition_by("ranker"):
        assert family["against"].null_count() == 1
        less, more = family.drop_nulls("against").sort("t_p").rows(named=True)
        assert less["t_p_holm"] == pytest.approx(2 * less["t_p"])
        assert more["t_p_holm"] == pytest.approx(max(2 * less["t_p"], more["t_p"]))


def test_short_and_broken_runs_have_no_variance_and_single_ones_no_p(made_up_study):
    trials, _ = made_up_study(seeds=3, methods=TWO)
    (short, broken) = oscillation(
        with_losses(trials, [[2.0, 1.0], [3.0], [], [2.0, math.nan, 1.0], TURNS, [math.inf, 2.0, 1.0]])
    ).iter_rows(named=True)
    assert (short["runs"], short["epochs"], short["first"], short["last"]) == (2, 1.5, 2.5, 2.0)
    assert short["variance"] is short["variance_std"] is short["against"] is short["t_p"] is None
    assert (broken["runs"], broken["first"], broken["best"], broken["last"]) == (3, None, 4 / 3, 4 / 3)
    assert broken["variance"] == pytest.approx(8)
    assert broken["variance_std"] is broken["against"] is None
    turning = oscillation(with_losses(made_up_study(seeds=1, methods=TWO)[0], [TURNS, STEADY])).row(0, named=True)
    assert (turning["against"], turning["t_p"], turning["t_p_holm"]) == ("random · uniform", None, None)


@pytest.mark.parametrize("losses", [None, [None] * 4, [[]] * 4])
def test_without_dev_losses_there_is_no_such_section(made_up_study, losses):
    failed, _ = made_up_study(seeds=2, methods=TWO, failed=4)
    assert dev_losses(with_losses(failed, [TURNS] * 4)).is_empty()
    trials, _ = made_up_study(seeds=2, methods=TWO)
    trials = trials if losses is None else with_losses(trials, losses)
    assert dev_losses(trials).is_empty()
    assert oscillation(trials).is_empty()
    assert steadiness(trials) == []
    assert [ax.get_ylabel() for ax in curves(trials).axes] == ["validation AP@100", "training loss"]


def test_the_section_has_a_row_a_method_and_the_figure_a_third_column(made_up_study):
    trials = with_losses(made_up_study(seeds=2, methods=TWO)[0], [TURNS, BENDS, STEADY, STEADY])
    (section,) = steadiness(trials)
    p = f"{t_test([8, 1 / 2], [0, 0]):.3f}"[1:]
    html = section.to_html()
    rows = [re.sub(r"<[^>]+>", "|", row) for row in re.findall(r"<tr><td>.*?</tr>", html)[:2]]
    assert [re.sub(r"[| ]+", " ", row).strip() for row in rows] == [
        f"bm25 · uniform 3.5 4.000 1.500 1.500 4.25 ± 5.3 {p} {p} 2",
        "random · uniform 4.0 4.000 1.000 1.000 0 ± 0 – – 2",
    ]
    assert "<b>0</b>" in html
    trials = with_losses(made_up_study(seeds=2, methods=TWO)[0], [TURNS, BENDS, None, []])
    figure = curves(trials)
    assert [ax.get_ylabel() for ax in figure.axes] == ["validation AP@100", "training loss", "dev loss"]
    thick, thin = figure.axes[2].lines  # of one method alone
    assert list(thick.get_ydata()) == [4.0, 2.0, 2.5]
    assert list(thin.get_ydata()) == [2.5, 1.5]
