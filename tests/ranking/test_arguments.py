"""Arguments that a function, a method or a class does not have."""

import inspect
from collections.abc import Sequence
from typing import Annotated

import pytest

from pyrite.ranking.bounds import Positive, checked
from pyrite.ranking.errors import BadInput
from pyrite.ranking.part import Part


@checked
def draw(data: str, counts: Sequence[int] = (), *, depth: Annotated[int, Positive] = 3) -> tuple[object, ...]:
    """Return the arguments."""
    return data, counts, depth


@checked
def nothing() -> None:
    """Take no arguments."""


class Pool:
    """A class with an argument that its methods lack."""

    @checked
    def __init__(self, runs: str = "a", **options: object) -> None:
        self.runs, self.options = runs, options

    @checked
    def simulate(self, seeds: int = 1) -> int:
        """Return the argument."""
        return seeds


class Reading(Part):
    """A part whose argument is called like the first parameter of a method."""

    def __init__(self, path: str, own: str = "drop") -> None: ...


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw("a", dept=3), "draw has no argument dept; it has data, counts, depth; did you mean depth=3?"),
        (
            lambda: draw("a", count=3),
            "draw has no argument count; it has data, counts, depth; did you mean counts=[3]?",
        ),
        (lambda: draw("a", dpeth="x" * 99), "it has data, counts, depth; did you mean depth=…?"),
        (lambda: draw("a", zebra=3), "draw has no argument zebra; it has data, counts, depth; choose one of them"),
        (lambda: draw(), "draw needs the argument data; it has data, counts, depth"),
        (lambda: draw("a", (), 3), "draw: too many positional arguments; it has data, counts, depth"),
        (lambda: draw("a", data="b"), "draw: multiple values for argument 'data'; it has data, counts, depth"),
        (lambda: draw("a", depth=0), "draw: depth is 0; choose a whole number from 1 up"),
        (lambda: nothing(x=1), "nothing has no argument x; it has none; leave it out"),
        (lambda: Pool(3, 4), "Pool: too many positional arguments; it has runs, options"),
        (lambda: Pool().simulate(run="b"), "Pool.simulate has no argument run; it has seeds; give runs='b' to Pool(…)"),
        (lambda: Pool().simulate(seed=2), "Pool.simulate has no argument seed; it has seeds; did you mean seeds=2?"),
        (lambda: Pool().simulate(1, 2), "Pool.simulate: too many positional arguments; it has seeds"),
        (lambda: Reading(), "Reading needs the argument path; it has path, own"),
        (lambda: Reading("a", owned="b"), "Reading has no argument owned; it has path, own; did you mean own='b'?"),
    ],
)
def test_wrong_arguments_are_refused_with_the_right_one(call, message):
    with pytest.raises(BadInput) as refused:
        call()
    assert message in str(refused.value)


def test_right_arguments_are_passed_and_signatures_stay():
    assert draw("a", [1], depth=2) == ("a", [1], 2)
    assert Pool(depth=3).options == {"depth": 3}
    assert list(inspect.signature(draw).parameters) == ["data", "counts", "depth"]
    assert inspect.signature(Pool).parameters["runs"].default == "a"
