"""Frozen lower layers: the same numbers whether what they make of a text is kept or read again."""

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from pyrite.ranking.errors import BadInput
from pyrite.ranking.lora import Lora
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.rankers import lower_layers
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.lower_layers import KeptStates, kept_states
from pyrite.ranking.rankers.pretrained import read_in
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.rankers.sparse import Sparse
from pyrite.ranking.scoring import score_candidates
from tests.ranking.checkpoints import KINDS
from tests.ranking.trained import LISTS, QUERIES, equal, from_checkpoint, generator, gradients, in_training, weights

bi_encoder = partial(from_checkpoint, BiEncoder)
KINDS_OF_RANKER = {"bi_encoder": (BiEncoder, {}), "two towers": (BiEncoder, {"tied": False}), "sparse": (Sparse, {}),
                   "cross_encoder": (CrossEncoder, {})}  # fmt: skip
HEADLESS = {("sparse", "modernbert")}  # the made-up ModernBERT has no head for masked words
WITH_HEADS = [pair for pair in product(KINDS_OF_RANKER, KINDS) if pair not in HEADLESS]


@pytest.fixture(autouse=True)
def _nothing_kept():
    """Each test starts without states that another one kept."""
    kept_states.cache_clear()


def trained(
    kind: Any, checkpoint: str, read_as, sources, updates: int = 3, **options: Any
) -> tuple[Ranker, list[float]]:
    """A ranker after some updates on other batches, and their losses."""
    made = from_checkpoint(kind, checkpoint, **options)
    texts = read_as(kind.tokenization(checkpoint=checkpoint, max_query=8, max_document=12))
    training = in_training(made, texts, sources, batch_size=2, max_epochs=updates, patience=updates, lr=0.05)
    losses = []
    for _ in range(updates):
        batch = training.next_batch()
        losses.append(training.update(batch, np.array([[1, 2, 3], [6, 7, 9]], np.int32)[: len(batch)]).loss)
        training.position = 0 if training.epoch_over else training.position
    return made, losses


@pytest.mark.by_day(3)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", KINDS_OF_RANKER)
def test_kept_or_read_again_makes_no_difference(name, precision, made_up, read_as, tiny_sources, monkeypatch):
    """To the last bit, with dropout in the layers above, and whatever was read together."""
    kind, options = KINDS_OF_RANKER[name]
    checkpoint = made_up("bert", 0.3)
    options = options | {"frozen_layers": 2, "precision": precision}
    made, losses = trained(kind, checkpoint, read_as, tiny_sources, **options)
    assert kept_states.cache_info().currsize >= 1
    assert len(set(losses)) == len(losses)
    kept_states.cache_clear()
    monkeypatch.setattr(lower_layers, "SHARE", 1 << 60)  # no room
    again, others = trained(kind, checkpoint, read_as, tiny_sources, **options)
    assert losses == others
    assert equal(weights(made), weights(again))


@pytest.mark.by_day(4)
@pytest.mark.parametrize(("name", "architecture"), WITH_HEADS)
def test_only_the_layers_above_learn_and_by_the_same_gradient(name, architecture, made_up, read_as, tiny_sources):
    kind, options = KINDS_OF_RANKER[name]
    checkpoint = made_up(architecture)
    texts = read_as(kind.tokenization(checkpoint=checkpoint, max_query=8, max_document=12))
    whole = gradients(in_training(from_checkpoint(kind, checkpoint, **options), texts, tiny_sources))
    made = from_checkpoint(kind, checkpoint, frozen_layers=2, **options)
    start = weights(made)
    above = gradients(in_training(made, texts, tiny_sources))
    lower = [name for name in start if any(f"{stack}.{n}." in name for stack in ("layer", "layers") for n in (0, 1))]
    lower += [name for name in start if "embeddings" in name]
    assert lower
    assert not set(lower) & set(above)
    assert any(".2." in name for name in above)
    for weight, gradient in above.items():
        torch.testing.assert_close(gradient, whole[weight], rtol=1e-3, atol=1e-5)
    now = weights(made)
    assert all(torch.equal(start[name], now[name]) for name in lower)
    assert any(not torch.equal(start[name], now[name]) for name in above)


def test_it_scores_as_the_whole_ranker_before_training(made_up, read_as):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), max_query=8, max_document=12))
    scores = [
        score_candidates(bi_encoder(made_up(), frozen_layers=frozen), texts, QUERIES, LISTS) for frozen in (0, 1, 2)
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-5)
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-5)
    read = bi_encoder(made_up(), frozen_layers=2)
    read_in(read, "float32")  # an index reads all layers at once
    kept_states.cache_clear()
    np.testing.assert_array_equal(score_candidates(read, texts, QUERIES, LISTS), scores[0])
    assert not kept_states.cache_info().currsize


