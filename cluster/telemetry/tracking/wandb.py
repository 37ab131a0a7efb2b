"""Tracks runs with Weights & Biases, offline by default (the extra `track`)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

from pyrite.cluster.output.storage import Storage
from pyrite.cluster.telemetry.tracking.tracker import LocalCopy, Status, TrackedRun, Tracker
from pyrite.ranking.digest import digest

FOLDER = "wandb"
"""Name of the folder that the library writes."""


class WandB(Tracker):
    """A run of Weights & Biases for each run, in a group with the name of the output folder.

    Offline it writes `OUT/wandb/offline-run-…`, which `wandb sync` uploads later. If OUT is a URI, these folders are
    uploaded there when the command ends, since the library writes its files until then.

    Args:
        project: project of the runs; None takes WANDB_PROJECT, or `pyrite`.
        mode: `offline`, or `online` with an account (`wandb login` or WANDB_API_KEY); None takes WANDB_MODE, or
            `offline`.
        entity: user or team; None takes WANDB_ENTITY, or the account's default.
    """

    package = "wandb"

    def __init__(
        self,
        project: str | None = None,
        mode: Literal["offline", "online"] | None = None,
        entity: str | None = None,
    ) -> None:
        self.project, self.mode, self.entity = project, mode, entity

    def open(self, storage: Storage) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb
        except SystemError:  # Python 3.11, if another thread parses code meanwhile ("AST constructor recursion depth")
            for name in [name for name in sys.modules if name.split(".")[0] == "wandb"]:
                del sys.modules[name]
            import wandb

        self._place = storage.path("").rstrip("/") if storage.local else storage.place
        self._folder, self._runs, self._ids = LocalCopy(storage, FOLDER), dict[str, Any](), set[str]()
        self._folder.path.mkdir(parents=True, exist_ok=True)
        # Information about this machine, its code and its console is not uploaded.
        self._settings = wandb.Settings(
            silent=True, console="off", disable_git=True, disable_code=True, x_disable_meta=True, x_disable_stats=True
        )

    def begin(self, run: TrackedRun) -> None:
        import wandb

        mode: Any = self.mode or os.environ.get("WANDB_MODE") or "offline"
        run_id = digest([self._place, run.name])
        self._ids.add(run_id)
        for earlier in self._folder.path.glob(f"offline-run-*{run_id}"):
            shutil.rmtree(earlier)
        self._runs[run.name] = wandb.init(
            project=self.project or os.environ.get("WANDB_PROJECT") or "pyrite",
            entity=self.entity,
            mode=mode,
            dir=self._folder.path.parent,
            id=run_id,
            name=run.name,
            group=PurePath(self._place).name,
            config={**run.parameters, "overrides": run.overrides},
            resume="allow" if mode == "online" else None,
            reinit="create_new",
            settings=self._settings,
        )

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        self._runs[name].log(dict(numbers), step=step)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        run = self._runs.pop(name)
        run.summary.update({**numbers, "status": status})
        run.finish(exit_code=0 if status in ("done", "stopped") else 1)

    def close(self) -> None:
        import wandb

        wandb.teardown()  # ends the library's process, which writes the files
        for written in self._folder.path.glob("offline-run-*-*"):
            run_id = written.name.rpartition("-")[2]
            if run_id in self._ids:  # another process may have other runs
                # Without the time in its name, a run that starts again replaces its earlier upload.
                written.rename(written.with_name(f"offline-run-{run_id}"))
        self._folder.close()
