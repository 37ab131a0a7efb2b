"""A trained ranker as a teacher and as a guard."""

from __future__ import annotations

import numpy as np

from cluster.config.build import build
from cluster.config.compose import compose
from cluster.runs.ranker_teacher import RankerTeacher
from ranking.sources import Sources
from sampling.retrieval.embedding import Embedding


def test_a_checkpoint_scores_as_it_does_elsewhere(small_bert: str, tiny_sources: Sources) -> None:
    teacher, queries = RankerTeacher(small_bert), np.arange(3)
    documents = np.array([[0, 5, -1], [7, 1, 2], [3, 3, 4]], np.int32)
    found = teacher.own_scores(tiny_sources, queries, documents)
    expected = Embedding(small_bert).own_scores(tiny_sources, queries, documents)
    assert found[0, 2] == -np.inf
    np.testing.assert_allclose(found[documents >= 0], 20 * expected[documents >= 0], atol=1e-3)  # cosines, by its scale
    assert len(np.unique(found[documents >= 0])) > 4


def test_a_guard_names_its_ranker_by_a_path(small_bert: str) -> None:
    given = [f"sampling.guard.ranker={small_bert}", "sampling.guard.relative=0.1"]
    guard = build(compose(given)["sampling"]["guard"], "sampling.guard")
    assert isinstance(guard.ranker, RankerTeacher)
    assert guard.ranker.checkpoint == small_bert
    teacher = build(compose(["teacher=ranker", f"teacher.checkpoint={small_bert}"])["teacher"])
    assert isinstance(teacher, RankerTeacher)
