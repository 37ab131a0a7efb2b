"""Reads what studies, trainings, learnings, minings and pooling studies leave in a folder."""

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


class Results:
    """A folder of results.

    Args:
        folder: a path or URI.
        failed: how many of its runs have failed for good, where it was just run.
    """

    def __init__(self, folder: str, failed: int = 0) -> None:
        self.storage, self.failed = Storage(folder), failed

    @property
    def folder(self) -> str:
        """Where it lies."""
        return self.storage.place

    @property
    def config(self) -> dict[str, Any]:
        """Its `config.yaml`: the command, its options, and what it ran on.

        Raises:
            BadInput: where the folder holds none.
        """
        return read_config(self.storage)

    def frame(self, name: str) -> pl.DataFrame:
        """A table of it, as `trials` or `queries`; docs/reference/results.md has the columns.

        Raises:
            BadInput: where there is no such table.
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


class Reported(Results):
    """Results with a summary and a report."""

    @property
    def trials(self) -> pl.DataFrame:
        """A row a run (of a pooling study: a method and pool)."""
        return self.frame("trials")

    @property
    def summary(self) -> pl.DataFrame:
        """What the table on screen shows, and the tests of significance behind it.

        Raises:
            BadInput: where no run has come to its end.
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


class Study(Reported):
    """Ways of choosing negatives, compared over seeds and hyperparameters."""

    @property
    def queries(self) -> pl.DataFrame:
        """A row a run, candidate origin and test query."""
        return self.frame("queries")

    @property
    def samplers(self) -> pl.DataFrame:
        """A row a run and retrieval function: what it supplied, and how the ranker scored it."""
        return self.frame("samplers")

    @property
    def steps(self) -> pl.DataFrame:
        """A row a run and some steps: loss, gradient, hardness of negatives."""
        return self.frame("steps")

    @property
    def decisions(self) -> pl.DataFrame:
        """With `stop=decided`, a row a method and whom it is compared with: what is decided."""
        return self.frame("decisions")

    @property
    def spread(self) -> pl.DataFrame:
        """A row a method and candidate origin: how far runs spread, how often they beat others, how many are duds."""
        return self.frame("spread")

    @property
    def across(self) -> pl.DataFrame:
        """A row a method and place, where there are several collections or rankers, and one for all."""
        return self.frame("across")

    @property
    def power(self) -> pl.DataFrame:
        """A row a method and difference: the seeds with which it is seen."""
        return self.frame("power")

    @property
    def surface(self) -> pl.DataFrame:
        """Of a search, a row a setting, or two: how much of what runs reached it explains."""
        return self.frame("surface")

    @property
    def defaults(self) -> pl.DataFrame:
        """Of a search, a row a method: the rank of its defaults among what was drawn."""
        return self.frame("defaults")

    def best(self, column: str | None = None) -> dict[str, Any]:
        """The row of `trials` with the highest value: `run`, `overrides`, `seed`, `swept`, and all measures.

        Args:
            column: as `bm25:AP@100`; None: the best of `curve_validation`, which no test query has seen.

        Raises:
            BadInput: where no run has come to its end, or there is no such column.
        """
        done = self.trials.filter(status="done")
        if done.is_empty():
            raise BadInput("no run has come to its end", self.folder, "see the column error of trials")
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
        """Paths of what a run has left: `result`, and `weights`, `state` and `tensorboard` where there are any.

        Args:
            run: its name in `trials`.
        """
        found = {}
        folders = {"result": "runs", "weights": "weights", "state": "states", "tensorboard": "tensorboard"}
        for what, folder in folders.items():
            for name in self.storage.names(folder):
                if name == run or name.startswith((f"{run}.", f"{run}-")):
                    found[what] = self.storage.path(f"{folder}/{name}")
        return found

    @classmethod
    def restore(cls, folder: str, overrides: Iterable[str] = (), *, console: Console | None = None) -> Study:
        """Go on with a study, as `pyrite study --resume` does; what has its result is not run again.

        Args:
            folder: of the study.
            overrides: options that may change: `concurrent`, `time_budget`, `baseline` and others.
            console: where progress and table are shown; None shows nothing.
        """
        return cls(*run("study", overrides, folder, console))


class Training(Results):
    """One trained ranker."""

    @property
    def measures(self) -> dict[str, float]:
        """Each measure's mean over the test queries, by candidate origin: `bm25:AP@100`."""
        row = self.frame("trials").row(0, named=True)
        return {key: value for key, value in row.items() if ":" in key and isinstance(value, float)}

    @property
    def queries(self) -> pl.DataFrame:
        """A row a candidate origin and test query."""
        return self.frame("queries")

    @property
    def weights(self) -> str:
        """The path of the best weights: a safetensors file, or a checkpoint's folder."""
        file = f"weights/{self.config['run']}"
        return self.storage.path(f"{file}.safetensors" if f"{self.config['run']}.safetensors" in
                                 self.storage.names("weights") else file)  # fmt: skip


class Learning(Results):
    """An agent that learned a sampling policy."""

    @property
    def episodes(self) -> pl.DataFrame:
        """A row an episode."""
        return self.frame("episodes")

    @property
    def agent(self) -> str:
        """The folder to give as `policy.checkpoint=`."""
        return self.folder

    def _overview(self) -> pl.DataFrame:
        return self.episodes


class Mining(Results):
    """A mined data set, which `datasets.load_dataset` and `collection=pairs` read."""

    @property
    def summary(self) -> pl.DataFrame:
        """A row a function: negatives, those missing and guarded away, means of ranks and scores."""
        return pl.read_csv(io.BytesIO(self.storage.read("summary.csv") or b""))

    @property
    def rows(self) -> pl.DataFrame:
        """The texts of all rows, of formats `parquet` and `dataset`."""
        return self._parts("data")

    @property
    def ids(self) -> pl.DataFrame:
        """Ids, ranks, scores and functions of the documents of each row, the positive first."""
        return self._parts("ids")

    @property
    def guarded(self) -> pl.DataFrame:
        """A row a query and document that the guard dropped, and why."""
        return self.frame("guarded")

    def _parts(self, name: str) -> pl.DataFrame:
        found = (self.storage.read(f"{name}/{part}") or b"" for part in self.storage.names(name))
        return pl.concat([pl.read_parquet(io.BytesIO(content)) for content in found])

    def _overview(self) -> pl.DataFrame:
        return self.summary


class PoolStudy(Reported):
    """Orders of judging, compared in simulation."""

    @property
    def budgets(self) -> pl.DataFrame:
        """A row a pool, method, seed, topic and budget: how many relevant documents were found."""
        return self.frame("budgets")

    @property
    def curves(self) -> pl.DataFrame:
        """A row a pool, method, seed and topic: the whole curve of relevant documents found."""
        return self.frame("curves")
