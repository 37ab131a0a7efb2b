"""Writes the `pyrite mine` command that draws negatives as a run of a study does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import beneath, key_of, without
from pyrite.cluster.config.quoting import several
from pyrite.ranking.errors import BadInput, refuse

TAKEN = ("collection", "vectors", "encoding", "strict", "relabel", "policy", "guard")
"""Options that mining takes as they are, with those below them."""
REFRESH = ".refresh"
SIMPLE = re.compile(r"='([\w.-]*/[\w./-]*)'$")
"""A value in quotes that Hydra reads alike without them, as the paths that experiments name."""


def mine_command(overrides: Sequence[str]) -> str | None:
    """Return the command that draws negatives as a run with one fixed choice does.

    In-batch negatives are left out, since a trainer has them without mining.

    Returns:
        The command; None if a policy chose the functions, or there is nothing to mine. If a ranker chooses, it names
        the placeholder `checkpoint=YOUR_MODEL`.

    Raises:
        BadInput: if mining can't draw such negatives.
    """
    try:
        config = compose(list(overrides))
    except BadInput:  # of another version, or a class that is missing here
        return None
    counts: dict[str, int] = {name: int(count) for name, count in config["negatives"].items() if count is not None}
    names = [name for name in config["function"] if name != "in_batch" and counts.get(name, 1) > 0]
    if not names or config[CHOICES]["policy"] != "fixed":
        return None
    options = [
        *_taken(overrides, config, names),
        *_guard(config),
        *_counts(config, names, counts),
        *_checkpoint(config, names),
    ]
    _check_alike(compose(options, "mine"), config, names)
    return shlex.join(["pyrite", "mine", *(SIMPLE.sub(r"=\1", text) for text in options)])


def _taken(overrides: Sequence[str], config: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return the options of what is read, policy and guard, the functions with these names and their selectors."""
    left_out = [f"selector.{name}" for name in config["function"] if name not in names]
    of_functions = beneath(overrides, [f"function.{name}" for name in names])
    selectors = beneath(overrides, ["selector"])
    return [
        *without(beneath(overrides, TAKEN), {"policy"}),
        f"function={several(names)}",
        *(text for text in of_functions if REFRESH not in key_of(text)),  # an index is built once
        f"selector={config[CHOICES]['selector']}",
        *without(selectors, {"selector", *map(key_of, beneath(selectors, left_out))}),
    ]


def _guard(config: dict[str, Any]) -> list[str]:
    """Return the positive that a run's guard compares with, which is the one of each row by default in mining."""
    guard = build(config["guard"], "guard", trust="composed")
    return ["guard.positive=lowest"] if guard.active and guard.positive is None else []


def _counts(config: dict[str, Any], names: Sequence[str], counts: dict[str, int]) -> list[str]:
    each = {name: counts.get(name, config["sampling"]["negatives"]) for name in names}
    return (
        [f"negatives.{name}={each[name]}" for name in names]
        if len(names) > 1 and counts
        else [f"count={each[names[0]]}"]
    )


def _checkpoint(config: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return the placeholder of the ranker if it chooses; refuse what mining has no ranker for."""
    functions = {name: build(config["function"][name], f"function.{name}", trust="composed") for name in names}
    by_name = {name: config["selectors"].get(name, config["selector"]) for name in names}
    selectors = {name: build(node, "selector", trust="composed") for name, node in by_name.items()}
    selectors |= build(config["policy"], "policy", trust="composed").selectors_of(functions)
    for part in (*functions.values(), *selectors.values()):
        refuse(part.needs_training, f"{type(part).__name__} needs a training")
    alone = all(vars(type(part)).get("independent", False) for part in selectors.values())
    return [] if alone and "dense" not in names else ["checkpoint=YOUR_MODEL"]


def _check_alike(mined: dict[str, Any], config: dict[str, Any], names: Sequence[str]) -> None:
    """Refuse options of which mining would make something else than the run did."""
    once: dict[str, Any] = {"refresh": None}
    guard = {key: value for key, value in config["guard"].items() if value is not None}
    pairs = {
        **{key: (mined[key], config[key]) for key in (*TAKEN, "selector") if key != "guard"},
        **{f"function.{name}": (mined["function"][name] | once, config["function"][name] | once) for name in names},
        **{f"selector.{name}": (mined["selectors"].get(name), config["selectors"].get(name)) for name in names},
        "guard": (mined["guard"] | guard, mined["guard"]),
    }
    unlike = [key for key, (one, other) in pairs.items() if one != other]
    refuse(unlike, f"mining has another {' and '.join(unlike)}")
