"""Tests that reports can be made without Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cluster.reports
import cluster.statistics

ROOT = Path(cluster.reports.__file__).parents[2]


def test_no_report_imports_ray_or_what_runs() -> None:
    rooms = [Path(str(room.__file__)).parent for room in (cluster.reports, cluster.statistics)]
    files = sorted(file for room in rooms for file in room.rglob("*.py") if file.stem != "__init__")
    imports = "; ".join(f"import {'.'.join(file.relative_to(ROOT).with_suffix('').parts)}" for file in files)
    program = f"import sys; {imports}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(done.stdout.split())
    assert {"cluster.reports.study_report", "cluster.statistics.summary"} <= loaded
    assert not {name for name in loaded if name == "ray" or name.startswith("ray.")}
    runs = {"cluster.runs.execute", "cluster.executors.tune", "cluster.commands", "cluster.training"}
    assert not loaded & runs
