"""Tests of contrasts: what was made up is found, by seeds and queries, and the best of a kind stands for it."""

from __future__ import annotations

import polars as pl
import pytest

from cluster.reports.analysis_sections import contrasts
from cluster.statistics.contrasts import check_contrasts, planned_contrasts, unknown_contrasts
from ranking.errors import BadInput
from ranking.evaluation.significance import paired_t_test
from tests.cluster.statistics.test_verdict import study


def test_a_lead_is_found_by_seed_and_the_best_of_a_kind_stands_for_it() -> None:
    lead = {"bm25": 0.02, "random": 0.0, "tfidf": 0.005, "dense": 0.02}
    trials, queries = study(lead, origins=("bm25", "random"))
    dev = {"bm25": 0.5, "random": 0.3, "tfidf": 0.4, "dense": 0.5}
    trials = trials.reverse().with_columns(
        curve_validation=pl.concat_list(pl.lit(0.1), pl.col("function").replace_strict(dev))
    )
    queries = queries.sample(fraction=1, shuffle=True, seed=1)
    found = planned_contrasts(trials, queries, ["function=bm25", "function=random | function=tfidf", "function=dense"])
    assert found.height == 4
    first = found.filter(candidates="bm25")
    assert first["against"].to_list() == ["tfidf · uniform", "dense · uniform"]  # tfidf was better on dev queries
    assert first["difference"].to_list() == pytest.approx([0.015, 0.0], abs=0.002)
    assert (first["low_both"] < first["difference"]).all()
    assert (first["difference"] < first["high_both"]).all()
    assert first[0, "p_holm"] == pytest.approx(4 * first[0, "p"])  # two opponents at two origins
    assert first[0, "p_both_holm"] == pytest.approx(4 * first[0, "p_both"])
    assert first["equal_p"].null_count() == 2
    equal = planned_contrasts(trials, queries, ["function=bm25", "function=random", "function=dense"], 0.01)
    assert equal[0, "equal_p"] > 0.9
    assert equal[1, "equal_p"] < 0.01
    assert first[0, "p_holm"] < 0.001 < 0.05 < first[1, "p_holm"]
    means = [trials.filter(function=name).sort("seed")["bm25:AP@10"].to_numpy() for name in ("bm25", "tfidf")]
    assert first[0, "p"] == pytest.approx(paired_t_test(*means))
    assert first[0, "std"] == pytest.approx(means[0].std(ddof=1))
    assert "tfidf" in str(contrasts(found).to_html())
    for bad in (["function=bm25"], ["function=bm25", "function=nowhere"]):
        with pytest.raises(BadInput):
            planned_contrasts(trials, queries, bad)


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        (["function=bm25", "function=nowhere"], "'function=nowhere' in its overrides; choose from .*function=bm25"),
        (["function=bm25", "function=bm25"], "compares 'function=bm25' twice; leave one of them out"),
        (["function=bm25", "bm25"], "compares 'function=bm25' and 'bm25', the same runs"),
        (["function=bm25"], "takes two methods"),
    ],
)
def test_contrasts_that_the_plan_does_not_have_are_refused(requested: list[str], message: str) -> None:
    trials, _ = study({"bm25": 0.0, "random": 0.0}, origins=("bm25",))
    planned = trials.with_columns(status=pl.lit("failed"))  # nothing has run
    with pytest.raises(BadInput, match=message):
        check_contrasts(planned, requested)
    check_contrasts(planned, ["function=bm25", "function=random"])
    assert unknown_contrasts(planned, ["function=bm25"]) == ["function=bm25"]
    assert unknown_contrasts(trials, requested) == [words for words in requested if "nowhere" in words]
