"""The dev loss."""

import numpy as np
import pytest

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.evaluation.held_out import HeldOut
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import Batch, NegativeSource, RankerTraining
from tests.ranking.trained import feed_forward, in_small_batches

QUERIES, DOCUMENTS = np.array([4, 5]), np.array([[4, 0, 1, 2], [10, 3, 5, -1]], np.int32)


def training_of(sources: Sources, held_out: HeldOut | None) -> RankerTraining:
    return in_small_batches(feed_forward(sources), sources, seed=0, max_epochs=3, patience=3, held_out=held_out)


class Same(NegativeSource):
    """Documents 6 and 7 for every query."""

    def negatives(self, batch: Batch, training: RankerTraining) -> np.ndarray:
        return np.tile(np.array([6, 7], np.int32), (len(batch), 1))

    def observe(self, negatives: object, step: object) -> None:
        """Nothing to learn."""


def test_the_loss_is_the_objectives_and_what_is_missing_does_not_count(tiny_sources):
    ranker = feed_forward(tiny_sources)
    held_out = HeldOut(tiny_sources.encoded, QUERIES, DOCUMENTS)
    encoded, by_hand = tiny_sources.encoded, []
    for query, documents in zip(QUERIES, DOCUMENTS, strict=True):
        own = documents[documents >= 0]
        scores = ranker(encoded.queries.take(np.array([query])), encoded.documents.take(own))[0].detach().numpy()
        by_hand.append(np.log(np.exp(scores - scores[0]).sum()))
    assert held_out.loss(ranker, Softmax()) == pytest.approx(np.mean(by_hand), rel=1e-5)


def test_it_is_taken_after_each_epoch_and_changes_nothing(tiny_sources):
    held_out = HeldOut(tiny_sources.encoded, QUERIES, DOCUMENTS)
    training, without = training_of(tiny_sources, held_out), training_of(tiny_sources, None)
    before = held_out.loss(training.ranker, training.objective)
    for each in (training, without):
        each.fit(Same())
    assert len(training.dev_losses) == len(training.losses) == 3
    assert training.dev_losses[0] != before
    assert without.dev_losses == []
    assert training.losses == without.losses
    assert training.validations == without.validations
    again = training_of(tiny_sources, held_out)
    again.load_state_dict(from_bytes(to_bytes(training.state_dict())))
    assert again.dev_losses == training.dev_losses
