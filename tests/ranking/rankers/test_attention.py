"""Half precision trains with attention in float32 on a CPU, and reads without it."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pyrite.ranking.rankers import attention
from pyrite.ranking.rankers.attention import NAME, attend, use_float32_attention
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from tests.ranking.trained import from_checkpoint


def inputs(dtype: torch.dtype, gradient: bool) -> list[torch.Tensor]:
    drawn = torch.Generator().manual_seed(1)
    tensors = [torch.randn(2, 2, 5, 8, generator=drawn).to(dtype) for _ in range(3)]
    return [tensor.requires_grad_(gradient) for tensor in tensors]


@pytest.mark.parametrize(
    ("dtype", "gradient"), [(torch.bfloat16, True), (torch.bfloat16, False), (torch.float32, True)]
)
def test_attention_is_in_float32_where_it_trains(dtype, gradient, monkeypatch):
    """The library's own attention is called with float32 exactly where a gradient is wanted."""
    seen: list[torch.dtype] = []
    original = torch.nn.functional.scaled_dot_product_attention

    def note(query: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
        seen.append(query.dtype)
        return original(query, *others, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", note)
    mask = torch.zeros(2, 1, 5, 5, dtype=dtype)
    mask[0, :, :, 4] = torch.finfo(dtype).min
    module = torch.nn.Module()
    query, key, value = inputs(dtype, gradient)
    states, _ = attend(module, query, key, value, mask, dropout=0.0, scaling=None)
    assert states.dtype == dtype
    assert seen == [torch.float32 if gradient else dtype]
    exact = original(query.float(), key.float(), value.float(), attn_mask=mask.float()).transpose(1, 2)
    np.testing.assert_allclose(states.float().detach(), exact.detach(), atol=0.02)
    if gradient:
        states.float().sum().backward()
        assert query.grad is not None
        assert query.grad.dtype == dtype


def test_a_bi_encoder_in_half_precision_uses_it_and_its_folder_does_not_say_so(made_up, tmp_path):
    plain = from_checkpoint(BiEncoder, made_up(), precision="float32")
    half = from_checkpoint(BiEncoder, made_up(), precision="bfloat16")
    assert plain.query_tower.model.config._attn_implementation == "sdpa"
    assert half.query_tower.model.config._attn_implementation == NAME
    half.save_pretrained(str(tmp_path))
    assert NAME not in (tmp_path / "config.json").read_text()
    again = from_checkpoint(BiEncoder, str(tmp_path), precision="float32")
    assert again.query_tower.model.config._attn_implementation == "sdpa"


def test_other_attention_stays(made_up):
    model = transformers.AutoModel.from_pretrained(made_up(), attn_implementation="eager")
    use_float32_attention(model)
    assert model.config._attn_implementation == "eager"
    assert attention.NAME == "sdpa_in_float32"


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
def test_gradients_are_those_of_float32_within_rounding(kind, made_up):
    ids = torch.arange(4, 20).view(2, 8)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    found = {}
    for half in (False, True):
        model = transformers.AutoModel.from_pretrained(made_up(kind), dtype=torch.float32)
        if half:
            use_float32_attention(model)
            assert model.config._attn_implementation == NAME
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            states = model.eval()(input_ids=ids, attention_mask=mask).last_hidden_state
        # In one direction: the last normalization makes all lengths equal, and their gradient 0.
        (states.float() * mask[..., None] * torch.arange(-8.0, 8.0)).sum().backward()
        weights = model.get_input_embeddings().weight
        assert weights.grad is not None
        found[half] = weights.grad.clone()
    norm = found[False].norm()
    assert norm > 0
    assert (found[True] - found[False]).norm() < 0.1 * norm
