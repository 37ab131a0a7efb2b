"""A run over a collection in pieces: every part is what one piece gives, and nothing that is sent holds the texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.config.compose import compose
from cluster.executors.object_store import bytes_of
from cluster.runs.artifacts import Artifacts
from ranking.collections import pieces
from ranking.pieced_array import PiecedArray
from tests.made_up import seventh_of, write_beir


def content(value: Any) -> Any:
    """All that a part says, arrays by their bytes."""
    if isinstance(value, np.ndarray | PiecedArray):
        value = np.asarray(value)
        return value.dtype.str, value.shape, value.tobytes()
    if hasattr(value, "__dataclass_fields__"):
        return {name: content(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {name: content(each) for name, each in value.items()}
    return [content(each) for each in value] if isinstance(value, list) else value


def test_parts_are_the_same_in_one_piece_and_in_seven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.executors.pieces.LEAST_PIECES", 100)  # without a Ray of its own
    folder = write_beir(tmp_path / "made_up", documents=500)
    made = []
    for cache, size in (("one", pieces.PIECE), ("seven", seventh_of(folder))):
        monkeypatch.setattr(pieces, "PIECE", size)
        config = compose([
            "collection=beir", f"collection.path={folder}", "vectors=random", "encoding.min_count=1", "scale=full",
            "function=[bm25,random]", "policy=random", "origin=[bm25,random]", f"cache={tmp_path / cache}",
        ])  # fmt: skip
        made.append((Artifacts().keys(config), Artifacts().parts(config)))
        assert len(Artifacts().collection(config).pieces) == (0 if cache == "one" else 7)
    assert made[0][0] == made[1][0]  # results of the one are results of the other
    assert {"base", "origin:bm25", "function:bm25", "validation"} <= made[0][1].keys()
    for name, part in made[0][1].items():
        assert content(part) == content(made[1][1][name]), name
    tokens = [parts["base"].encoded.documents.tokens for _, parts in made]
    assert not isinstance(tokens[0], PiecedArray)
    assert isinstance(tokens[1], PiecedArray)
    assert bytes_of(made[1][1]["base"].encoded.documents) < 3000 < bytes_of(made[0][1]["base"].encoded.documents)
    # From the cache it is mapped again.
    assert isinstance(Artifacts().part(config, "base").encoded.documents.tokens, PiecedArray)  # type: ignore[union-attr]
