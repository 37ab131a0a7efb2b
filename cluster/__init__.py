"""Runs everything on Ray: command line, studies, index actors, jobs. No other package imports it."""

import gc
from typing import Any

if __name__ == "cluster":  # imported from the folder of a checkout, as a second copy of it
    raise ImportError("cluster is pyrite.cluster since version 0.3", name="cluster")


def _spare_imports() -> None:
    """Look for cyclic garbage among the newest objects alone until there are a million.

    Half a million objects come with torch, Ray and the rest, and all of them stay: going over them again and again is a
    sixth of the time that a command or a worker of Ray takes to start. From then on all is as Python has it.
    """
    usual = gc.get_threshold()

    def end(phase: str, info: dict[str, Any]) -> None:
        # It stays among the callbacks and does nothing more: to remove it now would skip another.
        if info["generation"] and gc.get_threshold() == sparing:
            gc.set_threshold(*usual)

    sparing = (10_000, 100, *usual[2:])
    gc.set_threshold(*sparing)
    gc.callbacks.append(end)


if 0 < gc.get_threshold()[0] < 10_000:  # otherwise it has been changed already
    _spare_imports()
