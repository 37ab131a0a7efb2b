"""Says how many negatives each of several functions supplies, and what picks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.config.compose import build
from ranking.errors import BadInput
from sampling.policies.policy import SamplingPolicy
from sampling.retrieval.function import RetrievalFunction


def counts_of(
    config: dict[str, Any], functions: Mapping[str, RetrievalFunction], policy: SamplingPolicy
) -> dict[str, int] | None:
    """How many negatives each function supplies to each query; None where the policy decides that.

    Args:
        config: composed.
        functions: by name.
        policy: of the run.

    Raises:
        BadInput: where numbers or selectors are given for functions that the run has not.
    """
    said = {name: count for name, count in config["negatives"].items() if count is not None}
    for key, of in (("negatives", said), ("selectors", config["selectors"])):
        for name in of:
            if name not in functions:
                where = f"{key.removesuffix('s') if key == 'selectors' else key}.{name}"
                raise BadInput(f"there is no function {name} in this run", where, f"it has {', '.join(functions)}")
    if not said and (policy.chooses or len(functions) == 1):
        return None
    mined = {name: said.get(name, config["sampling"]["negatives"]) for name in functions}
    found = {}
    for name, function in functions.items():
        others = sum(count for other, count in mined.items() if not functions[other].reads_mined and other != name)
        most = function.supply(config["training"]["batch_size"], others) if len(functions) > 1 else None
        found[name] = mined[name] if name in said or most is None else most
    return found


def check_counts(config: dict[str, Any]) -> None:
    """Hold policy, functions, selectors and objective against the numbers of negatives, before anything starts.

    Raises:
        BadInput: where they do not go together.
    """
    policy, objective = build(config["policy"], "policy"), build(config["objective"], "objective")
    functions = {name: build(node, f"function.{name}") for name, node in config["function"].items()}
    policy.set_functions(list(functions))
    counts = counts_of(config, functions, policy)
    objective.check_block(config["sampling"]["negatives"] if counts is None else sum(counts.values()))
    if counts is not None:
        policy.set_counts(list(counts.values()))
        if len(objective.stages()) > 1:
            what = "an objective of several stages hands on lists of one length"
            raise BadInput(what, "negatives", "give one number for all functions: sampling.negatives")
    for name, node in config["selectors"].items():
        build(node, f"selector.{name}")
