"""Reads the results of studies, trainings, learnings, minings and pooling studies."""

from __future__ import annotations

import io
import os
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import polars as pl
from polars.selectors import contains, numeric
from polars.selectors import float as float_numbers
from rich.console import Console
from rich.text import Text

from pyrite.analysis.reports.labels import distinct_names
from pyrite.analysis.reports.report import Report, TerminalLine
from pyrite.cluster.commands.first_folder import absolute, recorded_folder
from pyrite.cluster.config.compose import compose_recorded
from pyrite.cluster.config.trust import from_folder, typed_command
from pyrite.cluster.output.manifest import read_config
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import read_table
from pyrite.public import Public
from pyrite.ranking.errors import BadInput, refuse
from pyrite.running import run

if TYPE_CHECKING:
    from datasets import Dataset

    from pyrite.analysis.reports.report import Report, Section
    from pyrite.analysis.statistics.verdict import Conclusion

WIDTH = 80
"""Columns of a table that `print` shows."""


class Picture(bytes):
    """A picture in PNG format, which a notebook shows.

    >>> Picture(b"...")
    Picture(3 bytes)
    """

    def _repr_png_(self) -> bytes:
        return bytes(self)

    def __repr__(self) -> str:
        return f"Picture({len(self):,} bytes)"

    __str__ = __repr__

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file."""
        Path(path).write_bytes(self)


class Shown(Public):
    """Sections of a report, which `print` shows as the terminal does and a notebook as the page does.

    >>> from pyrite.analysis.reports.report import Report, Section
    >>> Shown(Report("", [Section("Methods", ["One."], ["One."])]))
    One.
    """

    def __init__(self, report: Report) -> None:
        self.report = report

    def _repr_html_(self) -> str:
        return "".join(section.to_html() for section in self.report.sections)

    def __repr__(self) -> str:
        text = io.StringIO()
        console = Console(file=text, width=WIDTH, no_color=True, highlight=False, emoji=False, force_jupyter=False)
        self.report.to_terminal(console)
        return text.getvalue().rstrip()


class Frame:
    """A property of a result: the table of its name.

    Args:
        rows: what each of its rows is.
    """

    def __init__(self, rows: str) -> None:
        self.__doc__ = rows

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, result: None, owner: type) -> Frame: ...
    @overload
    def __get__(self, result: Result, owner: type) -> pl.DataFrame: ...
    def __get__(self, result: Result | None, owner: type) -> Frame | pl.DataFrame:
        return self if result is None else result.frame(self.name)


class Result(Public):
    """A folder of results.

    >>> Result("outputs/study").folder
    'outputs/study'

    Args:
        folder: a path or URI.
        failed: number of runs that failed for good, if the experiment was just run.
    """

    _shown = ""
    """The property that `print` and a notebook show; the table of runs if there is none."""

    def __init__(self, folder: str | os.PathLike[str], failed: int = 0) -> None:
        self.storage, self.failed = Storage(os.fspath(folder)), failed

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
            BadInput: if there is no such table, or it is damaged.
        """
        table = read_table(self.storage, name)
        if table is None:
            ended = {"trials.parquet", "summary.csv"} & set(self.storage.entries())
            remedy = "docs/reference/results.md says which results have it" if ended else "name finished results"
            raise BadInput(f"there is no {name}.parquet", self.folder, remedy)
        return table

    def _csv(self, name: str, what: str | None = None, remedy: str | None = None) -> pl.DataFrame:
        """Return a table in CSV; if there is none, raise `BadInput` with the given message."""
        content = self.storage.read(f"{name}.csv")
        if content is None:
            raise BadInput(what or f"there is no {name}.csv", self.folder, remedy)
        return pl.read_csv(io.BytesIO(content))

    def _repr_html_(self) -> str | None:
        overview = self._overview_or_error()
        return None if isinstance(overview, BadInput) else overview._repr_html_()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r})\n{self._overview_or_error()}"

    def _overview_or_error(self) -> pl.DataFrame | Shown | BadInput:
        """Return the overview of finished results; of others, why there is none."""
        try:
            return self._overview()
        except BadInput as error:
            return error

    def _overview(self) -> pl.DataFrame | Shown:
        shown: pl.DataFrame = getattr(self, self._shown) if self._shown else self.frame("trials")
        return shown


