"""Checks the options of judging a pool."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pyrite.pooling.judging.export import Rule
from pyrite.pooling.stopping import TargetRecall
from pyrite.ranking.bounds import AtLeast, NonNegative, Positive, checked
from pyrite.ranking.errors import BadInput, refuse

LONGEST_NAME = 40
OWNER = "owner"
"""The name under which the owner's decisions are kept."""
LONGEST_NOTE = 2000
LONGEST_PASSAGE = 10_000
"""Characters of the passage that an assessor marks."""


@checked
@dataclass(frozen=True)
class Options:
    """How a pool is judged.

    Args:
        grades: grades that assessors may give, ascending.
        names: names of the grades; None names them by whether they are relevant, with their number if several are.
        budget: documents to judge per topic (on average, if the method chooses the topic), or the number for each of
            some topics; None, and a topic without a number, is all.
        double: share of a topic's documents that other assessors judge too; an int is their number.
        judges: number of assessors of each of these documents.
        burn_in: gold documents with which an assessor's work begins, in all topics together; the page shows their known
            grades.
        gold_every: judgements after which one more gold document follows, unannounced.
        guidelines: meaning of each grade, for assessors to read; None shows none.
        resolve: the grade that counts if two assessors judged a document.
        assessors: names of those who may judge; None is anyone with the link, under any name.
        owners: the assessor of each topic; topics without one are open to all. "first" is the assessor who was handed a
            topic's first document; None opens all topics. Second judgements are made by others in any case.
        recall: share of a topic's relevant documents at which its judging may stop
            (`pyrite.pooling.stopping.TargetRecall`); None never reports it.
        confidence: confidence of that report.
        rationale: whether assessors may mark the passage of a document that decided; it is saved with the grade.
        seed: seed of the method's random choices.
    """

    grades: Sequence[int] = (0, 1)
    names: Sequence[str] | None = None
    budget: Annotated[int, Positive] | Mapping[str, int] | None = None
    double: Annotated[float, NonNegative] = 0
    judges: Annotated[int, AtLeast(2)] = 2
    burn_in: Annotated[int, NonNegative] = 5
    gold_every: Annotated[int, Positive] = 20
    guidelines: Sequence[str] | None = None
    resolve: Rule = "highest"
    assessors: Sequence[str] | None = None
    owners: Mapping[str, str] | Literal["first"] | None = None
    recall: float | None = 0.9
    confidence: float = 0.95
    rationale: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        grades = list(self.grades)
        refuse(
            len(grades) < 2 or grades != sorted(set(grades)),
            f"grades are {grades}",
            remedy="give two or more whole numbers, ascending, e.g. [0,1,2]",
        )
        refuse(-1 in grades, f"grades are {grades}", remedy="-1 means pooled and not judged: give another number")
        for option, texts in (("names", self.names), ("guidelines", self.guidelines)):
            if texts is not None and len(texts) != len(grades):
                raise BadInput(f"{len(texts)} {option} for {len(grades)} grades", remedy="give each grade one")
        if isinstance(self.double, float) and self.double > 1:
            raise BadInput(f"double is {self.double}", remedy="give a share from 0.0 to 1.0, or a number of documents")
        if self.assessors is not None and not self.assessors:
            raise BadInput("assessors is empty", remedy="give names, or null for anyone with the link")
        names = [assessor_name(name) for name in self.assessors or ()]
        if twice := [name for name in names if names.count(name) > 1]:
            raise BadInput(f"{twice[0]} is named twice", "assessors", "give each assessor another name")
        _ = self.rule  # checks recall and confidence

    @property
    def rule(self) -> TargetRecall | None:
        """The rule by which the page reports that judging may stop."""
        return None if self.recall is None else TargetRecall(self.recall, self.confidence)


def assessor_name(name: str) -> str:
    """Normalize an assessor's name, and refuse one that is empty, too long or not printable."""
    plain = " ".join(unicodedata.normalize("NFC", name).split())
    refuse(
        plain.casefold() == OWNER,
        f"{plain} can't be an assessor's name: the owner's decisions are kept under it",
        "assessors",
    )
    refuse(
        not plain or len(plain) > LONGEST_NAME or not plain.isprintable(),
        f"an assessor's name has 1 to {LONGEST_NAME} printable characters",
        "assessors",
    )
    return plain
