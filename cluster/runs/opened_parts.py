"""Opens the parts of runs where they run: from Ray's object store, or from the cache, once per process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.runs.artifacts import Artifacts


class OpenedParts:
    """The parts that runs of one process share.

    Args:
        stored: references to parts in the object store, by key; None without Ray.
        artifacts: opens or makes all other parts; None builds it where they are opened.
    """

    def __init__(self, stored: Mapping[str, Any] | None = None, artifacts: Artifacts | None = None) -> None:
        self.stored, self._artifacts = stored, artifacts
        self._opened: dict[str, Any] = {}

    @property
    def artifacts(self) -> Artifacts:
        """Opens or makes the parts that are not stored."""
        if self._artifacts is None:
            self._artifacts = Artifacts()
        return self._artifacts

    def of(self, config: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
        """Return the parts of a run by name.

        A part that is not stored, because a search drew one of its options, is opened or made here. A run with
        several workers gets references, which it hands on to them.

        Args:
            config: the run's configuration.
            keys: the key of each part, by name.
        """
        if self.stored is None:
            for name, key in keys.items():
                if key not in self._opened:
                    self._opened[key] = self.artifacts.part(config, name)
            return {name: self._opened[key] for name, key in keys.items()}
        import ray

        stored, alone = self.stored, config["resources"]["workers"] == 1
        return {
            name: (ray.get(stored[key]) if alone else stored[key])
            if key in stored
            else self.artifacts.part(config, name)
            for name, key in keys.items()
        }
