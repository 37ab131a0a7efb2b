"""Runs `pyrite options`: prints the configuration that overrides give, with explanations."""

from __future__ import annotations

import argparse

from rich.console import Console

from pyrite.cluster.config.explain import show

OF_RUNS = {None: "config", "train": "config"}
"""The primary file of runs, by the verb that is named."""


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Print the configuration that overrides give, with explanations."""
    show(chosen.overrides, console, OF_RUNS.get(chosen.of, chosen.of))
    return 0
