"""docs/reference/ray_internals.md lists the private names of Ray that the project uses."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRIVATE = re.compile(
    r"""ray\._[a-z]+(?:\.[a-z]\w+)?          # a private package of Ray, and a module of it
      | ray\.dashboard(?:\.\w+)+
      | ray\.(?:\w+\.)+_[a-z]\w+
      | \b(?:_worker_manager|_named_optimizers|_learner\b|_global_node)
      | \b(?:ENABLE_RAY_CLUSTER\w*|TUNE_[A-Z_]+|RAY_AIR_NEW_OUTPUT|RAY_JOB_[A-Z_]+|RAY_CHDIR_TO_TRIAL_DIR)""",
    re.VERBOSE,
)


def test_every_private_name_of_ray_is_listed() -> None:
    listed = (ROOT / "docs" / "reference" / "ray_internals.md").read_text()
    used = {
        found[0]
        for folder in ("cluster", "rl", "ranking", "sampling", "pooling")
        for path in (ROOT / folder).rglob("*.py")
        for found in PRIVATE.finditer(path.read_text().replace("ray._private import ", "ray._private."))
    }
    assert {"ray._private.ray_constants", "_worker_manager", "TUNE_DISABLE_SIGINT_HANDLER"} <= used
    assert {name for name in used if name not in listed} == set()
