"""`pyrite options`: the configuration that overrides give, beside the comments that explain it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from cluster.configuration import CHOICES, CONF, compose, group_options, groups_of


def show(overrides: Sequence[str], console: Console) -> None:
    """Print the composed values, the files that explain them, and what else each group offers.

    Raises:
        BadInput: where the overrides name what is not there.
    """
    config = compose(overrides)
    choices = config.pop(CHOICES)
    console.print(
        Syntax(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), "yaml", background_color="default")
    )
    there = group_options()
    for group in groups_of("config"):
        names = there[group]
        chosen = choices.get(group)
        picked = re.findall(r"\w+", str(chosen))  # one, or a list in brackets
        for name in names:
            says = (CONF / group / f"{name}.yaml").read_text().split("# ", 1)[1].splitlines()
            text = next((line.lstrip("# ") for line in says if "@package" not in line), "")
            mark = "[bold]*[/]" if name in picked else " "
            console.print(f"{mark} {group}={name}  [dim]{escape(text)}[/]", soft_wrap=True)
