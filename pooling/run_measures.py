"""Measures retrieval runs by judgements, topic by topic, whatever made them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import ir_measures
import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.pooling.pool import check_unicode
from pyrite.pooling.runs import Runs, by_value
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.evaluation.measures import RBP, UNJUDGED, Evaluator, UnknownMeasure, parse

Values = NDArray[np.float64]
MEASURES = ("AP", "nDCG@10", "RR@10", "P@10", "R@1000", "judged@10")
JUDGED = re.compile(r"judged@([1-9]\d*)", re.IGNORECASE)
CONDENSED = re.compile(r"judged_only=(True|true),?\s*|,?\s*judged_only=(True|true)")
RESIDUAL = " residual"
"""Follows the name of a rank-biased precision: its growth if all unjudged documents were relevant."""
SUBTOPICS = frozenset({"ERR_IA", "nERR_IA", "alpha_DCG", "alpha_nDCG", "NRBP", "nNRBP", "AP_IA", "P_IA", "StRecall"})
"""Measures of ir-measures that read the subtopics of judgements."""
OF_ALL_GRADES = frozenset({"nDCG", "ERR", "Judged", "NumQ"})
"""Measures of ir-measures for which no grade is the lowest relevant one: they count gains, or judgements."""
SCHEMA = {"run": pl.String, "topic": pl.String, "measure": pl.String, "value": pl.Float64}


@dataclass(frozen=True)
class RunMeasures:
    """The measures of runs.

    Args:
        names: the names of the runs.
        measures: the names of the measures, with a residual after each rank-biased precision.
        values: run, topic, measure and value, one row per measure of a run and a topic.
        notes: counts of irregularities, by description.
    """

    names: list[str]
    measures: list[str]
    values: pl.DataFrame
    notes: dict[str, int]

    def of(self, run: str, measure: str) -> pl.DataFrame:
        """Return topic and value of a run."""
        return self.values.filter(run=run, measure=measure).select("topic", "value")

    def means(self) -> pl.DataFrame:
        """Return run, topics (their number) and a column per measure with its mean over topics.

        A run without topics has 0 of them, and no means.
        """
        grouped = self.values.group_by("run", "measure", maintain_order=True)
        means = grouped.agg(value=pl.col("value").mean(), topics=pl.len())
        wide = means.pivot("measure", index=["run", "topics"], values="value", maintain_order=True)
        every = pl.DataFrame({"run": self.names}).join(wide, on="run", how="left", maintain_order="left")
        return every.select("run", pl.col("topics").fill_null(0), *self.measures)


@dataclass(frozen=True)
class _Ranking:
    """A run as a matrix: the grades [topics, depth] in ranked order, and the number of documents of each topic."""

    grades: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def condensed(self) -> _Ranking:
        """Return it without documents that are not judged."""
        judged = self.present & ~self.unjudged
        order = np.argsort(~judged, axis=1, kind="stable")
        lengths = judged.sum(1)
        grades = np.take_along_axis(self.grades, order, 1)[:, : max(1, int(lengths.max(initial=0)))]
        return _Ranking(np.where(np.arange(grades.shape[1]) < lengths[:, None], grades, 0), lengths)

    @property
    def present(self) -> NDArray[np.bool_]:
        return np.arange(self.grades.shape[1]) < self.lengths[:, None]

    @property
    def unjudged(self) -> NDArray[np.bool_]:
        return (self.grades < 0) & self.present  # as for trec_eval: pooled documents that nobody judged have -1 or -2


def measure_runs(
    runs: Runs,
    qrels: pl.DataFrame,
    measures: Sequence[str] = MEASURES,
    *,
    relevant_from: int = 1,
    judged_only: bool = False,
    complete: bool = True,
) -> RunMeasures:
    """Measure runs by judgements.

    Args:
        runs: the runs, in order.
        qrels: query, document and grade, each document once per query.
        measures: names of ir-measures, of those computed here or any that a provider of ir-measures computes, and
            `judged@k`, the share of the first k documents that is judged.
        relevant_from: the lowest grade that counts as relevant if a measure's name does not specify it.
        judged_only: whether documents that are not judged are left out of the runs (condensed lists, Sakai 2007).
        complete: whether a topic that a run lacks counts as 0. Otherwise a run's means are over the topics that it has.

    Raises:
        BadInput: if a measure is unknown, runs and judgements have no topic in common, or a document's id has another
            Unicode form in the judgements.
    """
    judged = qrels.group_by("query", maintain_order=True).agg("grade")
    topics = sorted(judged["query"], key=by_value)
    common = set(topics) & set(runs.topics)
    if not common:
        what = f"the runs have {runs.topics[0]!r}, the judgements {topics[0]!r}"
        raise BadInput(
            f"runs and judgements have no topic in common ({what})", remedy="are they of one test collection?"
        )
    by_topic = dict(judged.iter_rows())
    counts = [np.asarray(by_topic[topic], np.int64) for topic in topics]
    plan = _Plan(measures, counts, relevant_from, judged_only)
    places = pl.DataFrame({"topic": topics, "row": np.arange(len(topics), dtype=np.int32)})
    known = qrels.rename({"query": "topic"})
    joined = runs.table.join(places, on="topic", maintain_order="left").join(
        known, on=["topic", "document"], how="left", maintain_order="left"
    )
    check_unicode(joined, known)
    graded = joined.select("run", "row", "place", "topic", "document", grade=pl.col("grade").fill_null(UNJUDGED))
    frames, missing = [pl.DataFrame(schema=SCHEMA)], 0
    for number, name in enumerate(runs.names):
        lines = graded.filter(run=number)
        has = np.isin(np.arange(len(topics)), lines["row"].unique().to_numpy())
        missing += int((~has).sum())
        values = plan.values(_matrix(lines, len(topics))) | plan.elsewhere(lines, qrels)
        kept = np.ones(len(topics), bool) if complete else has
        frames += [
            pl.DataFrame({"run": name, "topic": topics, "measure": measure, "value": values[measure]}).filter(
                pl.Series(kept)
            )
            for measure in plan.names
        ]
    unjudged = graded.filter(pl.col("place") < 10, pl.col("grade") < 0)
    judged_runs = graded.filter(pl.col("grade") >= 0)["run"].n_unique()
    counted = "count as 0" if complete else "are left out of its means"
    notes = {
        f"topics that a run lacks, which {counted}": missing,
        "topics of the runs without judgements, which are left out": len(set(runs.topics) - common),
        "unjudged documents among the first 10 of a topic": len(unjudged),
        "runs none of whose documents is judged (are the ids those of the judgements?)": len(runs.names) - judged_runs,
        "topics without a relevant document, which count as 0": sum(
            int(grades.max()) < relevant_from for grades in counts
        ),
    }
    return RunMeasures(runs.names, plan.names, pl.concat(frames), runs.notes | notes)


def _matrix(lines: pl.DataFrame, topics: int) -> _Ranking:
    """Return the grades of a run's lines (row, place, grade), in order of place within each row."""
    rows, places = lines["row"].to_numpy(), lines["place"].to_numpy().astype(np.int64)
    lengths = np.bincount(rows, minlength=topics)
    grades = np.zeros((topics, max(1, int(places.max(initial=0)) + 1)), np.int64)
    grades[rows, places] = lines["grade"].to_numpy()
    return _Ranking(grades, lengths)


