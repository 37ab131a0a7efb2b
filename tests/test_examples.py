"""Runs the examples in the folder in which they are, and checks their types."""

import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyrite.cluster.commands.resuming import started
from pyrite.cluster.commands.study import STUDY
from tests.made_up import write_beir
from tests.pyrite_torch.conftest import in_thread as in_thread

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PRINTED = {
    "first_study": "pyrite study collection=pairs",
    "own_data": "support.csv: 160 pairs",
    "own_selector": "seed",
    "own_ranker": "MeanOfWords",
    "own_function": "nearby",
    "mine_negatives": "negative_3",
    "own_loop": "'bm25': ",
    "learned_policy": "policy.checkpoint=",
    "simulate_pool": "judgements per topic",
    "judge_from_script": "q1: b is relevant",
    "resume": "4 runs, then 6 in",
    "on_cluster": "in-batch",
    "your_trainer": "score as high as their positive",
    "your_trainer_study": "6 runs",
}
SLOW = ("learned_policy", "on_cluster", "own_function", "own_ranker", "own_selector", "resume", "simulate_pool",
        "your_trainer_study")  # fmt: skip
ALONE = ("on_cluster", "your_trainer", "your_trainer_study")
"""Those that a notebook leaves out: it starts no cluster and has no checkpoint."""
NAMES = [pytest.param(name, marks=[pytest.mark.nightly] * (name in SLOW)) for name in PRINTED]


def test_each_example_is_short_and_says_what_it_shows():
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert {path.stem for path in scripts} == {*PRINTED, "train_command"}
    for path in scripts:
        lines = path.read_text().splitlines()
        assert lines[0].startswith('"""')
        assert 6 <= len(lines) <= 60, path.name


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name, own_cache, small_bert, in_thread, tmp_path, monkeypatch, capsys):
    shutil.copy(EXAMPLES / "pairs.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYRITE_CACHE", str(own_cache))
    monkeypatch.setenv("MODEL", small_bert)  # of those that train a checkpoint
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert PRINTED[name] in printed
    if name == "learned_policy":
        runs, _ = started(STUDY, shlex.split(printed.partition("pyrite study ")[2])).plan.runs()
        assert {run.config["collection"]["path"] for run in runs} == {"pairs.csv"}


@pytest.mark.nightly
def test_the_types_of_the_examples_are_strict():
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *map(str, EXAMPLES.glob("*.py"))]
    checked = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_notebook_has_the_scripts():
    cells = json.loads((EXAMPLES / "tour.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    told = (name for name in PRINTED if name not in ALONE)
    scripts = [(EXAMPLES / f"{name}.py").read_text().split('"""', 2)[2].strip("\n") for name in told]
    assert code == scripts


@pytest.mark.nightly
@pytest.mark.parametrize("local", [True, False])
def test_the_notebook_runs_in_a_kernel_with_ray_and_without(local, tmp_path):
    pytest.importorskip("nbconvert", reason="needs nbconvert and ipykernel")
    folder = write_beir(tmp_path / "data")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "PYRITE_"))}
    environment["PYRITE_EXAMPLE"] = (
        f"collection=beir collection.path={folder} vectors=random scale=tiny training.batch_size=4 "
        f"training.max_epochs=1 measures=[AP@10] validation.measure=AP@10 cache={tmp_path / 'cache'} "
        f"local={str(local).lower()} out={tmp_path / 'out'}"
    )
    command = ["nbconvert", "--execute", "--to=notebook", f"--output-dir={tmp_path}", EXAMPLES / "own_selector.ipynb"]
    subprocess.run([sys.executable, "-m", *command], env=environment, cwd=tmp_path, check=True, timeout=280)
    (shown,) = json.loads((tmp_path / "own_selector.ipynb").read_text())["cells"][-1]["outputs"]
    table = "".join(shown["data"]["text/html"])
    assert "<table" in table
    assert "Own" in table
    assert (tmp_path / "out" / "log.jsonl").read_text().count('"run ended"') == 2
