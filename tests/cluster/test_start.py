"""What every process of ours does first."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("own", "meanwhile"), [("", "(10000, 100, 10)"), ("gc.set_threshold(0)", "(0, 10, 10)")])
def test_garbage_is_looked_for_as_usual_once_all_is_imported(own: str, meanwhile: str) -> None:
    program = (
        f"import gc; {own}\n"
        "usual = gc.get_threshold()\n"
        "import cluster\n"
        "print(gc.get_threshold())\n"
        "kept = [[] for _ in range(1_100_000)]\n"
        "assert gc.get_threshold() == usual\n"
        "gc.set_threshold(20_000, 50, 5)\n"
        "gc.collect()\n"
        "assert gc.get_threshold() == (20_000, 50, 5)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.stdout.strip(), ended.stderr) == (meanwhile, "")
