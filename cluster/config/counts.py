"""Says how many negatives each of several functions supplies, and what picks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ranking.errors import BadInput

if TYPE_CHECKING:
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
