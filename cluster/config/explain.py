"""Finds what each option of a composed configuration means, in comments of YAML files and docstrings of classes."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from pathlib import Path
from typing import Any

import yaml

from cluster.config.build import OURS
from cluster.config.groups import CHOICES, CONF, group_options, groups_of

Key = tuple[str, ...]


def explanations(config: dict[str, Any], primary: str) -> dict[Key, str]:
    """What the options of a composed configuration mean, by their path.

    The comment of the file that an option comes from leads; an option without one is explained by the docstring of
    the class that takes it.

    Args:
        config: from `compose`, with its `CHOICES`.
        primary: the file that it was composed from.
    """
    found = _of_primary(primary)
    for group in groups_of(primary):
        chosen, node = config[CHOICES].get(group), config.get(group)
        for name in group_options()[group]:
            if name == chosen or (isinstance(node, dict) and name in node):
                for key, text in comments(CONF / group / f"{name}.yaml", (group,)).items():
                    found.setdefault(key, text)
    _of_classes(config, (), found)
    return found


def _of_primary(primary: str) -> dict[Key, str]:
    """The comments of a primary file, and of one that it builds on."""
    found = comments(CONF / f"{primary}.yaml", ())
    return found if primary != "learn" else comments(CONF / "config.yaml", ()) | found


def comments(path: Path, at: Key) -> dict[Key, str]:
    """The comments that stand behind the keys of a YAML file, by the path of the key.

    Args:
        path: the file.
        at: where its content goes, unless a line `# @package` says so.
    """
    text = path.read_text(encoding="utf-8")
    package = re.match(r"# @package (\S+)", text)
    if package:
        at = () if package[1] == "_global_" else tuple(package[1].split("."))
    found: dict[Key, str] = {}
    root = yaml.compose(text)
    if isinstance(root, yaml.MappingNode):
        _walk(root, at, text.splitlines(), found)
    return found


def _walk(node: yaml.MappingNode, at: Key, lines: list[str], found: dict[Key, str]) -> None:
    for key, value in node.value:
        if key.value == "defaults":
            for entry in value.value:
                _default(entry, at, lines, found)
            continue
        _note(key, value, (*at, key.value), lines, found)
        if isinstance(value, yaml.MappingNode):
            _walk(value, (*at, key.value), lines, found)


def _default(entry: yaml.Node, at: Key, lines: list[str], found: dict[Key, str]) -> None:
    """A line of `defaults`: a group and its comment, or another file with options of this place."""
    group, option = entry.value[0] if isinstance(entry, yaml.MappingNode) else (entry, None)
    if option is not None and not group.value.startswith("/"):
        _note(group, option, (*at, group.value), lines, found)
    elif group.value.startswith("/"):
        file, _, place = group.value[1:].partition("@")
        file = file if option is None else f"{file}/{option.value}"
        for key, text in comments(CONF / f"{file}.yaml", at if place == "_here_" else (*at, place)).items():
            found.setdefault(key, text)


def _note(key: yaml.Node, value: yaml.Node, path: Key, lines: list[str], found: dict[Key, str]) -> None:
    """Keep the comment behind a key and its value, where both stand on one line."""
    row = key.start_mark.line
    after = value.end_mark.column if value.end_mark.line == row else key.end_mark.column
    said = re.match(r"[^#]*\s#\s+(.+)$", lines[row][after:])
    if said is None or not (value.start_mark.line == value.end_mark.line or value.start_mark.line > row):
        return
    more = []
    for line in lines[row + 1 :]:  # the comment goes on beneath itself
        if not re.match(r"\s{8,}# ", line):
            break
        more.append(line.strip("# "))
    found.setdefault(path, " ".join([said[1].strip(), *more]))


def _of_classes(node: Any, at: Key, found: dict[Key, str]) -> None:
    """Explain what has no comment by the docstring of its class."""
    if not isinstance(node, dict):
        return
    known = arguments(str(node["_target_"])) if "_target_" in node else {}
    for key, value in node.items():
        if key in known:
            found.setdefault((*at, key), known[key])
        _of_classes(value, (*at, key), found)


@functools.cache
def arguments(target: str) -> dict[str, str]:
    """What a class of ours, or one that it is a kind of, says of its arguments; it is read and not imported.

    Args:
        target: its path, as `package.module.Class`.
    """
    module, _, name = target.rpartition(".")
    if module.split(".")[0] not in OURS:
        return {}
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return {}
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    origins = {
        alias.asname or alias.name: f"{each.module}.{alias.name}"
        for each in tree.body if isinstance(each, ast.ImportFrom) and each.module for alias in each.names
    }  # fmt: skip
    if name not in classes:
        return arguments(origins[name]) if name in origins else {}
    found: dict[str, str] = {}
    for base in classes[name].bases:
        if isinstance(base, ast.Name):
            found |= arguments(f"{module}.{base.id}" if base.id in classes else origins.get(base.id, "builtins.object"))
    return found | _args(ast.get_docstring(classes[name]) or "")


def _args(docstring: str) -> dict[str, str]:
    """The section `Args:` of a docstring."""
    section = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)+)", docstring, re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^ {4}(\w[\w, ]*): (.+(?:\n {8,}.+)*)", section[1], re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for names, text in entries for name in names.split(", ")}
