"""Counts the CPU seconds that tokenizers of transformers take, to leave them out of a comparison."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass
class Tokenized:
    """The seconds since the last look."""

    seconds: float = 0.0

    def take(self) -> float:
        """Return the seconds and begin again from 0."""
        taken, self.seconds = self.seconds, 0.0
        return taken


@contextmanager
def tokenizing() -> Iterator[Tokenized]:
    """Count the seconds of all calls of tokenizers within."""
    from transformers import PreTrainedTokenizerBase

    original, spent = PreTrainedTokenizerBase.__call__, Tokenized()

    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.process_time()
        try:
            return original(*arguments, **named)
        finally:
            spent.seconds += time.process_time() - started

    with mock.patch.object(PreTrainedTokenizerBase, "__call__", timed):
        yield spent
