"""Environments whose agents pick documents, over the tiny collection."""

from collections.abc import Callable

import numpy as np

from pyrite.ranking.sources import Sources
from pyrite.ranking.training import RankerTraining
from pyrite.rl.candidates import candidate_table
from pyrite.rl.compression import compress
from pyrite.rl.document_selector import DocumentActions
from pyrite.rl.environment import SamplingEnvironment
from pyrite.rl.rewards import Diff, ValidationSampleOptions
from pyrite.rl.similarity import similarity_table
from pyrite.rl.state import StateOptions, StateTables
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.retrieval.tfidf import TfIdf
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.selection.uniform import Uniform
from tests.rl.trainings import starts

DOCUMENTS, PAIRS, PICKS = 4, 2, 2
"""s_d, pairs of a batch, and negatives of each query."""


def nearest(sources: Sources) -> TfIdf:
    """tf·idf, ready: six documents of each query, less those that are relevant."""
    function = TfIdf(depth=6)
    function.prepare(sources.encoded, function.rank(sources).without_relevant(sources.encoded.judgements))
    return function


def document_state_tables(sources: Sources) -> StateTables:
    """What states look up."""
    function, state = nearest(sources), StateOptions()
    return StateTables(
        state,
        compress(sources.encoded, sources.vectors, state.weighting),
        {"tfidf": similarity_table(function, function.lists, sources)},
        PAIRS,
        candidate_table(function.lists, sources, DOCUMENTS),
    )


def start_with(
    sources: Sources, selector: Selector | None = None
) -> Callable[[np.random.SeedSequence], tuple[RankerTraining, Sampler]]:
    """Makes trainings whose negatives the selector picks of the nearest documents."""

    def start(sequence: np.random.SeedSequence) -> tuple[RankerTraining, Sampler]:
        training, _ = starts(sources)(sequence)
        rng = np.random.default_rng(sequence.spawn(1)[0])
        return training, Sampler(Fixed(), {"tfidf": nearest(sources)}, selector or Uniform(), PICKS, rng)

    return start


def document_environment(sources: Sources, copy: int = 0) -> SamplingEnvironment:
    """One copy."""
    return SamplingEnvironment(
        start_with(sources),
        document_state_tables(sources),
        DocumentActions(DOCUMENTS, PAIRS, PICKS),
        Diff(scale=1),
        ValidationSampleOptions(size=2, every=1),
        0,
        copy,
    )
