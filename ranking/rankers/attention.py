"""Registers an attention with transformers for training on CPUs: in float32, and with dropout that is drawn quickly."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyrite.ranking.lazy import transformers

NAME = "sdpa_on_cpus"
"""Its name among transformers' implementations of attention."""
DRAWS = 1 << 16
"""Different values of a random number that decides whether a weight of attention is dropped."""


def use_quick_attention(model: Any) -> None:
    """Make a model of transformers train with a quicker attention on CPUs, if it uses scaled dot-product attention.

    The backward pass of torch's attention in bfloat16 takes about half of a step there, so that it is computed in
    float32; and its dropout draws one number for each weight in turn, which takes more than half of a step with texts
    of 256 tokens (`DroppedAttention`). Texts that are only read are read in the precision of the pass.
    """
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        _register()
        model.set_attn_implementation(NAME)


@cache
def _register() -> None:

    transformers.AttentionInterface.register(NAME, attend)
    transformers.AttentionMaskInterface.register(NAME, transformers.AttentionMaskInterface()["sdpa"])


def attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor | None]:
    """Compute transformers' `sdpa`, with a gradient on a CPU in float32 and without autocast."""
    sdpa = transformers.AttentionInterface()["sdpa"]
    if query.device.type != "cpu" or not query.requires_grad:
        return sdpa(module, query, key, value, attention_mask, **options)
    mask = attention_mask
    if mask is not None and mask.is_floating_point():
        mask = mask.float()
    exact = query.float(), key.float(), value.float()
    share = round(options.get("dropout", 0.0) * DRAWS)
    with torch.autocast("cpu", enabled=False):
        if 0 < share < DRAWS and _reads_all(module, query, key, options):
            scale = options.get("scaling") or query.shape[-1] ** -0.5
            dropped: Tensor = DroppedAttention.apply(*exact, mask, scale, share)
            return dropped.transpose(1, 2).contiguous().to(query.dtype), None
        states, weights = sdpa(module, *exact, mask, **options)
    return states.to(query.dtype), weights


def _reads_all(module: Any, query: Tensor, key: Tensor, options: dict[str, Any]) -> bool:
    """Return whether each token reads those before and behind it, with as many heads for keys as for queries."""
    is_causal = options.get("is_causal")
    causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    return not causal and query.shape[1] == key.shape[1] and not torch.compiler.is_compiling()


class DroppedAttention(torch.autograd.Function):
    """Attention with dropout, a sequence at a time so that its weights stay in the processor's cache.

    The weights are computed again in the backward pass; what was kept is remembered. A weight is dropped if 16 random
    bits, of a generator that torch's global one seeds, are among the first `share` of their 65,536 values.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, share: int
    ) -> Tensor:
        """Return the states of the tokens [n, heads, tokens, width].

        Args:
            query, key, value: float32 [n, heads, tokens, width].
            mask: bool, true where a token is read, or float32, which is added to the scores; [n or 1, heads or 1,
                tokens or 1, tokens]. None reads all.
            scale: factor of the scores.
            share: weights that are dropped, of 65,536.
        """
        query = query * scale
        states, factor = value.new_empty(*query.shape[:3], value.shape[3]), DRAWS / (DRAWS - share)
        shape = (*query.shape[:3], key.shape[2])
        kept, size = torch.empty(shape, dtype=torch.bool), shape[1] * shape[2] * shape[3]
        bits = np.random.SFC64(int(torch.randint(2**62, ())))
        for row in range(shape[0]):
            drawn = torch.from_numpy(bits.random_raw(-(-size // 4)).view(np.int16))[:size].view(shape[1:])
            torch.ge(drawn, share - DRAWS // 2, out=kept[row])
            weights = _weights(query[row], key[row], _of_row(mask, row))
            torch.bmm(weights.mul_(kept[row]), value[row], out=states[row])
        ctx.save_for_backward(query, key, value, kept)
        ctx.mask, ctx.scale, ctx.factor = mask, scale, factor
        return states.mul_(factor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, kept = ctx.saved_tensors
        of_query, of_key, of_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
        gradient = gradient * ctx.factor
        for row in range(len(query)):
            weights = _weights(query[row], key[row], _of_row(ctx.mask, row))
            left = weights * kept[row]
            torch.bmm(left.transpose(1, 2), gradient[row], out=of_value[row])
            inner = torch.bmm(gradient[row], value[row].transpose(1, 2)).mul_(left)
            inner -= weights * inner.sum(-1, keepdim=True)
            torch.bmm(inner, key[row], out=of_query[row])
            torch.bmm(inner.transpose(1, 2), query[row], out=of_key[row])
        return of_query * ctx.scale, of_key, of_value, None, None, None


def _weights(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weights of a sequence's tokens [heads, tokens, tokens] before dropout."""
    scores = torch.bmm(query, key.transpose(1, 2))
    if mask is not None and mask.dtype == torch.bool:
        scores.masked_fill_(~mask, -torch.inf)
    elif mask is not None:
        scores += mask
    return torch.softmax(scores, -1)


def _of_row(mask: Tensor | None, row: int) -> Tensor | None:
    return None if mask is None else mask[min(row, len(mask) - 1)]
