"""`pyrite options`: the configuration that overrides give, beside the comments that explain it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax

from cluster.config.compose import CHOICES, CONF, compose, group_options, groups_of


def show(overrides: Sequence[str], console: Console, primary: str = "config") -> None:
    """Print the composed values, what each option of the primary file means, and what else each group offers.

    Args:
        overrides: what differs from the defaults.
        console: to print on.
        primary: `config` (of a run), `learn`, `pool` or `judge`.

    Raises:
        BadInput: where the overrides name what is not there.
    """
    config = compose(overrides, primary)
    choices = config.pop(CHOICES)
    console.print(
        Syntax(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), "yaml", background_color="default")
    )
    there = group_options()
    for file in ("config", primary) if primary == "learn" else (primary,):
        for option, text in re.findall(r"^(\w+):.*?  # (.+)$", (CONF / f"{file}.yaml").read_text(), re.MULTILINE):
            console.print(f"  {option}  [dim]{escape(text)}[/]", soft_wrap=True)
    for group in groups_of(primary):
        names = there[group]
        chosen = choices.get(group)
        picked = re.findall(r"\w+", str(chosen))  # one, or a list in brackets
        for name in names:
            says = (CONF / group / f"{name}.yaml").read_text().split("# ", 1)[1].splitlines()
            text = next((line.lstrip("# ") for line in says if "@package" not in line), "")
            mark = "[bold]*[/]" if name in picked else " "
            console.print(f"{mark} {group}={name}  [dim]{escape(text)}[/]", soft_wrap=True)
