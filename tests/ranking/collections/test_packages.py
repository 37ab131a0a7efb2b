"""Packages that docstrings are read from."""

import sys

from ranking.collections.packages import dependencies


def test_what_an_import_puts_on_the_path_makes_no_difference(monkeypatch):
    def found() -> dict[str, str]:
        return {name: one.version for name, one in dependencies().items()}

    whole = found()
    monkeypatch.setattr(sys, "path", [each for each in sys.path if not each.endswith("thirdparty_files")])
    assert found() == whole
