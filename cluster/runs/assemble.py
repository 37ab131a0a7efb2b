"""Assembles the training of a ranker and the sampler of its negatives from a configuration and its parts."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from pyrite.cluster.config.build import build, build_each
from pyrite.cluster.config.counts import counts_of
from pyrite.cluster.runs.embeddings import vectors_of
from pyrite.cluster.runs.part_options import validation_origins
from pyrite.cluster.runs.parts import Base, read_encoded
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.held_out import HeldOut
from pyrite.ranking.labels import labels_of
from pyrite.ranking.precision import multiplies_in_bfloat16
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.ranker import Ranker, new_weights
from pyrite.ranking.rankers.static_folder import Vocabulary
from pyrite.ranking.splits import Split
from pyrite.ranking.training import Batch, OptimizerFactory, RankerTraining
from pyrite.rl.document_selector import LearnedSelector
from pyrite.rl.policy import LearnedPolicy
from pyrite.rl.state import StateOptions, StateTables
from pyrite.rl.trained import TrainedAgent
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.dense import Dense
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.selector import Selector

_log = logging.getLogger(__name__)


def assemble(
    config: dict[str, Any],
    parts: dict[str, Any],
    fold: int,
    sequence: np.random.SeedSequence | None = None,
    policy: SamplingPolicy | None = None,
) -> tuple[RankerTraining, Sampler]:
    """Return the training of a fold's ranker and the sampler of its negatives.

    Args:
        sequence: the seeds; None takes the run's.
        policy: replaces the configured policy.
    """
    base, split, encoded = parts["base"], parts["base"].splits[fold], read_encoded(parts)
    weights, order, sampling = (sequence or np.random.SeedSequence([config["seed"], fold])).spawn(3)
    device = torch.device("cuda" if config["resources"]["gpu"] and torch.cuda.is_available() else "cpu")
    ranker = make_ranker(config, base, np.random.default_rng(weights))
    if config["embeddings"]:  # refused before the run trains
        labels_of(encoded.queries, "embeddings=true")
        vectors_of(ranker, encoded, np.zeros(1, np.int64))
    measure = [config["validation"]["measure"]]
    validation = {
        origin: Evaluation(encoded, parts[f"validation:{name}" if name else "validation"].take(split.dev), measure)
        for name, origin in validation_origins(config).items()
    }
    objective = build(config["objective"], trust="composed")
    objective.prepare(encoded, parts.get("objective"))
    batches = build(config["batches"], "batches", trust="composed")
    batches.prepare(base.encoded, base.vectors, split.train)
    training = build(config["training"], trust="composed")(
        ranker.to(device),
        objective,
        encoded,
        split.train,
        validation,
        _optimizer(config),
        np.random.default_rng(order),
        held_out=_held_out(config, encoded, split),
        schedule=build(config["scheduler"], trust="composed"),
        validate_every=config["validation"]["every"],
        most_examples=config["limits"]["examples"],
        batches=batches,
        teacher=parts.get("teacher"),
    )
    sampler = make_sampler(config, parts, np.random.default_rng(sampling), policy)
    sampler.shown.add_examples(training.examples.queries)
    return training, sampler


def make_ranker(config: dict[str, Any], base: Base, rng: np.random.Generator) -> Ranker:
    """Return the configured ranker. `rng` draws new weights, and vectors of words that have none."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    target, limits = config["ranker"]["_target_"], config["encoding"]
    inputs = RankerInputs(
        generator,
        base.vectors.filled(rng),
        base.encoded.idf,
        Vocabulary(base.words, limits["max_document"]) if len(base.spelled) else None,
        base.encoded.label_counts if config["ranker"].get("categories") else None,
    )
    # Layers of torch that a class of the user's own makes (nn.Linear) draw from the global generator.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        try:
            ranker: Ranker = build(config["ranker"], "ranker", trust="composed").start(inputs)
        except AttributeError as error:
            if "Module.__init__() call" not in str(error):
                raise
            remedy = "begin __init__ with super().__init__()"
            raise BadInput("sets weights or layers before torch can hold them", str(target), remedy) from None
    refuse(
        next(ranker.parameters(), None) is None,
        "has no weights to train",
        str(target),
        "make its tensors nn.Parameter, its layers nn.Module",
    )
    if ranker.drawn:
        _note_new_weights(str(config["ranker"].get("checkpoint")), new_weights(ranker))
    if config["ranker"].get("precision") == "bfloat16" and not multiplies_in_bfloat16(config["resources"]["gpu"] > 0):
        _note_slow_precision()
    if config.get("peft"):
        build(config["peft"], "peft", trust="composed").add_to(ranker, generator)
    return ranker


