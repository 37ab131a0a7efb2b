"""A process of its own answers as this one would, and holds nothing up when it dies."""

from __future__ import annotations

import os

import pytest

from cluster.own_process import in_own_process
from ranking.errors import BadInput


def told(text: str) -> tuple[int, str]:
    print("said beside the answer")
    return os.getpid(), text[::-1]


def refused() -> None:
    raise BadInput("is broken", "file.csv", "mend it")


def test_it_returns_what_the_function_returns(capfd: pytest.CaptureFixture[str]) -> None:
    process, text = in_own_process(told, "abc")
    assert (process != os.getpid(), text) == (True, "cba")
    assert capfd.readouterr() == ("", "said beside the answer\n")


def test_it_raises_what_the_function_raises() -> None:
    with pytest.raises(BadInput) as raised:
        in_own_process(refused)
    assert str(raised.value) == str(BadInput("is broken", "file.csv", "mend it"))


def test_other_errors_say_where_they_were_raised() -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        in_own_process(int, "one")
    assert "in _answer" in raised.value.__notes__[0]


def test_one_that_dies_says_so() -> None:
    with pytest.raises(ChildProcessError, match=r"_exit has ended \(exit code 3\)"):
        in_own_process(os._exit, 3)
