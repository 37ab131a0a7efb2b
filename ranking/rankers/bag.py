"""Computes the weighted mean of a text's word vectors, and its gradient, in compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.row_gradients import RowsRead, wants_rows
from pyrite.ranking.texts import Texts


def weighted_mean(vectors: Tensor, term_weights: Tensor, texts: Texts) -> Tensor:
    """Return Σ e^{w_t}·E_t / Σ e^{w_t} over the terms t of each text, repeats included: [texts, dimension].

    On a CPU one compiled loop does it: torch's bag sorts the tokens and makes a second gradient as
    large as the vocabulary for the weights, which takes three times as long as all the rest of f_FF.

    Args:
        vectors: E, [vocabulary, dimension]. Its gradient comes by rows if it is marked so
            (`pyrite.ranking.row_gradients`).
        term_weights: w, [vocabulary].
        texts: the texts; none of them empty.
    """
    if vectors.device.type == "cpu" and vectors.dtype == torch.float32:
        return _Bag.apply(vectors, term_weights, texts)
    tokens = torch.from_numpy(texts.tokens.astype(np.int64)).to(vectors.device)
    offsets = torch.from_numpy(texts.offsets).to(vectors.device)
    weights = F.embedding(tokens, term_weights[:, None])[:, 0].exp()
    total = F.embedding_bag(
        tokens, vectors, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True,
        sparse=wants_rows(vectors),
    )  # fmt: skip
    return total / torch.segment_reduce(weights, "sum", offsets=offsets)[:, None]


class _Bag(torch.autograd.Function):
    """The autograd function of `weighted_mean` on a CPU.

    d mean / d E_t = share_t and d mean / d w_t = share_t·(E_t − mean).
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, term_weights: Tensor, texts: Texts) -> Tensor:
        means = np.empty((len(texts), vectors.shape[1]), np.float32)
        shares = np.empty(len(texts.tokens), np.float32)
        with np.errstate(over="ignore"):  # of a training that diverges, whose scores are not numbers then
            scales = np.exp(term_weights.detach().numpy())
        _forward(vectors.detach().numpy(), scales, texts.tokens, texts.offsets, means, shares)
        ctx.save_for_backward(vectors)
        ctx.texts, ctx.means, ctx.shares, ctx.by_rows = texts, means, shares, wants_rows(vectors)
        return torch.from_numpy(means)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (vectors,) = ctx.saved_tensors
        read = RowsRead.of(ctx.texts.tokens, vectors.shape, ctx.by_rows)
        to_weights = np.zeros(len(vectors), np.float32)
        _backward(
            vectors.detach().numpy(), ctx.texts.tokens, read.places, ctx.texts.offsets, ctx.means, ctx.shares,
            gradients[0].contiguous().numpy(), read.gradient, to_weights,
        )  # fmt: skip
        return read.tensor(), torch.from_numpy(to_weights), None


# error_model: weights that are all 0, of a training that diverges, give nan instead of raising.
@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")
def _forward(vectors, scales, tokens, offsets, means, shares):  # type: ignore[no-untyped-def]  # pragma: no cover
    for text in range(len(offsets) - 1):
        norm = np.float32(0)
        for index in range(offsets[text], offsets[text + 1]):
            norm += scales[tokens[index]]
        mean = means[text]
        mean[:] = 0
        for index in range(offsets[text], offsets[text + 1]):
            token = tokens[index]
            share = scales[token] / norm
            shares[index] = share
            for column in range(vectors.shape[1]):
                mean[column] += share * vectors[token, column]


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _backward(  # type: ignore[no-untyped-def]  # pragma: no cover
    vectors, tokens, places, offsets, means, shares, gradient, to_vectors, to_weights
):
    for text in range(len(offsets) - 1):
        row = gradient[text]
        at_mean = np.float32(0)
        for column in range(vectors.shape[1]):
            at_mean += means[text, column] * row[column]
        for index in range(offsets[text], offsets[text + 1]):
            token, share, row_of = tokens[index], shares[index], places[index]
            at_vector = np.float32(0)
            for column in range(vectors.shape[1]):
                at_vector += vectors[token, column] * row[column]
                to_vectors[row_of, column] += share * row[column]
            to_weights[token] += share * (at_vector - at_mean)
