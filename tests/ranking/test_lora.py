"""Adapters in the place of a transformer's weights."""

import numpy as np
import pytest
import torch

from pyrite.ranking.errors import BadInput
from pyrite.ranking.lora import Lora, merged
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.late_interaction import LateInteraction
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.texts import Texts
from tests.ranking.trained import equal, from_checkpoint, generator, in_training, steps, texts_for

QUERIES, DOCUMENTS = Texts.of([[2000, 2001], [2002, 2003]]), Texts.of([[2000, 2004], [2005], [2002], [2006, 2007]])


def scores(ranker: Ranker) -> torch.Tensor:
    with torch.no_grad():
        return ranker.eval()(QUERIES, DOCUMENTS)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", [CrossEncoder, BiEncoder])
def test_adapters_learn_and_are_merged_on_export(kind, small_bert, tmp_path):
    ranker = kind(small_bert).start(RankerInputs(generator()))
    before, drawn = scores(ranker), ranker.drawn
    assert merged(ranker) is ranker
    Lora(rank=2).add_to(ranker, generator())
    torch.testing.assert_close(scores(ranker), before)  # the second matrix of each product is 0
    learning = {name: weight for name, weight in ranker.named_parameters() if weight.requires_grad}
    assert all("lora_" in name or any(name.endswith(own) for own in drawn) for name in learning)
    assert any("lora_" in name for name in learning)
    assert (kind is CrossEncoder) == any("lora_" not in name for name in learning)  # its head is drawn
    optimizer = torch.optim.SGD(learning.values(), lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        ranker(QUERIES, DOCUMENTS)[:, 0].sum().backward()
        optimizer.step()
    learned = scores(ranker)
    assert (learned - before).abs().max() > 1e-3
    whole = merged(ranker)
    assert whole.state_dict().keys() == kind(small_bert).start(RankerInputs(generator())).state_dict().keys()
    torch.testing.assert_close(scores(whole), learned, atol=1e-4, rtol=1e-4)
    whole.save_pretrained(str(tmp_path))
    torch.testing.assert_close(
        scores(kind(str(tmp_path)).start(RankerInputs(generator()))), learned, atol=1e-4, rtol=1e-4
    )
    torch.testing.assert_close(scores(ranker), learned)  # the one that is trained is left as it was


@pytest.mark.parametrize("kind", [CrossEncoder, BiEncoder, LateInteraction])
def test_the_dropout_of_adapters_depends_on_the_seed_alone(kind, made_up, read_as, tiny_sources):
    def trained(state: int) -> dict[str, torch.Tensor]:
        ranker = from_checkpoint(kind, made_up())
        Lora(rank=2, dropout=0.5, modules=["query"]).add_to(ranker, generator())
        torch.manual_seed(state)
        before = torch.get_rng_state()
        reached = steps(in_training(ranker, texts_for(kind, read_as, made_up()), tiny_sources, 0.5), 3)
        assert torch.equal(torch.get_rng_state(), before), "torch's own generator was drawn from"
        return reached

    assert equal(trained(4), trained(5))


def test_the_same_seed_draws_the_same_adapters(small_bert):
    made = [BiEncoder(small_bert).start(RankerInputs(generator())) for _ in range(2)]
    for ranker in made:
        Lora(rank=2, modules=["query"]).add_to(ranker, generator())
    one, other = (ranker.state_dict() for ranker in made)
    assert equal(one, other)
    assert sum("lora_A" in name for name in one) == 2 * 2  # of two layers, seen from either tower


def test_bad_options(small_bert):
    with pytest.raises(BadInput, match="has no transformer"):
        Lora().add_to(
            FeedForward(preset="tiny").start(RankerInputs(generator(), np.zeros((3, 2), np.float32))), generator()
        )
    with pytest.raises(BadInput, match=r"peft\.modules"):
        Lora(modules=["nothing"]).add_to(BiEncoder(small_bert).start(RankerInputs(generator())), generator())
