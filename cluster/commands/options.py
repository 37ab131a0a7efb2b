"""Runs `pyrite options`: prints the configuration that overrides give, with explanations."""

from __future__ import annotations

import argparse

from rich.console import Console


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print the configuration that overrides give, with explanations."""
    from pyrite.cluster.config.explain import show

    show(chosen.overrides, console, chosen.of or "config")
    return 0
