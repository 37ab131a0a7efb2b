"""The softmax with a margin, in both directions, and over queries and documents of the batch: by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pyrite.ranking.errors import BadInput
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.matryoshka import Matryoshka
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.rankers.inputs import RankerInputs
from tests.ranking.trained import NEGATIVES, Bag, feed_forward, generator, in_training, weights

TERMS = ("symmetric", "other_queries", "other_documents")
SCORES = torch.tensor([[1.0, 1.05, 1.2], [0.0, -1.0, 7.0]], dtype=torch.float64)
PRESENT = torch.tensor([[True, True, True], [True, True, False]])
CROSSED = torch.tensor([[1.0, 2.0], [0.5, 0.0]], dtype=torch.float64)
QUERIES = torch.tensor([[3.0, -0.5], [-0.5, 4.0]], dtype=torch.float64)
DOCUMENTS = torch.tensor([[5.0, 0.25], [0.25, 6.0]], dtype=torch.float64)


def share(positive: float, *others: float) -> float:
    """−log of the positive's share."""
    return -math.log(math.exp(positive) / sum(map(math.exp, (positive, *others))))


def loss(alike: torch.Tensor | None = None, **options: object) -> float:
    find = None if alike is None else lambda: alike
    block = Block(PRESENT, find_batch_scores=lambda: torch.stack([CROSSED, QUERIES, DOCUMENTS]), find_alike=find)
    return float(Softmax(**options).loss(SCORES, block))  # type: ignore[arg-type]


def test_a_negative_beyond_the_margin_is_left_out():
    """1.2 is more than 1 + .1, and 1.05 is not; an absent 7 is never shown."""
    second = share(0, -1)
    assert loss() == pytest.approx((share(1, 1.05, 1.2) + second) / 2)
    assert loss(margin=0.1) == pytest.approx((share(1, 1.05) + second) / 2)
    assert loss(margin=0.0) == pytest.approx((0 + second) / 2)
    assert loss(margin=5.0) == pytest.approx(loss())
    assert loss(temperature=0.5, margin=0.1) == pytest.approx((share(2, 2.1) + share(0, -2)) / 2)


def test_terms_of_the_batch_by_hand():
    """A second softmax has each positive's column of queries; other queries and documents join the first one."""
    forth = (share(1, 1.05, 1.2) + share(0, -1)) / 2
    back = (share(1, 0.5) + share(0, 2)) / 2
    assert loss(symmetric=True) == pytest.approx((forth + back) / 2)
    assert loss(other_queries=True) == pytest.approx((share(1, 1.05, 1.2, -0.5) + share(0, -1, -0.5)) / 2)
    assert loss(other_documents=True) == pytest.approx((share(1, 1.05, 1.2, 0.25) + share(0, -1, 0.25)) / 2)
    every = (share(1, 1.05, -0.5, 0.25) + share(0, -1, -0.5)) / 2  # .25 is beyond 0 + .1
    back = (share(1, 0.5) + 0) / 2  # 2 is
    assert loss(margin=0.1, symmetric=True, other_queries=True, other_documents=True) == pytest.approx(
        (every + back) / 2
    )


def test_pairs_that_are_alike_are_no_negatives():
    everything = torch.ones(2, 2, dtype=torch.bool)
    assert loss(everything, other_queries=True, other_documents=True) == pytest.approx(loss())
    assert loss(everything, symmetric=True) == pytest.approx(loss() / 2)


def test_pairs_of_a_collection_that_are_alike(tiny_encoded):
    """The second pair has the query of the first, and the third the document of the first."""
    relevant = tiny_encoded.judgements.relevant()
    query = int(np.flatnonzero(np.diff(relevant.offsets) > 1)[0]) if (np.diff(relevant.offsets) > 1).any() else 0
    first = int(relevant.documents[relevant.offsets[query]])
    other = next(each for each in range(len(tiny_encoded.queries)) if each != query)
    last = int(relevant.documents[relevant.offsets[query + 1] - 1])
    block = Block.of(tiny_encoded, np.array([query, query, other]), np.array([[first], [last], [first]], np.int32))
    alike = block.alike.tolist()
    assert alike[0] == [True, True, True]
    assert alike[1][0]
    assert np.array_equal(alike, np.transpose(alike))
    assert Block(PRESENT).alike.tolist() == [[True, False], [False, True]]


def test_queries_that_are_documents_are_compared_with_no_relevant_text_nor_their_own(encoded_of):
    """Query 0 is document 0, which is the positive of 1; 2 is document 2, whose copy 6 is relevant for 3."""
    grades = {0: {1: 1}, 1: {0: 1}, 2: {3: 1}, 3: {4: 1, 6: 1}, 4: {5: 1}}
    plain = encoded_of([[2]] * 7, [[2]] * 5, grades)
    own = np.array([0, -1, 2, -1, -1], np.int32)
    encoded = replace(plain, content=np.array([0, 1, 2, 3, 4, 5, 2], np.int32), itself=own)
    of = (np.arange(5), np.array([[1], [0], [3], [4], [5]], np.int32))
    alike = torch.eye(5, dtype=torch.bool)
    assert torch.equal(Block.of(plain, *of).alike, alike)
    assert torch.equal(Block.of(replace(encoded, itself=None), *of).alike, alike)
    for one, other in ((0, 1), (2, 3)):
        alike[one, other] = alike[other, one] = True
    assert torch.equal(Block.of(encoded, *of).alike, alike)


