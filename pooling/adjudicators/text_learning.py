"""Defines orders that learn from the judged texts, by logistic regression, which documents to judge next."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.pooling.adjudicators.adjudicator import Adjudicator, mark, record
from pyrite.pooling.pool import TopicPool
from pyrite.pooling.rewards import GradeReward
from pyrite.pooling.sentinels import NO_DOCUMENT, OPEN
from pyrite.pooling.terms import matrix_of
from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import refuse
from pyrite.ranking.lazy import sklearn

END, PLACE, BATCH, BATCHES = 0, 1, 2, 3


class LearningState(NamedTuple):
    """The state of one topic.

    Args:
        priority: int32 [documents], the lowest comes first among tied documents.
        lot: int32 [documents], the lowest is drawn first if a batch is sampled.
        line: int32 [documents], those of the batches so far that will be judged, in the order of judging.
        batch_of: int32 [documents], the batch of each, -1 if it is in none yet.
        counts: int64 [4], documents in `line`, those of them that were passed, size of the next batch, batches so far.
    """

    priority: NDArray[np.int32]
    lot: NDArray[np.int32]
    line: NDArray[np.int32]
    batch_of: NDArray[np.int32]
    counts: NDArray[np.int64]
    taken: NDArray[np.int32]
    rewards: NDArray[np.float64]


class TextLearning(Adjudicator):
    """Judge batches of the documents that a classifier of tf·idf vectors, trained on the judged ones, scores highest.
    The topic's text is one more relevant document to train on.

    Until both relevant and not relevant ones are known, documents are ordered by the cosine of their text with the
    topic's. Ties are broken at random. Runs are not used: give the pool `beyond` documents, and it reaches beyond the
    runs.

    Args:
        regularization: C of scikit-learn's `LogisticRegression`. The higher, the closer the fit.
        reward: how a grade becomes a reward; None is `pyrite.pooling.rewards.Binary`. A document is relevant to the
            classifier from ½ on.
    """

    needs = ("texts",)
    first = 1
    """Documents of the first batch."""

    compiles = False
    take = staticmethod(mark.py_func)
    learn = staticmethod(record.py_func)

    @checked
    def __init__(self, regularization: Annotated[float, Positive] = 10.0, reward: GradeReward | None = None) -> None:
        super().__init__(reward)
        self.regularization = regularization

    @abstractmethod
    def next_size(self, size: int) -> int:
        """Return the size of the batch after one of this size."""

    def presumed(self, open_documents: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Return unjudged documents that the classifier presumes not relevant: int64 [few]."""
        return open_documents[:0]

    def to_judge(self, batch: NDArray[np.int64], lot: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the documents of a batch to judge now. The others follow when no new batch can be formed."""
        return batch

    def check_texts(self, pool: TopicPool) -> None:
        """Raise `BadInput` for a pool that has no texts."""
        refuse(
            len(pool.terms.starts) != pool.size + 2,
            f"{type(self).__name__} learns from texts, and the pool has none",
            remedy="give collection.path=FOLDER, where documents and topics are",
        )

    def start(self, pool: TopicPool, rng: np.random.Generator, runs: list[str]) -> LearningState:
        self.check_texts(pool)
        return LearningState(
            priority=rng.permutation(pool.size).astype(np.int32),
            lot=rng.permutation(pool.size).astype(np.int32),
            line=np.zeros(pool.size, np.int32),
            batch_of=np.full(pool.size, -1, np.int32),
            counts=np.array([0, 0, self.first, 0], np.int64),
            taken=np.full(pool.size, OPEN, np.int32),
            rewards=np.full(pool.size, np.nan),
        )

    @property
    def loop(self) -> Any:
        return self._judge_all

    def scores(
        self, pool: TopicPool, judged: NDArray[np.int64], relevant: NDArray[np.bool_], presumed: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Score how relevant each document looks, by judged ones and by those presumed not relevant: float64
        [documents], rounded so that no last bit decides.
        """
        vectors = matrix_of(pool.terms)
        if relevant.all() and not len(presumed):
            return np.round((vectors[:-1] @ vectors[[-1]].T).toarray().ravel(), 6)
        rows = np.concatenate([judged, presumed, [pool.size]])
        known = np.concatenate([relevant, np.zeros(len(presumed), bool), [True]])
        model = sklearn.linear_model.LogisticRegression(C=self.regularization, solver="liblinear", random_state=0)
        return np.round(model.fit(vectors[rows], known).decision_function(vectors[:-1]), 6)

    def _judge_all(self, pool, state, options, rng, rewards, order):  # type: ignore[no-untyped-def]
        for turn in range(len(order)):
            document = self.choose(pool, state, options, rng)
            order[turn] = document
            self.learn(pool, state, options, document, rewards[document])

    def choose(self, pool, state, options, rng):  # type: ignore[no-untyped-def]
        while True:
            while state.counts[PLACE] < state.counts[END]:
                document = state.line[state.counts[PLACE]]
                state.counts[PLACE] += 1
                if state.taken[document] == OPEN:
                    state.taken[document] = 0
                    return document
            if not self._line_up(pool, state, rng):
                return NO_DOCUMENT

    def _line_up(self, pool: TopicPool, state: LearningState, rng: np.random.Generator) -> bool:
        """Append the next documents to judge to the line. Returns False if none is left."""
        is_open = state.taken == OPEN
        waiting = np.flatnonzero(is_open & (state.batch_of < 0))
        if len(waiting):
            presumed = self.presumed(waiting, rng)
            judged = np.flatnonzero(~np.isnan(state.rewards))
            scores = self.scores(pool, judged, state.rewards[judged] >= 0.5, presumed)
            batch = waiting[np.lexsort((state.priority[waiting], -scores[waiting]))][: state.counts[BATCH]]
            state.batch_of[batch] = state.counts[BATCHES]
            state.counts[BATCHES] += 1
            state.counts[BATCH] = self.next_size(int(state.counts[BATCH]))
            batch = self.to_judge(batch, state.lot)
        else:
            left = np.flatnonzero(is_open)
            batch = left[np.lexsort((state.lot[left], state.batch_of[left]))]
        end = int(state.counts[END])
        state.line[end : end + len(batch)] = batch
        state.counts[END] += len(batch)
        return len(batch) > 0
