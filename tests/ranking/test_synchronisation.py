"""How often a step and a validation wait for the ranker's device, counted with tensors that say when they are read."""

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from ranking.rankers.bi_encoder import BiEncoder
from ranking.rankers.late_interaction import LateInteraction
from ranking.rankers.ranker import Ranker
from ranking.ranks import ranks_in
from tests.ranking.trained import NEGATIVES, SHORT, generator, in_training

READS = {"item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__", "nonzero"}


class OnDevice(torch.Tensor):
    """A tensor as if on another device: what is computed from it is too, and reads of it are counted."""

    reads: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name not in READS:
            return super().__torch_function__(func, types, args, kwargs or {})
        cls.reads.append(name)
        plain = [each.as_subclass(torch.Tensor) if isinstance(each, OnDevice) else each for each in args]
        return func(*plain, **(kwargs or {}))  # on the host from here on


def moved(ranker: Ranker) -> Ranker:
    """The ranker with its weights on the made-up device."""
    for module in ranker.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(weight.detach().as_subclass(OnDevice)))
    return ranker


@pytest.mark.by_day(2)
@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("kind", [BiEncoder, LateInteraction])
def test_a_step_waits_once(kind, chunk, made_up, read_as, tiny_sources):
    texts = read_as(kind.tokenization(checkpoint=made_up(), **SHORT))
    training = in_training(moved(kind(generator(), made_up(), **SHORT)), texts, tiny_sources, chunk=chunk)
    plain = in_training(kind(generator(), made_up(), **SHORT), texts, tiny_sources, chunk=chunk)
    OnDevice.reads.clear()
    result = training.update(training.next_batch(), NEGATIVES)
    assert OnDevice.reads == ["cpu"]
    wanted = plain.update(plain.next_batch(), NEGATIVES)
    assert result.loss == pytest.approx(wanted.loss)
    assert result.gradient_norm == pytest.approx(wanted.gradient_norm)
    np.testing.assert_allclose(result.scores, wanted.scores, rtol=1e-5)


def test_ranks_come_back_once_whatever_they_are_among(made_up, read_as):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    queries, wanted = np.arange(4), np.array([[0, 3], [4, -1], [8, 1], [3, 5]], np.int32)
    counts = []
    for documents in (12, 3):
        ranker = moved(BiEncoder(generator(), made_up(), **SHORT))
        OnDevice.reads.clear()
        ranks = ranks_in(ranker, texts, queries, wanted, np.arange(12), documents=documents)
        counts.append(len(OnDevice.reads))
    assert counts == [2, 2]  # the scores of the documents that are ranked, and the ranks
    again = ranks_in(BiEncoder(generator(), made_up(), **SHORT), texts, queries, wanted, np.arange(12))
    np.testing.assert_array_equal(ranks, again)
