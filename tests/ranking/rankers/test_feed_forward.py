import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from pyrite.ranking.errors import BadInput
from pyrite.ranking.rankers.bag import weighted_mean
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.texts import Texts

VECTORS = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
QUERIES = Texts.of([[1, 2, 3], [4]])
DOCUMENTS = Texts.of([[5, 6], [7, 8, 9, 9], [1], [2, 3], [10, 11, 12], [4, 4]])


def ranker(seed: int = 1, **options: object) -> FeedForward:
    return FeedForward(**{"preset": "tiny"} | options).start(RankerInputs(torch.Generator().manual_seed(seed), VECTORS))


def test_the_papers_layers():
    shapes = [[tuple(parameter.shape) for parameter in layer.parameters()] for layer in ranker(preset="paper").layers()]
    assert shapes == [
        [(2048, 8), (2048,)],
        [(1024, 2048), (1024,)],
        [(512, 1024), (512,)],
        [(512, 512), (512,), (512, 512)],  # of one layer over 1024 inputs: the query's half, the bias, the document's
        [(300, 512), (300,)],
        [(1, 300), (1,)],
    ]


def test_widths_may_be_given():
    shapes = [tuple(next(layer.parameters()).shape) for layer in ranker(lower=[7], upper=[6, 5]).layers()]
    assert shapes == [(7, 8), (6, 7), (5, 6), (1, 5)]
    with pytest.raises(BadInput, match=r"ranker\.upper"):
        ranker(upper=[])


def by_concatenation(model: FeedForward) -> Tensor:
    """The same network as one reads it in the paper: queries and documents side by side."""

    def read(texts: Texts) -> Tensor:
        state = weighted_mean(model.vectors, model.term_weights, texts)
        for layer in model.lower:
            state = F.relu(layer(state))
        return state

    queries, documents = read(QUERIES).repeat_interleave(3, dim=0), read(DOCUMENTS)
    weight = torch.cat([model.query_half.weight, model.document_half.weight], dim=1)
    state = F.relu(F.linear(torch.cat([queries, documents], dim=1), weight, model.query_half.bias))
    for layer in model.upper[:-1]:
        state = F.relu(layer(state))
    return model.upper[-1](state).view(2, 3)


@pytest.mark.parametrize("upper", [[16], [16, 7, 5]])
def test_the_factored_layer_is_the_concatenation(upper):
    model, gradients = ranker(upper=upper), []
    assert model.document_half.bias is None
    for scores in (model(QUERIES, DOCUMENTS), by_concatenation(model)):
        model.zero_grad()
        (scores * torch.arange(6.0).view(2, 3)).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    torch.testing.assert_close(model(QUERIES, DOCUMENTS), by_concatenation(model), rtol=1e-5, atol=1e-6)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_halves_are_drawn_as_one_layer():
    """Uniform within 1/√(inputs of the whole layer)."""
    model = ranker(lower=[64], upper=[64])
    for half in (model.query_half.weight, model.document_half.weight):
        assert 0.95 / np.sqrt(128) < float(half.detach().abs().max()) <= 1 / np.sqrt(128)


def test_the_vectors_are_the_rankers_own():
    model = ranker()
    with torch.no_grad():
        model.vectors.zero_()
    assert VECTORS.any()


def test_top_parameters():
    model = ranker(lower=[7], upper=[6, 5])
    assert [tuple(p.shape) for p in model.top_parameters(2)] == [(5, 6), (5,), (1, 5), (1,)]
    everything = model.top_parameters(99)
    assert len(everything) == sum(isinstance(p, nn.Parameter) for p in model.parameters()) - 2  # without the bag's


TEXTS = st.lists(st.lists(st.integers(1, 11), min_size=1, max_size=7), min_size=1, max_size=5)


def parameters(dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(12, 5, generator=generator, dtype=torch.float64).to(dtype)
    weights = (2 * torch.randn(12, generator=generator, dtype=torch.float64)).to(dtype)
    return vectors.requires_grad_(), weights.requires_grad_()


def formula(vectors: Tensor, weights: Tensor, texts: Texts) -> Tensor:
    """Σ e^{w_t}·E_t / Σ e^{w_t}, a text at a time."""
    means = []
    for start, end in zip(texts.offsets, texts.offsets[1:], strict=False):
        tokens = torch.from_numpy(texts.tokens[start:end].astype(np.int64))
        means.append(torch.softmax(weights[tokens], 0) @ vectors[tokens])
    return torch.stack(means)


@given(TEXTS)
def test_compiled_and_generic_are_the_formula_with_its_gradients(tokens):
    texts = Texts.of(tokens)
    toward = torch.randn(len(tokens), 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    results = {}
    for name, dtype, function in (
        ("formula", torch.float64, formula),
        ("compiled", torch.float32, weighted_mean),  # float32 on a CPU
        ("generic", torch.float64, weighted_mean),  # anything else
    ):
        given_ones = parameters(dtype)
        means = function(*given_ones, texts)
        (means * toward.to(dtype)).sum().backward()
        results[name] = [means.detach(), *(parameter.grad for parameter in given_ones)]
    for name, tolerance in (("compiled", 1e-5), ("generic", 1e-12)):
        for found, expected in zip(results[name], results["formula"], strict=True):
            torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_a_gradient_that_is_not_contiguous_and_part_of_the_gradients():
    texts = Texts.of([[1, 2], [3, 4]])
    vectors, weights = parameters(torch.float32)
    weighted_mean(vectors, weights, texts).sum().backward()  # an expanded scalar
    assert vectors.grad[0].abs().sum() == 0
    frozen = vectors.detach()
    weights.grad = None
    weighted_mean(frozen, weights, texts).pow(2).sum().backward()
    assert weights.grad[1:5].abs().min() > 0
