"""Folders of indexes whose owner was killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cluster.index.calls import OWNER, claim, remove_orphans


def test_what_the_dead_have_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in ("mine", "dead", "elsewhere", "damaged"):
        claim(tmp_path / name)
    owner = json.loads((tmp_path / "dead" / OWNER).read_text())
    (tmp_path / "dead" / OWNER).write_text(json.dumps(owner | {"pid": ended.pid}))
    (tmp_path / "elsewhere" / OWNER).write_text(json.dumps({"host": "far away", "pid": ended.pid}))
    (tmp_path / "damaged" / OWNER).write_text("{")
    (tmp_path / "nobody's").mkdir()
    remove_orphans(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {"mine", "elsewhere", "damaged", "nobody's"}
