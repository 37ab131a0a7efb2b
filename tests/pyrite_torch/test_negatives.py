"""`pyrite.torch`: the batches of a run as texts, and scores that go back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.ranking.errors import BadInput
from pyrite.torch import Negatives
from pyrite.torch.batch_versions import LoaderCounts
from tests.ranking.collections.animals import write_lines

SEVERAL = ["policy=mixture", "policy.per=negative", "function=[bm25,random]", "selector=uniform"]


def lengths(queries: Sequence[str], documents: Sequence[Sequence[str]]) -> np.ndarray:
    return np.array([[len(text) for text in row] for row in documents], np.float32)


def test_prompts_of_queries_begin_their_texts(tmp_path, own_cache):
    """Other trainers read texts alone."""
    rows = [{"query": f"who is {n}", "positive": f"it is {n}", "instruction": f"Find {n % 2}:"} for n in range(20)]
    path = write_lines(tmp_path / "rows.jsonl", rows)
    negatives = Negatives(["collection=pairs", f"collection.path={path}", "vectors=random", "function=random"])
    texts = {f"Find {n % 2}: who is {n}" for n in range(20)}
    assert set(negatives.dataset["query"]) < texts
    batch = next(iter(negatives))
    assert set(batch.queries) < texts
    found = negatives._batch_negatives(tmp_path / "index", LoaderCounts(1)).texts(
        [(batch.queries[0], batch.documents[0][0])], None
    )
    assert len(found[0]) > 0


def test_batches_are_those_of_a_training(base):
    overrides = [*base, *SEVERAL, "ranker=static"]
    data = Negatives(overrides)
    config = compose(overrides)
    training, sampler = assemble(config, Artifacts().parts(config), fold=0)
    names = data.collection.documents["id"]
    for epoch in range(2):
        served = 0
        for batch in data:
            wanted = training.next_batch()
            negatives = sampler.negatives(wanted, training)
            assert batch.query_ids == data.collection.queries["id"].gather(wanted.queries).to_list()
            ids = [[names[int(each)] if each >= 0 else None for each in row] for row in negatives]
            assert [row[1:] for row in batch.document_ids] == ids
            assert batch.present.shape == (len(batch), 5)
            assert [len(row) for row in batch.documents] == [5] * len(batch)
            sampler.observe(negatives, training.update(wanted, negatives, sampler.source_scores))
            data.observe(batch, lengths(batch.queries, batch.documents))
            served += len(batch)
        assert served == len(training.examples)
        assert training.epoch_over
        training.validate()
        assert data.training.epoch == epoch + 1
    assert len(data) == training.steps_per_epoch


def test_a_selector_asks_the_model_and_learns_what_it_said(base):
    asked: list[int] = []

    def score(queries: Sequence[str], documents: Sequence[Sequence[str]]) -> torch.Tensor:
        asked.append(len(queries))
        return torch.from_numpy(lengths(queries, documents))

    data = Negatives([*base, "function=random", "selector=dynamic", "selector.lam=0"], score=score)
    text = dict(data.collection.documents.select("id", "text").rows())
    for batch in data:
        chosen = lengths(batch.queries, batch.documents)[:, 1:]
        assert (np.diff(chosen, axis=1) <= 0).all()  # by the model's scores, descending
        assert [[text[name or ""] for name in row] for row in batch.document_ids] == batch.documents
        data.observe(batch, score(batch.queries, batch.documents), loss=1.0)
    (row,) = data.sampler.report()
    assert asked
    assert row["negative_mean"] > 0
    unknown = Negatives([*base, "selector=dynamic"], score=lambda _, documents: np.full(np.shape(documents), np.nan))
    with pytest.raises(ValueError, match=r"score returned NaN for \d+ of \d+ documents"):
        next(iter(unknown))
    with pytest.raises(BadInput, match="asks the model for scores"):
        next(iter(Negatives([*base, "function=random", "selector=dynamic"])))


def test_a_teachers_scores_stand_beside_the_documents(base):
    options = [*base, "function=bm25", "selector=uniform", "sampling.negatives=2"]
    assert next(iter(Negatives(options))).teacher is None
    known = 0
    for batch in Negatives([*options, "teacher=bm25"]):
        assert batch.teacher.shape == batch.present.shape
        assert torch.equal(batch.teacher[:, 1:][batch.present[:, 1:]], batch.scores[batch.present[:, 1:]])  # BM25's too
        assert torch.isnan(batch.teacher[~batch.present]).all()
        known += int(torch.isfinite(batch.teacher[:, 0]).sum())
    assert known  # of positives


@pytest.mark.by_day(2)
@pytest.mark.parametrize("option", ["function=[in_batch,memory]", "selector=adversarial", "policy=curriculum"])
def test_what_needs_a_ranker_of_our_own_is_refused(base, option):
    data = Negatives([*base, "function=[random,bm25]", option], score=lengths)

    def epoch() -> None:
        for batch in data:
            data.observe(batch, lengths(batch.queries, batch.documents))

    with pytest.raises(BadInput, match=r"needs the vectors or weights of a Pyrite ranker|the step is made elsewhere"):
        epoch()


def test_scores_belong_to_the_last_batch(base):
    data = Negatives([*base, "function=random"])
    batches = iter(data)
    first = next(batches)
    with pytest.raises(ValueError, match="scores are"):
        data.observe(first, np.zeros((1, 1)))
    second = next(batches)
    with pytest.raises(ValueError, match="batch 0 was not served last"):
        data.observe(first, np.zeros((len(first), 5)))
    data.observe(second, np.zeros((len(second), 5)))


def test_a_batch_at_which_a_loop_is_left_counts_once(base):
    """Also for the next loop, whose batches have further numbers."""
    data = Negatives([*base, "function=random"])
    for batch in data:
        if batch.step == 1:
            break
    assert data.trained == (2, 2)
    assert [batch.step for batch in data] == list(range(2, 2 + len(data)))
    assert data.trained == (2 + len(data), 2 + len(data))
    assert [line["batch"] for line in data.lines()] == list(range(2 + len(data)))


def test_a_loader_serves_it_in_this_process_alone(base):
    data = Negatives([*base, "function=random"])
    assert [batch.step for batch in DataLoader(data, batch_size=None)] == list(range(len(data)))
    loader: Any = DataLoader(data, batch_size=None, num_workers=1)
    with pytest.raises(BadInput, match="num_workers=0"):
        next(iter(loader))