LEADING = ("method", "ranker", "candidates", "measure", "runs", "mean", "std")
"""The first columns of a summary in Python."""
WITH_BEST = ("against", "difference", "p_both_holm")
WITH_BASELINE = ("baseline", "baseline_difference", "baseline_p_both_holm")
"""The columns after them: the comparison with the best baseline, or with the one that the user named."""


class ReportedResult(Result):
    """Result with a summary and a report.

    >>> ReportedResult("outputs/study").folder
    'outputs/study'
    """

    trials = Frame("One row per run (in a pooling study: per method and pool).")
    _shown = "summary"

    def plot(self, name: str | None = None) -> Picture:
        """Return a figure of the report.

        Args:
            name: its name in the folder `figures`. None takes the first one.

        Raises:
            BadInput: if there is no such figure.
        """
        names = sorted(file.removesuffix(".png") for file in self.storage.names("figures"))
        chosen = name or next(iter(names), "")
        refuse(chosen not in names, f"there is no figure {chosen!r}", self.folder, f"choose one of {', '.join(names)}")
        return Picture(self.storage.read(f"figures/{chosen}.png") or b"")

    @property
    def summary(self) -> pl.DataFrame:
        """The table that is shown on screen, in the first ten columns, and then the tests behind it and other figures.

        Raises:
            BadInput: if no run has finished.
        """
        table = self._csv("summary", "no run has finished", "see the column error of trials")
        compared = WITH_BASELINE if "baseline" in table.columns else WITH_BEST
        first = [name for name in (*LEADING, *compared) if name in table.columns]
        return table.select(*first, pl.exclude(first))

    @property
    def report(self) -> str:
        """The path of `report.html`."""
        return self.storage.path("report.html")


@dataclass(frozen=True)
class Trained:
    """A ranker that a study has trained.

    >>> Trained("ranker=static seed=1").weights is None
    True

    Args:
        overrides: the run's overrides, which train it again to the last bit.
        weights: the path of its weights, if the study kept them (`weights=true`).
    """

    overrides: str
    weights: str | None = None

    def save(self, path: str | os.PathLike[str]) -> str:
        """Save the ranker for `pyrite.rank`; trains it again if the study kept no weights.

        Args:
            path: the new file or folder. A file ends in `.safetensors`, which is appended if it is missing.

        Returns:
            What `pyrite.rank` takes.

        Raises:
            BadInput: if there is such a file or folder, of something else.
        """
        place = Path(path)
        if self.weights is None:
            overrides = [*shlex.split(self.overrides), "weights=true", f"out={place}"]
            with from_folder(), typed_command(["train", *overrides]):  # of a table, which may come from anywhere
                return run("train", overrides, None, None)[0]
        kept, suffix = Path(self.weights), ".safetensors"
        name = place.name.removesuffix(suffix)  # may have points in it, as model-0.5
        new = place.with_name(name if kept.is_dir() else f"{name}{suffix}")
        refuse(new.exists(), "already exists", new, "choose another path, or delete it")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kept.with_name(f"{kept.name.removesuffix(suffix)}.json"), place.with_name(f"{name}.json"))
        return str(shutil.copytree(kept, new) if kept.is_dir() else shutil.copy(kept, new))


