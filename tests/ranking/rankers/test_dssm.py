import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking import block_scores
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.labels import LabelCounts
from pyrite.ranking.rankers.bag import weighted_mean
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.category_input import CategoryInput
from pyrite.ranking.rankers.dssm import DSSM, summed
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.scoring import score_candidates
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Tokenization
from pyrite.ranking.trigrams import Trigrams
from tests.ranking.trained import (
    LISTS,
    QUERIES,
    SHORT,
    Reader,
    assert_in_layers,
    from_checkpoint,
    generator,
    in_training,
    started,
)

TEXTS = st.lists(st.lists(st.integers(0, 11), max_size=7), max_size=5)
COUNTS = LabelCounts(3, 2)
LABELS = np.array([[0, 1], [2, -1], [-1, 0], [-1, -1], [1, 1]], np.int32)
FIVE = replace(Texts.of([[1, 2, 2], [3], [4, 4, 4], [5, 9], [6]]), labels=LABELS)
VECTORS = np.random.default_rng(0).normal(size=(12, 8)).astype(np.float32)
READ = {"buckets": 200, "max_query": 8, "max_document": 10}


def ranker(seed: int = 3, **options: Any) -> DSSM:
    return started(DSSM, RankerInputs(generator(seed)), **{"preset": "tiny"} | READ | options)


def labelled(read_as: Reader, source: EncodedCollection, tokenization: Tokenization | None = None) -> EncodedCollection:
    """The collection `tiny` in trigrams or other tokens, with its labels."""
    tokens = read_as(tokenization or DSSM.tokenization(**READ))
    return replace(
        tokens,
        documents=replace(tokens.documents, labels=source.documents.labels),
        queries=replace(tokens.queries, labels=source.queries.labels),
    )


# The sum of a bag's vectors


def counts_of(texts: Texts, vocabulary: int) -> Tensor:
    counts = torch.zeros(len(texts), vocabulary, dtype=torch.float64)
    for row, (start, end) in enumerate(zip(texts.offsets, texts.offsets[1:], strict=False)):
        for token in texts.tokens[start:end]:
            counts[row, token] += 1
    return counts


