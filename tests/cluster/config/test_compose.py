"""One configuration, from overrides to a mapping; the rest of it is in `test_configuration.py`."""

from __future__ import annotations

import pytest

from cluster.config.compose import compose


def test_what_is_composed_twice_is_the_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = compose(["scale=tiny"])
    before = changed["limits"]["train"]
    changed["limits"]["train"] = before + 1
    assert compose(["scale=tiny"])["limits"]["train"] == before
    for place in ("here", "there"):
        monkeypatch.setenv("PYRITE_CACHE", place)
        assert compose(["scale=tiny"])["cache"] == place


@pytest.mark.parametrize(
    ("overrides", "count"),
    [
        ([], 4),
        (["function=in_batch", "training.batch_size=16"], 15),
        (["function=in_batch", "training.batch_size=1"], 1),
        (["function=in_batch", "sampling.negatives=7"], 7),
        (["function=[in_batch,bm25]"], 4),
    ],
)
def test_in_batch_alone_gives_the_whole_batch(overrides: list[str], count: int) -> None:
    assert compose(overrides)["sampling"]["negatives"] == count
