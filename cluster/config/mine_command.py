"""Writes the `pyrite mine` command that draws negatives as a run of a study does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from pyrite.cluster.config.build import build
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of, root_of
from pyrite.ranking.errors import BadInput

READ = ("collection", "vectors", "encoding")
"""Groups of options of what is read, which mining takes as they are."""
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
    counts: dict[str, int] = {name: int(count) for name, count in (config["negatives"] or {}).items()}
    names = [name for name in config["function"] if name != "in_batch" and counts.get(name, 1) > 0]
    if not names or config[CHOICES]["policy"] != "fixed":
        return None
    options = [text for text in overrides if root_of(text) in READ]
    options.append(f"function={names[0]}" if len(names) == 1 else f"function=[{','.join(names)}]")
    of_functions = [text for text in overrides if key_of(text).startswith(tuple(f"function.{name}." for name in names))]
    options += [text for text in of_functions if ".refresh" not in key_of(text)]  # an index is built once
    options.append(f"selector={config[CHOICES]['selector']}")
    others = [f"selector.{name}" for name in config["function"] if name not in names]
    of_selectors = [text for text in overrides if key_of(text).startswith("selector.")]
    options += [text for text in of_selectors if not key_of(text).startswith(tuple(others))]
    options += [text for text in overrides if root_of(text) == "guard"]
    if len(names) > 1 and counts:
        options += [f"negatives.{name}={counts[name]}" for name in names]
    else:
        options.append(f"count={counts.get(names[0], config['sampling']['negatives'])}")
    selectors = [config["selector"], *(config["selectors"] or {}).values()]
    alone = [vars(type(build(node, "selector", trust="composed"))).get("independent", False) for node in selectors]
    if not all(alone) or "dense" in names:
        options.append("checkpoint=YOUR_MODEL")
    mined = compose(options, "mine")
    if any(
        mined["function"][name] | {"refresh": None} != config["function"][name] | {"refresh": None} for name in names
    ):
        return None
    return shlex.join(["pyrite", "mine", *(SIMPLE.sub(r"=\1", text) for text in options)])
