"""Reads the results of studies, trainings, learnings, minings and pooling studies."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterable
from typing import Any

import polars as pl
from rich.console import Console

from cluster.config.compose import compose
from cluster.output.manifest import read_config
from cluster.output.storage import Storage
from pyrite.running import run
from ranking.errors import BadInput


class Result:
    """A folder of results.

    Args:
        folder: a path or URI.
        failed: number of runs that failed for good, if the experiment was just run.
    """

    def __init__(self, folder: str, failed: int = 0) -> None:
        self.storage, self.failed = Storage(folder), failed

    @property
    def folder(self) -> str:
        """The path or URI of the folder."""
        return self.storage.place

    @property
    def config(self) -> dict[str, Any]:
        """The content of `config.yaml`: the command, its options, and where it ran.

        Raises:
            BadInput: if the folder has none.
        """
        return read_config(self.storage)

    def frame(self, name: str) -> pl.DataFrame:
        """Return a table, such as `trials` or `queries`; docs/reference/results.md lists the columns.

        Raises:
            BadInput: if there is no such table.
        """
        content = self.storage.read(f"{name}.parquet")
        if content is None:
            raise BadInput(f"there is no {name}.parquet", self.folder, "name a folder of results that are finished")
        return pl.read_parquet(io.BytesIO(content))

    def _repr_html_(self) -> str:
        """Shows the summary in a notebook."""
        return self._overview()._repr_html_()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r})\n{self._overview()}"

    def _overview(self) -> pl.DataFrame:
        return self.frame("trials")


class ReportedResult(Result):
    """Result with a summary and a report."""

    @property
    def trials(self) -> pl.DataFrame:
        """One row per run (in a pooling study: per method and pool)."""
        return self.frame("trials")

    @property
    def summary(self) -> pl.DataFrame:
        """The table that is shown on screen, and the significance tests behind it.

        Raises:
            BadInput: if no run has finished.
        """
        content = self.storage.read("summary.csv")
        if content is None:
            raise BadInput("there is no summary.csv", self.folder, "see the column error of trials")
        return pl.read_csv(io.BytesIO(content))

    @property
    def report(self) -> str:
        """The path of `report.html`."""
        return self.storage.path("report.html")

    def _overview(self) -> pl.DataFrame:
        return self.summary


class StudyResult(ReportedResult):
    """The results of a study: ways of choosing negatives, compared over seeds and hyperparameters."""

    @property
    def queries(self) -> pl.DataFrame:
        """One row per run, candidate origin and test query."""
        return self.frame("queries")

    @property
    def samplers(self) -> pl.DataFrame:
        """One row per run and retrieval function: what it supplied, and the ranker's scores of it."""
        return self.frame("samplers")

    @property
    def steps(self) -> pl.DataFrame:
        """One row per run and step, or window of steps: loss, gradient, hardness of negatives."""
        return self.frame("steps")

    @property
    def decisions(self) -> pl.DataFrame:
        """With `stop=decided`, one row per method and rival: what is decided."""
        return self.frame("decisions")

    @property
    def spread(self) -> pl.DataFrame:
        """One row per method and candidate origin: the spread of runs, how often they beat others, how many fail."""
        return self.frame("spread")

    @property
    def across(self) -> pl.DataFrame:
        """One row per method and place, if there are several collections or rankers, and one row for all places."""
        return self.frame("across")

    @property
    def power(self) -> pl.DataFrame:
        """One row per method and difference: the number of seeds that detects it."""
        return self.frame("power")

    @property
    def surface(self) -> pl.DataFrame:
        """Of a search, one row per setting, or pair of settings: how much it explains of the runs' results."""
        return self.frame("surface")

    @property
    def defaults(self) -> pl.DataFrame:
        """Of a search, one row per method: the rank of its defaults among the drawn settings."""
        return self.frame("defaults")

    def best(self, column: str | None = None) -> dict[str, Any]:
        """Return the row of `trials` with the highest value: `run`, `overrides`, `seed`, `swept`, and all measures.

        Args:
            column: a column such as `bm25:AP@100`; None takes the best of `curve_validation`, which no test query
                influences.

        Raises:
            BadInput: if no run has finished, or there is no such column.
        """
        done = self.trials.filter(status="done")
        if done.is_empty():
            raise BadInput("no run has finished", self.folder, "see the column error of trials")
        if column is not None and column not in done.columns:
            known = ", ".join(name for name in done.columns if ":" in name)
            raise BadInput(f"there is no column {column!r}", self.folder, f"choose one of {known}")
        value = pl.col("curve_validation").list.max() if column is None else pl.col(column)
        return done.sort(value.fill_nan(None), descending=True, nulls_last=True, maintain_order=True).row(0, named=True)

    @property
    def best_config(self) -> dict[str, Any]:
        """The whole configuration of the best run by validation: what `pyrite train` with its overrides takes."""
        return compose(shlex.split(self.best()["overrides"]))

    def files(self, run: str) -> dict[str, str]:
        """Return the paths of a run's files: `result`, and `weights`, `state` and `tensorboard` if they exist.

        Args:
            run: the run's name in `trials`.
        """
        paths = {}
        folders = {"result": "runs", "weights": "weights", "state": "states", "tensorboard": "tensorboard"}
        for what, folder in folders.items():
            for name in self.storage.names(folder):
                if name == run or name.startswith((f"{run}.", f"{run}-")):
                    paths[what] = self.storage.path(f"{folder}/{name}")
        return paths

    @classmethod
    def restore(cls, folder: str, overrides: Iterable[str] = (), *, console: Console | None = None) -> StudyResult:
        """Resume a study, as `pyrite study --resume` does. Finished runs are not repeated.

        Args:
            folder: the folder of the study.
            overrides: options that may change: `concurrent`, `time_budget`, `baseline` and others.
            console: the console for progress and tables; None shows nothing.
        """
        return cls(*run("study", overrides, folder, console))