@given(TEXTS, st.booleans())
def test_a_sum_is_the_product_with_counts_and_so_is_its_gradient(tokens, in_order):
    texts = Texts.of([sorted(text) if in_order else text for text in tokens])
    start = torch.randn(12, 5, generator=generator(0), dtype=torch.float64)
    toward = torch.randn(len(tokens), 5, generator=generator(1), dtype=torch.float64)
    dense = start.clone().requires_grad_()
    expected = counts_of(texts, 12) @ dense
    (expected * toward).sum().backward()
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):  # compiled, and anything else
        vectors = start.to(dtype).requires_grad_()
        sums = summed(vectors, texts)
        assert sums.dtype == dtype
        (sums * toward.to(dtype)).sum().backward()
        torch.testing.assert_close(sums.double(), expected.detach(), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(vectors.grad.double(), dense.grad, rtol=tolerance, atol=tolerance)


def test_a_gradient_that_is_not_contiguous():
    vectors = torch.zeros(3, 2, requires_grad=True)
    (summed(vectors, Texts.of([[1], [2, 2]])) @ torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T).T.sum().backward()
    assert vectors.grad.tolist() == [[0, 0], [4, 6], [8, 12]]
    summed(vectors, Texts.of([[0, 2]])).sum().backward()  # an expanded scalar
    assert vectors.grad.tolist() == [[1, 1], [4, 6], [9, 13]]


# Categories as input


def one_hot(texts: Texts) -> Tensor:
    """Categories first, then subcategories."""
    dense = torch.zeros(len(texts), COUNTS.total)
    for row, (category, subcategory) in enumerate(texts.labels):
        if category >= 0:
            dense[row, category] = 1
        if subcategory >= 0:
            dense[row, COUNTS.categories + subcategory] = 1
    return dense


def test_a_category_input_is_a_linear_layer_over_one_hot_vectors():
    assert one_hot(FIVE).tolist() == [
        [1, 0, 0, 0, 1],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [0, 1, 0, 0, 1],
    ]
    layer = CategoryInput(COUNTS, 4, 0.3, generator(1))
    assert layer.weight.shape == (5, 4)
    assert 0.1 < float(layer.weight.detach().abs().max()) <= 0.3
    toward, gradients = torch.randn(5, 4, generator=generator(2)), []
    for found in (layer(FIVE), one_hot(FIVE) @ layer.weight):
        layer.zero_grad()
        (found * toward).sum().backward()
        gradients.append(layer.weight.grad.clone())
    torch.testing.assert_close(layer(FIVE), one_hot(FIVE) @ layer.weight)
    torch.testing.assert_close(*gradients)


def test_a_category_input_needs_categories():
    for counts in (None, LabelCounts(0, 0), LabelCounts(0, 4)):
        with pytest.raises(BadInput, match=r"ranker\.categories: the collection has no categories"):
            CategoryInput(counts, 4, 1.0, generator(1))
    with pytest.raises(ValueError, match="without labels"):
        CategoryInput(COUNTS, 4, 1.0, generator(1))(Texts.of([[1]]))
    without_subcategories = CategoryInput(LabelCounts(3, 0), 4, 1.0, generator(1))
    only = replace(FIVE, labels=np.where([[True, False]], LABELS, -1).astype(np.int32))
    torch.testing.assert_close(
        without_subcategories(only)[:, 0], one_hot(only)[:, :3] @ without_subcategories.weight[:, 0]
    )


# The ranker


def dense(texts: Texts, tower: Any) -> Tensor:
    """The same tower as one writes it: a dense count vector and one-hot labels, side by side."""
    weight, inputs = tower.trigrams, counts_of(texts, len(tower.trigrams)).float()
    if tower.categories is not None:
        weight = torch.cat([weight, tower.categories.weight])
        inputs = torch.cat([inputs, one_hot(texts)], dim=1)
    state = torch.tanh(inputs @ weight + tower.bias)
    for layer in tower.rest:
        state = torch.tanh(state @ layer.weight.T + layer.bias)
    return state


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("categories", [True, False])
@pytest.mark.parametrize("tower", [[7], [7, 6, 4]])
def test_it_is_the_plain_network_with_its_gradients(tied, categories, tower):
    made = ranker(tied=tied, categories=categories, labels=COUNTS, tower=tower, buckets=11, scale=3.0)
    with torch.no_grad():
        for parameter in made.parameters():  # towers that differ, biases that are not 0
            parameter.uniform_(-0.5, 0.5, generator=generator(8))
            parameter += 0.01 * torch.arange(parameter.numel()).view(parameter.shape) / parameter.numel()
    queries, documents = FIVE.take(np.array([4, 1])), FIVE.take(np.array([0, 1, 2, 3, 4, 0]))
    gradients = []

    def plain() -> Tensor:
        asked, read = dense(queries, made.towers[0]), dense(documents, made.towers[-1])
        return 3.0 * F.cosine_similarity(asked[:, None], read.view(2, 3, -1), dim=2)

    for score in (lambda: made(queries, documents), plain):
        made.zero_grad()
        F.log_softmax(score(), 1)[:, 0].mean().backward()
        gradients.append({name: each.grad.clone() for name, each in made.named_parameters() if each.grad is not None})
    torch.testing.assert_close(made(queries, documents), plain(), rtol=1e-5, atol=1e-5)
    assert gradients[0].keys() == gradients[1].keys() == {name for name, _ in made.named_parameters()}
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-4, atol=1e-5, msg=name)


def test_the_papers_tower_and_how_it_is_drawn():
    made = DSSM().start(RankerInputs(generator(1)))
    shapes = [[tuple(parameter.shape) for parameter in layer.parameters()] for layer in made.layers()]
    assert shapes == [[(30_001, 300), (300,)], [(300, 300), (300,)], [(128, 300), (128,)]]
    assert (made.dimension, made.scale) == (128, 10)
    for layer, (inputs, outputs) in zip(made.layers(), ((30_001, 300), (300, 300), (300, 128)), strict=True):
        weight, bias = list(layer.parameters())
        bound = math.sqrt(6 / (inputs + outputs))
        assert 0.99 * bound < float(weight.detach().abs().max()) <= bound + 1e-8
        assert not bias.detach().any()


