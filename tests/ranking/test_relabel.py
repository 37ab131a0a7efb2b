from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ranking.bm25 import Bm25, Bm25Options
from ranking.collections.beir import Beir
from ranking.collections.cache import open_collection
from ranking.collections.collection import Collection
from ranking.errors import BadInput
from ranking.relabel import relabelled


def test_a_files_grades_take_the_place_of_the_collections(tmp_path: Path, tiny: Collection) -> None:
    (tmp_path / "qrels").write_text("q1 0 d9 0\nq1 0 d10 1\nq1 0 nothing 1\nnobody 0 d9 1\n")
    mended = relabelled(tiny, tmp_path / "qrels")
    grades = {(query, document): grade for query, document, grade in mended.judgements.rows()}
    before = {(query, document): grade for query, document, grade in tiny.judgements.rows()}
    assert grades == before | {("q1", "d9"): 0, ("q1", "d10"): 1}
    assert mended.facts["judgements corrected"] == "2"
    assert mended.fingerprint != tiny.fingerprint
    assert mended.judgements.schema == tiny.judgements.schema


def test_the_measure_moves_back_after_known_positives_were_hidden(shared_data: Path, tmp_path: Path) -> None:
    """Half of Cranfield's relevant documents are hidden; the best fifteen of BM25 that have no label are judged."""
    whole = open_collection(Beir(str(shared_data / "cranfield")), tmp_path / "collections")
    relevant, rng = whole.judgements.filter(pl.col("grade") > 0), np.random.default_rng(5)
    hidden = replace(whole, judgements=relevant.filter(pl.Series(rng.random(len(relevant)) < 0.5)))
    lists, _ = Bm25(whole, Bm25Options()).search(np.arange(len(whole.queries)), 100)
    names = whole.documents["id"].to_list()
    found = [[names[number] for number in row if number >= 0] for row in lists.documents]

    def labels(collection: Collection) -> dict[str, set[str]]:
        by_query = collection.judgements.filter(pl.col("grade") > 0).group_by("query").agg("document")
        return {query: set(documents) for query, documents in by_query.iter_rows()}

    def mean_ap(collection: Collection) -> float:
        known, scores = labels(collection), []
        for query, ranked in zip(collection.queries["id"], found, strict=True):
            if query in labels_whole:
                hits = np.array([name in known.get(query, set()) for name in ranked], float)
                precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
                scores.append(float((precision * hits).sum()) / max(len(known.get(query, set())), 1))
        return float(np.mean(scores))

    labels_whole, labels_hidden = labels(whole), labels(hidden)
    lines = []
    for query, ranked in zip(whole.queries["id"], found, strict=True):
        shown = [name for name in ranked if name not in labels_hidden.get(query, set())][:15]
        lines += [f"{query} 0 {name} {int(name in labels_whole.get(query, set()))}\n" for name in shown]
    (tmp_path / "judged").write_text("".join(lines))
    mended = relabelled(hidden, tmp_path / "judged")
    before, after, truth = map(mean_ap, (hidden, mended, whole))
    assert before < after
    # Beyond the truth, in fact: who judges BM25's documents alone finds the positives that BM25 ranks high.
    assert abs(after - truth) < abs(before - truth)


def test_judgements_of_something_else_are_refused(tmp_path: Path, tiny: Collection) -> None:
    (tmp_path / "qrels").write_text("q1 0 nothing 1\n")
    with pytest.raises(BadInput, match="is it of tiny"):
        relabelled(tiny, tmp_path / "qrels")
