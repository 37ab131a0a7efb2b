"""Computes measures of a ranking, declared by their ir-measures names, for all queries at once.

A measure is a declaration of a few lines: a sum over the ranking (`total`) and its divisor
(`scale`, from all judgements of the query, so it is computed once). The values are trec_eval's.
Validation calls this every few batches, so nothing here loops over queries.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import ir_measures
import numpy as np
import numpy.typing as npt

from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.similar import similar

Grades = npt.NDArray[np.integer[Any]]
Values = npt.NDArray[np.float64]


def ranked_grades(
    scores: npt.NDArray[np.float32], documents: Grades, grades: Grades, tie_key: Grades
) -> npt.NDArray[np.int32]:
    """Return the grades [queries, depth] of each query's candidates in trec_eval's order, and last 0 for padding.

    The order is score (as float32) descending; equal scores by document id descending as byte strings.

    Args:
        scores: [queries, depth], the ranker's scores; those of padding are ignored.
        documents: [queries, depth], the candidates; -1 marks padding, at any place.
        grades: [queries, depth], each candidate's grade, 0 if it is not judged.
        tie_key: [queries, depth], the rank of the candidate's id among all ids in ascending byte order,
            from 0 to 2³² - 1: the larger key wins a tie.

    Raises:
        ValueError: a candidate's score is NaN, or its tie key out of range.
    """
    padding = documents < 0
    if np.isnan(scores).any(where=~padding):
        raise ValueError("a ranker's score is NaN")
    ties = tie_key[~padding]
    if ties.size and (ties.min() < 0 or ties.max() >= 2**32):
        raise ValueError("tie keys are ranks from 0 to 2**32 - 1")
    keys = ranking_keys(np.asarray(scores, np.float32), tie_key)
    keys[padding] = 0
    order = np.argsort(~keys, axis=1)
    ranked = np.where(padding, 0, grades).astype(np.int32)
    return np.take_along_axis(ranked, order, axis=1)


def ranking_keys(scores: npt.NDArray[np.float32], tie_key: Grades) -> npt.NDArray[np.uint64]:
    """Return a number for each candidate, higher if trec_eval ranks it higher, so that one sort suffices."""
    # A float's bits order like the float once the sign bit is flipped (and, below zero, all others too).
    bits = (scores + np.float32(0)).view(np.uint32)  # which makes -0.0 equal to 0.0
    bits = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return (bits.astype(np.uint64) << np.uint64(32)) | tie_key.astype(np.uint32)


class JudgedQueries:
    """All judgements of each query, flat: the base of the measures' scales.

    Args:
        grades: one sequence of grades per query, in the order of the queries; may be empty.
    """

    def __init__(self, grades: Sequence[Grades | Sequence[int]]) -> None:
        lengths = np.array([len(of_query) for of_query in grades], np.int64)
        self.queries = len(lengths)
        self.grades = np.concatenate([np.asarray(g, np.int64) for g in grades] or [np.empty(0, np.int64)])
        self.query = np.repeat(np.arange(self.queries), lengths)
        self._counts: dict[tuple[int, int], Values] = {}

    def count(self, least: int, below: int = 2**31) -> Values:
        """Return the number of each query's grades from `least` to below `below`: [queries]."""
        key = least, below
        if key not in self._counts:
            self._counts[key] = self.sum((self.grades >= least) & (self.grades < below))
        return self._counts[key]

    def sum(self, values: npt.NDArray[Any]) -> Values:
        """Add up one value per judgement for each query: [judgements] -> [queries]."""
        return np.bincount(self.query, values, self.queries).astype(np.float64)

    @cached_property
    def best_first(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Grades of each query from the highest to the lowest, and the 0-based rank of each."""
        order = np.lexsort((-self.grades, self.query))
        starts = np.searchsorted(self.query, self.query)
        return self.grades[order], np.arange(len(order)) - starts

    @cached_property
    def highest(self) -> Values:
        """The highest grade of each query, at least 0: [queries]."""
        highest = np.zeros(self.queries)
        np.maximum.at(highest, self.query, self.grades)
        return highest


@dataclass(frozen=True)
class Measure(ABC):
    """A measure with its parameters: `total` over the ranking, divided by `scale`.

    Args:
        cutoff: the number of ranks that count. None for all of them.
        rel: the lowest grade that counts as relevant.
    """

    about: ClassVar[str]
    has_cutoff: ClassVar[bool] = True
    needs_cutoff: ClassVar[bool] = False
    needs_judged: ClassVar[bool] = False

    cutoff: int | None = None
    rel: int = 1

    def scale(self, judged: JudgedQueries) -> Values:
        """Return the divisor of the total [queries]; if it is 0 the measure is 0."""
        return np.ones(judged.queries)

    @abstractmethod
    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> npt.NDArray[Any]:
        """Return [queries], from grades in ranked order [queries, some], none beyond the cutoff, and their ranks.

        `UNJUDGED` documents have a grade of that value if the measure `needs_judged`, and 0 or less otherwise.
        """


class AP(Measure):
    """The mean of the precision at each relevant document's rank; relevant ones not ranked count as 0."""

    about = "average precision"

    def scale(self, judged: JudgedQueries) -> Values:
        return judged.count(self.rel)

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        relevant = ranked >= self.rel
        precision = np.cumsum(relevant, axis=1, dtype=np.int32) / ranks
        return precision.sum(axis=1, where=relevant)


class RR(Measure):
    """The reciprocal of the rank of the first relevant document."""

    about = "reciprocal rank"

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        relevant = ranked >= self.rel
        if not relevant.shape[1]:
            return np.zeros(len(relevant))
        first = np.take_along_axis(np.broadcast_to(ranks, ranked.shape), relevant.argmax(axis=1)[:, None], 1)[:, 0]
        return np.where(relevant.any(axis=1), 1 / first, 0.0)


class P(Measure):
    """The share of the first ranks that hold a relevant document; empty ranks count as not relevant."""

    about = "precision"
    needs_cutoff = True

    def scale(self, judged: JudgedQueries) -> Values:
        return np.full(judged.queries, self.cutoff, np.float64)

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> npt.NDArray[np.int64]:
        return np.count_nonzero(ranked >= self.rel, axis=1)


class R(P):
    """The share of the query's relevant documents that are among the first ranks."""

    about = "recall"
    scale = AP.scale


class Success(Measure):
    """1 if a relevant document is among the first ranks, otherwise 0."""

    about = "success"
    needs_cutoff = True

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> npt.NDArray[np.bool_]:
        return np.count_nonzero(ranked >= self.rel, axis=1) > 0


@dataclass(frozen=True)
class NDCG(Measure):
    """Discounted cumulated gain divided by that of the ideal ranking of all judged documents.

    Args:
        dcg: "log2" (the gain is the grade, as in trec_eval) or "exp-log2" (2^grade - 1).
    """

    about = "normalised discounted cumulated gain"
    dcg: str = "log2"

    def scale(self, judged: JudgedQueries) -> Values:
        grades, rank = judged.best_first
        counted = rank < self.cutoff if self.cutoff is not None else np.ones(len(rank), bool)
        gains = np.where(counted, self._gains(grades, judged.highest[judged.query]) / np.log2(rank + 2), 0.0)
        return np.bincount(judged.query, gains, judged.queries).astype(np.float64)

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        return (self._gains(ranked, judged.highest[:, None]) / np.log2(ranks + 1)).sum(axis=1)

    def _gains(self, grades: Grades, highest: Values) -> Values:
        gains = np.maximum(grades, 0).astype(np.float64)
        # As a share of 2 to a query's highest grade, which leaves the ratio: 2^1024 is above the largest number.
        return np.exp2(gains - highest) - np.exp2(-highest) if self.dcg == "exp-log2" else gains


class Rprec(AP):
    """The precision at the rank that equals the number of relevant documents."""

    about = "precision at the number of relevant documents"
    has_cutoff = False

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        return ((ranked >= self.rel) & (ranks <= self.scale(judged)[:, None])).sum(axis=1, dtype=np.float64)


@dataclass(frozen=True)
class RBP(Measure):
    """Rank-biased precision (Moffat and Zobel 2008): expected precision of a user who continues with probability p.

    Args:
        p: the probability of looking at the next document, above 0 and below 1.
    """

    about = "rank-biased precision"
    p: float = 0.8

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        return ((ranked >= self.rel) * (1 - self.p) * self.p ** (ranks - 1.0)).sum(axis=1)


class ERR(Measure):
    """Expected reciprocal rank (Chapelle et al. 2009), as gdeval computes it: the highest grade is 4."""

    about = "expected reciprocal rank"

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        stops = (np.exp2(np.clip(ranked, 0, 4)) - 1) / 16
        looks = np.cumprod(1 - stops, axis=1) / np.maximum(1 - stops, 1e-300)
        return (stops * looks / ranks).sum(axis=1)


class Bpref(AP):
    """The share of relevant documents, each discounted by the judged ones that are not relevant above it."""

    about = "preference between judged documents"
    has_cutoff = False
    needs_judged = True

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        relevant = self.scale(judged)[:, None]
        most = np.minimum(relevant, judged.count(0, self.rel)[:, None])
        above = np.minimum(np.cumsum((ranked >= 0) & (ranked < self.rel), axis=1), relevant)
        lost = np.divide(above, most, out=np.zeros(above.shape), where=(above > 0) & (most > 0))
        return (1 - lost).sum(axis=1, where=ranked >= self.rel)


class InfAP(AP):
    """Inferred average precision (Yilmaz and Aslam 2006); documents of a grade below 0 are pooled and not judged."""

    about = "inferred average precision"
    has_cutoff = False
    needs_judged = True

    def total(self, ranked: Grades, ranks: Grades, judged: JudgedQueries) -> Values:
        hit = ranked >= self.rel
        relevant: npt.NDArray[np.int64] = np.cumsum(hit, axis=1) - hit
        known = relevant + np.cumsum((ranked >= 0) & ~hit, axis=1)
        pooled = known + np.cumsum((ranked < 0) & (ranked != UNJUDGED), axis=1)
        above = np.maximum(ranks - 1, 1)
        precision = pooled / above * (relevant + INFAP_EPSILON) / (known + 2 * INFAP_EPSILON)
        return (1 / ranks + (ranks - 1) / ranks * precision).sum(axis=1, where=hit)


UNJUDGED = -(2**20)
"""The grade of a document that is not judged, for measures that treat it unlike one that is judged not relevant."""
INFAP_EPSILON = 0.00001
"""The smoothing of inferred precision, as in trec_eval."""
FAMILIES: dict[str, type[Measure]] = {
    "AP": AP, "RR": RR, "P": P, "R": R, "Success": Success, "nDCG": NDCG, "Rprec": Rprec, "RBP": RBP, "ERR": ERR,
    "Bpref": Bpref, "infAP": InfAP,
}  # fmt: skip
_WRITTEN = {name.lower(): name for name in ("Rprec", "RBP", "ERR", "Bpref", "infAP")}
"""The names of measures by those that trec_eval and others give them: bpref, infap, rprec."""
_ELSEWHERE = {
    "map": "AP", "map_cut": "AP", "ap": "AP", "mrr": "RR", "rr": "RR", "recip_rank": "RR", "ndcg": "nDCG",
    "ndcg_cut": "nDCG", "recall": "R", "r": "R", "precision": "P", "p": "P", "success": "Success", "hit": "Success",
    "hits": "Success", "hit_rate": "Success", "accuracy": "Success",
}  # fmt: skip
"""The names of measures by those of other tools, in lower case; for suggestions."""
_PERSISTENCE = re.compile(r"RBP\((?:.*,)?\s*p=\s*(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*[,)].*", re.IGNORECASE)
"""A rank-biased precision with its p, of which ir-measures takes no whole number and none below 0."""


class UnknownMeasure(BadInput):
    """A measure that is not computed here. Others may compute it."""


def parse(name: str, relevant_from: int = 1) -> Measure:
    """Read a measure's ir-measures name, such as "AP@100", "P(rel=2)@5" or "nDCG@20".

    Args:
        relevant_from: the lowest grade that counts as relevant if the name does not specify it.

    Raises:
        UnknownMeasure: if there is no such measure, it is not computed here, it has no such parameter, or it needs a
            cutoff.
        BadInput: if a parameter is out of its range.
    """
    persistence = _PERSISTENCE.fullmatch(name)
    refuse(
        persistence is not None and not 0 < float(persistence[1]) < 1,
        f"measure {name!r}: p is above 0 and below 1",
        remedy="choose such a p: RBP(p=0.8)",
    )
    try:
        family = re.match(r"\w*", name)[0]  # type: ignore[index]  # matches anything
        parsed = ir_measures.parse_measure(_WRITTEN.get(family.lower(), family) + name[len(family) :])
        parsed.validate_params()
        parameters = dict(parsed.params)
        if parameters.pop("judged_only", False):
            raise KeyError("judged_only")  # unjudged documents are not known here
        measure = FAMILIES[str(parsed.NAME)](**({"rel": relevant_from} | parameters))
    except (NameError, KeyError, ValueError, TypeError, SyntaxError, AttributeError, AssertionError):
        raise _unsupported(name) from None
    refuse(
        (measure.cutoff is not None and measure.cutoff < 1) or measure.rel < 1,
        f"measure {name!r}: cutoff and rel are 1 or more",
    )
    return measure


def _unsupported(name: str) -> UnknownMeasure:
    family, cutoff, _ = name.strip().partition("@")
    written = {each.lower(): each for each in FAMILIES if not FAMILIES[each].has_cutoff}
    without = written.get(family.partition("(")[0].lower())
    if cutoff and without:
        return UnknownMeasure(
            f"no measure {name!r}: {without} has no cutoff", remedy=f"write {without}{family[len(without) :]}"
        )
    form = re.fullmatch(r"([a-z]+(?:_[a-z]+)*)(?:[@_]?(\d+))?", name.strip().lower())
    stem, given = form.groups() if form else ("", None)
    known = {family.lower(): family for family in FAMILIES} | _ELSEWHERE
    if close := similar(stem, known, 0.7):
        kind = FAMILIES[known[close]]
        cutoff = f"@{given or 10}" if kind.has_cutoff and (given or kind.needs_cutoff) else ""
        return UnknownMeasure(f"no measure {name!r}", remedy=f"did you mean {known[close]}{cutoff}?")
    names = ", ".join(f"{' and '.join(_forms(family, kind))} ({kind.about})" for family, kind in FAMILIES.items())
    remedy = f"there are {names}, the binary ones also with a lowest relevant grade: P(rel=2)@5"
    return UnknownMeasure(f"no measure {name!r}", remedy=remedy)


def _forms(family: str, kind: type[Measure]) -> list[str]:
    """Return how a measure is written: without a cutoff, with one, or either."""
    return [family] * (not kind.needs_cutoff) + [f"{family}@k"] * kind.has_cutoff


class Evaluator:
    """An evaluator of rankings of the same queries. Everything that depends only on judgements is computed once.

    Args:
        measures: ir-measures names; results have the same keys.
        judged: for each query the grades of all its judged documents, ranked or not, from which average
            precision and recall take the number of relevant ones and nDCG its ideal.
        relevant_from: the lowest grade that counts as relevant, for measures whose name does not specify it. nDCG
            takes its gains from all grades above zero.

    Attributes:
        unjudged: the grade that a document without a judgement must have: `UNJUDGED` if a measure needs it, else 0.

    Raises:
        BadInput: if a measure is unknown.
    """

    def __init__(
        self, measures: Sequence[str], judged: Sequence[Grades | Sequence[int]], relevant_from: int = 1
    ) -> None:
        self._judged = every = JudgedQueries(judged)
        self.queries = every.queries
        self._measures = {name: parse(name, relevant_from) for name in measures}
        self._scales = {name: measure.scale(every) for name, measure in self._measures.items()}
        self.unjudged = UNJUDGED if any(measure.needs_judged for measure in self._measures.values()) else 0

    def __call__(self, ranked: Grades) -> dict[str, Values]:
        """Return the values [queries] of each measure for one ranking of every query; 0 without a relevant document.

        Args:
            ranked: [queries, depth], grades in ranked order (`ranked_grades`), `unjudged` for not judged, 0 for
                padding.
        """
        if ranked.ndim != 2 or len(ranked) != self.queries:
            raise ValueError(f"ranked is {ranked.shape}, not [{self.queries}, depth]")
        ranks = np.arange(1, ranked.shape[1] + 1)
        return self._scaled({m: (ranked[:, : m.cutoff], ranks[: m.cutoff]) for m in self._measures.values()})

    def of_ranks(self, grades: Grades, ranks: npt.NDArray[np.int64], depth: int | None) -> dict[str, Values]:
        """Evaluate rankings of which only the documents that may be relevant are known.

        Args:
            grades: [queries, some].
            ranks: their ranks from 1; 0 for none.
            depth: the last rank that counts. None counts all.
        """
        beyond = np.iinfo(np.int64).max
        order = np.argsort(np.where(ranks > 0, ranks, beyond), axis=1, kind="stable")
        grades, ranks = np.take_along_axis(grades, order, 1), np.take_along_axis(ranks, order, 1)

        def within(measure: Measure) -> Grades:
            last = min(beyond if cut is None else cut for cut in (measure.cutoff, depth))
            return np.where((ranks > 0) & (ranks <= last), grades, self.unjudged)

        return self._scaled({m: (within(m), np.maximum(ranks, 1)) for m in self._measures.values()})

    def _scaled(self, ranked: dict[Measure, tuple[Grades, Grades]]) -> dict[str, Values]:
        """Return each measure for its grades and their ranks."""
        results = {}
        for name, measure in self._measures.items():
            scale = self._scales[name]
            results[name] = np.divide(
                measure.total(*ranked[measure], self._judged), scale, out=np.zeros(self.queries), where=scale > 0
            )
        return results
