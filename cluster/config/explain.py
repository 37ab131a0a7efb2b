"""Prints a composed configuration with an explanation of each option: what `schema`, its class or its file says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape

from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.declared import Key, explained
from pyrite.cluster.config.groups import CHOICES, CONF, group_options, groups_of
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.signatures import explanations_of, first_line

COLUMN = 34
"""The column at which explanations begin."""


def explanations(config: dict[str, Any], primary: str) -> dict[Key, str]:
    """Return the explanation of each option of a composed configuration, by its path.

    The declaration of the verb's option is used first, then the comment in a part's YAML file, then the docstring of
    the part's class.
    """
    texts = dict(explained(SHAPES[primary]))
    for group in groups_of(primary):
        for name in _chosen(config, config[CHOICES], group):
            path = CONF / group / f"{name}.yaml"
            texts = {**(comments(path, (group,)) if path.is_file() else {}), **texts}
    _of_classes(config, (), texts)
    return texts


def _chosen(config: Mapping[str, Any], choices: Mapping[str, Any], group: str) -> list[str]:
    """Return the chosen names of a group."""
    chosen = choices.get(group) or config.get(group)
    return re.findall(r"\w+", chosen) if isinstance(chosen, str) else list(chosen or ())


def summary_line(group: str, name: str) -> str:
    """Return one line about a name of a group: the first comment of its file, or the first sentence of its class."""
    if name in PARTS.get(group, {}):
        return first_line(PARTS[group][name])
    lines = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8").split("# ", 1)[1].splitlines()
    return next((line.lstrip("# ") for line in lines if "@package" not in line), "")


def comments(path: Path, at: Key) -> dict[Key, str]:
    """Return the comments behind the keys of a YAML file, by the path of the key."""
    text = path.read_text(encoding="utf-8")
    package = re.match(r"# @package (\S+)", text)
    if package:
        at = () if package[1] == "_global_" else tuple(package[1].split("."))
    root = yaml.compose(text)
    return dict(_walk(root, at, text.splitlines())) if isinstance(root, yaml.MappingNode) else {}


def _walk(node: yaml.MappingNode, at: Key, lines: list[str]) -> Iterator[tuple[Key, str]]:
    """Yield the paths of keys that have a comment behind them and their value, with the comments."""
    for key, value in node.value:
        row = key.start_mark.line
        last = value if value.end_mark.line == row else key
        if comment := re.match(r"[^#]*\s#\s+(.+)$", lines[row][last.end_mark.column :]):
            yield (*at, key.value), comment[1].strip()
        if isinstance(value, yaml.MappingNode):
            yield from _walk(value, (*at, key.value), lines)


def _of_classes(node: Any, at: Key, texts: dict[Key, str]) -> None:
    """Explain options without a comment by the docstrings of their classes."""
    if not isinstance(node, dict):
        return
    known = explanations_of(str(node["_target_"])) if "_target_" in node else {}
    for key, value in node.items():
        if key in known:
            texts.setdefault((*at, key), known[key])
        _of_classes(value, (*at, key), texts)


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
        picked = _chosen(config, choices, group)
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
