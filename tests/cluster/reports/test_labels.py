"""Names of methods that are too long for tables and figures."""

from __future__ import annotations

from cluster.reports.labels import broken, short_names

LONG = ["schedule(in_batch+bm25) · uniform · policy.per=negative", "bm25 · uniform · policy.per=negative · top"]


def test_short_names_stay_as_they_are() -> None:
    assert short_names(["bm25 · uniform", "random · uniform"]) == (
        {"bm25 · uniform": "bm25 · uniform", "random · uniform": "random · uniform"}, "",
    )  # fmt: skip
    assert short_names([LONG[0]])[0] == {LONG[0]: LONG[0]}


def test_long_ones_lose_what_all_share() -> None:
    found, shared = short_names(LONG)
    assert list(found.values()) == ["schedule(in_batch+bm25)", "bm25 · top"]
    assert shared == "uniform · policy.per=negative"


def test_they_stay_apart() -> None:
    names = ["a · b", "a · b · b", f"a · b · {'c' * 40}"]
    found, _ = short_names(names)
    assert len(set(found.values())) == 3


def test_names_are_broken_between_their_parts() -> None:
    assert broken("bm25 · uniform") == "bm25 · uniform"
    assert broken("schedule(in_batch+bm25) · uniform · policy.per=negative") == (
        "schedule(in_batch+bm25) · uniform ·\npolicy.per=negative"
    )
    assert broken("x" * 50) == "x" * 50
