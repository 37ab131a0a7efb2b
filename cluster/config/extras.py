"""Finds the extra of the package that a missing module belongs to."""

from __future__ import annotations

from ranking.errors import BadInput

EXTRAS = {
    "tree": "rl", "cmaes": "rl", "lz4": "rl", "ormsgpack": "rl", "starlette": "judge", "uvicorn": "judge",
    "sentence_transformers": "transformers",
}  # fmt: skip
"""Extras of pyproject.toml by the modules that they install."""


def missing_extra(error: ModuleNotFoundError) -> BadInput | None:
    """Return what to install, in one line; None if the module belongs to no extra."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    return BadInput(f"{module} is not installed", remedy=f"pip install 'pyrite-ir[{EXTRAS[module]}]'")
