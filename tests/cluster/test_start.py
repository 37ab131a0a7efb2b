"""What every process of ours does first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cluster.output.storage import Storage
from cluster.runs.outcome import Outcome, write_outcome


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


def test_who_hands_out_runs_on_a_cluster_imports_nothing_that_trains_or_draws(tmp_path: Path) -> None:
    write_outcome(Storage(str(tmp_path)), "one", Outcome(epochs=3, queries={"bm25": np.arange(4)}))
    heavy = {"torch", "numba", "bm25s", "gymnasium", "scipy.stats", "matplotlib"}
    program = (
        "import sys, cluster.commands.study, cluster.executors.tune, cluster.runs.remote_artifacts\n"
        "import cluster.training.study_runs\n"
        "from cluster.output.storage import Storage\n"
        "from cluster.runs.outcome import read_outcome\n"
        f"print(read_outcome(Storage({str(tmp_path)!r}), 'one').queries['bm25'].sum())\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n") == ["6", "[]", ""]


def test_an_actor_that_ranks_by_bm25_imports_no_torch() -> None:
    program = "import sys, cluster.index.shard; print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_mining_by_vectors_imports_no_bm25() -> None:
    program = "import sys, cluster.commands.mine, ranking.rankers.static\n"
    program += "print({'bm25s', 'scipy.sparse', 'transformers'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
