"""Reads `labels=`, the words that assessors see instead of the numbers of grades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pyrite.pooling.judging.imports import CANNOT
from pyrite.ranking.errors import refuse

BINARY = (0, 1)
"""The grades if neither grades nor labels are given."""
LONGEST = 100
"""Characters of a label."""
LABELS = "labels"
EXAMPLES = "write labels=[not,partly,fully], or with their grades labels={0:not,1:partly,3:fully}"


def labelled(
    labels: Sequence[str] | Mapping[int, str] | None, grades: Sequence[int] | None
) -> tuple[Sequence[int], Sequence[str] | None]:
    """Return the grades of a judging, and the word of each.

    Args:
        labels: the words of `grades`, in their order, or of 0, 1, … if there are none; or the words by their grades.
            None if they have no words.
        grades: the grades. None takes those of the labels.

    >>> labelled({0: "not", 3: "fully", 1: "partly"}, None)
    ([0, 1, 3], ['not', 'partly', 'fully'])

    Raises:
        BadInput: if a word is empty, too long, given twice or the number of another grade, or if grades and labels
            differ.
    """
    if labels is None:
        return BINARY if grades is None else grades, None
    if isinstance(labels, Mapping):
        named = sorted(labels)
        refuse(
            grades not in (None, named), f"they are of {named}, and grades are {grades}", LABELS, "leave grades= out"
        )
        grades, words = named, [labels[grade] for grade in named]
    else:
        grades, words = list(range(len(labels))) if grades is None else grades, list(labels)
        refuse(
            len(words) != len(grades), f"{len(words)} labels for {len(grades)} grades", LABELS, "give each grade one"
        )
    words = [" ".join(word.split()) for word in words]
    refuse(len(words) < 2, f"{len(words)} of them", LABELS, EXAMPLES)
    _check(words, grades)
    return grades, words


def _check(words: Sequence[str], grades: Sequence[int]) -> None:
    """Refuse words that an assessor, or a table that is imported, could not tell apart."""
    lowered = [word.lower() for word in words]
    unreadable = [repr(word) for word in words if not word.isprintable() or not 0 < len(word) <= LONGEST]
    refuse(unreadable, f"{{}} is no label: it has 1 to {LONGEST} printable characters", LABELS, EXAMPLES)
    twice = [repr(word) for word, count in Counter(lowered).items() if count > 1]
    refuse(twice, "{} is given twice", LABELS, "give each grade another word")
    numbers = dict(zip(map(str, grades), lowered, strict=True))
    other = [word for number, word in numbers.items() if word in numbers and word != number]
    refuse(other, "{} is the number of another grade", LABELS, "give a word, or its own number")
    unjudged = sorted(CANNOT.intersection(lowered))
    refuse(unjudged, "{} means that a document was not judged", LABELS, "give another word")
