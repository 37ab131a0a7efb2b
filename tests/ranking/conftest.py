"""Fixtures of the transformer rankers' tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from ranking.collections.collection import Collection
from ranking.encoding import EncodedCollection
from ranking.tokenization import Tokenization
from tests.ranking.checkpoints import write_checkpoint


@pytest.fixture(scope="session")
def made_up(tiny: Collection, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Makes a checkpoint (kind, dropout) that knows the words of `tiny`; the same one once."""
    texts = [*tiny.documents["text"], *tiny.queries["text"]]
    words = sorted({word for text in texts for word in re.findall(r"\w+", text)})
    made: dict[tuple[str, float], str] = {}

    def make(kind: str = "bert", dropout: float = 0.0) -> str:
        if (kind, dropout) not in made:
            folder = tmp_path_factory.mktemp(f"checkpoint_{kind}")
            made[kind, dropout] = write_checkpoint(folder, kind, words, dropout)
        return made[kind, dropout]

    return make


@pytest.fixture(scope="session")
def read_as(tiny: Collection, tiny_encoded: EncodedCollection) -> Callable[[Tokenization | None], EncodedCollection]:
    """The collection `tiny` in the tokens of a tokenization."""

    def read(tokenization: Tokenization | None) -> EncodedCollection:
        assert tokenization is not None
        tokens = tokenization.encode(tiny)
        return replace(tiny_encoded, documents=tokens.documents, queries=tokens.queries)

    return read


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Models of a few numbers take longer to share among threads than to compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