@dataclass(frozen=True)
class Best:
    """The best run of a study.

    >>> best = Best({"run": "a", "overrides": "ranker=static seed=1"}, Trained("ranker=static seed=1"))
    >>> best.command
    'pyrite train ranker=static seed=1'

    Args:
        row: its row of `runs`: `run`, `overrides`, `seed`, `swept`, and all measures.
        ranker: its ranker.
    """

    row: dict[str, Any]
    ranker: Trained

    @property
    def config(self) -> dict[str, Any]:
        """The whole configuration of the run."""
        return compose_recorded(shlex.split(self.row["overrides"]))

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        return f"pyrite train {self.row['overrides']}"


class StudyResult(ReportedResult):
    """The results of a study: ways of choosing negatives, compared over seeds and hyperparameters.

    >>> StudyResult("outputs/study").folder
    'outputs/study'
    """

    queries = Frame("One row per run, candidate origin and test query.")
    samplers = Frame("One row per run and retrieval function: what it supplied, and the ranker's scores of it.")
    steps = Frame("One row per run and step, or window of steps: how hard the negatives were.")
    decisions = Frame("With `stop=decided`, one row per method and rival: what is decided.")
    spread = Frame(
        "One row per method and candidate origin: the spread of runs, how often they beat others, how many fail."
    )

    across = Frame(
        "One row per method and place, if there are several collections or rankers, and one row for all places."
    )

    power = Frame("One row per method and difference: the number of seeds that detects it.")
    importance = Frame("Of a search, one row per setting: how much it explains of the differences between runs.")
    best_settings = Frame("Of a search, one row per method: the settings that validated best, and what they reached.")

    @property
    def costs(self) -> pl.DataFrame:
        """One row per method, candidate origin and measure: seconds and memory, which no repetition repeats."""
        return self._csv("costs", "no run has finished", "see the column error of trials")

    @property
    def runs(self) -> pl.DataFrame:
        """One row per run: its overrides, its costs and all measures."""
        return self.trials

    @property
    def verdict(self) -> str:
        """The sentences at the end of the report: what to take, what it is better than, and what each method costs."""
        from pyrite.analysis.reports.verdict_words import depends, sentence  # imports SciPy's statistics

        conclusion, _ = self._conclusion
        sentences = [sentence(each, distinct_names(row["method"] for row in each.rows)) for each in conclusion.verdicts]
        return "\n".join([*sentences, *depends(conclusion)])

    def _finished(self) -> pl.DataFrame:
        done = self.trials.filter(status="done")
        refuse(done.is_empty(), "no run has finished", self.folder, "see the column error of runs")
        return done

    @property
    def _conclusion(self) -> tuple[Conclusion, Section]:
        from pyrite.analysis.reports.study_report import study_verdict
        from pyrite.cluster.reports.study_results import read_results

        self._finished()
        return study_verdict(read_results(self.storage))

    def _overview(self) -> pl.DataFrame | Shown:

        done = not self.trials.filter(status="done").is_empty()
        return Shown(Report("", [self._conclusion[1]])) if done else self.trials

    def compare(self, *folders: str | os.PathLike[str] | Result) -> Shown:
        """Compare with other studies, as `pyrite compare` does.

        Args:
            folders: their folders or results.

        Raises:
            BadInput: if they have no collection in common.
        """
        from pyrite.cluster.commands.compare import compare

        others = [each.storage if isinstance(each, Result) else Storage(os.fspath(each)) for each in folders]
        return Shown(compare([self.storage, *others]))

    @property
    def best(self) -> Best:
        """The best run by validation, which no test query influences."""
        return self.best_by(None)

    def best_by(self, column: str | None) -> Best:
        """Return the run with the highest value.

        Args:
            column: a column of `runs` such as `bm25:AP@100`; None takes the best of `curve_validation`.

        Raises:
            BadInput: if no run has finished, or there is no such column of numbers.
        """
        done = self._finished()
        if column is not None and column not in done.select(numeric()).columns:
            known = ", ".join(name for name in done.columns if ":" in name)
            raise BadInput(f"there is no column {column!r} of numbers", self.folder, f"choose one of {known}")
        value = pl.col("curve_validation").list.max() if column is None else pl.col(column)
        ordered = done.sort(value.fill_nan(None), descending=True, nulls_last=True, maintain_order=True)
        row = ordered.row(0, named=True)
        overrides = shlex.join(absolute(shlex.split(row["overrides"]), recorded_folder(self.config)))
        return Best(row | {"overrides": overrides}, Trained(overrides, self.files(row["run"]).get("weights")))

    def files(self, run: str) -> dict[str, str]:
        """Return the paths of a run's files: `result`, and `weights`, `state` and `tensorboard` if they exist.

        Args:
            run: the run's name in `trials`.
        """
        paths = {}
        folders = {"result": "runs", "weights": "weights", "state": "states", "tensorboard": "tensorboard"}
        for what, folder in folders.items():
            for name in self.storage.names(folder):
                if not name.endswith(".json") and (name == run or name.startswith((f"{run}.", f"{run}-"))):
                    paths[what] = self.storage.path(f"{folder}/{name}")
        return paths

    @classmethod
    def restore(
        cls, folder: str | os.PathLike[str], overrides: Iterable[str] = (), *, console: Console | None = None
    ) -> StudyResult:
        """Resume a study, as `pyrite study --resume` does. Finished runs are not repeated.

        Args:
            folder: the folder of the study.
            overrides: options that may change: `concurrent`, `time_budget`, `baseline` and others.
            console: the console for progress and tables; None shows nothing.
        """
        return cls(*run("study", overrides, folder, console))


