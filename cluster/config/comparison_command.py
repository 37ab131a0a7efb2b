"""Writes the `pyrite study` command that compares methods with their best settings."""

from __future__ import annotations

import shlex

import polars as pl

from pyrite.cluster.config.override import key_of, without
from pyrite.cluster.config.quoting import as_override


def comparison_command(found: pl.DataFrame, first_seed: int) -> str:
    """Return the command that trains methods of one collection and ranker with their best settings and new seeds."""
    lines = [_of_its_agent(shlex.split(text)) for text in found["overrides"]]
    common = set.intersection(*map(set, lines))
    shared = [text for text in lines[0] if text in common]
    methods = [
        {"label": label, "overrides": [text for text in line if text not in common]}
        for label, line in zip(found["method"], lines, strict=True)
    ]
    given = [*shared, f"methods={as_override(methods)}"] if len(lines) > 1 else shared
    return " ".join(["pyrite study", *map(_for_shell, given), f"'seed=range({first_seed},{first_seed + 10})'"])


def _of_its_agent(overrides: list[str]) -> list[str]:
    """Return overrides without those by which the agent that they name was learned."""
    named = [key for key in map(key_of, overrides) if key in ("policy.checkpoint", "selector.checkpoint")]
    parts = [key.partition(".")[0] for key in named]
    return without(overrides, {f"{part}.{option}" for part in parts for option in ("agent", "learn")})


def _for_shell(text: str) -> str:
    """Quote a text for a shell, readably if it has single quotes."""
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)
