

def test_what_is_composed_twice_is_the_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = compose(["scale=tiny"])
    before = changed["limits"]["train"]
    changed["limits"]["train"] = before + 1
    assert compose(["scale=tiny"])["limits"]["train"] == before
    for place in ("here", "there"):
        monkeypatch.setenv("PYRITE_CACHE", place)
        assert compose(["scale=tiny"])["cache"] == place
