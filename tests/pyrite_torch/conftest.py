"""A tiny model for trainers that are not Pyrite's."""

from pathlib import Path

import pytest

from tests.pyrite_torch.tiny_trainer import write_bert


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("models") / "bert")
