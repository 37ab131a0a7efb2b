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
