"""Environments over the tiny collection, for tests of what agents see and do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import RankerTraining
from pyrite.rl.compression import compress
from pyrite.rl.environment import AgentPolicy, FunctionActions, SamplingEnvironment
from pyrite.rl.networks import PolicyNetwork
from pyrite.rl.rewards import Diff, Reward, ValidationSampleOptions
from pyrite.rl.similarity import similarity_table
from pyrite.rl.state import StateOptions, StateTables
from pyrite.rl.trained import TrainedAgent
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.uniform import Uniform
from tests.ranking.trained import in_small_batches


def functions_of(sources: Sources) -> dict[str, RetrievalFunction]:
    """BM25 and random, ready."""
    bm25, random = BM25(depth=4), Random()
    bm25.prepare(sources.encoded, bm25.rank(sources).without_relevant(sources.encoded.judgements))
    random.prepare(sources.encoded, None)
    return {"bm25": bm25, "random": random}


def state_tables_of(sources: Sources, pairs: int = 2, **options: Any) -> StateTables:
    """What states look up."""
    state = StateOptions(**options)
    functions = functions_of(sources)
    lists = {"bm25": functions["bm25"].lists, "random": None}
    tables = {name: similarity_table(function, lists[name], sources) for name, function in functions.items()}
    return StateTables(state, compress(sources.encoded, sources.vectors, state.weighting), tables, pairs)


def starts(
    sources: Sources, policy: Callable[[], SamplingPolicy] = AgentPolicy, max_epochs: int = 3, patience: int = 3
) -> Callable[[np.random.SeedSequence], tuple[RankerTraining, Sampler]]:
    """Makes trainings of a tiny f_FF: five examples, three batches an epoch, the last of them short."""

    def start(sequence: np.random.SeedSequence) -> tuple[RankerTraining, Sampler]:
        weights, order, sampling = sequence.spawn(3)
        rng = np.random.default_rng(weights)
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        ranker = FeedForward(preset="tiny").start(RankerInputs(generator, sources.vectors.filled(rng)))
        rng = np.random.default_rng(order)
        training = in_small_batches(ranker, sources, rng=rng, max_epochs=max_epochs, patience=patience)
        sampler = Sampler(policy(), functions_of(sources), Uniform(), 2, np.random.default_rng(sampling))
        return training, sampler

    return start


def environment_of(
    sources: Sources,
    copy: int = 0,
    seed: int = 0,
    decision_every: int | str = 1,
    reward: Reward | None = None,
    every: int = 1,
    gamma: float = 1.0,
    **options: Any,
) -> SamplingEnvironment:
    """One copy."""
    return SamplingEnvironment(
        starts(sources),
        state_tables_of(sources, **options),
        FunctionActions(["bm25", "random"]),
        reward or Diff(scale=1),
        ValidationSampleOptions(size=2, every=every),
        seed,
        copy,
        gamma,
        decision_every,
    )


def agent_of(sources: Sources, decision_every: int | str = 1, seed: int = 0) -> TrainedAgent:
    """An agent with weights by chance, large enough to have opinions."""
    tables = state_tables_of(sources)
    network = PolicyNetwork(tables.space, 2, torch.Generator().manual_seed(seed), last=3.0)
    return TrainedAgent(
        ["bm25", "random"], tables.options, decision_every, tables.pairs, tables.compressed.dimension,
        network.description(), network.state_dict(), None, {},
    )  # fmt: skip
