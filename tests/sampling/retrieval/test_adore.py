"""ADORE and LTRe: a tower of queries learns from what it finds now among documents that stay as they are."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.origins import FullCollection
from ranking.objectives.listwise import LambdaRank
from ranking.objectives.objective import Objective
from ranking.objectives.pairwise import RankNet
from ranking.rankers.dense import DenseRanker
from ranking.sources import Sources
from ranking.texts import Texts
from ranking.training import RankerTraining
from sampling.policies.fixed import Fixed
from sampling.retrieval.dense import Dense, Refresh
from sampling.sampler import Sampler
from sampling.selection.top import Top
from tests.ranking.trained import sum_of_words

QUERIES = np.arange(6)


class TwoTowers(DenseRanker):
    """A text is the sum of its words' vectors, of two tables; that of documents does not learn."""

    fixed_documents = True

    def __init__(self, words: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        self.asked = nn.Parameter(torch.randn(words, 6, generator=draw))
        self.answers = nn.Parameter(torch.randn(words, 6, generator=draw), requires_grad=False)
        self.documents_read = 0

    @property
    def dimension(self) -> int:
        return 6

    def represent_queries(self, queries: Texts) -> Tensor:
        return sum_of_words(self.asked, queries)

    def represent_documents(self, documents: Texts) -> Tensor:
        self.documents_read += len(documents)
        return sum_of_words(self.answers, documents)

    def layers(self) -> list[nn.Module]:
        return [self]


def started(
    sources: Sources, objective: Objective | None = None, fixed: bool = True, epochs: int = 6
) -> tuple[RankerTraining, Sampler]:
    """A training and its sampler, nothing trained yet."""
    encoded = replace(sources.encoded, content=None)  # as if no two texts were alike
    ranker = TwoTowers(len(encoded.idf))
    ranker.fixed_documents = fixed
    evaluation = Evaluation(encoded, FullCollection(12).candidates(sources, QUERIES), ["nDCG@10"])
    training = RankerTraining(
        ranker, objective or LambdaRank(), encoded, QUERIES, evaluation, partial(torch.optim.Adam, lr=0.05),
        np.random.default_rng(2), 3, max_epochs=epochs, patience=epochs,
    )  # fmt: skip
    function = Dense(depth=8, queries="now", refresh=Refresh(mode="never"))
    function.prepare(encoded, None)
    return training, Sampler(Fixed(), {"dense": function}, Top(), 8, np.random.default_rng(0))


@pytest.mark.parametrize("objective", [LambdaRank(), RankNet()])
def test_it_learns_from_the_top_of_now_and_documents_stay(objective, tiny_sources):
    training, sampler = started(tiny_sources, objective)
    ranker: Any = training.ranker
    before = ranker.answers.clone()
    relevant = training.encoded.judgements.relevant()
    first, seen = training.validate(), set()
    for _ in range(5):
        while not training.epoch_over:
            batch = training.next_batch()
            shown = sampler.negatives(batch, training)
            with torch.no_grad():
                products = (
                    ranker.represent_queries(training.encoded.queries.take(batch.queries))
                    @ sum_of_words(ranker.answers, training.encoded.documents).T
                )
            for query, row, scores in zip(batch.queries.tolist(), shown, products, strict=True):
                order = torch.argsort(scores, descending=True, stable=True).tolist()
                wanted = [document for document in order if document not in relevant.of(query)[0]][:8]
                assert row[row >= 0].tolist() == wanted
                seen.add((query, tuple(wanted)))
            sampler.observe(shown, training.update(batch, shown))
        training.validate()
    assert len(seen) > 2 * len(QUERIES)  # the lists follow the query tower
    assert torch.equal(ranker.answers, before)
    assert training.validations[-1] > first + 0.05


def test_documents_are_read_for_the_index_alone_and_steps_are_the_same(tiny_sources):
    learned, read = [], []
    for fixed in (True, False):
        training, sampler = started(tiny_sources, fixed=fixed)
        ranker: Any = training.ranker
        for _ in range(2):
            batch = training.next_batch()
            training.update(batch, sampler.negatives(batch, training))
        learned.append(ranker.asked.detach())
        read.append(ranker.documents_read)
    assert read[0] == 0  # the index has a copy of the ranker
    assert read[1] > 0
    torch.testing.assert_close(*learned)
