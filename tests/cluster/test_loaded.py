"""What processes of ours load: each waits for it, and some are to run where a package is not installed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyrite.analysis
import pyrite.cluster.reports
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.outcome import Outcome, write_outcome

ROOT = Path(pyrite.analysis.__file__).parents[2]


def run(program: str) -> str:
    """Run a program in an interpreter that has loaded nothing; return what it printed."""
    begin = "import sys\ndef loaded(*names):\n    return sorted({*names} & {*sys.modules})\n"
    ended = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_neither_a_pool_here_nor_a_report_loads_ray_or_what_runs(small_pool, tmp_path):
    asked = [f"runs={small_pool / 'runs'}", f"qrels={small_pool / 'qrels.txt'}"]
    asked += ["depth=10", "method=mtf,docid", "seeds=1", "ranking_quality=false", f"out={tmp_path / 'out'}"]
    rooms = [Path(str(room.__file__)).parent for room in (pyrite.analysis, pyrite.cluster.reports)]
    files = sorted(file for room in rooms for file in room.rglob("*.py") if file.stem != "__init__")
    imports = "\n".join(f"import {'.'.join(file.relative_to(ROOT).with_suffix('').parts)}" for file in files)
    said = run(
        "from pyrite.cluster.commands.cli import main\n"
        f"try:\n    main(['pool', *{asked!r}])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        f"import pyrite\nassert not loaded('ray', 'torch'), 'imported'\n{imports}\n"
        "print(loaded('pyrite.cluster.runs.execute', 'pyrite.cluster.executors.tune', 'pyrite.cluster.training'))\n"
        "print(loaded('pyrite.analysis.reports.study_report', 'pyrite.analysis.statistics.summary'))\n"
        "import pyrite.rl.networks; print(loaded('ray'))"  # of a frozen policy
    )
    assert said.splitlines()[-3:] == [
        "[]",
        "['pyrite.analysis.reports.study_report', 'pyrite.analysis.statistics.summary']",
        "[]",
    ]


@pytest.mark.nightly
def test_who_hands_out_runs_on_a_cluster_loads_nothing_that_trains_or_draws(tmp_path):
    write_outcome(Storage(str(tmp_path)), "one", Outcome(epochs=3, queries={"bm25": np.arange(4)}))
    said = run(
        "import pyrite.cluster.commands.study, pyrite.cluster.executors.tune, pyrite.cluster.runs.remote_artifacts\n"
        "import pyrite.cluster.training.study_runs\n"
        "from pyrite.cluster.output.storage import Storage\n"
        "from pyrite.cluster.runs.outcome import read_outcome\n"
        f"print(read_outcome(Storage({str(tmp_path)!r}), 'one').queries['bm25'].sum())\n"
        "print(loaded('torch', 'numba', 'gymnasium', 'scipy.stats', 'matplotlib', 'sklearn'))\n"
        "import pyrite.cluster.rollouts.request; print(loaded('ray.rllib'))\n"  # it takes seconds to import
        "import pyrite.cluster.index.bm25; print(loaded('torch'))\n"  # an actor that ranks by BM25
        "import pyrite.cluster.commands.mine, pyrite.ranking.rankers.static\n"  # mining by vectors
        "print(loaded('scipy.sparse', 'transformers'))"
    )
    assert said.splitlines() == ["6", "[]", "[]", "[]", "[]"]


def test_help_loads_nothing_heavy():
    verbs = [[], *([verb] for verb in ("train", "study", "pool", "judge", "report", "options", "submit"))]
    said = run(
        "from pyrite.cluster.commands.cli import main\n"
        f"for verb in {verbs!r}:\n"
        "    try: main([*verb, '--help'])\n"
        "    except SystemExit: pass\n"
        "    print('LOADED', *loaded('torch', 'ray', 'polars', 'numpy', 'hydra', 'matplotlib', 'scipy'))"
    )
    assert said.count("usage: pyrite") == len(verbs)
    assert [line for line in said.splitlines() if line.startswith("LOADED")] == ["LOADED"] * len(verbs)


@pytest.mark.parametrize(("own", "meanwhile"), [("", "(10000, 100, 10)"), ("gc.set_threshold(0)", "(0, 10, 10)")])
def test_garbage_is_looked_for_as_usual_once_all_is_imported(own, meanwhile):
    program = (
        f"import gc; {own}\n"
        "usual = gc.get_threshold()\n"
        "import pyrite.cluster\n"
        "print(gc.get_threshold())\n"
        "kept = [[] for _ in range(1_100_000)]\n"
        "assert gc.get_threshold() == usual\n"
        "gc.set_threshold(20_000, 50, 5)\n"
        "gc.collect()\n"
        "assert gc.get_threshold() == (20_000, 50, 5)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.stdout.strip(), ended.stderr) == (meanwhile, "")