def test_one_layer_over_trigrams_and_labels():
    """Drawn within the bound of the layer that the two are together."""
    made = ranker(categories=True, labels=LabelCounts(40, 60), tower=[50], buckets=20)
    tower: Any = made.towers[0]
    bound = math.sqrt(6 / (21 + 100 + 50))
    for weight in (tower.trigrams, tower.categories.weight):
        assert 0.97 * bound < float(weight.detach().abs().max()) <= bound + 1e-8
    (layer,) = made.layers()
    assert sorted(tuple(parameter.shape) for parameter in layer.parameters()) == [(21, 50), (50,), (100, 50)]


def test_tied_and_untied(read_as, tiny_encoded, tiny_sources):
    texts = labelled(read_as, tiny_encoded)
    tied, untied = ranker(), ranker(tied=False)
    assert (len(tied.towers), len(untied.towers)) == (1, 2)
    assert sum(p.numel() for p in untied.parameters()) == 2 * sum(p.numel() for p in tied.parameters())
    for made in (tied, untied):
        assert_in_layers(made)
        assert len(made.layers()) == 2
    np.testing.assert_allclose(
        score_candidates(tied, texts, QUERIES, LISTS), score_candidates(untied, texts, QUERIES, LISTS), atol=1e-5
    )
    run = in_training(untied, texts, tiny_sources)
    run.update(run.next_batch(), LISTS)
    for one, other in zip(*(tower.parameters() for tower in untied.towers), strict=True):
        assert not torch.equal(one, other)


def test_its_tokens_are_trigrams():
    assert isinstance(DSSM.tokenization(), Trigrams)
    assert DSSM.tokenization().key() == ["trigrams", 30_000, 32, 256]
    options = {"buckets": 9, "max_query": 2, "max_document": 3, "tower": [4], "tied": False}
    assert DSSM.tokenization(**options).key() == ["trigrams", 9, 2, 3]
    with pytest.raises(BadInput, match=r"DSSM: buckets is 0; choose a whole number from 1 up"):
        DSSM.tokenization(buckets=0)


def test_texts_of_one_letter_and_of_none(read_as):
    nothing = Texts.of([[], [1], [200]])
    scores = ranker()(nothing.take(np.array([0])), nothing)
    assert scores.shape == (1, 3)
    assert torch.isfinite(scores).all()
    assert ranker().represent_queries(Texts.of([])).shape == (0, 16)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"preset": "huge"}, r"'huge'.*paper, small, tiny"),
        ({"tower": []}, r"ranker\.tower"),
        ({"tower": [3, 0]}, r"DSSM: tower is \[3, 0\]; choose a whole number from 1 up"),
    ],
)
def test_bad_options(options, says):
    with pytest.raises(BadInput, match=says):
        ranker(**options)


