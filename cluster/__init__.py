"""Runs everything on Ray: command line, studies, index actors, jobs. No other package imports it."""

import gc
import os
from typing import Any

# Ray reads these when it is imported, so they stand here, before anything of ours can import it. A local
# cluster asks for a token and a client does not send one unless both are told to. A job is told by its cluster: one
# that asks for no token says nothing.
if "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:
    os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's coming default; unset, it warns


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


if 0 < gc.get_threshold()[0] < 10_000:  # else somebody has seen to it
    _spare_imports()
