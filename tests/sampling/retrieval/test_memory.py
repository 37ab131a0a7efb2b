"""Cross-batch memory: what is offered, what is read, and what a gradient goes through."""

import numpy as np
import pytest
import torch

from ranking.batch import Batch
from ranking.errors import BadInput
from ranking.sources import Sources
from ranking.training import RankerTraining
from sampling.policies.mixture import Mixture
from sampling.retrieval.in_batch import InBatch
from sampling.retrieval.memory import Memory
from sampling.sampler import Sampler
from sampling.selection.uniform import Uniform
from tests.ranking.trained import feed_forward
from tests.sampling.test_contracts import training_of


def prepared(sources: Sources, training: RankerTraining, batches: int = 2) -> Memory:
    function = Memory(batches)
    function.prepare(sources.encoded, None)
    function.start_run(training)
    return function


def test_it_holds_the_documents_of_the_last_batches(tiny_sources):
    training = training_of(tiny_sources)
    function = prepared(tiny_sources, training)
    read = []
    for _ in range(3):
        batch = training.next_batch()
        negatives = np.full((len(batch), 1), 6 + training.step, np.int32)
        training.update(batch, negatives)
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
    read = tiny_sources.encoded.documents.take(second.positives).followed_by(
        tiny_sources.encoded.queries.take(second.queries)
    )
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


def test_beside_in_batch_negatives_it_supplies_from_the_second_batch_on(tiny_sources):
    training = training_of(tiny_sources)
    functions = {"in_batch": InBatch(), "memory": Memory(2)}
    for function in functions.values():
        function.prepare(tiny_sources.encoded, None)
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
