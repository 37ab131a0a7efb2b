"""Runs the examples, on tiny data."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.made_up import write_beir

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("own_*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported already what an example imports."""
    folder = write_beir(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.syspath_prepend(EXAMPLES)  # as Python has it for a script
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    if name != "own_pool":
        monkeypatch.setenv(
            "PYRITE_EXAMPLE",
            f"collection=beir collection.path={folder} vectors=random scale=tiny training.batch_size=4 "
            f"training.max_epochs=1 'measures=[AP@10]' validation.measure=AP@10 cache={tmp_path / 'cache'}",
        )
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    said = {
        "own_loop": [r"loss \d.* at last", r"negatives by bm25"],
        "own_sentence_trainer": [r"losses \[\d", r"'bm25': \d+, 'random': \d+"],
        "own_ranker": [r"MeanOfWords", r"step 3: loss \d"],
        "own_policy": [r"EasyFirst", r"'random', 'random', 'bm25', 'bm25'"],
        "own_pool": [r"posterior_fusion", r"topic 0: d\d+ is"],
    }[name]
    for pattern in said:
        assert re.search(pattern, printed), printed


def test_every_example_has_cells_and_says_what_it_is() -> None:
    assert len(SCRIPTS) == 5
    for name in SCRIPTS:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert text.startswith('"""')
        assert text.count("# %% ") >= 3


@pytest.mark.nightly
@pytest.mark.parametrize("local", [True, False])
def test_the_notebook_runs_in_a_kernel_with_ray_and_without(local: bool, tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "data")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "PYRITE_"))}
    environment["PYRITE_EXAMPLE"] = (
        f"collection=beir collection.path={folder} vectors=random scale=tiny training.batch_size=4 "
        f"training.max_epochs=1 measures=[AP@10] validation.measure=AP@10 cache={tmp_path / 'cache'} "
        f"local={str(local).lower()} out={tmp_path / 'out'}"
    )
    command = ["nbconvert", "--execute", "--to=notebook", f"--output-dir={tmp_path}", EXAMPLES / "own_selector.ipynb"]
    subprocess.run([sys.executable, "-m", *command], env=environment, cwd=tmp_path, check=True, timeout=280)
    cells = json.loads((tmp_path / "own_selector.ipynb").read_text())["cells"]
    (shown,) = cells[-1]["outputs"]
    table = "".join(shown["data"]["text/html"])
    assert "<table" in table
    assert "Own" in table
    log = (tmp_path / "out" / "log.jsonl").read_text()
    assert log.count('"run ended"') == 2
