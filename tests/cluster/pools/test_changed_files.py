"""Files of a pool that are others than they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.pools.sources import changed_files, file_digests


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"a": "1", "b": "2"}, None),
        ({"a": "1", "b": "3"}, "b differs"),
        ({"a": "2", "b": "3"}, "a, b differ"),
        ({"a": "1"}, "b is gone"),
        ({"a": "1", "b": "2", "c": "4", "d": "4", "e": "4", "f": "4", "g": "4"}, "c, d, e and 2 more are new"),
        ({"a": "0", "c": "4"}, "a differs, b is gone, c is new"),
    ],
)
def test_what_differs_is_named(now: dict[str, str], said: str | None) -> None:
    assert changed_files({"a": "1", "b": "2"}, now) == said


def test_a_digest_goes_by_the_content(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("text")
    other.write_text("text")
    first, second = file_digests([str(one), str(other)]).values()
    assert first == second
    assert len(first) == 12
