"""Small runs, judgements and checkpoints on disk."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.conftest import console as console
from tests.analysis.conftest import made_up_study as made_up_study
from tests.analysis.conftest import written_trials as written_trials
from tests.cluster.command_line import command
from tests.conftest import DOCUMENTS as OF_TEXTS
from tests.conftest import QUERIES
from tests.ranking.checkpoints import write_checkpoint

DOCUMENTS = 60
TOPICS = 4


def write_runs(folder: Path, seed: int = 0, topics: int = TOPICS) -> Path:
    """Six runs of three teams over some topics, twelve documents deep, and qrels.txt beside their folder."""
    rng = np.random.default_rng(seed)
    (folder / "runs").mkdir(parents=True)
    relevant = rng.random((topics, DOCUMENTS)) < 0.25
    for number, quality in enumerate(np.linspace(0, 0.8, 6)):
        tag = f"{'abc'[number // 2]}{number}"
        lines = []
        for topic in range(topics):
            scores = rng.random(DOCUMENTS) + quality * relevant[topic]
            for rank, document in enumerate(np.argsort(-scores)[:12]):
                lines.append(f"{topic + 1} Q0 d{document:02} {rank + 1} {scores[document]:.6f} {tag}\n")
        (folder / "runs" / f"input.{tag}").write_text("".join(lines))
    (folder / "qrels.txt").write_text(
        "".join(f"{t + 1} 0 d{d:02} {int(relevant[t, d])}\n" for t in range(topics) for d in range(DOCUMENTS))
    )
    return folder


@pytest.fixture
def refusal(capsys) -> Callable[..., str]:
    """Runs a command that is refused, and returns its one line."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert command(*arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line.removeprefix("pyrite: ")

    return run


@pytest.fixture
def experiments(monkeypatch) -> list[str]:
    """The folders of the experiments of Ray Tune that a test runs."""
    from pyrite.cluster.executors.tune import TuneExecutor

    folders, tuner = list[str](), TuneExecutor._tuner

    def kept(self: TuneExecutor, trials: Any, retries: int, folder: str) -> Any:
        folders.append(folder)
        return tuner(self, trials, retries, folder)

    monkeypatch.setattr(TuneExecutor, "_tuner", kept)
    return folders


@pytest.fixture(scope="session")
def small_pool(tmp_path_factory) -> Path:
    """A folder with runs/ and qrels.txt."""
    return write_runs(tmp_path_factory.mktemp("pools") / "small")


@pytest.fixture(scope="session")
def of_small_pool(small_pool) -> list[str]:
    """Overrides that name them."""
    return [f"runs={small_pool / 'runs'}", f"qrels={small_pool / 'qrels.txt'}", "depth=10", "dashboard=false"]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> str:
    """Checkpoint of a small BERT that knows the words of the tests' collection."""
    texts = [text for _, text, *_ in [*OF_TEXTS, *QUERIES]]
    words = sorted({word for text in texts for word in re.findall(r"\w+", text)})
    return write_checkpoint(tmp_path_factory.mktemp("whole"), "bert", words)