class _Plan:
    """The measures of an evaluation, each with the way in which it is computed."""

    def __init__(
        self, names: Sequence[str], judged: list[NDArray[np.int64]], relevant_from: int, condensed: bool
    ) -> None:
        self.names: list[str] = []
        self.counted: dict[str, int] = {}
        self.provided: dict[str, ir_measures.Measure] = {}
        self.residuals: dict[str, RBP] = {}
        self.condensed = condensed
        spelled: dict[bool, dict[str, list[str]]] = {False: {}, True: {}}  # AP and AP() are one measure
        for name in dict.fromkeys(names):
            self.names.append(name)
            of_judged, plain = condensed or bool(CONDENSED.search(name)), CONDENSED.sub("", name).replace("()", "")
            if count := JUDGED.fullmatch(name):
                self.counted[name] = int(count[1])
                continue
            try:
                measure = parse(plain, relevant_from)
            except UnknownMeasure as error:
                self.provided[name] = _provided(name, plain, relevant_from, error)
                continue
            spelled[of_judged].setdefault(plain, []).append(name)
            if isinstance(measure, RBP) and not of_judged:
                self.residuals[name] = measure
                self.names.append(name + RESIDUAL)
        self.here = [
            (Evaluator(list(of_names), judged, relevant_from), of_names, of_judged)
            for of_judged, of_names in spelled.items() if of_names
        ]  # fmt: skip

    def values(self, ranking: _Ranking) -> dict[str, Values]:
        """Return the values [topics] of the measures that are computed here."""
        found: dict[str, Values] = {}
        for evaluator, names, of_judged in self.here:
            of_run = ranking.condensed() if of_judged else ranking
            grades = np.where(of_run.grades == UNJUDGED, evaluator.unjudged, of_run.grades)
            found |= {name: values for plain, values in evaluator(grades).items() for name in names[plain]}
        for name, cutoff in self.counted.items():
            judged = (ranking.present & ~ranking.unjudged)[:, :cutoff].sum(1)
            found[name] = judged / np.maximum(1, np.minimum(ranking.lengths, cutoff))
        for name, measure in self.residuals.items():
            found[name + RESIDUAL] = _residual(ranking, measure)
        return found

    def elsewhere(self, lines: pl.DataFrame, qrels: pl.DataFrame) -> dict[str, Values]:
        """Return the values of measures that a provider of ir-measures computes."""
        if not self.provided:
            return {}
        kept = lines.filter(pl.col("grade") >= 0) if self.condensed else lines
        # Compat's ideal ranking gives a relevant document that the run lacks the score 0: no score may be lower.
        score = pl.col("place").max() + 1.0 - pl.col("place")
        run = kept.select(query_id="topic", doc_id="document", score=score)
        # trec_eval ends the process if all grades of a topic are below -1, which mean the same to it.
        truth = qrels.select(query_id="query", doc_id="document", relevance=pl.col("grade").clip(-1))
        topics = sorted(qrels["query"].unique(), key=by_value)
        values = {measure: dict.fromkeys(topics, 0.0) for measure in self.provided.values()}
        try:
            for metric in ir_measures.iter_calc(list(values), truth.to_pandas(), run.to_pandas()):
                values[metric.measure][metric.query_id] = float(metric.value)
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            what, names = f"ir-measures can't compute it ({' '.join(str(error).split())})", ", ".join(self.provided)
            raise BadInput(what, f"measures {names}", "leave it out, or install a provider of it") from None
        return {name: np.array([values[measure][topic] for topic in topics]) for name, measure in self.provided.items()}


