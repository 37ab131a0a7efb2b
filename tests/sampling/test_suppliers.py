"""Retrieval functions with their numbers and selectors, their sums, and policies over them."""

import pytest

from pyrite.ranking.errors import BadInput
from pyrite.sampling.policies.random import RandomPolicy
from pyrite.sampling.policies.schedule import Schedule
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.in_batch import InBatch
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.selection.simans import SimANS
from pyrite.sampling.suppliers import Chooser, Negatives, Supplier


class Near(Supplier):
    """Declares none of the fields of its base."""

    def __init__(self, reach: int = 3) -> None:
        self.reach = reach


class Counted(Supplier):
    """Has no constructor."""


class Alternating(Chooser):
    """Does not declare the functions."""

    def __init__(self, every: int = 2) -> None:
        self.every = every


def test_count_pick_and_name_are_fields_of_every_function():
    pick = SimANS()
    for function in (
        BM25(2, pick=pick, name="deep"),
        Near(count=2, pick=pick, name="deep"),
        Counted(2, pick=pick, name="deep"),
    ):
        assert (function.count, function.pick, function.name) == (2, pick, "deep")
    assert (BM25().count, Near().count, Near(7).reach, Near().pick, Near().name) == (None, None, 7, None, None)
    assert isinstance(BM25(pick=SimANS).pick, SimANS)


def test_functions_are_added():
    both = InBatch() + Near + BM25(1)
    assert [type(each) for each in both.functions] == [InBatch, Near, BM25]
    assert repr(both) == "InBatch() + Near() + BM25(1)"
    assert repr(Near(4) + both.functions[0]) == "Near(4) + InBatch()"


def test_policies_take_their_functions_first():
    for policy, options in (
        (Alternating(Random(), BM25, every=3), "every=3"),
        (Schedule(Random(), BM25, epochs=3), "epochs=3"),
    ):
        assert [type(each) for each in Negatives.of(policy).functions] == [Random, BM25]
        assert Negatives.of(policy).policy is policy
        assert options in repr(policy)
    assert Alternating(5).every == 5
    assert RandomPolicy().over is None
    assert repr(Negatives(Random(), policy=Alternating())) == "Alternating() over Random()"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Near(count=-1), "Near: count is -1; choose a whole number from 0 up"),
        (lambda: Near(count=True), "Near: count is True"),
        (lambda: Near(pick="top"), "pick of Near: 'top' is no selector; give one of pyrite's"),
        (lambda: Near(name="a b"), "Near: name is 'a b'; choose letters, digits and _"),
        (lambda: Near() + Near(), "two functions are called Near; give one of them a name, as Near(name='deep')"),
        (lambda: Negatives(), "negatives need a retrieval function"),
        (lambda: Negatives.of(Alternating()), "Alternating(): has no functions to choose among"),
        (lambda: Negatives(Near(), policy=Near()), "policy: Near() is no policy"),
        (lambda: Supplier.own(Near, 2), "Function.own is gone; write Near(count=1, pick=…, name=…)"),
    ],
)
def test_wrong_descriptions_are_refused(call, message):
    with pytest.raises(BadInput) as error:
        call()
    assert message in str(error.value)
