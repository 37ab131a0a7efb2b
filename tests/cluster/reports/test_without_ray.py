"""Tests that reports can be made without Ray."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cluster.reports

ROOT = Path(cluster.reports.__file__).parents[2]


def test_no_report_imports_ray_or_what_runs() -> None:
    modules = sorted(file.stem for file in Path(cluster.reports.__file__).parent.glob("*.py"))
    imports = "; ".join(f"import cluster.reports.{name}" for name in modules if name != "__init__")
    program = f"import sys; {imports}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    loaded = set(done.stdout.split())
    assert "cluster.reports.finalize" in loaded
    assert not {name for name in loaded if name == "ray" or name.startswith("ray.")}
    runs = {"cluster.runs.execute", "cluster.executors.session", "cluster.tune", "cluster.commands", "cluster.training"}
    assert not loaded & runs
