"""What is done to a pretrained model that leaves its scores as they are."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from ranking.rankers.pretrained import trim_last_layer
from tests.ranking.checkpoints import SIZES, config_of, tokenizer_of

IDS = torch.tensor([[2, 4, 5, 6, 3, 7, 3], [2, 4, 3, 8, 3, 0, 0]])
MASK = (IDS > 0).long()


def model_of(kind: str) -> Any:
    """A model in float64 with weights by chance."""
    torch.manual_seed(0)
    if kind == "electra":
        config: Any = transformers.ElectraConfig(**SIZES, vocab_size=20, embedding_size=16, num_labels=1)
    else:
        config = config_of(kind, tokenizer_of(kind, [f"word{number}" for number in range(12)]), 0.0)
    return transformers.AutoModelForSequenceClassification.from_config(config).double().eval()


def scored(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Scores, and the gradients of a loss that weighs them."""
    model.zero_grad()
    scores = model(input_ids=IDS, attention_mask=MASK).logits[:, 0]
    (scores * torch.tensor([1.0, -3.0])).sum().backward()
    return scores.detach(), {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("kind", ["bert", "electra", "roberta", "modernbert"])
def test_a_trimmed_last_layer_gives_the_same_scores_and_gradients(kind):
    model = model_of(kind)
    before, gradients = scored(model)
    states = []
    model.base_model.register_forward_hook(lambda module, given, out: states.append(out.last_hidden_state))
    trim_last_layer(model)
    after, same = scored(model)
    assert states[0].shape[1] == (IDS.shape[1] if kind == "modernbert" else 1)
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-12)
    assert gradients.keys() == same.keys()
    assert any(gradient.abs().max() > 0 for gradient in gradients.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(same[name], gradient, rtol=1e-10, atol=1e-12, msg=name)


def test_what_is_written_is_whole(tmp_path):
    model = model_of("bert")
    trim_last_layer(model)
    model.save_pretrained(tmp_path)
    kind = transformers.AutoModelForSequenceClassification
    again: Any = kind.from_pretrained(tmp_path, dtype=torch.float64).eval()
    torch.testing.assert_close(scored(again)[0], scored(model_of("bert"))[0], rtol=0, atol=1e-12)
    assert again.base_model(input_ids=IDS).last_hidden_state.shape == (2, 7, SIZES["hidden_size"])