class TrainingResult(Result):
    """The results of one trained ranker."""

    @property
    def measures(self) -> dict[str, float]:
        """The mean of each measure over the test queries, by candidate origin: `bm25:AP@100`."""
        row = self.frame("trials").row(0, named=True)
        return {key: value for key, value in row.items() if ":" in key and isinstance(value, float)}

    @property
    def queries(self) -> pl.DataFrame:
        """One row per candidate origin and test query."""
        return self.frame("queries")

    @property
    def weights(self) -> str:
        """The path of the best weights: a safetensors file, or a checkpoint's folder."""
        file = f"weights/{self.config['run']}"
        return self.storage.path(f"{file}.safetensors" if f"{self.config['run']}.safetensors" in
                                 self.storage.names("weights") else file)  # fmt: skip


class LearningResult(Result):
    """The results of an agent that learned a sampling policy."""

    @property
    def episodes(self) -> pl.DataFrame:
        """One row per episode."""
        return self.frame("episodes")

    @property
    def agent(self) -> str:
        """The folder to use as `policy.checkpoint=`."""
        return self.folder

    def _overview(self) -> pl.DataFrame:
        return self.episodes


class MiningResult(Result):
    """A mined data set, which `datasets.load_dataset` and `collection=pairs` read."""

    @property
    def summary(self) -> pl.DataFrame:
        """One row per function: negatives, missing and guarded ones, means of ranks and scores."""
        return pl.read_csv(io.BytesIO(self.storage.read("summary.csv") or b""))

    @property
    def rows(self) -> pl.DataFrame:
        """The texts of all rows, with the formats `parquet` and `dataset`."""
        return self._parts("data")

    @property
    def ids(self) -> pl.DataFrame:
        """Ids, ranks, scores and functions of the documents of each row, the positive first."""
        return self._parts("ids")

    @property
    def guarded(self) -> pl.DataFrame:
        """One row per query and document that the guard dropped, with the reason."""
        return self.frame("guarded")

    def _parts(self, name: str) -> pl.DataFrame:
        contents = (self.storage.read(f"{name}/{part}") or b"" for part in self.storage.names(name))
        return pl.concat([pl.read_parquet(io.BytesIO(content)) for content in contents])

    def _overview(self) -> pl.DataFrame:
        return self.summary


class PoolResult(ReportedResult):
    """The results of a pooling study: orders of judging, compared in simulation."""

    @property
    def budgets(self) -> pl.DataFrame:
        """One row per pool, method, seed, topic and budget: the number of relevant documents found."""
        return self.frame("budgets")

    @property
    def curves(self) -> pl.DataFrame:
        """One row per pool, method, seed and topic: the whole curve of relevant documents found."""
        return self.frame("curves")
