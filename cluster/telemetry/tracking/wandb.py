"""Tracks runs with Weights & Biases, offline unless told otherwise (the extra `track`)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

from cluster.output.storage import Storage
from cluster.telemetry.tracking.folder import Folder
from cluster.telemetry.tracking.tracker import Run, Status, Tracker
from ranking.digest import digest

FOLDER = "wandb"
"""The library's own name for the folder that it writes."""


class WandB(Tracker):
    """A run of Weights & Biases for each of ours, grouped by the output folder.

    Offline it writes `OUT/wandb/offline-run-…`, which `wandb sync` sends later. Where OUT is a URI they are handed over
    when the command ends: the library writes its files until then.

    Args:
        project: that runs belong to.
        mode: offline, or online with an account (`wandb login`).
        entity: user or team; None: the account's own.
    """

    package = "wandb"
    spreads = True

    def __init__(
        self, project: str = "pyrite", mode: Literal["offline", "online"] = "offline", entity: str | None = None
    ) -> None:
        self.project, self.mode, self.entity = project, mode, entity

    def open(self, storage: Storage) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        self._place = storage.path("").rstrip("/") if storage.local else storage.place
        self._folder, self._runs, self._known = Folder(storage, FOLDER), dict[str, Any](), set[str]()
        self._folder.path.mkdir(parents=True, exist_ok=True)
        # Nothing of this machine, of this checkout or of this console is anyone's business.
        self._settings = wandb.Settings(
            silent=True, console="off", disable_git=True, disable_code=True, x_disable_meta=True, x_disable_stats=True
        )

    def begin(self, run: Run) -> None:
        import wandb

        known = digest([self._place, run.name])
        self._known.add(known)
        for earlier in self._folder.path.glob(f"offline-run-*{known}"):
            shutil.rmtree(earlier)
        self._runs[run.name] = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=self.mode,
            dir=self._folder.path.parent,
            id=known,
            name=run.name,
            group=PurePath(self._place).name,
            config={**run.parameters, "overrides": run.overrides},
            resume="allow" if self.mode == "online" else None,
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

        wandb.teardown()  # ends the process that the library has started, and that writes
        for written in self._folder.path.glob("offline-run-*-*"):
            known = written.name.rpartition("-")[2]
            if known in self._known:  # another process may have others
                # Without the time in its name, a run that begins again takes the place of what was handed over.
                written.rename(written.with_name(f"offline-run-{known}"))
        self._folder.close()