class TrainingResult(Result):
    """The results of one trained ranker.

    >>> TrainingResult("outputs/train").folder
    'outputs/train'

    It is a path too: that of its folder, as the ranker of a guard.
    """

    def __fspath__(self) -> str:
        return self.storage.shown()

    @property
    def measures(self) -> dict[str, float]:
        """The mean of each measure over the test queries, by candidate origin: `bm25:AP@100`."""
        measured = self.frame("trials").select(contains(":") & float_numbers()).row(0, named=True)
        return {name: mean for name, mean in measured.items() if mean is not None}

    queries = Frame("One row per candidate origin and test query.")

    @property
    def diverged(self) -> bool:
        """Whether the training ended in a loss or score that is not a number. Measures are those of its best weights
        before; of the ranker before training if there are none (`best_epoch` 0 in `trials`)."""
        return bool(self.frame("trials")["diverged"][0])

    def _overview(self) -> pl.DataFrame:
        means = {name: value for name, value in self.measures.items() if name.count(":") == 1}  # of the ranker itself
        frame = pl.DataFrame({"measure": list(means), "mean": list(means.values())})
        return frame.with_columns(diverged=pl.lit(True)) if self.diverged else frame

    @property
    def weights(self) -> str:
        """The path of the best weights: a safetensors file, or a checkpoint's folder."""
        run = self.config["run"]
        file = f"{run}.safetensors"
        return self.storage.path(f"weights/{file if file in self.storage.names('weights') else run}")


class LearningResult(Result):
    """The results of an agent that learned a sampling policy.

    >>> LearningResult("outputs/learn").folder
    'outputs/learn'
    """

    episodes = Frame("One row per episode.")
    _shown = "episodes"

    @property
    def agent(self) -> str:
        """The folder to use as `policy.checkpoint=`."""
        return self.storage.shown()

    @property
    def comparison_command(self) -> str:
        """The command that compares the agent with chance over fresh seeds, in runs like those it learned on."""
        from pyrite.cluster.commands.learn import comparison_command

        overrides = list(map(str, self.config["overrides"]))
        return comparison_command(compose_recorded(overrides, "learn"), overrides, self.agent)


