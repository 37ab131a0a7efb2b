"""ADORE and LTRe, whose tower of queries learns against documents that stay, and cross-batch memory."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pyrite.ranking.batch import Batch
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import FullCollection
from pyrite.ranking.objectives.contrastive import Contrastive
from pyrite.ranking.objectives.listwise import LambdaRank
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.objectives.pairwise import RankNet
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.retrieval.dense import Dense, Refresh
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.retrieval.memory import Memory
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.top import Top
from pyrite.sampling.selection.uniform import Uniform
from tests.ranking.trained import Bag, feed_forward, generator, in_small_batches, sum_of_words
from tests.sampling.test_contracts import ready, training_of

QUERIES = np.arange(6)


class TwoTowers(Bag):
    """A text is the sum of its words' vectors, of two tables; that of documents does not learn."""

    fixed_documents = True

    def __init__(self, words: int) -> None:
        super().__init__(words, 6)
        self.answers = nn.Parameter(torch.randn(words, 6, generator=generator(2)), requires_grad=False)
        self.documents_read = 0

    def represent_documents(self, documents: Texts) -> Tensor:
        self.documents_read += len(documents)
        return sum_of_words(self.answers, documents)


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
                vectors = ranker.represent_queries(training.encoded.queries.take(batch.queries))
                products = vectors @ sum_of_words(ranker.answers, training.encoded.documents).T
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
        learned.append(ranker.table.detach())
        read.append(ranker.documents_read)
    assert read[0] == 0  # the index has a copy of the ranker
    assert read[1] > 0
    torch.testing.assert_close(*learned)


def prepared(sources: Sources, training: RankerTraining, batches: int = 2) -> Any:
    function = ready(Memory(batches=batches), sources)
    function.start_run(training)
    return function


def test_the_memory_holds_the_documents_of_the_last_batches(tiny_sources):
    training = training_of(tiny_sources)
    function = prepared(tiny_sources, training)
    read = []
    for _ in range(3):
        batch = training.next_batch()
        training.loss_of(batch, np.full((len(batch), 1), 5, np.int32))  # a batch that a policy tries
        negatives = np.full((len(batch), 2), [6 + training.step, -1], np.int32)  # −1 is no document, 0 neither
        function.after_selection(batch, negatives, np.zeros(negatives.shape, bool))
        training.update(batch, negatives)
        training.loss_now()  # of other weights
        function.after_update(training)
        read.append({*batch.positives.tolist(), 6 + training.step - 1})
        assert set(function.memory.documents.tolist()) == set.union(*read[-2:])
    training.validate()
    offered = function.sample(Batch(np.array([0]), np.array([11], np.int32)), 20, np.random.default_rng(0)).documents
    assert set(offered[0].tolist()) == set.union(*read[-2:])


def test_remembered_vectors_are_those_of_then_and_pass_no_gradient(tiny_sources):
    training = training_of(tiny_sources)
    function = prepared(tiny_sources, training)
    first = training.next_batch()
    with torch.no_grad():
        before = training.ranker.represent_documents(tiny_sources.encoded.documents.take(first.positives))
    training.update(first, np.full((2, 1), 9, np.int32))
    function.after_update(training)
    torch.testing.assert_close(function.memory.vectors(first.positives), before)

    second = training.next_batch()
    shown = first.positives[[0, 0]][:, None]
    assert not np.isin(shown, second.positives).any()
    function.after_selection(second, shown, np.ones(shown.shape, bool))
    with torch.no_grad():
        of_queries = training.ranker.represent_queries(tiny_sources.encoded.queries.take(second.queries))
    result = training.update(second, shown)
    np.testing.assert_allclose(result.scores[:, 1], (of_queries @ before[0]).numpy(), rtol=1e-5)
    table = next(training.ranker.parameters())
    queries = tiny_sources.encoded.queries.take(second.queries)
    read = tiny_sources.encoded.documents.take(second.positives).followed_by(queries)
    only_remembered = set(tiny_sources.encoded.documents.take(shown[:1, 0]).tokens.tolist()) - set(read.tokens.tolist())
    assert only_remembered
    assert not table.grad[sorted(only_remembered)].any()


def test_what_the_batch_reads_is_read_anew(tiny_sources):
    training = training_of(tiny_sources)
    function = prepared(tiny_sources, training)
    first = training.next_batch()
    training.update(first, np.full((2, 1), 9, np.int32))
    function.after_update(training)
    batch = training.next_batch()
    negatives = np.array([[9, 5], [int(first.positives[0]), 9]], np.int32)
    own = np.array([[True, False], [True, False]])
    function.after_selection(batch, negatives, own)
    assert function.memory.used.tolist() == [int(first.positives[0])]  # 9 is another function's too
    function.after_selection(Batch(batch.queries, first.positives), negatives, own)
    assert function.memory.used.tolist() == []


def test_further_positives_are_read_anew(tiny_sources):
    ranker = Bag(len(tiny_sources.encoded.idf))
    training = in_small_batches(ranker, tiny_sources, objective=Contrastive(), positives=2)
    function = prepared(tiny_sources, training)
    function.memory.note(np.arange(12), torch.zeros(12, ranker.dimension))
    function.memory.push()
    relevant = tiny_sources.encoded.judgements.relevant()
    (positive, further), _ = relevant.of(2)
    batch = Batch(np.array([2, 0]), np.array([positive, relevant.of(0)[0][0]], np.int32))
    negatives = np.array([[5], [further]], np.int32)
    function.after_selection(batch, negatives, np.ones(negatives.shape, bool))
    assert function.memory.used.tolist() == [5]
    training.loss_of(batch, negatives).backward()
    texts, queries = tiny_sources.encoded.documents, tiny_sources.encoded.queries
    others = texts.take(batch.positives).followed_by(queries.take(batch.queries))
    only_further = set(texts.take(np.array([further])).tokens.tolist()) - set(others.tokens.tolist())
    assert only_further
    assert ranker.table.grad[sorted(only_further)].any()


def test_beside_in_batch_negatives_it_supplies_from_the_second_batch_on(tiny_sources):
    training = training_of(tiny_sources)
    functions = {"in_batch": ready(InBatch(), tiny_sources), "memory": ready(Memory(batches=2), tiny_sources)}
    sampler = Sampler(Mixture(per="negative"), functions, Uniform(), 2, np.random.default_rng(0))
    used = []
    for _ in range(3):
        batch = training.next_batch()
        negatives = sampler.negatives(batch, training)
        used.append(len(functions["memory"].memory.used))
        sampler.observe(negatives, training.update(batch, negatives))
    assert used[0] == 0
    assert used[1] > 0


def test_a_ranker_without_vectors_is_refused(tiny_sources):
    training = training_of(tiny_sources)
    training.ranker = feed_forward(tiny_sources)
    with pytest.raises(BadInput, match="no vectors to remember"):
        prepared(tiny_sources, training)
