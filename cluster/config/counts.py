"""Computes how many negatives each of several functions supplies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from pyrite.sampling.policies.policy import SamplingPolicy
    from pyrite.sampling.retrieval.function import RetrievalFunction


def counts_of(
    config: dict[str, Any], functions: Mapping[str, RetrievalFunction], policy: SamplingPolicy
) -> dict[str, int] | None:
    """Return how many negatives each function supplies per query; None if the policy decides.

    Numbers and selectors of functions that the run does not have are refused.
    """
    given = {name: count for name, count in config["negatives"].items() if count is not None}
    for key, functions_of in (("negatives", given), ("selectors", config["selectors"])):
        for name in functions_of:
            if name not in functions:
                where = f"{key.removesuffix('s') if key == 'selectors' else key}.{name}"
                raise BadInput(f"there is no function {name} in this run", where, f"it has {', '.join(functions)}")
    if not given and (policy.chooses or len(functions) == 1):
        return None
    mined = {name: given.get(name, config["sampling"]["negatives"]) for name in functions}
    counts = {}
    for name, function in functions.items():
        others = sum(count for other, count in mined.items() if not functions[other].reads_mined and other != name)
        most = function.supply(config["training"]["batch_size"], others) if len(functions) > 1 else None
        counts[name] = mined[name] if name in given or most is None else most
    return counts
