"""Measures retrieval runs by judgements, from files or from memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ir_measures
import polars as pl

from pyrite.cluster.commands.evaluate import Evaluated
from pyrite.cluster.commands.evaluate import evaluate as evaluate_config
from pyrite.cluster.config.compose import compose
from pyrite.parts import of_kind, path_text
from pyrite.pooling.run_measures import MEASURES
from pyrite.ranking.bounds import checked
from pyrite.ranking.collections.names import DOCUMENT_IDS, GRADES, QUERY_IDS, first, repeated
from pyrite.ranking.errors import BadInput, refuse
from pyrite.results import Shown
from pyrite.running import settings

Scores = Mapping[str, Mapping[str, float]]
"""Scores by document by topic, or grades."""
OTHER_NAMES = {"query": QUERY_IDS, "document": DOCUMENT_IDS, "score": ("score",), "grade": GRADES}
"""Names of the columns of a frame by ours."""
FORMS = {
    "score": "scores by document by topic by the run's name, as {'bm25': {'301': {'FT911-3': 12.5}}}, or a frame by "
    "the run's name",
    "grade": "grades by document by topic, as {'301': {'FT911-3': 1}}, or a frame",
}
"""How runs and judgements are given in memory, by their value."""
VALUES = {
    "score": (pl.col("score").is_not_nan(), "a number"),
    "grade": (
        (pl.col("grade").floor() == pl.col("grade")) & (pl.col("grade").abs() < 2**31), "a whole number of 32 bits"
    ),
}  # fmt: skip
"""The condition of a value, and what it is."""


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
    measures: str | ir_measures.Measure | Sequence[Any] = MEASURES,
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
        options: further options of the command (`pyrite options --for evaluate`), as `{"order": "rank"}`. `out` is a
            file of the values by topic.

    Raises:
        BadInput: if an input or a measure can't be read.
    """
    several = [measures] if isinstance(measures, str | ir_measures.Measure) else measures
    several = of_kind(several, Iterable, "measures", "give one or several measures, as ['AP', 'nDCG@10']")
    of_runs = _runs(runs) if isinstance(runs, Mapping) else None
    judged = _judgements(qrels) if isinstance(qrels, Mapping) or hasattr(qrels, "columns") else None
    texts = settings(
        runs=_paths(runs, "runs", FORMS["score"]) if of_runs is None else "memory",
        qrels=_paths(qrels, "qrels", FORMS["grade"]) if judged is None else "memory",
        measures=list(map(str, several)), baseline=baseline, per_query=per_query, judged_only=judged_only,
        complete=complete, relevant_from=relevant_from, options=options,
    )  # fmt: skip
    return EvaluationResult(evaluate_config(compose(texts, "evaluate"), of_runs, judged))


def _paths(paths: Any, where: str, form: str) -> str | list[str]:
    """Return one or several paths as texts."""
    remedy = f"give files, {form}"
    if isinstance(paths, str | os.PathLike):
        return path_text(paths, where, remedy)
    return [path_text(path, where, remedy) for path in of_kind(paths, Sequence, where, remedy, "{} is no path")]


def _runs(runs: Mapping[Any, Any]) -> dict[str, pl.DataFrame]:
    """Return query, document and score of runs in memory by name."""
    names = list(map(str, runs))
    refuse(not names, "there are no runs", "runs", "name them: {'bm25': …}")
    refuse(repeated(names), "two runs are called {}", "runs", "rename one of them")
    return {name: _frame(run, "score", f"the run {name!r}") for name, run in zip(names, runs.values(), strict=True)}


def _judgements(qrels: Any) -> pl.DataFrame:
    """Return query, document, grade and line of judgements in memory."""
    frame = _frame(qrels, "grade", "qrels")
    refuse(frame.is_empty(), "there are no judgements", "qrels", f"give {FORMS['grade']}")
    return frame.with_columns(pl.col("grade").cast(pl.Int32), line=pl.int_range(1, pl.len() + 1))


def _frame(thing: Any, value: str, where: str) -> pl.DataFrame:
    """Return query, document and a value of a frame or of values by document by topic."""
    try:
        columns = _of_mapping(thing, value, where) if isinstance(thing, Mapping) else _of_frame(thing, value, where)
        kinds = {"query": pl.String, "document": pl.String, value: pl.Float64}
        frame = pl.DataFrame([pl.Series(name, columns[name], kind, strict=False) for name, kind in kinds.items()])
        good = frame.select(VALUES[value][0]).to_series().fill_null(False)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:  # lists as values, texts between numbers
        raise BadInput(f"can't be read ({str(error)[:200]})", where, f"give {FORMS[value]}") from None
    if not good.all():
        row = int(good.arg_min() or 0)
        what = f"{value} of document {frame['document'][row]!r} is {columns[value][row]!r}"
        raise BadInput(what, where, f"give {VALUES[value][1]}")
    for name in ("query", "document"):
        nameless = frame.filter(pl.col(name).fill_null("").str.strip_chars() == "")
        refuse(len(nameless), f"a {name} has no id ({len(nameless):,} rows)", where, "give each one an id")
    return frame


def _of_mapping(thing: Mapping[Any, Any], value: str, where: str) -> dict[str, list[Any]]:
    """Return the columns of values by document by topic."""
    flat = [f"{value}s of topic {topic!r} are of type {type(of_topic).__name__}"
            for topic, of_topic in thing.items() if not isinstance(of_topic, Mapping)]  # fmt: skip
    refuse(flat, "{}", where, f"give {FORMS[value]}")
    rows = [(str(topic), str(name), number) for topic, of_topic in thing.items() for name, number in of_topic.items()]
    return {name: [row[place] for row in rows] for place, name in enumerate(("query", "document", value))}


def _of_frame(thing: Any, value: str, where: str) -> dict[str, pl.Series]:
    """Return the columns of a frame of polars or pandas."""
    refuse(not hasattr(thing, "columns"), f"is a {type(thing).__name__}", where, f"give {FORMS[value]}")
    frame = thing if isinstance(thing, pl.DataFrame) else pl.from_pandas(thing)
    columns = {name: first(OTHER_NAMES[name], frame.columns) for name in ("query", "document", value)}
    missing = [name for name, column in columns.items() if column is None]
    refuse(missing, "has no column {}", where, f"it has {', '.join(frame.columns)}")
    return {name: frame[str(column)] for name, column in columns.items()}
