"""Assembles the training of a ranker and the sampler of its negatives from a configuration and its parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from cluster.config.build import build
from cluster.config.counts import counts_of
from cluster.runs.embeddings import check_vectors
from cluster.runs.part_keys import validation_parts
from cluster.runs.parts import read_encoded
from cluster.runs.rankers import make_ranker
from cluster.runs.state_tables import equip
from ranking.encoding import EncodedCollection
from ranking.errors import BadInput
from ranking.evaluation.evaluation import Evaluation
from ranking.evaluation.held_out import HeldOut
from ranking.splits import Split
from ranking.training import Batch, OptimizerFactory, RankerTraining
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.dense import Dense
from sampling.retrieval.random import RandomFunction
from sampling.sampler import Sampler


def assemble(
    config: dict[str, Any],
    parts: dict[str, Any],
    fold: int,
    sequence: np.random.SeedSequence | None = None,
    policy: SamplingPolicy | None = None,
) -> tuple[RankerTraining, Sampler]:
    """The training of a fold's ranker and the sampler of its negatives, from a configuration.

    Args:
        config: composed.
        parts: its parts.
        fold: of the cross-validation, 0 where there is none.
        sequence: of the seeds; the run's own when None.
        policy: takes the place of the configured one.
    """
    base, split, encoded = parts["base"], parts["base"].splits[fold], read_encoded(parts)
    weights, order, sampling = (sequence or np.random.SeedSequence([config["seed"], fold])).spawn(3)
    device = torch.device("cuda" if config["resources"]["gpu"] and torch.cuda.is_available() else "cpu")
    ranker = make_ranker(config, base, np.random.default_rng(weights))
    check_vectors(config, ranker, encoded)
    validation = {
        origin: Evaluation(encoded, parts[name].take(split.dev), [config["validation"]["measure"]])
        for name, origin in validation_parts(config).items()
    }
    objective = build(config["objective"])
    objective.prepare(encoded, parts.get("objective"))
    batches = build(config["batches"], "batches")
    batches.prepare(base.encoded, base.vectors, split.train)
    if config["resources"]["shard"] and dist.is_initialized():
        from ranking.sharding import Sharding

        Sharding(ranker, device)
    training = build(config["training"])(
        ranker.to(device),
        objective,
        encoded,
        split.train,
        validation,
        _optimizer(config),
        np.random.default_rng(order),
        held_out=_held_out(config, encoded, split),
        schedule=build(config["scheduler"]),
        validate_every=config["validation"]["every"],
        most_examples=config["limits"]["examples"],
        batches=batches,
        teacher=parts.get("teacher"),
    )
    return training, make_sampler(config, parts, np.random.default_rng(sampling), policy)


def make_sampler(
    config: dict[str, Any], parts: dict[str, Any], rng: np.random.Generator, policy: SamplingPolicy | None = None
) -> Sampler:
    """The sampler of a run's negatives.

    Args:
        config: composed.
        parts: its parts; of them `base`, the functions' and those of a learned policy are read.
        rng: every random draw comes from it.
        policy: takes the place of the configured one.
    """
    base, functions = parts["base"], {}
    for name, node in config["function"].items():
        functions[name] = build(node)
        if isinstance(functions[name], Dense):
            functions[name].guard = build(config["sampling"]["guard"], "sampling.guard")
            if functions[name].guard.ranker is not None:
                remedy = "leave the guard's ranker out, or choose bm25, tfidf, embedding or run_file"
                raise BadInput("a ranker guards lists that are fixed while others train", "function.dense", remedy)
        functions[name].prepare(base.encoded, parts[f"function:{name}"].lists)
    selector = build(config["selector"])
    given = policy is not None
    policy = policy or build(config["policy"])
    if "agent" in parts:
        policy = equip(policy, selector, parts)
    return Sampler(
        policy,
        functions,
        selector,
        config["sampling"]["negatives"],
        rng,
        {name: parts[f"function:{name}"].guarded.total for name in functions},
        {name: build(node, f"selectors.{name}") for name, node in config["selectors"].items()},
        None if given else counts_of(config, functions, policy),
        config["sampling"]["recorded"],
    )


def _held_out(config: dict[str, Any], encoded: EncodedCollection, split: Split) -> HeldOut | None:
    """Random negatives for each dev query: the same ones for every run, whatever it is trained on."""
    count = config["validation"]["negatives"]
    if count is None:
        return None
    function = RandomFunction()
    function.prepare(encoded, None)
    relevant = encoded.judgements.relevant()
    positives = relevant.documents[relevant.offsets[split.dev]]
    negatives = function.sample(Batch(split.dev, positives), count, np.random.default_rng(0)).documents
    return HeldOut(encoded, split.dev, np.concatenate([positives[:, None], negatives], 1))


def _optimizer(config: dict[str, Any]) -> OptimizerFactory:
    """What makes the optimizer; torch checks its options when it does."""
    factory = build(config["optimizer"])

    def make(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        try:
            return factory(parameters)
        except (TypeError, ValueError) as error:
            raise BadInput(str(error), "optimizer") from None

    return make
