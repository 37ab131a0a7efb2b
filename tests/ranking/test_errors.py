"""Checks of input: a condition and its message."""

import pytest

from pyrite.ranking.collections.faults import Faults, RowFault, refuse_row
from pyrite.ranking.errors import BadInput, refuse


def test_what_is_not_wrong_is_not_refused():
    refuse(False, "no number")
    refuse([], "{} is no number")
    refuse(0, "no number")
    refuse_row(None, "no number")


def test_a_condition_is_refused_with_its_place_and_remedy():
    with pytest.raises(BadInput, match=r"^k\.yaml: k is 0; choose 1$"):
        refuse(True, "k is 0", "k.yaml", "choose 1")
    with pytest.raises(BadInput, match=r"^k is \{\}$"):
        refuse({"k": 0}, "k is {}")


def test_the_first_of_several_is_named():
    with pytest.raises(BadInput, match=r"^a is no option; choose b$"):
        refuse(["a", "c"], "{} is no option", remedy="choose b")


def test_a_fault_of_a_row_keeps_its_kind():
    with pytest.raises(RowFault) as caught:
        refuse_row("empty", "a text is empty", kind="empty text", always=True)
    assert (caught.value.kind, caught.value.always) == ("empty text", True)
    with pytest.raises(BadInput, match=r"^x.csv:3: a text is empty; fix it"):
        Faults(strict=False).report_row(caught.value, "x.csv", 3)
