"""Registers an attention with transformers that computes in float32 inside a pass in half precision, for CPUs."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from pyrite.ranking.lazy import transformers

NAME = "sdpa_in_float32"
"""Its name among transformers' implementations of attention."""


def use_float32_attention(model: Any) -> None:
    """Make a model of transformers train with attention in float32 on CPUs, if it uses scaled dot-product attention.

    The backward pass of torch's attention in bfloat16 takes about half of a step there. Texts that are only read are
    read in bfloat16, which is quicker.
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
    if query.device.type != "cpu" or query.dtype == torch.float32 or not query.requires_grad:
        return sdpa(module, query, key, value, attention_mask, **options)
    mask = attention_mask
    if mask is not None and mask.is_floating_point():
        mask = mask.float()
    with torch.autocast("cpu", enabled=False):
        states, weights = sdpa(module, query.float(), key.float(), value.float(), mask, **options)
    return states.to(query.dtype), weights
