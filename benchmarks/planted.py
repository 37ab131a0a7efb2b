"""Makes a collection with a planted change, and measures what a policy that knows of the change gains.

    python -m benchmarks.planted [--seeds N] [--topics N] [--epochs N]

A made-up collection has topics in pairs that share words. A query has one judged document of its topic; the others are
hidden positives. BM25's first ten ranks are documents of the other topic of the pair, which teach most. In a random
half of the trainings, from a random batch on, they are hidden positives instead, which do harm. An oracle switches to
random documents at that batch, which the clock cannot know.

It prints the AP of the dev queries with BM25's documents, random ones and the oracle, and what the oracle gains: the
room that is left for a policy which watches the ranker.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from pyrite.ranking.encoding import EncodedCollection, Judgements
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Candidates
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.static import Static
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.policies.mixture import Mixture
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.retrieval.ranked import Ranked
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.uniform import Uniform

SMALLEST = ["--seeds 2 --topics 8 --epochs 4"]
PER_TOPIC, WORDS, HEAD, TRAIN = 12, 8, 10, 2


@dataclass(frozen=True)
class Made:
    """The collection, the lists before and after the change, and the dev queries' candidates."""

    encoded: EncodedCollection
    clean: RankedLists
    hidden: RankedLists
    candidates: Candidates


