"""Fixtures that every folder of tests shares."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real collections and runs, kept beside the project and never in it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the real collections in ../shared/data, which are not on this machine")
    return folder
