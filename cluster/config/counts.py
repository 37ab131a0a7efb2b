"""Computes how many negatives each of several functions supplies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrite.ranking.errors import refuse

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
    for name in (*given, *config["selectors"]):
        what, key = f"there is no function {name} in this run", "negatives" if name in given else "selector"
        refuse(name not in functions, what, f"{key}.{name}", f"it has {', '.join(functions)}")
    if not given and (policy.chooses or len(functions) == 1):
        return None
    default = config["sampling"]["negatives"]
    mined = {name: given.get(name, default) for name, function in functions.items() if not function.reads_mined}
    counts = {}
    for name, function in functions.items():
        others = sum(mined.values()) - mined.get(name, 0)
        supplied = function.supply(config["training"]["batch_size"], others)
        counts[name] = given.get(name, default if supplied is None else supplied)
    return counts
