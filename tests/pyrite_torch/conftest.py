"""A tiny model for trainers that are not Pyrite's."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pyrite.torch import builders
from tests.examples import NIGHTLY
from tests.pyrite_torch.in_thread import InThread
from tests.pyrite_torch.tiny_trainer import write_bert, write_headed


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(scope="session")
def masked(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a head for masked words."""
    return write_headed(bert, tmp_path_factory.mktemp("models") / "masked", "BertForMaskedLM")


@pytest.fixture(scope="session")
def reranker(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a head for one score."""
    return write_headed(bert, tmp_path_factory.mktemp("models") / "reranker", "BertForSequenceClassification")


@pytest.fixture
def in_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has versions built by day in a thread instead of a process beside the trainer."""
    if not NIGHTLY:
        monkeypatch.setattr(builders, "subprocess", SimpleNamespace(Popen=InThread, PIPE=-1))
