"""Changes options of a run in mid-training: `changes` says after how many epochs, and to what.

A change is a mapping of `after`, epochs that are over by then, and of options by their keys:
`changes=[{after:5,optimizer.lr:0.0005,sampling.negatives:8}]`. What a training holds by then, weights, moments and
generators, must serve it under the new options as well; options that shape any of these can't change.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from cluster.config.build import build
from ranking.errors import BadInput

AFTER, OPTIMIZER = "after", "optimizer"
CHANGEABLE = (
    "optimizer", "scheduler", "objective", "policy", "selector", "selectors", "negatives", "sampling.negatives",
    "training.clip_norm",
)  # fmt: skip
"""Options, or groups of them, of which numbers can change."""


def config_at(config: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """The configuration with all changes that were made by an epoch.

    Args:
        config: composed.
        epoch: how many are over.
    """
    found = copy.deepcopy(dict(config))
    for change in config.get("changes", []):
        for key, value in change.items():
            if key != AFTER and change[AFTER] <= epoch:
                node, last = _place(found, key)
                node[last] = value
    return found


def changed_after(config: Mapping[str, Any]) -> set[int]:
    """The epochs after which options change."""
    return {change[AFTER] for change in config.get("changes", [])}


def changed_keys(config: Mapping[str, Any]) -> list[str]:
    """The options that change, each once."""
    return list(dict.fromkeys(key for change in config.get("changes", []) for key in change if key != AFTER))


def check_changes(config: Mapping[str, Any]) -> None:
    """See that a run's options can change as it says.

    Raises:
        BadInput: where one can't, or nothing is left to be trained after a change.
    """
    times = [change.get(AFTER) for change in config.get("changes", [])]
    limit = config["training"]["max_epochs"]
    for before, time in zip([0, *times], times, strict=False):
        if type(time) is not int or not before < time < limit:
            what = f"options change after {time} of {limit} epochs"
            remedy = f"write changes=[{{after:EPOCHS,OPTION:NUMBER}},…], with EPOCHS that rise from 1 to {limit - 1}"
            raise BadInput(what, "changes", remedy)
    if not times:
        return
    for key in changed_keys(config):
        _check_key(config, key)
    if config["resources"]["workers"] > 1 or any("refresh" in node for node in config["function"].values()):
        what = "options change in a run that is alone in its process"
        raise BadInput(what, "changes", "choose resources.workers=1, and no function that is refreshed beside the run")
    for time in times:
        _check_together(config_at(config, time))


def _check_key(config: Mapping[str, Any], key: str) -> None:
    """See that an option is a number that can change, and changes to numbers."""
    if not any(key == known or key.startswith(f"{known}.") for known in CHANGEABLE):
        remedy = f"choose among numbers of {', '.join(CHANGEABLE)}"
        raise BadInput(f"{key} shapes a run from its beginning and can't change in mid-run", "changes", remedy)
    node, last = _place(config, key)
    if last not in node and key.split(".")[0] not in (OPTIMIZER, "negatives"):
        raise BadInput(f"there is no option {key}", "changes", "see `pyrite options`")
    values = [change[key] for change in config["changes"] if key in change]
    known = [*values, *([] if node.get(last) is None else [node[last]])]
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in known):
        raise BadInput(f"{key} is no number", "changes", "numbers alone change in mid-run")
    if "negatives" in key.split(".") and any(type(value) is not int for value in values):
        raise BadInput(f"{key} changes to {values}", "changes", "give whole numbers")
    if key.split(".")[0] == OPTIMIZER:
        _check_optimizer(config, last)


def _check_optimizer(config: Mapping[str, Any], name: str) -> None:
    """See that the optimizer reads a number at every step."""
    import torch

    made = build(config["optimizer"], "optimizer")([torch.nn.Parameter(torch.zeros(1, 1))])
    if name not in made.param_groups[0]:
        what = f"{type(made).__name__} does not read {name} at every step"
        raise BadInput(what, "changes", f"it reads {', '.join(key for key in made.param_groups[0] if key != 'params')}")


def _check_together(config: Mapping[str, Any]) -> None:
    """Hold the parts against each other, as they are after a change."""
    from ranking.objectives.objective import Objective

    for part in ("policy", "selector", "scheduler"):
        build(config[part], part)
    objective = build(config["objective"], "objective")
    changed = changed_keys(config)
    if len(objective.stages()) > 1:
        what = "an objective of several stages trains a ranker each, and options change in one training"
        raise BadInput(what, "changes", "choose another, as objective=sir_v3")
    if any(key.startswith("objective.") for key in changed) and type(objective).rank is not Objective.rank:
        raise BadInput("this objective's lists are made before a run begins", "changes", "leave objective.* out")


def _place(config: Mapping[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """The mapping that holds an option, and its name there.

    Raises:
        BadInput: where there is none.
    """
    node: Any = config
    *path, last = key.split(".")
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    if not isinstance(node, dict):
        raise BadInput(f"there is no option {key}", "changes", "see `pyrite options`")
    return node, last
