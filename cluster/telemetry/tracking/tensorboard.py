"""Writes TensorBoard's event files for every run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from cluster.output.storage import Storage
from cluster.telemetry.tracking.folder import Folder
from cluster.telemetry.tracking.tracker import Run, Status, Tracker

FOLDER = "tensorboard"


class TensorBoard(Tracker):
    """A folder `OUT/tensorboard/RUN` for each run; `tensorboard --logdir OUT/tensorboard` shows them.

    TensorBoard knows letters, digits, `_`, `-`, `.` and `/` in names: `bm25/AP@10` is `bm25/AP_10` there.
    """

    spreads = True

    def check(self) -> None:
        _import_without_torch()

    def open(self, storage: Storage) -> None:
        self._folder = Folder(storage, FOLDER)
        self._writers: dict[str, Any] = {}
        self._last: dict[str, int] = {}

    def begin(self, run: Run) -> None:
        from tensorboardX import SummaryWriter

        self._last[run.name] = 0
        writer = self._writers[run.name] = SummaryWriter(str(self._folder.empty(run.name)))
        told = {**run.parameters, "overrides": run.overrides}
        writer.add_text("run", "\n".join(f"    {key}: {value}" for key, value in told.items() if value))

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        self._last[name] = step
        for number, value in numbers.items():
            self._writers[name].add_scalar(number, value, step)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        self.log(name, self._last.pop(name), numbers)
        writer = self._writers.pop(name)
        writer.add_text("status", status)
        writer.close()
        self._folder.hand_over(name)

    def close(self) -> None:
        self._folder.close()


def _import_without_torch() -> None:
    """Import tensorboardX, which would import torch for seconds if it could, for tensors that we never give it."""
    absent = "torch" not in sys.modules
    if absent:
        sys.modules["torch"] = None  # type: ignore[assignment]  # Python's own sign for what can't be imported
    try:
        import tensorboardX  # noqa: F401
    finally:
        if absent:
            del sys.modules["torch"]
