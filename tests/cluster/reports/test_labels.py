"""Names of methods that are too long for tables and figures."""

from __future__ import annotations

from cluster.reports.labels import broken


def test_names_are_broken_between_their_parts() -> None:
    assert broken("bm25 · uniform") == "bm25 · uniform"
    assert broken("schedule(in_batch+bm25) · uniform · policy.per=negative") == (
        "schedule(in_batch+bm25) · uniform ·\npolicy.per=negative"
    )
    assert broken("x" * 50) == "x" * 50
    assert broken("policy.actions=[in_batch,bm25:1-4,bm25@simans] · s0") == (
        "policy.actions=[in_batch,bm25:1-4,\nbm25@simans] · s0"
    )
