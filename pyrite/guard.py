"""Describes which candidates are left out because they are probably relevant."""

from __future__ import annotations

from typing import Any

from pyrite.parts import Part


class Guard(Part):
    """Drops candidates that score too close to a relevant document.

    >>> Guard(relative=0.05).overrides()
    ['guard.relative=0.05']

    Args:
        options: options of `guard` by name: `relative`, `absolute`, `ceiling`, `ranker`, `deepest`, `positive`.

    Raises:
        BadInput: if the guard has no such option, or a value is outside its bounds.
    """

    group = "guard"

    @classmethod
    def node(cls) -> dict[str, Any]:
        options = dict.fromkeys(("relative", "absolute", "ceiling", "ranker", "deepest", "positive"))
        return {"_target_": "pyrite.sampling.guard.Guard", **options}

    def overrides(self, at: str | None = None) -> list[str]:
        """Return the overrides that set the guard.

        Args:
            at: the key of the guard: `guard` in a mining, `sampling.guard` in a run.
        """
        return self.settings(at or self.group)
