"""Parts as a user outside the repository writes them: one class each."""

WINDOW = '''
import numpy as np

from pyrite.sampling.retrieval.function import CandidateBatch
from pyrite.sampling.selection.selector import Selector


class Window(Selector):
    """Any of the documents at the places `first` to `last` of the list."""

    def __init__(self, first: int = 0, last: int = 10) -> None:
        self.first, self.last = first, last

    def select(self, batch, function, count, training, rng):
        head = function.top(batch, self.last, rng)
        documents, scores = head.documents[:, self.first :], head.scores[:, self.first :]
        keys = np.where(documents >= 0, rng.random(documents.shape), np.inf)
        chosen = np.argsort(keys, axis=1)[:, :count]
        return CandidateBatch(np.take_along_axis(documents, chosen, 1), np.take_along_axis(scores, chosen, 1))
'''

IN_BATCH = '''
import numpy as np

from pyrite.sampling.retrieval.function import CandidateBatch, RetrievalFunction


class OthersPositives(RetrievalFunction):
    """The positives of the other queries of the batch."""

    def prepare(self, encoded, lists):
        pass

    def sample(self, batch, count, rng):
        others = np.unique((batch.whole or batch).positives)
        keys = rng.random((len(batch), len(others)))
        keys[others == batch.positives[:, None]] = np.inf
        order = np.argsort(keys, axis=1)[:, :count]
        there = np.isfinite(np.take_along_axis(keys, order, 1))
        documents = np.where(there, others[order], -1).astype(np.int32)
        return CandidateBatch(documents, np.full(documents.shape, np.nan, np.float32))

    def top(self, batch, count, rng):
        return self.sample(batch, count, rng)
'''
