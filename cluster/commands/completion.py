"""Runs `pyrite completion`: prints what a shell needs, and the words that may follow on a command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import yaml
from rich.console import Console

from pyrite.cluster.commands.verbs import SUBMITTABLE, VERBS
from pyrite.cluster.config.groups import CONF, NAMED_GROUPS, group_options, groups_of, option

BASH = """\
_pyrite() {
    local IFS=$'\\n'
    COMPREPLY=($(pyrite completion words --line="${COMP_LINE:0:$COMP_POINT}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=.] ]]; then compopt -o nospace; fi
}
complete -o default -F _pyrite pyrite"""
SCRIPTS = {
    "bash": BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{BASH}",
    "fish": "complete -c pyrite -a '(pyrite completion words --line=(commandline -cp | string collect))'",
}
PRIMARY = {"train": "config", "options": "config", "submit": "config"}
"""Primary files of verbs that have none of their name."""


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print the script of a shell, or the words that complete `--line`."""
    if chosen.shell != "words":
        print(SCRIPTS[chosen.shell])
        return 0
    line = chosen.line or ""
    typed = re.split(r"\s", line)[-1]
    # Bash takes what follows the last "=" for a word of its own.
    shown = typed.rpartition("=")[2] if "=" in typed else typed
    for word in completions(line):
        print(word[len(typed) - len(shown) :])
    return 0


def completions(line: str) -> list[str]:
    """Return the words that complete the last word of a command line."""
    words = re.split(r"\s+", line.lstrip())[1:] or [""]
    typed = words[-1]
    if len(words) == 1:
        candidates = iter(VERBS)
    else:
        verb = words[0]
        if verb == "submit":
            verb = next((word for word in words[1:-1] if word in SUBMITTABLE), "submit")
        candidates = _after(verb, typed) if verb in VERBS else iter(())
    return sorted({word for word in candidates if word.startswith(typed) and word != typed})


def _after(verb: str, typed: str) -> Iterator[str]:
    if verb == "submit":
        yield from SUBMITTABLE
    yield from (name for name, _ in VERBS[verb].arguments if name.startswith("-"))
    for primary in ("study", "config") if verb in ("study", "submit") else (PRIMARY.get(verb, verb),):
        if not (CONF / f"{primary}.yaml").is_file():
            continue
        names = group_options()
        for group in groups_of(primary):
            yield f"{group}="
            if typed.startswith(f"{group}="):
                yield from (f"{group}={name}" for name in names[group])
            if typed.startswith(f"{group}."):
                for name in names[group]:
                    node = option(group, name)
                    yield from _keys(node if group not in NAMED_GROUPS or name in node else {name: node}, f"{group}.")
        yield from _keys(yaml.safe_load((CONF / f"{primary}.yaml").read_text(encoding="utf-8")), "")


def _keys(node: object, prefix: str) -> Iterator[str]:
    for key, value in node.items() if isinstance(node, dict) else ():
        if str(key).startswith("_") or key == "defaults":
            continue
        if isinstance(value, dict) and value:
            yield f"{prefix}{key}."
            yield from _keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}="