@functools.cache
def _note_slow_precision() -> None:
    """Log, once per process, that this machine computes in a precision that it does not multiply in."""
    _log.warning("this processor does not multiply in bfloat16: the run computes the same here, but slowly")


@functools.cache
def _note_new_weights(checkpoint: str, names: str) -> None:
    """Log, once per process, the weights of a ranker that its checkpoint lacks."""
    _log.warning("%s has no %s: new weights, drawn with the run's seed", checkpoint, names)


def make_sampler(
    config: dict[str, Any], parts: dict[str, Any], rng: np.random.Generator, policy: SamplingPolicy | None = None
) -> Sampler:
    """Return the sampler of a run's negatives, with another policy than the configured one if it is given."""
    base, functions = parts["base"], {}
    for name, node in config["function"].items():
        functions[name] = build(node, trust="composed")
        if isinstance(functions[name], Dense):
            functions[name].guard = build(config["guard"], "guard", trust="composed")
            remedy = "leave the guard's ranker out, or choose bm25, tfidf, embedding or run_file"
            refuse(
                functions[name].guard.ranker is not None,
                "a ranker guards lists that are fixed while others train",
                "function.dense",
                remedy,
            )
        functions[name].prepare(base.encoded, parts[f"function:{name}"].lists)
    selector, replaced = build(config["selector"], trust="composed"), policy is not None
    policy = policy or build(config["policy"], trust="composed")
    if "agent" in parts:
        equip(policy, selector, parts)
    return Sampler(
        policy,
        functions,
        selector,
        config["sampling"]["negatives"],
        rng,
        {name: parts[f"function:{name}"].guarded.total for name in functions},
        build_each(config["selectors"], "selectors", trust="composed"),
        None if replaced else counts_of(config, functions, policy),
        config["sampling"]["recorded"],
    )


def state_tables(parts: dict[str, Any], options: StateOptions, pairs: int, functions: Sequence[str]) -> StateTables:
    """Return the tables that an agent's states are looked up in. `pairs` is the number of pairs in a full batch."""
    tables = {name: parts[f"similarity:{name}"] for name in functions}
    return StateTables(options, parts["compressed"], tables, pairs, parts.get("candidates"))


def equip(policy: SamplingPolicy, selector: Selector, parts: dict[str, Any]) -> None:
    """Give the learned policy or selector of a run its agent."""
    agent: TrainedAgent = parts["agent"]
    tables = state_tables(parts, agent.state, agent.pairs, agent.functions)
    what = f"the agent reads word vectors of {agent.dimension} dimensions, not {tables.compressed.dimension}"
    refuse(tables.compressed.dimension != agent.dimension, what, "vectors", "choose those that it was learned with")
    for part in (policy, selector):
        if isinstance(part, LearnedPolicy | LearnedSelector):
            part.equip(agent, tables)


def _held_out(config: dict[str, Any], encoded: EncodedCollection, split: Split) -> HeldOut | None:
    """Return random negatives for each dev query, equal in all runs."""
    count = config["validation"]["negatives"]
    if count is None:
        return None
    function = Random()
    function.prepare(encoded, None)
    relevant = encoded.judgements.relevant()
    positives = relevant.documents[relevant.offsets[split.dev]]
    negatives = function.sample(Batch(split.dev, positives), count, np.random.default_rng(0)).documents
    return HeldOut(encoded, split.dev, np.concatenate([positives[:, None], negatives], 1))


def _optimizer(config: dict[str, Any]) -> OptimizerFactory:
    """Return a function that makes the optimizer, which is when torch checks its options."""
    factory = build(config["optimizer"], trust="composed")

    def make(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        try:
            return factory(parameters)
        except (TypeError, ValueError) as error:
            raise BadInput(str(error), "optimizer") from None

    return make
