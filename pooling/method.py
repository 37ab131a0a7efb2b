"""Defines the base of the orders of judging: those of one topic, and those that decide across topics."""

from __future__ import annotations

from typing import ClassVar

from pyrite.ranking.errors import BadInput
from pyrite.ranking.part import Part


class Method(Part):
    """Base of the orders of judging: an `Adjudicator` chooses a topic's next document, others learn from all topics."""

    shares_topics: ClassVar[bool] = False
    """Whether the judgements of a topic change the order of others, so that all topics are judged by one campaign."""
    chooses_topics: ClassVar[bool] = False
    """Whether it also chooses the topic of each document."""

    @classmethod
    def named(cls, name: str, **options: object) -> Method:
        """Refuse the form of version 0.2."""
        remedy = f"each method is a class, as pyrite.Hedge(); `pyrite options method={name}` names that of {name}"
        raise BadInput("Method.named is gone", "pyrite", remedy)
