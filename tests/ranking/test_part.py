"""Parts remember how they were made, and their classes take other defaults."""

import copy
import inspect
import pickle
from dataclasses import dataclass
from typing import Annotated

import pytest

from pyrite.ranking.bounds import Positive
from pyrite.ranking.errors import BadInput
from pyrite.ranking.part import Part, all_options, arguments_of, config_of, options_of


class Middle(Part):
    """Keeps its arguments under another name."""

    def __init__(self, first: Annotated[int, Positive] = 5, *, last: int = 30, inner: Part | None = None) -> None:
        self.ranks = range(first, last)
        self.inner = inner


class Late(Middle, first=20, inner=Middle(2)):
    """Another default."""


class Doubled(Middle):
    """Gives its base another argument than it gets."""

    def __init__(self, half: int = 4) -> None:
        super().__init__(2 * half)


@dataclass
class Columns(Part):
    """A part that is a dataclass."""

    query: str = "query"
    other: str | None = None


class Fielded(Part):
    """A base whose field has another place than the options."""

    FIELDS = ("count",)
    count = None


class Reaching(Fielded):
    """Does not declare the field of its base."""

    def __init__(self, reach: int = 5) -> None:
        self.reach = reach


def test_arguments_are_those_that_were_given():
    assert arguments_of(Middle()) == {}
    assert arguments_of(Middle(7, last=9)) == {"first": 7, "last": 9}
    assert repr(Middle(7, last=9)) == "Middle(7, last=9)"
    assert arguments_of(Doubled(3)) == {"half": 3}
    assert Doubled(3).ranks == range(6, 30)
    assert all_options(Middle(7)) == {"first": 7, "last": 30, "inner": None}
    assert arguments_of(Columns(other="x")) == {"other": "x"}
    for copied in (copy.deepcopy(Middle(7)), pickle.loads(pickle.dumps(Middle(7)))):
        assert arguments_of(copied) == {"first": 7}


def test_a_configuration_holds_parts_of_parts():
    assert config_of(Middle(7, inner=Columns("q"))) == {
        "_target_": f"{__name__}.Middle",
        "first": 7,
        "inner": {"_target_": f"{__name__}.Columns", "query": "q"},
    }


def test_a_subclass_has_other_defaults():
    assert Late().ranks == range(20, 30)
    assert Late(3).ranks == range(3, 30)
    assert Late().inner is not Late().inner  # each object has its own
    assert arguments_of(Late()) == {}
    assert str(inspect.signature(Late)) == (
        "(first: typing.Annotated[int, Interval(gt=0, ge=None, lt=None, le=None)] = 20, *, last: int = 30, "
        "inner: pyrite.ranking.part.Part | None = Middle(2)) -> None"
    ).removesuffix(" -> None")


def test_a_field_of_the_base_need_not_be_declared():
    part = Reaching(7, count=2)
    assert (part.reach, part.count) == (7, 2)
    assert arguments_of(part) == {"reach": 7, "count": 2}
    assert options_of(part) == {"reach": 7}
    assert str(inspect.signature(Reaching)) == "(reach: int = 5, *, count=None)"
    assert Reaching().count is None


def test_what_a_constructor_does_not_take_is_refused():
    with pytest.raises(BadInput, match=r"^Middle has no argument frist; it has first, last, inner; did you mean f"):
        Middle(frist=3)
    with pytest.raises(BadInput, match=r"^Late: first is 0; choose a whole number from 1 up$"):
        Late(first=0)
    with pytest.raises(BadInput, match=r"^Forgetful: does not keep its argument depth; set self.depth = depth"):
        arguments_of(Forgetful())
    with pytest.raises(BadInput, match="multiple values for argument 'first'"):
        Middle(3, first=3)  # type: ignore[misc]


class Forgetful:
    """No part, and its argument is lost."""

    def __init__(self, depth: int = 3) -> None: ...
