"""Reading a batch in chunks: the same loss and gradient, with the activations of one chunk at a time."""

import weakref
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from pyrite.ranking.block_scores import BlockScores
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.lora import Lora
from pyrite.ranking.objectives.self_involvement import JointSIR
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.late_interaction import LateInteraction
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.rankers.static import Static
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts
from tests.ranking.trained import SHORT, from_checkpoint, generator, gradients, in_training

bi_encoder = partial(from_checkpoint, BiEncoder)


def updated(
    ranker: Ranker, encoded: EncodedCollection, sources: Sources, **options: Any
) -> tuple[float, dict[str, torch.Tensor]]:
    training = in_training(ranker, encoded, sources, lr=0.0, **options)
    found = gradients(training)
    training.position = 0
    return training.update(training.next_batch(), np.array([[1], [4], [6], [9]], np.int32)).loss, found


def test_the_gradient_is_that_of_the_whole_batch(made_up, read_as, tiny_sources):
    """Also with several parts of a batch, two towers, and an objective that scores twice."""
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    words = tiny_sources.encoded
    late = {"max_query": 4, "max_document": 12, "dimension": 6}
    for chunk, made, encoded, options in (
        (1, partial(bi_encoder, made_up()), texts, {}),
        (3, partial(bi_encoder, made_up(), tied=False), texts, {"accumulate": 2}),
        (3, partial(bi_encoder, made_up(), similarity="dot"), texts, {"objective": JointSIR([2], passes="level")}),
        (
            100,
            lambda: Static().start(RankerInputs(generator(), tiny_sources.vectors.filled(np.random.default_rng(0)))),
            words,
            {},
        ),
        (4, lambda: LateInteraction(made_up(), **late).start(RankerInputs(generator())), texts, {}),
    ):
        loss, wanted = updated(made(), encoded, tiny_sources, **options)
        again, found = updated(made(), encoded, tiny_sources, chunk=chunk, **options)
        assert again == pytest.approx(loss, abs=1e-5)
        assert found.keys() == wanted.keys()
        largest = max(float(each.abs().max()) for each in wanted.values())
        assert largest > 1e-3
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-5 * max(1, largest))


@pytest.mark.parametrize("of_adapters", [False, True])
def test_dropout_falls_the_same_when_a_chunk_is_read_again(of_adapters, made_up, read_as, tiny_sources):
    """Against finite differences along the gradient: of other masks the loss would not fall as it says."""
    checkpoint = made_up("bert", 0.0 if of_adapters else 0.3)
    texts = read_as(BiEncoder.tokenization(checkpoint=checkpoint, **SHORT))
    made = bi_encoder(checkpoint)
    name = "encoder.layer.0.output.dense.weight"
    if of_adapters:
        Lora(rank=2, dropout=0.3, modules=["output.dense"]).add_to(made, generator())
        name = "encoder.layer.0.output.dense.lora_B.default.weight"
        with torch.no_grad():
            made.query_tower.model.get_parameter(name).normal_(0, 0.5, generator=generator())
    made = made.double()
    training = in_training(made, texts, tiny_sources, lr=0.0, chunk=3)
    batch, negatives = training.next_batch(), np.array([[1], [4], [6], [9]], np.int32)

    def loss() -> float:
        training.step = training.position = 0
        return training.update(batch, negatives).loss

    assert loss() == loss()  # the step's own masks
    weight = made.query_tower.model.get_parameter(name)
    direction, slope = weight.grad.clone(), float((weight.grad**2).sum())
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            weight.add_(sign * 1e-4 * direction)
        values.append(loss())
        with torch.no_grad():
            weight.sub_(sign * 1e-4 * direction)
    assert (values[0] - values[1]) / 2e-4 == pytest.approx(slope, rel=1e-2)
    assert slope > 1e-6


def test_a_large_batch_takes_the_memory_of_a_chunk(made_up, read_as, tiny_sources):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))

    def most_held(copies: int, chunk: int | None) -> int:
        """Numbers between two layers that are alive at once, at most, of so many times the collection's texts."""
        made = bi_encoder(made_up())
        training = in_training(made, texts, tiny_sources, chunk=chunk)
        many = replace(texts, documents=texts.documents.take(np.tile(np.arange(12), copies)))
        training.scores = training.scores.__class__(made, many, chunk)
        held = {"now": 0, "most": 0}

        def freed(size: int) -> None:
            held["now"] -= size

        def count(module: Any, given: Any, output: torch.Tensor) -> None:
            held["now"] += output.numel()
            held["most"] = max(held["most"], held["now"])
            weakref.finalize(output.untyped_storage(), freed, output.numel())

        for layer in made.query_tower.model.get_submodule("encoder.layer"):
            layer.intermediate.dense.register_forward_hook(count)
        documents = np.arange(12 * copies, dtype=np.int32)
        training.scores(np.arange(4), np.tile(documents, (4, 1)), generator()).logsumexp(1).sum().backward()
        return held["most"]

    small, large, whole = most_held(1, 4), most_held(8, 4), most_held(8, None)
    assert large < 1.5 * small
    assert whole > 8 * large


def test_bad_chunks_are_refused(made_up, read_as, tiny_sources):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    with pytest.raises(BadInput, match="chunk is 0"):
        in_training(bi_encoder(made_up()), texts, tiny_sources, chunk=0)
    with pytest.raises(BadInput, match="accumulate"):
        in_training(CrossEncoder(made_up(), **SHORT).start(RankerInputs(generator())), texts, tiny_sources, chunk=4)


@pytest.mark.gpu
def test_on_a_gpu_the_gradient_is_a_cpus(made_up, read_as, tiny_sources, cuda):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    loss, wanted = updated(bi_encoder(made_up()), texts, tiny_sources)
    again, found = updated(bi_encoder(made_up()).to(cuda), texts, tiny_sources, chunk=3)
    assert again == pytest.approx(loss, abs=1e-3)
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name].cpu(), gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
def test_a_batch_of_1024_takes_the_memory_of_64(made_up, read_as, tiny_sources, cuda):
    """What a step takes at the peak beyond what it begins with."""
    rng, texts = np.random.default_rng(0), read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    documents, queries = (Texts.of(rng.integers(4, 30, (count, 12)).tolist()) for count in (2048, 1024))
    texts = replace(texts, documents=documents, queries=queries)
    ranker = bi_encoder(made_up()).to(cuda).train()
    most = []
    for size, chunk in ((1024, 64), (64, None), (1024, None)):
        score = BlockScores(ranker, texts, chunk)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        score(np.arange(size), np.arange(2 * size).reshape(size, 2), generator()).sum().backward()
        most.append(torch.cuda.max_memory_allocated() - before)
        ranker.zero_grad()
    assert most[0] < 1.5 * most[1]
    assert most[2] > 4 * most[1]
