"""Says which extra of the package a command needs, where one of its modules is not installed."""

from __future__ import annotations

from ranking.errors import BadInput

EXTRAS = {"tree": "rl", "cmaes": "rl", "lz4": "rl", "ormsgpack": "rl", "starlette": "judge", "uvicorn": "judge"}
"""Extras of pyproject.toml by the modules that they bring and that commands begin with."""


def missing_extra(error: ModuleNotFoundError) -> BadInput | None:
    """What to install, in one line; None where the module belongs to no extra."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return BadInput(f"{module} is not installed", remedy=f"pip install 'pyrite[{EXTRAS[module]}]'")
