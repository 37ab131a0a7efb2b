"""Refuses the old names of options and says the new ones, for one release after a rename."""

from __future__ import annotations

import re

RENAMED: dict[str, str] = {
    "hold": "decision_every",
    "yardstick": "random_baseline",
    "panel": "validation_sample",
    "worth": "ranking_quality",
}
"""New names by old ones: parts of an option's path, as many as tell it from others of that name."""


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


def new_name(option: str) -> str | None:
    """What an option is called now; None where it was never renamed.

    Args:
        option: its path, e.g. `panel.size`.
    """
    for old, new in RENAMED.items():
        named, found = re.subn(rf"(^|\.){re.escape(old)}(?=\.|$)", rf"\g<1>{new}", option)
        if found:
            return named
    return None


def no_option(option: str) -> str:
    """The message for an option that is not there, with its new name, or what to do where it was removed."""
    for old, instead in REMOVED.items():
        if re.search(rf"(^|\.){re.escape(old)}$", option):
            return f"there is no option {option} any more: {instead}"
    new = new_name(option)
    return f"there is no option {option}" + (f": it is called {new} now" if new else "")