class MiningResult(Result):
    """A mined data set, which `datasets.load_dataset` and `collection=pairs` read.

    >>> MiningResult("outputs/mine").folder
    'outputs/mine'
    """

    _shown = "summary"

    @property
    def summary(self) -> pl.DataFrame:
        """One row per function: negatives, missing and guarded ones, ranks (median, 90%) and mean scores."""
        empty = pl.selectors.string().exclude("function")  # columns without a value
        return self._csv("summary").with_columns(empty.cast(pl.Float64))

    @property
    def rows(self) -> pl.DataFrame:
        """The texts of all rows, or what another trainer's format has of them."""
        return self._parts("data")

    @property
    def ids(self) -> pl.DataFrame:
        """Ids, ranks, scores and functions of the documents of each row, the positive first."""
        return self._parts("ids")

    guarded = Frame("One row per query and document that the guard dropped, with the reason.")

    def _parts(self, name: str) -> pl.DataFrame:
        contents = {part: self.storage.read(f"{name}/{part}") for part in self.storage.names(name)}
        tables = [_read_rows(part, content) for part, content in contents.items() if content]
        refuse(not tables, f"there is no {name}/", self.folder, "name the folder of a finished mining")
        return pl.concat(tables, how="vertical_relaxed")

    @property
    def dataset(self) -> Dataset:
        """The rows as a `datasets.Dataset`, which sentence-transformers trains on."""
        from datasets import Dataset

        return Dataset.from_polars(self.rows)

    def explain(self) -> pl.DataFrame:
        """Return the least, quartiles and highest of the negatives' ranks and scores, and of the positives' scores."""
        ids = self.ids.select("functions", "ranks", "scores").explode("functions", "ranks", "scores")
        ids = ids.with_columns(pl.col("ranks").replace(0, None))  # 0 is no rank: positives, random documents
        by_kind = ids.group_by(pl.col("functions").fill_null("positive").alias("of"), maintain_order=True)
        points = {"least": 0.0, "25%": 0.25, "median": 0.5, "75%": 0.75, "highest": 1.0}
        columns = [pl.len().alias("documents")]
        for name in ("ranks", "scores"):
            columns += [pl.col(name).fill_nan(None).quantile(at).alias(f"{name} {key}") for key, at in points.items()]
        return by_kind.agg(columns)


def _read_rows(name: str, content: bytes) -> pl.DataFrame:
    """Return the rows of a file: a table of parquet, or lines of JSON."""
    file = io.BytesIO(content)
    return pl.read_parquet(file) if name.endswith(".parquet") else pl.read_ndjson(file, infer_schema_length=None)


class AuditResult(Result):
    """A sample of the negatives of studies to judge, or what its judgements show.

    >>> AuditResult("outputs/audit").folder
    'outputs/audit'
    """

    sample = Frame("One row per negative, and whether it is drawn.")

    @property
    def run(self) -> str:
        """The TREC run with the drawn negatives, which `pyrite judge` takes."""
        return self.storage.path("runs/audit.run")

    @property
    def summary(self) -> pl.DataFrame:
        """One row per method and function: the share of relevant negatives, once they are judged."""
        return self._csv("rates", "nothing is judged yet", "give the judgements of the sample")

    def _overview(self) -> pl.DataFrame | Shown:
        return self.sample if self.storage.read("rates.csv") is None else self.summary


class PoolResult(ReportedResult):
    """The results of a pooling study: orders of judging, compared in simulation.

    >>> PoolResult("outputs/pool").folder
    'outputs/pool'
    """

    @property
    def verdict(self) -> str:
        """One sentence per pool, which method finds relevant documents first, and warnings."""
        lines = self._report.sections[0].terminal
        return "\n".join(
            Text.from_markup(line).plain if isinstance(line, TerminalLine) else str(line) for line in lines
        )

    @property
    def _report(self) -> Report:
        from pyrite.cluster.reports.pool_results import read_tables, report_of

        return report_of(self.storage, read_tables(self.storage))

    def _overview(self) -> pl.DataFrame | Shown:
        return Shown(self._report)

    budgets = Frame("One row per pool, method, seed, topic and budget: the number of relevant documents found.")
    curves = Frame("One row per pool, method, seed and topic: the whole curve of relevant documents found.")