def bag_training(sources, **options):
    bag = Bag(len(sources.encoded.idf)).start(RankerInputs(generator()))
    return in_training(bag, sources.encoded, sources, **options)


@pytest.mark.parametrize("options", [{"symmetric": True}, {"other_queries": True}, {"other_documents": True}])
def test_each_term_teaches_by_the_vectors_of_the_batch(options, tiny_sources):
    """The loss of an update is that of the vectors; in chunks it is the same, and every term changes the weights."""
    plain, with_term = bag_training(tiny_sources), bag_training(tiny_sources, objective=Softmax(**options))
    batch = with_term.next_batch()
    encoded, ranker = tiny_sources.encoded, with_term.ranker
    queries = ranker.represent_queries(encoded.queries.take(batch.queries))
    positives = ranker.represent_documents(encoded.documents.take(batch.positives))
    shown = np.concatenate([batch.positives[:, None], NEGATIVES], axis=1)
    block = Block.of(
        encoded, batch.queries, shown,
        batch_scores=lambda: torch.stack([queries @ positives.T, queries @ queries.T, positives @ positives.T]),
    )  # fmt: skip
    scores = torch.from_numpy(np.where(shown < 0, 0, with_term.score(batch.queries, shown)).astype(np.float32))
    expected = float(Softmax(**options).loss(scores, block).detach())
    without = plain.update(plain.next_batch(), NEGATIVES).loss
    assert with_term.update(batch, NEGATIVES).loss == pytest.approx(expected, rel=1e-5)
    assert expected != pytest.approx(without, rel=1e-4)
    assert not torch.equal(weights(ranker)["table"], weights(plain.ranker)["table"])
    chunked = bag_training(tiny_sources, objective=Softmax(**options), chunk=2)
    assert chunked.update(chunked.next_batch(), NEGATIVES).loss == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(weights(chunked.ranker)["table"], weights(ranker)["table"])


@pytest.mark.parametrize("terms", [("symmetric",), ("other_queries",), ("other_documents",), TERMS])
def test_fewer_dimensions_take_the_terms_from_the_shorter_vectors(terms, tiny_sources):
    """The loss is the sum of those of whole and shorter vectors, in one pass and in chunks."""
    objective = Matryoshka(Softmax(**dict.fromkeys(terms, True)), [3, 2], [1.0, 0.5])
    training, chunked = (bag_training(tiny_sources, objective=objective, chunk=chunk) for chunk in (None, 2))
    training.ranker.unit = chunked.ranker.unit = True  # shorter vectors are normalized
    batch, encoded, ranker = training.next_batch(), tiny_sources.encoded, training.ranker
    shown = np.concatenate([batch.positives[:, None], NEGATIVES], axis=1)
    alike = Block.of(encoded, batch.queries, shown).alike
    with torch.no_grad():
        queries = ranker.represent_queries(encoded.queries.take(batch.queries))
        documents = ranker.represent_documents(encoded.documents)

    def of(queries: torch.Tensor, documents: torch.Tensor) -> float:
        positives = documents[shown[:, 0]]
        scores = (documents[np.maximum(shown, 0)] @ queries[..., None])[..., 0]
        columns = [scores.masked_fill(torch.from_numpy(shown < 0), -torch.inf)]
        for term, vectors in (("other_queries", queries), ("other_documents", positives)):
            if term in terms:
                columns.append((vectors @ vectors.T).masked_fill(alike, -torch.inf))
        forth = F.cross_entropy(torch.cat(columns, 1), torch.zeros(4, dtype=torch.long))
        back = (positives @ queries.T).masked_fill(alike & ~torch.eye(4, dtype=torch.bool), -torch.inf)
        both = (forth + F.cross_entropy(back, torch.arange(4))) / 2
        return float(both if "symmetric" in terms else forth)

    wanted = of(queries, documents)
    for dimension, weight in ((3, 1.0), (2, 0.5)):
        wanted += weight * of(*(F.normalize(vectors[:, :dimension], dim=1) for vectors in (queries, documents)))
    for each in (training, chunked):
        assert each.update(each.next_batch(), NEGATIVES).loss == pytest.approx(wanted, rel=1e-5)
    torch.testing.assert_close(weights(chunked.ranker)["table"], weights(ranker)["table"])


def test_a_ranker_without_vectors_and_a_divided_batch_are_refused(tiny_sources):
    objective = Softmax(symmetric=True)
    with pytest.raises(BadInput, match="FeedForward has no vectors by which"):
        in_training(feed_forward(tiny_sources), tiny_sources.encoded, tiny_sources, objective=objective)
    with pytest.raises(BadInput, match="divides a batch") as raised:
        bag_training(tiny_sources, objective=objective, accumulate=2)
    assert raised.value.where == "training.accumulate"
    with pytest.raises(BadInput, match="margin"):
        Softmax(margin=-0.1)
