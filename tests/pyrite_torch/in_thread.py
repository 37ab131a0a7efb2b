"""Builds the versions of a negative index without another process."""

import os
import threading
from typing import Any

from pyrite.torch import beside


class InThread:
    """Replaces the process next to a trainer, and builds in a thread of this one: imports take seconds of each."""

    pid, returncode = -1, 0

    def __init__(self, command: list[str], **options: Any) -> None:
        assert command[1:] == ["-m", beside.__name__]
        read, write = os.pipe()
        self.stdin = os.fdopen(write, "wb")
        self.thread = threading.Thread(target=self._build, args=(os.fdopen(read, "rb"),), daemon=True)
        self.thread.start()

    def _build(self, source: Any) -> None:
        with source:
            beside.build_versions(source, lambda parent: None)

    def terminate(self) -> None:
        """It ends when its input does."""

    def wait(self) -> int:
        self.thread.join()
        return self.returncode
