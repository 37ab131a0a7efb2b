"""Runs the examples as scripts, on tiny data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.made_up import write_beir

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("own_*.py"))
pytestmark = pytest.mark.xdist_group("ray")


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "data")
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    if name != "own_pool":
        environment["PYRITE_EXAMPLE"] = (
            f"collection=beir collection.path={folder} vectors=random scale=tiny training.batch_size=4 "
            f"training.max_epochs=1 'measures=[AP@10]' validation.measure=AP@10 cache={tmp_path / 'cache'}"
        )
    environment["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES.parent), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = {
        "own_loop": [r"loss \d.* at last", r"negatives by bm25"],
        "own_sentence_trainer": [r"losses \[\d", r"'bm25': \d+, 'random': \d+"],
        "own_ranker": [r"MeanOfWords", r"step 3: loss \d"],
        "own_policy": [r"EasyFirst", r"'random', 'random', 'bm25', 'bm25'"],
        "own_pool": [r"posterior_fusion", r"topic 0: d\d+ is"],
    }[name]
    for pattern in said:
        assert re.search(pattern, ended.stdout), ended.stdout


def test_every_example_has_cells_and_says_what_it_is() -> None:
    assert len(SCRIPTS) == 5
    for name in SCRIPTS:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert text.startswith('"""')
        assert text.count("# %% ") >= 3
