"""Compiles methods of pools in a second process, while this one reads the pool and judges."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyrite.cluster.config.build import build
from pyrite.cluster.executors.processes import WarmProcess
from pyrite.cluster.executors.task import Task
from pyrite.pooling.simulation import Method, compile_loop, is_compiled, needs_of
from pyrite.ranking.cores import cores

FEWEST = 2
"""Loops that are not compiled yet for which another process pays: it takes two seconds to start."""


class SecondCompiler:
    """A process that fills the cache of compiled functions, the last method first.

    This process compiles what it needs at first use, the first method first, and loads what is in the cache. Nothing
    waits for the other process: if it ends early, this one compiles the rest.

    Args:
        methods: the methods by label.
        nodes: their configurations.
    """

    def __init__(self, methods: Mapping[str, Method], nodes: Mapping[str, Mapping[str, Any]]) -> None:
        left = [label for label, method in methods.items() if not needs_of(method) and not is_compiled(method)]
        self._process = WarmProcess() if len(left) >= FEWEST and cores() > 1 else None
        if self._process is not None:
            task = Task("compile", f"{__name__}:compile_all", {"nodes": [nodes[label] for label in reversed(left)]})
            self._thread = threading.Thread(target=_run, args=(self._process, task), name="compile", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the process, whatever it compiles."""
        if self._process is not None:
            self._process.kill()
            self._thread.join()


def compile_all(nodes: Sequence[dict[str, Any]]) -> None:
    """Compile the loops of methods that are not in the cache: the body of the task."""
    for node in nodes:
        method: Method = build(node, trust="composed")
        if not is_compiled(method):
            compile_loop(method)


def _run(process: WarmProcess, task: Task) -> None:
    """Run the task to its end, without its errors: using the method raises them again."""
    with suppress(Exception):
        process.run(task, {}, lambda report: None)
    process.close()
