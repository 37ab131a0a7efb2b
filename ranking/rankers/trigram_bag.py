"""Computes the sum of a text's trigram vectors, and its gradient, without making the bag."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.nn import functional as F

from ranking.row_gradients import RowsRead, wants_rows
from ranking.texts import Texts


def summed(vectors: Tensor, texts: Texts) -> Tensor:
    """Σ E_t over the tokens t of each text, repeats included: counts · E, if counts were as wide as the vocabulary.

    On a CPU one compiled loop does it, which takes a run of one token at once: cheap where tokens stand in order.

    Args:
        vectors: E, [vocabulary, width]; its gradient comes by rows where it is marked so (`ranking.row_gradients`).
        texts: their tokens in any order.

    Returns:
        [texts, width].
    """
    if vectors.device.type == "cpu" and vectors.dtype == torch.float32:
        return _Sum.apply(vectors, texts)
    tokens = torch.from_numpy(texts.tokens.astype(np.int64)).to(vectors.device)
    offsets = torch.from_numpy(texts.offsets).to(vectors.device)
    return F.embedding_bag(tokens, vectors, offsets, mode="sum", include_last_offset=True, sparse=wants_rows(vectors))


class _Sum(torch.autograd.Function):
    """`summed` on a CPU."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, texts: Texts) -> Tensor:
        sums = np.zeros((len(texts), vectors.shape[1]), np.float32)
        _add(vectors.detach().numpy(), texts.tokens, texts.offsets, sums)
        ctx.texts, ctx.shape, ctx.by_rows = texts, vectors.shape, wants_rows(vectors)
        return torch.from_numpy(sums)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        read = RowsRead.of(ctx.texts.tokens, ctx.shape, ctx.by_rows)
        _scatter(gradients[0].contiguous().numpy(), read.places, ctx.texts.offsets, read.gradient)
        return read.tensor(), None


@njit(nogil=True, cache=True)
def _run_end(tokens, place, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Where the run of one token that begins at `place` is over."""
    token = tokens[place]
    while place < end and tokens[place] == token:
        place += 1
    return place


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add(vectors, tokens, offsets, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    for text in range(len(offsets) - 1):
        row, place = sums[text], offsets[text]
        while place < offsets[text + 1]:
            token, after = tokens[place], _run_end(tokens, place, offsets[text + 1])
            count = np.float32(after - place)
            for column in range(vectors.shape[1]):
                row[column] += count * vectors[token, column]
            place = after


@njit(nogil=True, cache=True, fastmath={"contract"})
def _scatter(gradient, tokens, offsets, to_vectors):  # type: ignore[no-untyped-def]  # pragma: no cover
    for text in range(len(offsets) - 1):
        row, place = gradient[text], offsets[text]
        while place < offsets[text + 1]:
            token, after = tokens[place], _run_end(tokens, place, offsets[text + 1])
            count = np.float32(after - place)
            for column in range(gradient.shape[1]):
                to_vectors[token, column] += count * row[column]
            place = after
