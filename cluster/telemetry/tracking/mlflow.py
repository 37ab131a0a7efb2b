"""Tracks runs with MLflow, on a server or in a store inside the output folder (the extra `track`)."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from pyrite.cluster.lazy import mlflow
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.telemetry.tracking.tracker import LocalCopy, Status, TrackedRun, Tracker
from pyrite.ranking.digest import digest

FOLDER, STORE = "mlflow", "mlflow.db"
KEY = "pyrite.key"
"""Tag that identifies a run: a digest of the output folder and the run's name."""
_STATUS = {"done": "FINISHED", "failed": "FAILED", "interrupted": "KILLED", "stopped": "FINISHED"}


class MLflow(Tracker):
    """An MLflow experiment with the name of the output folder, and in it one run for each run.

    MLflow does not allow `@` in names: `bm25/AP@10` becomes `bm25/AP_10`. MLflow's variables count, such as
    MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and MLFLOW_TRACKING_TOKEN.

    Args:
        uri: URI of a tracking server or a store; None takes MLFLOW_TRACKING_URI, or `OUT/mlflow/mlflow.db` if it is
            not set.
    """

    package = "mlflow"

    def __init__(self, uri: str | None = None) -> None:
        self.uri = uri
        self._folder: LocalCopy | None = None
        self._experiment: str | None = None
        self._runs: dict[str, str] = {}

    def open(self, storage: Storage) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._place = storage.path("").rstrip("/") if storage.local else storage.place
        uri = self.uri or os.environ.get("MLFLOW_TRACKING_URI")
        if not uri:
            self._folder = LocalCopy(storage, FOLDER)
            uri = f"sqlite:///{self._folder.fetch(STORE)}"
        self._client = mlflow.MlflowClient(tracking_uri=uri)

    def begin(self, run: TrackedRun) -> None:

        if self._experiment is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PurePath(self._place).name
            self._experiment = self._experiment_id(name)
        key = digest([self._place, run.name])
        for earlier in self._client.search_runs([self._experiment], filter_string=f"tags.`{KEY}` = '{key}'"):
            self._client.delete_run(earlier.info.run_id)
        tags = {KEY: key, "pyrite.overrides": run.overrides}
        started = self._client.create_run(self._experiment, run_name=run.name, tags=tags)
        self._runs[run.name] = started.info.run_id
        self._client.log_batch(
            started.info.run_id, params=[mlflow.entities.Param(*pair) for pair in run.parameters.items()]
        )

    def log(self, name: str, step: int, numbers: Mapping[str, float]) -> None:

        now = int(time.time() * 1000)
        metrics = [
            mlflow.entities.Metric(re.sub(r"[^/\w.\- :]", "_", key), value, now, step) for key, value in numbers.items()
        ]
        self._client.log_batch(self._runs[name], metrics=metrics)

    def end(self, name: str, status: Status, numbers: Mapping[str, float]) -> None:
        self.log(name, 0, numbers)
        self._client.set_terminated(self._runs.pop(name), _STATUS[status])

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()

    def _experiment_id(self, name: str) -> str:
        experiment: Any = self._client.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        # The store in the output folder would otherwise put artifacts into the current folder.
        artifacts = None if self._folder is None else (self._folder.path / "artifacts").as_uri()
        return str(self._client.create_experiment(name, artifact_location=artifacts))
