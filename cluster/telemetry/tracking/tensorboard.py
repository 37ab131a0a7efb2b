"""Writes TensorBoard's event files for every run."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

from pyrite.cluster.output.storage import Storage
from pyrite.cluster.telemetry.tracking.tracker import LocalCopy, Status, TrackedRun, Tracker

FOLDER = "tensorboard"
MAX_OPEN = 100
"""Runs whose files are open at once, since each needs three files and two threads."""


class TensorBoard(Tracker):
    """A folder `OUT/tensorboard/RUN` for each run; `tensorboard --logdir OUT/tensorboard` shows them.

    TensorBoard allows letters, digits, `_`, `-`, `.` and `/` in names: `bm25/AP@10` becomes `bm25/AP_10`.
    """

    def check(self) -> None:
        """Import tensorboardX without torch, which it would import for seconds to support tensors that are not used."""
        absent = "torch" not in sys.modules
        if absent:
            sys.modules["torch"] = None  # type: ignore[assignment]  # marks a module that can't be imported
        try:
            import tensorboardX  # noqa: F401
        finally:
            if absent:
                del sys.modules["torch"]

    def open(self, storage: Storage) -> None:
        self._folder = LocalCopy(storage, FOLDER)
        self._writers: dict[str, Any] = {}  # in the order of their last use
        self._last: dict[str, int] = {}
        self._files = 0

    def begin(self, run: TrackedRun) -> None:
        self._last[run.name] = 0
        self._folder.empty(run.name)
        shown = {**run.parameters, "overrides": run.overrides}
        text = "\n".join(f"    {key}: {value}" for key, value in shown.items() if value)
        self._writer(run.name).add_text("run", text)

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        self._last[name] = step
        writer = self._writer(name)
        for number, value in numbers.items():
            if math.isfinite(value):  # tensorboardX prints a line for each that is not
                writer.add_scalar(number, value, step)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        self.log(name, self._last.pop(name), numbers)
        writer = self._writer(name)
        writer.add_text("status", status)
        writer.close()
        del self._writers[name]
        self._folder.upload(name)

    def close(self) -> None:
        self._folder.close()

    def _writer(self, name: str) -> Any:
        """Return a run's writer. One that was closed continues in another file of the run's folder."""
        from tensorboardX import SummaryWriter

        writer = self._writers.pop(name, None)
        if writer is None:  # the number keeps a file of the same second from being overwritten
            self._files += 1
            writer = SummaryWriter(str(self._folder.path / name), filename_suffix=f".{self._files:06d}")
        while len(self._writers) >= MAX_OPEN:
            self._writers.pop(next(iter(self._writers))).close()
        self._writers[name] = writer
        return writer
