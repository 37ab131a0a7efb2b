"""Options that all compared runs share, by whatever means they are given."""

from pathlib import Path

import pytest

from pyrite.cluster.commands.resuming import started
from pyrite.cluster.commands.study import STUDY
from pyrite.cluster.plan.shared_options import is_shared
from pyrite.cluster.plan.study import StudyPlan
from pyrite.ranking.errors import BadInput

SMALL = ["seeds=1", "policy=fixed", "selector=uniform"]
RANDOM, BM25 = "function: random", "function: bm25"


def planned(tmp_path: Path, *texts: str) -> StudyPlan:
    return started(STUDY, [*SMALL, *texts, f"out={tmp_path / 'out'}"]).plan


def of_methods(*lines: str, scale: str = "scale=tiny") -> list[str]:
    return [scale, "methods=[" + ",".join(f"{{{line}}}" for line in lines) + "]"]


@pytest.mark.parametrize(("texts", "one", "other"), [
    (of_methods(f"{RANDOM}, measures: [nDCG@10]", f"{BM25}, measures: [AP@10]"),
     "measures=['nDCG@10']", "measures=['AP@10']"),
    (of_methods(f"{RANDOM}, scale: tiny", BM25, scale="limits.dev=9"),
     "limits.test=50", "limits.test=1000"),
    (of_methods(f"{RANDOM}, origin.bm25.depth: 5", f"{BM25}, origin.bm25.depth: 50"),
     "origin.bm25.depth=5", "origin.bm25.depth=50"),
    (of_methods(f"{RANDOM}, encoding.relevant_from: 2", BM25), "encoding.relevant_from=2", "encoding.relevant_from=1"),
    (["scale=tiny,small", "function=bm25", "limits.test=9"], "folds=3", "folds=5"),
    (["function=bm25", "limits={train: 99, test: 20},{train: 99, test: 100}"], "limits.test=20", "limits.test=100"),
    (["function=bm25", "sampling={recorded: 0},{recorded: 1}"], "sampling.recorded=0", "sampling.recorded=1"),
])  # fmt: skip
def test_methods_that_are_measured_differently_are_refused(texts, one, other, tmp_path):
    """The mean of one would be of other queries, candidates or judgements than that of the other."""
    with pytest.raises(BadInput) as refused:
        planned(tmp_path, *texts).runs()
    key = one.partition("=")[0]
    assert str(refused.value) == f"methods: two methods have {one} and {other}; give {key}= once, for all methods"


@pytest.mark.parametrize("texts", [
    of_methods(f"{RANDOM}, origin.bm25.depth: 5", f"{BM25}, origin.bm25.depth: 5"),
    of_methods(f"{RANDOM}, origin: bm25, origin.bm25.depth: 5", f"{BM25}, origin: random"),
    ["scale=small", "ranker=static,late_interaction", "ranker.checkpoint=x", "function=bm25"],
    ["scale=tiny,small", "function=bm25", "limits.test=9", "folds=3"],
])  # fmt: skip
def test_methods_that_are_measured_alike_or_never_compared_are_planned(texts, tmp_path):
    assert len(planned(tmp_path, *texts).runs()[0]) == 2


def test_methods_on_other_collections_may_have_other_test_queries(tmp_path):
    lines = (
        f"{BM25}, collection: {name}, collection.path: {name}, limits.test: {count}"
        for name, count in (("beir", 9), ("trec", 8))
    )
    assert len(planned(tmp_path, *of_methods(*lines)).runs()[0]) == 2


def test_a_search_draws_nothing_that_its_runs_share(tmp_path):
    line = f"{RANDOM}, origin.bm25.depth: 'interval(3,100)'"
    with pytest.raises(
        BadInput, match=r"origin\.bm25\.depth is drawn from an interval, and all compared runs share it"
    ):
        planned(tmp_path, *of_methods(line), "search=optuna").runs()


def test_what_is_shared_includes_what_is_below():
    assert all(map(is_shared, ("origin", "origin.bm25.depth", "index.cpu", "resources.workers", "sampling.recorded")))
    assert not any(map(is_shared, ("resources.cpu", "limits.train", "sampling.negatives", "validation.origin", "seed")))
