"""Runs `pyrite options`: prints the configuration that overrides give, with explanations."""

from __future__ import annotations

import argparse

from rich.console import Console

from pyrite.cluster.config.explain import show


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print the configuration that overrides give, with explanations."""
    show(chosen.overrides, console, chosen.of or "config")
    return 0
