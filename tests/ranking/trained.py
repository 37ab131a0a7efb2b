"""A ranker that reads subwords, in training on the collection `tiny`."""

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import RandomCandidates
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.rankers.dense import DenseRanker
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts
from pyrite.ranking.tokenization import Tokenization
from pyrite.ranking.training import RankerTraining

QUERIES = np.arange(4)
LISTS = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [3, 0, 9, 5]], np.int32)
SHORT: dict[str, Any] = {"max_query": 8, "max_document": 12}
Reader = Callable[[Tokenization | None], EncodedCollection]
NEGATIVES = np.array([[1, 2, 3], [4, 5, -1], [6, 7, 8], [9, 10, 11]], np.int32)


class Lengths(Ranker):
    """Gives the highest scores to documents of about the query's length, in steps: many ties, no rounding."""

    def __init__(self, scale: Any = 1.0, step: int = 1) -> None:
        super().__init__()
        self.scale, self.step = nn.Parameter(torch.tensor([scale])), step

    def represent_queries(self, queries: Texts) -> Tensor:
        return torch.from_numpy(queries.lengths).float()[:, None] * self.scale

    represent_documents = represent_queries

    def interact(self, queries: Tensor, documents: Tensor) -> Tensor:
        return -((queries - documents).abs() // self.step).squeeze(-1)

    def layers(self) -> list[nn.Module]:
        return []


def sum_of_words(table: Tensor, texts: Texts) -> Tensor:
    tokens = torch.from_numpy(texts.padded(int(texts.lengths.max(initial=1))).astype(np.int64))
    return (table[tokens] * (tokens > 0)[..., None]).sum(1)


class Bag(DenseRanker):
    """A text is the sum of its words' vectors."""

    def __init__(self, words: int, dimension: int = 5) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, dimension, generator=generator(1)))

    @property
    def dimension(self) -> int:
        return self.table.shape[1]

    def represent_queries(self, queries: Texts) -> Tensor:
        return sum_of_words(self.table, queries)

    def represent_documents(self, documents: Texts) -> Tensor:
        return self.represent_queries(documents)

    def layers(self) -> list[nn.Module]:
        return [self]


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def started(kind: Callable[..., Any], inputs: RankerInputs, **options: Any) -> Any:
    """A ranker that was started; options that a run supplies, such as `labels`, are given to it as inputs."""
    supplied = {name: options.pop(name) for name in ("idf", "vocabulary", "labels") if name in options}
    return kind(**options).start(replace(inputs, **supplied))


def of_words(kind: Callable[..., Any], words: int, **options: Any) -> Any:
    """A tiny ranker over vectors of so many words by chance."""
    vectors = np.random.default_rng(2).normal(size=(words, 12)).astype(np.float32)
    vectors[0] = 0
    return started(kind, RankerInputs(generator(1), vectors), preset="tiny", **options)


def from_checkpoint(kind: Callable[..., Any], checkpoint: str, seed: int = 3, **options: Any) -> Any:
    """A ranker of short texts."""
    return started(kind, RankerInputs(generator(seed)), checkpoint=checkpoint, **SHORT | options)


def texts_for(kind: Any, read_as: Reader, checkpoint: str, **options: Any) -> EncodedCollection:
    """The collection `tiny` as that ranker reads it."""
    return read_as(kind.tokenization(checkpoint=checkpoint, **(SHORT | options)))


def in_training(
    ranker: Ranker, encoded: EncodedCollection, sources: Sources, lr: float = 0.01, seed: int = 3, **options: Any
) -> RankerTraining:
    """The training of a ranker; batches of four."""
    parts = {
        "objective": Softmax(),
        "queries": np.arange(4),
        "validation": Evaluation(encoded, RandomCandidates(8).candidates(sources, np.array([4, 5])), ["AP@8"]),
        "optimizer": partial(torch.optim.SGD, lr=lr),
        "rng": np.random.default_rng(seed),
        "batch_size": 4,
    }
    return RankerTraining(ranker, encoded=encoded, **(parts | options))


def in_small_batches(ranker: Ranker, sources: Sources, lr: float = 0.01, **options: Any) -> RankerTraining:
    """The training of a ranker by Adam: five examples, three batches an epoch, the last of them short."""
    parts = {"optimizer": partial(torch.optim.Adam, lr=lr), "batch_size": 2, "max_epochs": 4, "patience": 4}
    return in_training(ranker, **({"encoded": sources.encoded} | parts | options), sources=sources)


def feed_forward(sources: Sources, seed: int = 0) -> FeedForward:
    """A tiny f_FF."""
    return FeedForward(preset="tiny").start(
        RankerInputs(generator(seed), sources.vectors.filled(np.random.default_rng(seed)))
    )


def steps(training: RankerTraining, count: int = 2) -> dict[str, Tensor]:
    """The weights after some updates on the same batch."""
    losses(training, count)
    return weights(training.ranker)


def weights(ranker: nn.Module) -> dict[str, Tensor]:
    """A copy of all that a ranker has learned."""
    return {name: tensor.clone() for name, tensor in ranker.state_dict().items()}


def equal(one: Any, other: Any) -> bool:
    """Whether weights, states, observations or answers are the same to the last bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(each, other[key]) for key, each in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if is_dataclass(one):
        return equal(vars(one), vars(other))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return torch.equal(one, other) if isinstance(one, Tensor) else bool(one == other)


def gradients(training: RankerTraining) -> dict[str, Tensor]:
    """Gradients of one update."""
    training.update(training.next_batch(), NEGATIVES)
    parameters = training.ranker.named_parameters()
    return {name: parameter.grad.clone() for name, parameter in parameters if parameter.grad is not None}


def losses(training: RankerTraining, count: int) -> list[float]:
    """Of some updates on the same batch."""
    found = []
    for _ in range(count):
        found.append(training.update(training.next_batch(), NEGATIVES).loss)
        training.position = 0
    return found


def assert_in_layers(ranker: Ranker) -> None:
    """Each weight is in one layer, once."""
    inside = [id(parameter) for layer in ranker.layers() for parameter in layer.parameters()]
    assert sorted(inside) == sorted(id(parameter) for parameter in ranker.parameters())
