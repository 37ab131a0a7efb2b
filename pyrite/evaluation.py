"""Measures retrieval runs by judgements, from files or from memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pyrite.cluster.commands.evaluate import Evaluated
from pyrite.cluster.commands.evaluate import evaluate as evaluate_config
from pyrite.cluster.config.compose import compose
from pyrite.pooling.run_measures import MEASURES
from pyrite.pooling.runs import Runs, by_value
from pyrite.ranking.bounds import checked
from pyrite.ranking.collections.names import DOCUMENT_IDS, GRADES, QUERY_IDS, first
from pyrite.ranking.errors import BadInput, refuse
from pyrite.results import Shown
from pyrite.running import settings

Scores = Mapping[str, Mapping[str, float]]
"""Scores by document by topic, or grades."""
OTHER_NAMES = {"query": QUERY_IDS, "document": DOCUMENT_IDS, "score": ("score",), "grade": GRADES}
"""Names of the columns of a frame by ours."""


class EvaluationResult(Shown):
    """The measures of runs, which `print` and a notebook show as tables.

    >>> evaluate("runs", "qrels.txt").runs  # doctest: +SKIP

    Attributes:
        runs: run, topics and the mean of each measure.
        queries: run, topic, measure and value.
        tests: the differences from the baseline by run and measure, with intervals and p values; None without one.
        notes: counts of irregularities of the files, by description.
    """

    def __init__(self, evaluated: Evaluated) -> None:
        super().__init__(evaluated.report())
        self.runs, self.queries, self.tests = evaluated.measured.means(), evaluated.measured.values, evaluated.tests
        self.notes = {what: count for what, count in evaluated.measured.notes.items() if count}


@checked
def evaluate(
    runs: Any,
    qrels: Any,
    measures: str | Sequence[Any] = MEASURES,
    *,
    baseline: str | None = None,
    per_query: bool = False,
    judged_only: bool = False,
    complete: bool = True,
    relevant_from: int = 1,
    options: Mapping[str, object] | None = None,
) -> EvaluationResult:
    """Measure retrieval runs by judgements, as `pyrite evaluate` does.

    Args:
        runs: a file, folder or pattern of runs; a list of them; or, by name of the run, scores by document by topic
            (`{"bm25": {"301": {"FT911-3": 12.5}}}`) or a frame with columns query, document and score.
        qrels: a file of judgements; a list of them; grades by document by topic; or a frame with columns query,
            document and grade.
        measures: one or several measures of ir-measures or their names, and `judged@k`, the share of the first k
            documents that is judged.
        baseline: the run from which the others' differences are tested, paired by topic.
        per_query: whether `print` and notebooks also show the values of each topic.
        judged_only: whether documents that are not judged are left out of the runs.
        complete: whether a topic that a run lacks counts as 0.
        relevant_from: the lowest grade that counts as relevant.
        options: further options of the command (`pyrite options --for evaluate`), as `{"order": "rank"}`.

    Raises:
        BadInput: if an input or a measure can't be read.
    """
    in_memory = isinstance(runs, Mapping)
    read = _judgements(qrels) if isinstance(qrels, Mapping) or hasattr(qrels, "columns") else None
    several = [measures] if isinstance(measures, str) else measures
    texts = settings(
        runs="memory" if in_memory else _paths(runs), qrels="memory" if read is not None else _paths(qrels),
        measures=list(map(str, several)), baseline=baseline, per_query=per_query, judged_only=judged_only,
        complete=complete, relevant_from=relevant_from, options=options,
    )  # fmt: skip
    config = compose(texts, "evaluate")
    return EvaluationResult(evaluate_config(config, _runs(runs) if in_memory else None, read))


def _paths(paths: Any) -> Any:
    if isinstance(paths, str | os.PathLike):
        return os.fspath(paths)
    if not isinstance(paths, Sequence):
        raise BadInput(
            f"{type(paths).__name__} is no path", "runs, qrels", "give files, or a mapping by the runs' names"
        )
    return [os.fspath(path) for path in paths]


def _runs(runs: Mapping[str, Any]) -> Runs:
    """Return runs in memory, ordered by score and document, both descending."""
    refuse(not runs, "there are no runs", "runs", "name them: {'bm25': …}")
    names = sorted(map(str, runs), key=str.encode)
    tables = [_frame(runs[name], "score", f"the run {name!r}") for name in names]
    table = pl.concat(
        frame.with_columns(pl.col("score").cast(pl.Float32))
        .sort(["query", "score", "document"], descending=[False, True, True])
        .unique(["query", "document"], keep="first", maintain_order=True)
        .select(
            run=pl.lit(number, pl.UInt32), topic="query", document="document",
            place=pl.int_range(pl.len(), dtype=pl.UInt32).over("query"),
        )
        for number, frame in enumerate(tables)
    )  # fmt: skip
    refuse(table.is_empty(), "there are no lines in any of the runs", "runs")
    return Runs(names, names, sorted(table["topic"].unique(), key=by_value), table)


def _judgements(qrels: Any) -> pl.DataFrame:
    frame = _frame(qrels, "grade", "qrels").with_columns(pl.col("grade").cast(pl.Int32))
    refuse(frame.is_empty(), "there are no judgements", "qrels", "give grades by document by topic, or a frame")
    return frame.group_by("query", "document", maintain_order=True).agg(pl.col("grade").max())


def _frame(thing: Any, value: str, where: str) -> pl.DataFrame:
    """Return query, document and a value of a frame or of values by document by topic."""
    kinds = {"query": pl.String, "document": pl.String, value: pl.Float64}
    if isinstance(thing, Mapping):
        rows = [
            (str(topic), str(name), number) for topic, of_topic in thing.items() for name, number in of_topic.items()
        ]
        return _checked(pl.DataFrame(rows, schema=kinds, orient="row", strict=False), value, where)
    if not hasattr(thing, "columns"):
        raise BadInput(f"is a {type(thing).__name__}", where, f"give {value}s by document by topic, or a frame")
    frame = thing if isinstance(thing, pl.DataFrame) else pl.from_pandas(thing)
    found = {}
    for name, kind in kinds.items():
        column = first(OTHER_NAMES[name], frame.columns)
        if column is None:
            raise BadInput(f"has no column {name}", where, f"it has {', '.join(frame.columns)}")
        found[name] = pl.col(column).cast(kind)
    return _checked(frame.select(**found), value, where)


def _checked(frame: pl.DataFrame, value: str, where: str) -> pl.DataFrame:
    """Refuse values that are missing or no numbers."""
    wrong = frame.filter(pl.col(value).is_null() | pl.col(value).is_nan())
    if value == "grade" and wrong.is_empty():
        wrong = frame.filter(pl.col(value) != np.floor(frame[value].to_numpy()))
    if len(wrong):
        what = f"{value} of document {wrong['document'][0]!r} is {wrong[value][0]!r}"
        raise BadInput(what, where, f"give a {'whole ' if value == 'grade' else ''}number")
    return frame
