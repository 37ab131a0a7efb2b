"""Prints a composed configuration with an explanation of each option (`pyrite options`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape

from cluster.config.compose import compose
from cluster.config.explain import Key, explanations, summary_line
from cluster.config.groups import CHOICES, group_options, groups_of

COLUMN = 34
"""The column at which explanations begin."""


def show(overrides: Sequence[str], console: Console, primary: str = "config") -> None:
    """Print the composed values, what each means, and the names of each group."""
    config = compose(overrides, primary, complete=False)
    texts = explanations(config, primary)
    choices = config.pop(CHOICES)
    for key, line in _lines(config):
        text = texts.get(key)
        comment = f"{' ' * max(COLUMN - len(line), 2)}[dim]# {escape(text)}[/]" if text else ""
        console.print(f"{escape(line)}{comment}", soft_wrap=True)
    console.print()
    names = group_options()
    for group in groups_of(primary):
        chosen = choices.get(group) or config.get(group)
        picked = re.findall(r"\w+", str(chosen)) if isinstance(chosen, str) else list(chosen or ())
        for name in names[group]:
            mark = "[bold]*[/]" if name in picked else " "
            console.print(f"{mark} {group}={name}  [dim]{escape(summary_line(group, name))}[/]", soft_wrap=True)


def _lines(node: dict[str, Any], at: Key = ()) -> Iterator[tuple[Key, str]]:
    """Yield the lines of the configuration as YAML, one per key; a list takes one line."""
    for name, value in node.items():
        key, indent = (*at, str(name)), "  " * len(at)
        if isinstance(value, dict) and value:
            yield key, f"{indent}{name}:"
            yield from _lines(value, key)
        else:
            written = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
            yield key, f"{indent}{name}: {written.partition(chr(10))[0]}"