def _residual(ranking: _Ranking, measure: RBP) -> Values:
    """Return by how much rank-biased precision would grow if every unjudged document were relevant.

    These are the unjudged documents of the run, and all ranks after its last one (Moffat and Zobel 2008, section 4).
    """
    cutoff = measure.cutoff if measure.cutoff is not None else ranking.grades.shape[1]
    weights = (1 - measure.p) * measure.p ** np.arange(ranking.grades.shape[1], dtype=np.float64)
    unjudged = ranking.unjudged & (np.arange(ranking.grades.shape[1]) < cutoff)
    return (unjudged * weights).sum(1) + measure.p ** np.minimum(ranking.lengths, cutoff)


def _provided(name: str, plain: str, relevant_from: int, error: UnknownMeasure) -> ir_measures.Measure:
    """Return a measure of ir-measures; raise the error if it has none of that name, or none with that cutoff.

    Args:
        plain: the name without `judged_only`.
        relevant_from: the lowest grade that counts as relevant if the name does not specify it.
    """
    measure = _valid(name)
    refuse(
        measure is not None and measure.NAME in SUBTOPICS,
        "reads subtopics, which are merged here: the highest grade of a document counts",
        f"measure {name}",
        "leave it out, or compute it with the ir_measures command, which reads the second column of the judgements",
    )
    if measure is None and _valid(plain) is not None:
        remedy = f"write {plain}; judged_only=true leaves unjudged documents out for all measures"
        raise BadInput(f"judged_only is not possible for {plain}", f"measure {name}", remedy)
    if measure is None:
        raise error
    if relevant_from == 1 or re.search(r"\brel=", name):
        return measure
    rel = measure.SUPPORTED_PARAMS.get("rel")
    refuse(
        rel is None and measure.NAME not in OF_ALL_GRADES,
        f"has no lowest relevant grade, so relevant_from={relevant_from} does not apply to it",
        f"measure {name}",
        "leave it out, or measure by it in a command without relevant_from",
    )
    by_relevance = rel is not None and ("rel" in measure.params or rel.default == 1)  # NumRet counts all documents
    return measure(rel=relevant_from) if by_relevance else measure


def _valid(name: str) -> ir_measures.Measure | None:
    """Return a measure of ir-measures; None if it has none of that name, with those parameters or that cutoff."""
    try:
        measure = ir_measures.parse_measure(name)
        measure.validate_params()
    except (NameError, KeyError, ValueError, TypeError, SyntaxError, AttributeError, AssertionError):
        return None
    cutoff = measure.params.get("cutoff", 1)
    return measure if isinstance(cutoff, int) and cutoff >= 1 else None  # 0 ends the process of a provider
