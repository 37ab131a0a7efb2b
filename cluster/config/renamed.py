"""Refuses the old names of options and says the new ones, for one release after a rename."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ranking.errors import BadInput

RENAMED: dict[str, str] = {
    "hold": "decision_every",
    "yardstick": "random_baseline",
    "panel": "validation_sample",
    "worth": "ranking_quality",
}
"""New names by old ones. A key is the end of an option's path, or all of it."""


REMOVED: dict[str, str] = {
    "serve": "one process serves the page, on the machine with its folder: leave it out, and put a proxy in front "
    "of it (url=)",
    "refresh.on_loss": "an index that is lost is always waited for: leave it out",
    "refresh.on_lost_index": "an index that is lost is always waited for: leave it out",
    "agent.warm_start": "a regression on one search's returns was not ahead of a fresh search: give more "
    "episodes, or measure with `pyrite fork` what each action is worth",
    "agent.iterations": "it belonged to agent.warm_start, which was removed: leave it out",
    "replicas": "each run has one reader, so further actors per shard sped nothing up: leave it out, and choose more "
    "shards, or on_lost_shard=skip to not wait for a shard that died",
    "on_loss": "whatever a learning loses is repeated from its last state: leave it out",
    "changes": "options stay the same throughout a run: train one run per setting, or choose a scheduler=",
}
"""Options that were removed, and what to do instead."""

REMOVED_PARTS: dict[str, str] = {
    "agent=population": "it compares rankers after each part of a training, so what pays late is lost: "
    "give agent=schedule",
    **dict.fromkeys(
        ["trial_scheduler=pb2", "scheduler=pb2"],
        "runs that continue from each other's weights are no independent sample, so methods could not be compared: "
        "use search=optuna, and trial_scheduler=asha to stop runs early",
    ),
}
"""Parts that were removed, and what to use instead."""


RENAMED_IN: dict[str, dict[str, str]] = {
    "judge": {"documents": "collection"},
    "pool": {"scale": "pool_scale"},
}
"""New names by old ones, of options that mean something else in other verbs, by primary file."""
OF_TRIALS = ("asha", "hyperband", "median", "none")
"""Names that belong to `trial_scheduler`; `scheduler` is the schedule of the learning rate."""


def refuse_renamed(overrides: Sequence[str], config: str) -> None:
    """Refuse options that have another name in one verb."""
    renamed = RENAMED_IN.get(config, {})
    for text in overrides:
        key, _, value = text.lstrip("+~").partition("=")
        root, dot, rest = key.partition(".")
        if root in renamed:
            new = f"{renamed[root]}{dot}{rest}={value}"
            raise BadInput(f"there is no option {root} in `pyrite {config}`", text, f"it is called {new} now")
        if key == "scheduler" and value in OF_TRIALS:
            what = f"{value} is no schedule of the learning rate"
            raise BadInput(what, text, f"runs are stopped early by trial_scheduler={value.replace('none', 'null')}")


def new_name(option: str) -> str | None:
    """Return the present name of an option; None if it was never renamed."""
    for old, new in RENAMED.items():
        named, count = re.subn(rf"(^|\.){re.escape(old)}(?=\.|$)", rf"\g<1>{new}", option)
        if count:
            return named
    return None


def no_option(option: str) -> str:
    """Return the message for an option that does not exist, with its new name, or what to use instead."""
    for old, instead in REMOVED.items():
        if re.search(rf"(^|\.){re.escape(old)}$", option):
            return f"there is no option {option} any more: {instead}"
    new = new_name(option)
    return f"there is no option {option}" + (f": it is called {new} now" if new else "")
