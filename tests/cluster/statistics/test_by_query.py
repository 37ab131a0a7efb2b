import polars as pl
import pytest
from scipy import stats

from cluster.reports.analysis_figures import query_histogram
from cluster.statistics.by_query import best_two
from cluster.statistics.summary import summarise
from tests.cluster.trial_rows import trials_of

MEASURE = "AP@100"
FIRST = {"a0": [1.0, 0.5, 0.2], "a1": [0.5, 0.5, 0.2]}
"""Two runs of the best method over queries 1, 2 and 3."""


def two_rankers(steady: list[float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A ranker whose methods differ by hand-made queries, and one whose methods differ by `steady`."""
    of = {**FIRST, "b0": [0.25, 0.5, 0.6, 1.0], "c0": [0.5, 0.6, 0.7]}
    of["d0"] = [own - less for own, less in zip(of["c0"], steady, strict=True)]
    means = {"a0": 0.7, "a1": 0.6, "b0": 0.5, "c0": 0.6, "d0": 0.4}
    trials = trials_of(
        {
            "run": run, "seed": int(run[1]), "ranker": "ff" if run[0] in "ab" else "mp", "overrides": "",
            "selector": "uniform" if run[0] in "ac" else "top", "bm25:RR": mean,
        }
        for run, mean in means.items()
    )  # fmt: skip
    queries = pl.DataFrame(
        [
            {"run": run, "query": str(query), "origin": origin, "RR": value + (origin == "random")}
            for run, values in of.items()
            for query, value in enumerate(values, start=1)
            for origin in ("bm25", "random")
        ]
    )
    return trials, queries


def test_differences_and_their_histogram_by_hand():
    trials, queries = two_rankers([0.1, 0.1, 0.2])
    table = best_two(trials, queries, summarise(trials), "RR")
    found, other = table.iter_rows(named=True)
    assert (found["ranker"], found["candidates"]) == ("ff", "bm25")
    assert (found["first"], found["second"]) == ("bm25 · uniform", "bm25 · top")
    assert found["differences"] == pytest.approx([0.5, 0.0, -0.4])  # query 4 has been answered by one alone
    assert (found["wins"], found["ties"], found["losses"]) == (1, 1, 1)
    assert found["difference"] == pytest.approx(0.1 / 3)
    # Pairs, not samples: the queries of `other` differ by about the same and by much from one another.
    first, second = [0.75, 0.5, 0.2], [0.25, 0.5, 0.6]
    assert found["p"] == pytest.approx(stats.ttest_rel(first, second).pvalue)
    assert other["p"] == pytest.approx(stats.ttest_1samp([0.1, 0.1, 0.2], 0).pvalue)
    assert other["p"] < 0.1 < found["p"]
    # Two rows, of which the lesser p counts twice.
    assert other["p_holm"] == pytest.approx(2 * other["p"])
    assert found["p_holm"] == pytest.approx(found["p"])
    figure = query_histogram(table, "RR")
    ax = figure.axes[0]
    assert ax.get_title(loc="left") == "ff · bm25 candidates"
    assert ax.get_xlabel() == "RR of bm25 · uniform\nminus bm25 · top"
    heights = [sum(patch.get_height() for patch in bars) for bars in ax.containers]
    assert heights == [1, 1, 1]
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([0.1 / 3])
    assert [sum(p.get_height() for p in bars) for bars in figure.axes[1].containers] == [0, 0, 3]


def test_a_difference_that_is_always_the_same_has_no_test_and_one_method_no_difference(made_up_study):
    trials, queries = two_rankers([0.1, 0.1, 0.1])
    found, other = best_two(trials, queries, summarise(trials), "RR").iter_rows(named=True)
    assert (other["p"], other["p_holm"], other["wins"]) == (None, None, 3)
    assert found["p_holm"] == found["p"]  # the only test that is made
    trials, queries = made_up_study(methods=[("fixed", "bm25", "uniform", 0.3)])
    compared = best_two(trials, queries, summarise(trials), MEASURE)
    assert compared.is_empty()
    assert query_histogram(compared, MEASURE) is None
    trials, _ = made_up_study()
    assert best_two(trials, pl.DataFrame(), summarise(trials), MEASURE).is_empty()
