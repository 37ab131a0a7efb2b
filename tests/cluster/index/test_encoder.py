"""The encoder of an index: it reads in the precision that is asked for, and the trained ranker stays as it is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cluster.index.encoder import IndexEncoder, TextBlock
from ranking.checkpoint import to_bytes
from ranking.errors import BadInput
from ranking.rankers.bi_encoder import BiEncoder
from ranking.texts import Texts
from sampling.retrieval.dense import Dense
from tests.cluster.index.toy_corpus import ToyCorpus
from tests.ranking.checkpoints import write_checkpoint


def test_vectors_are_read_in_the_precision_that_is_asked_for(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "bert", "bert", [f"w{number}" for number in range(9)])
    ranker = BiEncoder(torch.Generator(), checkpoint, max_query=5, max_document=5).eval()
    texts = Texts.of([[4, 5, 6], [7, 8], [9, 10, 11, 12]])
    corpus: Any = SimpleNamespace(texts=lambda: (texts, texts), ranker=lambda: Dense()._copy(ranker))
    weights, read = np.frombuffer(to_bytes(ranker.state_dict()), np.uint8), {}
    block = TextBlock(0, 3, False, Path("nowhere"), 0)
    for precision in (None, "float32", "bfloat16"):
        made, vectors = IndexEncoder(corpus, precision=precision).encode(weights, "digest", block)
        assert not made
        assert vectors is not None
        read[precision] = vectors
    assert read[None].tobytes() == read["float32"].tobytes()
    assert read["bfloat16"].tobytes() != read["float32"].tobytes()
    assert np.abs(read["bfloat16"] - read["float32"]).max() < 0.05
    assert Dense(precision="bfloat16")._copy(ranker).query_tower.precision == torch.bfloat16  # type: ignore[attr-defined]
    assert ranker.query_tower.precision == torch.float32


def test_a_precision_that_can_not_be_had_is_refused() -> None:
    with pytest.raises(BadInput, match=r"function.dense.precision: WordSums has no transformer"):
        IndexEncoder(ToyCorpus(), precision="bfloat16")
    with pytest.raises(BadInput, match="Dense: precision is 'half'"):
        Dense(precision="half")  # type: ignore[arg-type]
