import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ranking.rankers.bag import weighted_mean
from ranking.texts import Texts

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


def test_by_hand():
    vectors = torch.tensor([[0.0], [10.0], [20.0]])
    weights = torch.tensor([0.0, 0.0, float(np.log(3))])
    means = weighted_mean(vectors, weights, Texts.of([[1], [1, 2], [1, 1, 2]]))
    assert means[:, 0].tolist() == pytest.approx([10, 17.5, 16])


def test_a_gradient_that_is_not_contiguous_and_part_of_the_gradients():
    texts = Texts.of([[1, 2], [3, 4]])
    vectors, weights = parameters(torch.float32)
    weighted_mean(vectors, weights, texts).sum().backward()  # an expanded scalar
    assert vectors.grad[0].abs().sum() == 0
    frozen = vectors.detach()
    weights.grad = None
    weighted_mean(frozen, weights, texts).pow(2).sum().backward()
    assert weights.grad[1:5].abs().min() > 0
