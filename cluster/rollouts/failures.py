"""Repeats a learning from its last state when it has lost a process."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import polars as pl
from ray import exceptions

from cluster.executors.drain import NOTICE, is_draining
from cluster.executors.lost_process import MAX_FAILURES_WITHOUT_PROGRESS, is_loss
from cluster.rollouts.trainer import Progress, Tell


def retry_lost(attempt: Callable[[Tell], pl.DataFrame], tell: Tell, note: Callable[[str], None]) -> pl.DataFrame:
    """Learn, and again from the last state that was kept as often as processes are lost on the way.

    What comes out is what would have come out without losses.

    Args:
        attempt: learns from the last state to the end, and tells how far it is.
        tell: told the progress; updates that are repeated are told again.
        note: told what is lost and repeated, and where a machine is left.

    Raises:
        ray.exceptions.RayError: where learning comes no further for losses.
    """
    farthest, in_vain, losses, latest = -1, 0, 0, 0

    def watch(progress: Progress) -> None:
        nonlocal farthest, in_vain, latest
        latest = len(progress.rows)
        if latest > farthest:
            farthest, in_vain = latest, 0
        tell(replace(progress, losses=losses))

    while True:
        try:
            return attempt(watch)
        except exceptions.RayError as error:
            if is_draining(error):
                note(f"a machine {NOTICE}: its state is kept at episode {latest}, and the learning goes on elsewhere")
                continue
            in_vain, losses = in_vain + 1, losses + 1
            if not is_loss(error) or in_vain > MAX_FAILURES_WITHOUT_PROGRESS:
                raise
            note(f"{_lost(error)} was lost at episode {latest}; going on from the last state")


def _lost(error: exceptions.RayError) -> str:
    """What is gone, in a word."""
    named = re.search(r"class_name: (\S+)", str(error))
    return named[1] if named else "a process of the learning"
