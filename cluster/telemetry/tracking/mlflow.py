"""Tracks runs with MLflow, in a store inside the output folder or on a server (the extra `track`)."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from cluster.output.storage import Storage
from cluster.telemetry.tracking.folder import Folder
from cluster.telemetry.tracking.tracker import Run, Status, Tracker
from ranking.digest import digest

FOLDER, STORE = "mlflow", "mlflow.db"
KEY = "pyrite.key"
"""Tag by which a run is found again: a digest of the output folder and the run's name."""
SERVERS = ("http://", "https://", "databricks")
_STATUS = {"done": "FINISHED", "failed": "FAILED", "interrupted": "KILLED", "stopped": "FINISHED"}


class MLflow(Tracker):
    """An experiment named like the output folder, and a run in it for each of ours.

    MLflow refuses `@` in names: `bm25/AP@10` is `bm25/AP_10` there.

    Args:
        uri: of a tracking server or a store; None: `OUT/mlflow/mlflow.db`, which needs neither.
    """

    package = "mlflow"

    def __init__(self, uri: str | None = None) -> None:
        self.uri = uri
        # A store in a file has one writer; all machines reach a server.
        self.spreads = uri is not None and uri.startswith(SERVERS)
        self._folder: Folder | None = None
        self._experiment: str | None = None
        self._runs: dict[str, str] = {}

    def open(self, storage: Storage) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        place = storage.path("").rstrip("/") if storage.local else storage.place
        self._place, uri = place, self.uri
        if uri is None:
            self._folder = Folder(storage, FOLDER)
            uri = f"sqlite:///{self._folder.fetch(STORE)}"
        self._client = MlflowClient(tracking_uri=uri)

    def begin(self, run: Run) -> None:
        from mlflow.entities import Param

        if self._experiment is None:
            self._experiment = self._named(PurePath(self._place).name)
        key = digest([self._place, run.name])
        for earlier in self._client.search_runs([self._experiment], filter_string=f"tags.`{KEY}` = '{key}'"):
            self._client.delete_run(earlier.info.run_id)
        tags = {KEY: key, "pyrite.overrides": run.overrides}
        begun = self._client.create_run(self._experiment, run_name=run.name, tags=tags)
        self._runs[run.name] = begun.info.run_id
        self._client.log_batch(begun.info.run_id, params=[Param(*pair) for pair in run.parameters.items()])

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        known = [Metric(re.sub(r"[^/\w.\- :]", "_", key), value, now, step) for key, value in numbers.items()]
        self._client.log_batch(self._runs[name], metrics=known)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        self.log(name, 0, numbers)
        self._client.set_terminated(self._runs.pop(name), _STATUS[status])

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()

    def _named(self, name: str) -> str:
        found: Any = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        # In the store inside the folder, artifacts would go to the working directory unless told otherwise.
        own = None if self._folder is None else (self._folder.path / "artifacts").as_uri()
        return str(self._client.create_experiment(name, artifact_location=own))
