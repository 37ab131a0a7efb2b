"""Prints the configuration that overrides give, what each option means, and what else there is (`pyrite options`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape

from cluster.config.compose import compose
from cluster.config.explain import Key, explanations
from cluster.config.groups import CHOICES, CONF, group_options, groups_of

COLUMN = 34
"""Where explanations begin."""


def show(overrides: Sequence[str], console: Console, primary: str = "config") -> None:
    """Print the composed values, what each of them means, and what else each group offers.

    Args:
        overrides: what differs from the defaults.
        console: to print on.
        primary: `config` (of a run), `learn`, `pool` or `judge`.

    Raises:
        BadInput: where the overrides name what is not there.
    """
    config = compose(overrides, primary)
    means = explanations(config, primary)
    choices = config.pop(CHOICES)
    for key, line in _lines(config):
        text = means.get(key)
        said = f"{' ' * max(COLUMN - len(line), 2)}[dim]# {escape(text)}[/]" if text else ""
        console.print(f"{escape(line)}{said}", soft_wrap=True)
    console.print()
    there = group_options()
    for group in groups_of(primary):
        chosen = choices.get(group) or config.get(group)
        picked = re.findall(r"\w+", str(chosen)) if isinstance(chosen, str) else list(chosen or ())
        for name in there[group]:
            says = (CONF / group / f"{name}.yaml").read_text().split("# ", 1)[1].splitlines()
            text = next((line.lstrip("# ") for line in says if "@package" not in line), "")
            mark = "[bold]*[/]" if name in picked else " "
            console.print(f"{mark} {group}={name}  [dim]{escape(text)}[/]", soft_wrap=True)


def _lines(node: dict[str, Any], at: Key = ()) -> Iterator[tuple[Key, str]]:
    """The configuration as YAML, a line a key; lists stand on one line."""
    for name, value in node.items():
        key, indent = (*at, str(name)), "  " * len(at)
        if isinstance(value, dict) and value:
            yield key, f"{indent}{name}:"
            yield from _lines(value, key)
        else:
            written = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
            yield key, f"{indent}{name}: {written.partition(chr(10))[0]}"
