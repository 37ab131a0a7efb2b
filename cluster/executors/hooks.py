"""Calls hooks of the user's (Ray Tune's callbacks, stoppers and schedulers) so that an error of theirs ends no run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ray.tune import Callback

from pyrite.cluster.output.event_log import reason

_log = logging.getLogger(__name__)
HOOKS = ("setup", *(name for name in vars(Callback) if name.startswith("on_")))
"""Methods by which Ray Tune notifies a callback."""


class HookErrors:
    """Calls methods of hooks, and warns once per method that it raises."""

    def __init__(self, warn: Callable[[str], object] = _log.warning) -> None:
        self.warn = warn
        self._said = set[str]()

    def call(self, hook: Any, method: str, *arguments: Any, default: Any = None, **named: Any) -> Any:
        """Return what a method returns, or the default if it raises."""
        try:
            return getattr(hook, method)(*arguments, **named)
        except Exception as error:
            kind = type(hook)
            name = f"{kind.__module__}.{kind.__qualname__}.{method}"
            if name not in self._said:
                self._said.add(name)
                self.warn(f"{name} raises {type(error).__name__}: {reason(error)}; the runs continue without it")
            return default


class SafeCallback(Callback):
    """A user's callback, whose errors are reported. Ray Tune would take one for the loss of a trial."""

    def __init__(self, hook: Callback, errors: HookErrors) -> None:
        self.hook, self.errors = hook, errors

    def __getattribute__(self, name: str) -> Any:
        if name not in HOOKS:
            return super().__getattribute__(name)
        return lambda *arguments, **named: self.errors.call(self.hook, name, *arguments, **named)

    def __reduce__(self) -> tuple[type[Callback], tuple[()]]:
        return (Callback, ())  # Tune pickles it to restore an experiment; ours are planned again instead
