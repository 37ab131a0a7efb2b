"""A tiny model for trainers that are not Pyrite's."""

from pathlib import Path

import pytest

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
