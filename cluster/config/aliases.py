"""Writes out short forms: `run_file@hdct`, `selector.bm25=top`, `negatives.bm25=1`, `objective=[kl,contrastive]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cluster.config.groups import groups_of
from ranking.errors import BadInput

NAMED = re.compile(r"^([A-Za-z_]\w*)@([A-Za-z_]\w*)$")
GROUP = "function"
QUOTES = "'\""
RANKER = "cluster.runs.ranker_teacher.RankerTeacher"
"""What a guard's ranker is made of."""
OF_A_CHECKPOINT = ("rank", "mine")
"""Primary files without a ranker of their own: `ranker` says what their checkpoint is."""
OF_ONE = re.compile(r"^(\+*)(negatives|selectors?)\.([A-Za-z]\w*)((?:\.\w+)*)$")
"""What is said of one function: `selector.bm25.lam`."""


def named_parts(overrides: Sequence[str], options: Any, config: str = "config") -> list[str]:
    """The overrides, with functions that are given names of their own written out.

    `function=[run_file@hdct,bm25]` becomes `function=[]` and all options of the two, in their order, so that
    `function.hdct.path=FILE` sets one of them. `selector.bm25=dynamic` is what picks from one function, and stands
    under `selectors`; `negatives.bm25=1` says how many that supplies. `objective=[contrastive,margin_mse]` is their
    sum, each under its name. `teacher=null` takes a part away. Of a verb that reads a checkpoint
    `ranker=decoder` is all options of that ranker.

    Args:
        overrides: Hydra overrides of a run.
        options: what a part's file says, by its group and name (`cluster.config.compose.option`).
        config: the primary file that they are of.

    Raises:
        BadInput: where a name is given twice, or is no name.
    """
    written: list[str] = []
    for place, text in enumerate(overrides):
        key, _, value = text.partition("=")
        if value == "null" and (key in groups_of(config) or _of_checkpoint(key, config)):
            if key in groups_of(config) and key not in [each.partition("=")[0] for each in overrides[place + 1 :]]:
                written.append(f"~{key}")  # which is how Hydra writes it
            continue
        if single := OF_ONE.match(key):
            written += _of_one((single[1], single[2], single[3], single[4]), value, options)
            continue
        if key == "objective" and value.startswith("["):
            names = [item.strip() for item in value.strip("[] ").split(",")]
            for name in names:
                options("objective", name)  # which says what objectives there are
            written += ["objective=weighted_sum", *(f"+objective@objective.{name}={name}" for name in names)]
            continue
        if _of_checkpoint(key, config) and re.fullmatch(r"\w+", value):
            told = {name: each for name, each in options("ranker", value).items() if name != "defaults"}
            written.append(f"ranker={as_override(told | ({'checkpoint': None} if 'checkpoint' in told else {}))}")
            continue
        if key in ("guard.ranker", "sampling.guard.ranker") and value not in ("null", ""):
            written.append(f"{key}={as_override({'_target_': RANKER, 'checkpoint': value.strip(QUOTES)})}")
            continue
        if key.startswith("objective.weights."):
            written.append(f"++{text}")
            continue
        if key != GROUP or "@" not in value:
            written.append(text)
            continue
        items = [item.strip() for item in value.strip("[] ").split(",")]
        pairs = [_pair(item, text) for item in items]
        names = [name for _, name in pairs]
        if len(set(names)) < len(names):
            raise BadInput("gives two functions one name", text, "write another name behind one @")
        written.append(f"{GROUP}=[]")
        for part, name in pairs:
            written.append(f"+{GROUP}.{name}={as_override(options(GROUP, part)[part])}")
    return written


def _of_checkpoint(key: str, config: str) -> bool:
    """Whether an option says what the checkpoint is that a verb reads."""
    return config in OF_A_CHECKPOINT and key == "ranker"


def _of_one(key: tuple[str, str, str, str], value: str, options: Any) -> list[str]:
    """What is said of one function: how many negatives it supplies, or what picks them.

    `selector.NAME=VALUE` is an option of the selector itself where the value is no selector.
    """
    signs, group, name, rest = key
    as_it_is = [f"{signs}{group}.{name}{rest}={value}"]
    if group == "negatives":
        return [f"++{group}.{name}={value}"] if not rest else as_it_is
    if rest:
        return [f"{signs}selectors.{name}{rest}={value}"]
    try:
        options("selector", value)
    except BadInput:
        if group == "selectors" or _is_function(name, options):
            raise
        return as_it_is
    return [f"+selector@selectors.{name}={value}"]


def _is_function(name: str, options: Any) -> bool:
    """Whether there is a function of this name."""
    try:
        return bool(options(GROUP, name))
    except BadInput:
        return False


def _pair(item: str, text: str) -> tuple[str, str]:
    """The function's option and its name."""
    found = NAMED.match(item) or re.match(r"^((\w+))$", item)
    if found is None:
        raise BadInput(f"can't read {item!r}", text, "write run_file@NAME, of letters, digits and _")
    return found[1], found[2]


def as_override(value: Any) -> str:
    """A value as Hydra's override grammar reads it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{as_override(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_override, value)) + "]"
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)
