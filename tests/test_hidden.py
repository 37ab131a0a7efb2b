"""A file of the user with the name of one of our packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrite.hidden import OURS, refuse_hidden_packages


def test_a_file_that_hides_a_package_is_named(tmp_path: Path) -> None:
    refuse_hidden_packages()
    (tmp_path / "ranking.py").write_text("")
    refuse_hidden_packages([str(OURS), str(tmp_path)])
    with pytest.raises(ImportError, match=r"ranking\.py hides Pyrite's package 'ranking'; rename it"):
        refuse_hidden_packages([str(tmp_path), str(OURS)])
