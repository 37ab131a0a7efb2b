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
from pyrite.ranking.errors import BadInput

READ = ("collection", "vectors", "encoding")
"""Groups of options of what is read, which mining takes as they are."""
REFRESH = ".refresh"
SIMPLE = re.compile(r"='([\w.-]*/[\w./-]*)'$")
"""A value in quotes that Hydra reads alike without them, as the paths that experiments name."""


def mine_command(overrides: Sequence[str]) -> str | None:
    """Return the command that draws negatives as a run with one fixed choice does.

    In-batch negatives are left out, since a trainer has them without mining.

    Returns:
        The command; None if a policy chose the functions, or there is nothing to mine. Where a ranker chooses, it names
        the placeholder `checkpoint=YOUR_MODEL`.
    """
    try:
        return _command(list(overrides))
    except BadInput:  # a part that mining does not have
        return None


def _command(overrides: list[str]) -> str | None:
    config = compose(overrides)
    counts: dict[str, int] = {name: int(count) for name, count in config["negatives"].items() if count is not None}
    names = [name for name in config["function"] if name != "in_batch" and counts.get(name, 1) > 0]
    if not names or config[CHOICES]["policy"] != "fixed":
        return None
    options = [*_taken(overrides, config, names), *_counts(config, names, counts), *_checkpoint(config, names)]
    if not _draws_alike(compose(options, "mine"), config, names):
        return None
    return shlex.join(["pyrite", "mine", *(SIMPLE.sub(r"=\1", text) for text in options)])


def _taken(overrides: Sequence[str], config: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return the options of what is read, of the functions with these names, of their selectors and of the guard."""
    left_out = [f"selector.{name}" for name in config["function"] if name not in names]
    of_functions = beneath(overrides, [f"function.{name}" for name in names])
    selectors = beneath(overrides, ["selector"])
    return [
        *beneath(overrides, READ),
        f"function={several(names)}",
        *(text for text in of_functions if REFRESH not in key_of(text)),  # an index is built once
        f"selector={config[CHOICES]['selector']}",
        *without(selectors, {"selector", *map(key_of, beneath(selectors, left_out))}),
        *beneath(overrides, ["guard"]),
    ]


def _counts(config: dict[str, Any], names: Sequence[str], counts: dict[str, int]) -> list[str]:
    each = {name: counts.get(name, config["sampling"]["negatives"]) for name in names}
    return (
        [f"negatives.{name}={each[name]}" for name in names]
        if len(names) > 1 and counts
        else [f"count={each[names[0]]}"]
    )


def _checkpoint(config: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return the placeholder of the ranker if it chooses."""
    selectors = [config["selector"], *config["selectors"].values()]
    kinds = [type(build(node, "selector", trust="composed")) for node in selectors]
    alone = all(vars(kind).get("independent", False) for kind in kinds)
    return [] if alone and "dense" not in names else ["checkpoint=YOUR_MODEL"]


def _draws_alike(mined: dict[str, Any], config: dict[str, Any], names: Sequence[str]) -> bool:
    once = {"refresh": None}
    return all(mined["function"][name] | once == config["function"][name] | once for name in names)
