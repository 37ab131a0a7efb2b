"""Lists the groups of `conf/`, the options of each, and what an option's file says."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ranking.errors import BadInput

CONF = Path(__file__).parents[1] / "conf"
CHOICES = "choices"
"""Key of a composed configuration under which each group's chosen option stands by name."""
NAMED_GROUPS = ("function", "origin", "method", "stopping", "track")
"""Groups of which several parts may be chosen, each under its name."""
SINGLE_GROUPS = (
    "collection", "vectors", "objective", "optimizer", "ranker", "policy", "selector", "agent", "reward", "batches",
    "teacher", "state", "trial_scheduler", "until",
)  # fmt: skip
"""Groups of which one part is chosen, without a name."""


def group_options() -> dict[str, list[str]]:
    """The options of each configuration group, by reading the names of the files."""
    groups = sorted(folder for folder in CONF.iterdir() if folder.is_dir())
    return {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in groups}


def groups_of(config: str) -> list[str]:
    """The configuration groups that a primary file chooses from, in their order by name."""
    return sorted(_groups(config))


@cache
def _groups(config: str) -> frozenset[str]:
    from omegaconf import OmegaConf

    content: Any = OmegaConf.to_container(OmegaConf.load(CONF / f"{config}.yaml"), resolve=False)
    found: set[str] = set()
    for entry in content.get("defaults", []):
        if isinstance(entry, dict):
            found |= {str(group) for group in entry if not str(group).startswith(("override ", "optional "))}
        elif entry != "_self_":  # another primary file, whose options this one has too
            found |= _groups(entry)
    return frozenset(found)


def option(group: str, name: str) -> dict[str, Any]:
    """The content of one option's file.

    Raises:
        BadInput: where the group has no such option.
    """
    from omegaconf import OmegaConf

    path = CONF / group / f"{name}.yaml"
    if not path.is_file():
        raise BadInput(f"no {group} {name!r}", remedy=f"choose one of {', '.join(group_options()[group])}")
    content = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(content, dict):
        raise TypeError(f"{path} is not a mapping")
    return {str(key): value for key, value in content.items()}