# Documents that several queries are shown are read once


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kind", ["dssm", "untied", "feed_forward"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_shared_documents_give_the_same_step(kind, accumulate, read_as, tiny_encoded, tiny_sources, monkeypatch):
    texts = tiny_encoded if kind == "feed_forward" else labelled(read_as, tiny_encoded)
    negatives = np.array([[1, 2, 3, -1], [2, 1, 3, 3], [1, 2, 2, 3], [-1, -1, -1, -1]], np.int32)
    read: list[int] = []
    results = []
    for shared in (0.0, 1.0):
        monkeypatch.setattr(block_scores, "DEDUPLICATE_BELOW", shared)
        if kind == "feed_forward":
            vectors = tiny_sources.vectors.filled(np.random.default_rng(0))
            inputs = RankerInputs(generator(1), vectors, labels=texts.label_counts)
            made: Ranker = FeedForward(preset="tiny", categories=True).start(inputs)
        else:
            made = ranker(categories=True, labels=texts.label_counts, tied=kind != "untied")
        represent = made.represent
        monkeypatch.setattr(
            made, "represent", lambda q, d, represent=represent: (read.append(len(d)), represent(q, d))[1]
        )
        run = in_training(made, texts, tiny_sources)
        run.accumulate = accumulate
        step = run.update(run.next_batch(), negatives)
        results.append((step, {name: p.grad for name, p in made.named_parameters() if p.grad is not None}))
    (apart, of_apart), (together, of_together) = results
    half = len(read) // 2
    assert sum(read[:half]) == 20
    assert sum(read[half:]) < 20
    np.testing.assert_allclose(together.scores, apart.scores, rtol=1e-5, atol=1e-5)
    assert together.loss == pytest.approx(apart.loss, rel=1e-5)
    assert together.gradient_norm == pytest.approx(apart.gradient_norm, rel=1e-4)
    assert of_apart.keys() == of_together.keys()
    for name, gradient in of_apart.items():
        torch.testing.assert_close(of_together[name], gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_few_shared_documents_are_read_as_they_come(read_as, tiny_encoded, tiny_sources, monkeypatch):
    assert block_scores.DEDUPLICATE_BELOW == 0.5
    texts, made, read = labelled(read_as, tiny_encoded), ranker(), []
    represent = made.represent
    monkeypatch.setattr(made, "represent", lambda q, d: (read.append(len(d)), represent(q, d))[1])
    run = in_training(made, texts, tiny_sources)
    batch = run.next_batch()
    positives = set(batch.positives.tolist())
    (other,) = sorted(set(range(12)) - positives)[:1]
    run.update(batch, np.full((4, 1), other, np.int32))  # five of eight places
    run.update(batch, np.full((4, 2), other, np.int32))  # five of twelve
    assert read == [len(positives) * 2, len(positives) + 1]


# Categories beside other rankers' texts


def test_feed_forward_with_categories_is_a_layer_over_both():
    made = FeedForward(preset="tiny", categories=True).start(RankerInputs(generator(1), VECTORS, labels=COUNTS))
    assert made.categories.weight.shape == (5, 32)
    plain = FeedForward(preset="tiny").start(RankerInputs(generator(1), VECTORS))
    for name, tensor in plain.state_dict().items():  # the draw of everything else stays what it was
        assert torch.equal(tensor, made.state_dict()[name])
    first = made.lower[0]
    assert isinstance(first, nn.Linear)
    inputs = torch.cat([weighted_mean(made.vectors, made.term_weights, FIVE), one_hot(FIVE)], dim=1)
    state = torch.relu(inputs @ torch.cat([first.weight.T, made.categories.weight]) + first.bias)
    for layer in made.lower[1:]:
        state = torch.relu(layer(state))
    torch.testing.assert_close(made.read(FIVE), state)
    assert not torch.allclose(made.read(FIVE), plain.read(FIVE))
    nothing = replace(FIVE, labels=np.full((5, 2), -1, np.int32))
    torch.testing.assert_close(made.read(nothing), plain.read(nothing))


def test_feed_forward_needs_a_layer_to_read_them():
    with pytest.raises(BadInput, match=r"ranker\.lower"):
        FeedForward(lower=[], categories=True).start(RankerInputs(generator(1), VECTORS, labels=COUNTS))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_bi_encoder_begins_as_its_checkpoint_and_learns_categories(
    similarity, tied, made_up, read_as, tiny_encoded, tiny_sources
):
    texts = labelled(read_as, tiny_encoded, BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    bi_encoder = partial(from_checkpoint, BiEncoder, made_up(), similarity=similarity, tied=tied)
    plain, made = bi_encoder(), bi_encoder(categories=True, labels=texts.label_counts)
    with torch.no_grad():
        assert torch.equal(made.represent_documents(texts.documents), plain.represent_documents(texts.documents))
    run = in_training(made, texts, tiny_sources)
    run.update(run.next_batch(), LISTS)
    changed = made.categories.weight.detach().abs().sum(1) > 0
    assert changed.any()
    with torch.no_grad():
        made.categories.weight.normal_(generator=generator(4))
        rows = torch.from_numpy(texts.documents.labels.astype(np.int64))
        alone = made.represent_documents(replace(texts.documents, labels=np.full((12, 2), -1, np.int32)))
        both = made.represent_documents(texts.documents)
        if similarity == "dot":
            added = made.categories.weight[rows[:, 0]] + made.categories.weight[3 + rows[:, 1]]
            torch.testing.assert_close(both, alone + added, rtol=1e-4, atol=1e-5)
        else:
            torch.testing.assert_close(both.norm(dim=1), torch.ones(12))
            assert not torch.allclose(both, alone, atol=1e-3)
