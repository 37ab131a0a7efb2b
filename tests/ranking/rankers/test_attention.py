"""On a CPU attention trains in float32, with a dropout of its own, and reads without it."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pyrite.ranking.rankers import attention
from pyrite.ranking.rankers.attention import DRAWS, NAME, DroppedAttention, attend, use_quick_attention
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


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_bi_encoder_uses_it_and_its_folder_does_not_say_so(precision, made_up, tmp_path):
    ranker = from_checkpoint(BiEncoder, made_up(), precision=precision)
    assert ranker.query_tower.model.config._attn_implementation == NAME
    ranker.save_pretrained(str(tmp_path))
    assert NAME not in (tmp_path / "config.json").read_text()
    again = transformers.AutoModel.from_pretrained(str(tmp_path))
    assert again.config._attn_implementation == "sdpa"


def masks() -> list[torch.Tensor | None]:
    read = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    read[0, :, :, 4] = False
    added = torch.zeros(1, 2, 5, 5).masked_fill(torch.eye(5, dtype=torch.bool), -3.0)
    return [None, read, added]


@pytest.mark.parametrize("mask", masks(), ids=["all", "read", "added"])
def test_dropout_drops_weights_of_the_usual_attention_and_scales_the_rest(mask):
    """With unit vectors as values, the states are the weights after dropout."""
    drawn = torch.Generator().manual_seed(3)
    query, key = (torch.randn(2, 2, 5, 8, generator=drawn) for _ in range(2))
    value, share = torch.eye(5).expand(2, 2, 5, 5).contiguous(), DRAWS // 4
    torch.manual_seed(5)
    weights = DroppedAttention.apply(query, key, value, mask, 0.25, share)
    scores = query @ key.transpose(2, 3) * 0.25
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    exact = torch.softmax(scores, -1)
    kept = weights != 0
    torch.testing.assert_close(weights, torch.where(kept, exact / 0.75, 0.0), atol=1e-6, rtol=1e-5)
    assert 0 < int((exact > 0).sum() - kept.sum()) < 60  # of 100 or fewer
    torch.manual_seed(5)
    assert torch.equal(weights, DroppedAttention.apply(query, key, value, mask, 0.25, share))
    assert not torch.equal(weights, DroppedAttention.apply(query, key, value, mask, 0.25, share))


def test_the_share_that_is_dropped_is_the_one_asked_for():
    value = torch.eye(200).expand(4, 2, 200, 200).contiguous()
    alike = torch.zeros(4, 2, 200, 8)
    torch.manual_seed(7)
    weights = DroppedAttention.apply(alike, alike, value, None, 1.0, round(0.1 * DRAWS))
    dropped = float((weights == 0).float().mean())
    assert dropped == pytest.approx(0.1, abs=5 * (0.09 / weights.numel()) ** 0.5)
    assert float(weights.mean()) == pytest.approx(1 / 200, rel=0.01)  # the expectation stays


@pytest.mark.by_day(1)
@pytest.mark.parametrize("mask", masks(), ids=["all", "read", "added"])
def test_gradients_with_dropout_are_those_of_finite_differences(mask):
    drawn = torch.Generator().manual_seed(4)
    tensors = [torch.randn(2, 2, 5, 4, generator=drawn, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    mask = mask.double() if mask is not None and mask.is_floating_point() else mask

    def states(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(6)
        return DroppedAttention.apply(query, key, value, mask, 0.5, DRAWS // 3)

    assert torch.autograd.gradcheck(states, tensors)


@pytest.mark.parametrize("options", [{"is_causal": True}, {"dropout": 0.0}, {"dropout": 1.0}])
def test_other_attention_is_the_librarys(options, monkeypatch):
    """Causal attention, and dropout of nothing or of everything, are not drawn by `DroppedAttention`."""
    monkeypatch.setattr(DroppedAttention, "apply", lambda *_: pytest.fail("drawn here"))
    query, key, value = inputs(torch.float32, True)
    given = {"dropout": 0.5, "scaling": None} | options
    states, _ = attend(torch.nn.Module(), query, key, value, None, **given)
    assert states.shape == (2, 5, 2, 8)
    monkeypatch.undo()
    torch.manual_seed(1)
    drawn, _ = attend(torch.nn.Module(), query, key, value, None, dropout=0.5, scaling=None)
    assert drawn.shape == states.shape
    assert drawn.is_contiguous()


def test_other_attention_stays(made_up):
    model = transformers.AutoModel.from_pretrained(made_up(), attn_implementation="eager")
    use_quick_attention(model)
    assert model.config._attn_implementation == "eager"
    assert attention.NAME == "sdpa_on_cpus"


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
def test_gradients_are_those_of_float32_within_rounding(kind, made_up):
    ids = torch.arange(4, 20).view(2, 8)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    found = {}
    for half in (False, True):
        model = transformers.AutoModel.from_pretrained(made_up(kind), dtype=torch.float32)
        if half:
            use_quick_attention(model)
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
