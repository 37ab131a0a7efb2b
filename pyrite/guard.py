"""Describes which candidates are left out because they are probably relevant."""

from __future__ import annotations

from typing import Any

from pyrite.parts import override
from ranking.errors import BadInput

OPTIONS = ("relative", "absolute", "ceiling", "ranker", "deepest", "positive")


class Guard:
    """Drops candidates that score too close to a relevant document.

    >>> Guard(relative=0.05).overrides()
    ['guard.relative=0.05']

    Args:
        options: options of `guard` by name: `relative`, `absolute`, `ceiling`, `ranker`, `deepest`, `positive`.

    Raises:
        BadInput: if the guard has no such option.
    """

    def __init__(self, **options: Any) -> None:
        for key in options:
            if key not in OPTIONS:
                raise BadInput(f"Guard has no option {key}", remedy=f"choose one of {', '.join(OPTIONS)}")
        self.options = options

    def overrides(self, at: str = "guard") -> list[str]:
        """Return the overrides that set the guard.

        Args:
            at: the key of the guard: `guard` in a mining, `sampling.guard` in a run.
        """
        return [text for key, value in self.options.items() for text in override(f"{at}.{key}", value)]

    def __repr__(self) -> str:
        return f"Guard({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"
