"""Prints a line for each task that loses its process or leaves its machine."""

from __future__ import annotations

from rich.console import Console

from cluster.executors.task import Watch


class LossLines(Watch):
    """Prints losses, so that nothing is repeated without a line that says so.

    Args:
        console: the screen.
        kind: what a task is, e.g. "shard".
    """

    def __init__(self, console: Console, kind: str) -> None:
        self.console, self.kind = console, kind

    def retrying(self, key: str, error: Exception) -> None:
        """Print that a task runs again."""
        self._print(f"the process of {self.kind} {key} was lost; the {self.kind} runs again")

    def moved(self, key: str, reason: str) -> None:
        """Print that a task continues elsewhere."""
        self._print(f"the machine of {self.kind} {key} will be taken away; the {self.kind} continues elsewhere")

    def _print(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)