def test_a_text_is_read_once_also_by_another_run(made_up, read_as, tiny_sources, monkeypatch):
    counted = []
    read = lower_layers.LowerLayers.read

    def count(self, model, packed):
        counted.append(len(packed["input_ids"]))
        return read(self, model, packed)

    trained(BiEncoder, made_up(), read_as, tiny_sources, frozen_layers=2)
    monkeypatch.setattr(lower_layers.LowerLayers, "read", count)
    _, losses = trained(BiEncoder, made_up(), read_as, tiny_sources, frozen_layers=2)
    assert sum(counted) == 1  # the text by which it is tried
    kept_states.cache_clear()
    _, again = trained(BiEncoder, made_up(), read_as, tiny_sources, frozen_layers=2)
    assert losses == again
    assert set(counted) == {1}  # each alone
    assert 6 < len(counted) < 20
    before = len(counted)
    trained(BiEncoder, made_up(), read_as, tiny_sources, frozen_layers=1)  # other layers make other states
    assert len(counted) > before + 6


def test_no_more_is_kept_than_the_limit(caplog):
    kept = KeptStates(limit=100)
    for number in range(5):
        kept.keep(bytes([number]), torch.zeros(10, 1))
    assert (len(kept), kept.bytes) == (2, 80)
    assert kept.get(bytes([1])) is not None
    assert kept.get(bytes([2])) is None
    assert caplog.text.count("the states of 2 texts are kept") == 1


def test_adapters_are_for_the_layers_above(made_up, read_as, tiny_sources):
    pytest.importorskip("peft")
    made = bi_encoder(made_up(), frozen_layers=2)
    Lora(rank=2, modules=["query"]).add_to(made, generator())
    learning = [name for name, weight in made.named_parameters() if weight.requires_grad]
    assert learning
    assert all("layer.2." in name for name in learning)
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), max_query=8, max_document=12))
    training = in_training(made, texts, tiny_sources, objective=Softmax())
    assert set(gradients(training)) == set(learning)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"frozen_layers": 3}, "ranker.frozen_layers: is 3, and 3 layers were found; choose 1 to 2, or 0 to train all"),
        ({"frozen_layers": 2, "layers": 2}, "is 2, and 2 layers were found"),
        ({"frozen_layers": -1}, "frozen_layers"),
        ({"frozen_layers": 1, "compiled": True}, "can't be compiled"),
    ],
)
def test_what_can_not_be_frozen_is_refused(options, said, made_up):
    with pytest.raises(BadInput, match=r"frozen_layers|compiled") as refused:
        bi_encoder(made_up(), **options)
    assert said in str(refused.value)


def test_a_transformer_whose_layers_depend_on_each_other_is_refused(made_up, monkeypatch):
    """Such as T5's, whose first layer gives the others their biases."""
    monkeypatch.setattr(lower_layers.LowerLayers, "above", lambda self, model, states: lambda **packed: [states])
    with pytest.raises(BadInput, match="can't be read apart"):
        bi_encoder(made_up(), frozen_layers=1)


def model_of(kind: str, **options: Any) -> torch.nn.Module:
    sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
             "intermediate_size": 12}  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(**sizes, **options)
    return getattr(transformers, f"{kind}Model")(config)


@pytest.mark.parametrize(
    ("kind", "options", "read"),
    [
        ("MPNet", {}, "encoder.relative_attention_bias.weight"),
        ("Electra", {"embedding_size": 4}, "embeddings_project.weight"),
    ],
)
def test_layers_that_read_weights_which_are_trained_are_refused(kind, options, read):
    """What such layers make of a text changes while it is kept."""
    with pytest.raises(BadInput, match=f"lower layers of {kind}Model read {read}, which is trained"):
        lower_layers.LowerLayers(model_of(kind, **options), 1)


def test_trying_a_transformer_changes_nothing():
    """Neither which weights learn, nor their gradients, nor what is drawn."""
    model = model_of("Bert").train()
    model.pooler.requires_grad_(False)
    drawn = torch.random.get_rng_state()
    lower = lower_layers.LowerLayers(model, 1)
    frozen = {id(weight) for module in lower.frozen for weight in module.parameters()}
    frozen |= {id(weight) for weight in model.pooler.parameters()}
    assert all(weight.requires_grad == (id(weight) not in frozen) for weight in model.parameters())
    assert all(weight.grad is None for weight in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert model.training