def make(topics: int) -> Made:
    """A collection of `topics` topics, each with twelve documents, two training queries and a dev query."""
    rng = np.random.default_rng(0)
    documents_of = np.arange(topics * PER_TOPIC).reshape(topics, PER_TOPIC)
    first_noise = 2 + topics * WORDS

    def text(topic: int, length: int) -> list[int]:
        """Words of the topic, one that both topics of its pair have, and noise."""
        own = 2 + topic * WORDS + rng.choice(WORDS - 2, length, replace=False)
        shared = 2 + (topic // 2) * 2 * WORDS + WORDS - 1 - rng.integers(2)
        return [*own.tolist(), int(shared), *rng.integers(first_noise, first_noise + 60, 2).tolist()]

    documents = [text(topic, 3) for topic in range(topics) for _ in range(PER_TOPIC)]
    topic_of = np.repeat(np.arange(topics), TRAIN + 1)
    queries = [text(int(topic), 2) for topic in topic_of]
    dev = np.arange(TRAIN, len(queries), TRAIN + 1)
    rows = [
        documents_of[topic] if number == TRAIN else documents_of[topic, number : number + 1]
        for number, topic in zip(np.arange(len(topic_of)) % (TRAIN + 1), topic_of, strict=True)
    ]
    judged = np.concatenate(rows).astype(np.int32)
    judgements = Judgements(np.cumsum([0, *map(len, rows)]), judged, np.ones(len(judged), np.int32))
    encoded = EncodedCollection(
        Texts.of(documents), Texts.of(queries), np.ones(first_noise + 60, np.float32), judgements,
        np.isin(np.arange(len(queries)), dev).astype(np.int8), np.arange(len(documents), dtype=np.int32),
    )  # fmt: skip

    def lists(head: Callable[[int], NDArray[np.int64]]) -> RankedLists:
        ranked = []
        for at, topic in enumerate(topic_of):
            first = rng.permutation(np.setdiff1d(head(int(topic)), rows[at]))[:HEAD]
            pair = documents_of[[topic, topic ^ 1]]
            rest = rng.choice(np.setdiff1d(documents_of, pair), HEAD, replace=False)
            ranked.append(np.concatenate([np.pad(first, (0, HEAD - len(first)), constant_values=-1), rest]))
        ordered = np.sort(np.array(ranked) < 0, axis=1)
        table = np.array([[*row[row >= 0], *row[row < 0]] for row in np.array(ranked)], np.int32)
        return RankedLists(table, np.where(ordered, np.nan, -np.arange(2.0 * HEAD)).astype(np.float32))

    clean, hidden = lists(lambda topic: documents_of[topic ^ 1]), lists(lambda topic: documents_of[topic])
    others = [
        rng.choice(np.setdiff1d(documents_of, documents_of[[t, t ^ 1]]), PER_TOPIC, replace=False)
        for t in topic_of[dev]
    ]
    shown = np.array(
        [[*documents_of[t], *documents_of[t ^ 1], *more] for t, more in zip(topic_of[dev], others, strict=True)]
    )
    first = RankedLists(shown.astype(np.int32), np.zeros(shown.shape, np.float32))
    return Made(encoded, clean, hidden, Candidates(dev, shown.astype(np.int32), first, None))


class Changing(Ranked):
    """Lists whose head becomes hidden positives at a batch."""

    def __init__(self, made: Made, at: float) -> None:
        super().__init__(2 * HEAD)
        self.made, self.at = made, at
        self.prepare(made.encoded, made.clean)

    def search(self, sources: Sources, queries: NDArray[np.integer], depth: int) -> RankedLists:
        return self.made.clean.take(queries)

    def after_update(self, training: RankerTraining) -> None:
        if training.step >= self.at:
            self.prepare(self.made.encoded, self.made.hidden)


class Oracle(SamplingPolicy):
    """BM25 until the change, random documents after it."""

    def __init__(self, at: float) -> None:
        self.at = at

    def choose(self, batch: object, training: RankerTraining, rng: np.random.Generator) -> NDArray[np.int64]:
        return np.full(len(batch), int(training.step < self.at))  # type: ignore[arg-type]


def planted_training(
    made: Made, seed: int, epochs: int
) -> tuple[RankerTraining, Callable[[SamplingPolicy, float], Sampler]]:
    """Return a training, and a function that makes its sampler from a policy and the batch of the change."""
    rng = np.random.default_rng([seed, 1])
    random = Random()
    random.prepare(made.encoded, None)
    train_queries = np.flatnonzero(made.encoded.split == 0)
    vectors = rng.normal(size=(len(made.encoded.idf), 16)).astype(np.float32)
    vectors[0] = 0
    training = RankerTraining(
        Static(further=0).start(RankerInputs(torch.Generator().manual_seed(seed), vectors)), Softmax(), made.encoded,
        train_queries, Evaluation(made.encoded, made.candidates, ["AP@36"]), partial(torch.optim.Adam, lr=0.004),
        np.random.default_rng([seed, 2]), 16, max_epochs=epochs, patience=99, keep="last",
    )  # fmt: skip

    def sampler(policy: SamplingPolicy, at: float) -> Sampler:
        functions: dict[str, RetrievalFunction] = {"random": random, "bm25": Changing(made, at)}
        return Sampler(policy, functions, Uniform(), 4, np.random.default_rng([seed, 3]))

    return training, sampler


def train(made: Made, seed: int, epochs: int, policy_of: Callable[[float], SamplingPolicy]) -> float:
    """The last AP of a training, whose change is drawn by the seed."""
    training, sampler = planted_training(made, seed, epochs)
    steps = training.steps_per_epoch * epochs
    change = np.random.default_rng([seed, 0])
    at = float(change.uniform(0.1, 0.6) * steps) if change.random() < 0.5 else np.inf
    training.fit(sampler(policy_of(at), at))
    return training.validations[-1]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30, help="that measure each policy")
    parser.add_argument("--topics", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=10)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    made = make(chosen.topics)
    policies: dict[str, Callable[[float], SamplingPolicy]] = {
        "bm25": lambda at: Mixture(weights=[0, 1]),
        "random": lambda at: Mixture(weights=[1, 0]),
        "oracle": Oracle,
    }
    values = {}
    for name, policy_of in policies.items():
        values[name] = np.array([train(made, seed, chosen.epochs, policy_of) for seed in range(chosen.seeds)])
        print(f"{name:10} AP {values[name].mean():.4f} ± {values[name].std():.4f}", flush=True)
    gain = values["oracle"] - values["bm25"]
    error = 1.96 * float(gain.std()) / np.sqrt(len(gain))
    print(f"the oracle gains {gain.mean():+.4f} (95% over seeds ± {error:.4f}) over BM25 always")


if __name__ == "__main__":
    main()
