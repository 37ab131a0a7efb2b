"""Parts of runs behind a URI, also of a collection in pieces: made by one machine, and used by another."""

import shutil
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
    """Return all that a part says, arrays by their bytes."""
    if isinstance(value, np.ndarray | PiecedArray):
        value = np.asarray(value)
        return value.dtype.str, value.shape, value.tobytes()
    if hasattr(value, "__dataclass_fields__"):
        return {name: content(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {name: content(each) for name, each in value.items()}
    return [content(each) for each in value] if isinstance(value, list) else value


def machine(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Artifacts, list[str]]:
    """Return what a process of a machine makes parts with, and what it says meanwhile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    told: list[str] = []
    return Artifacts(told.append), told


@pytest.mark.parametrize("several", [False, True])
def test_parts_made_on_one_machine_are_used_on_another(several, tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.executors.pieces.connected", lambda: False)  # a test run's Ray has another home
    monkeypatch.setattr("cluster.executors.pieces.LEAST_PIECES", 100)
    folder = write_beir(tmp_path / "made_up", documents=200)
    size = seventh_of(folder)

    def config(cache: Path | str) -> dict[str, Any]:
        return compose([
            "collection=beir", f"collection.path={folder}", "vectors=random", "encoding.min_count=1", "scale=full",
            "function=[bm25,random]", "policy=random", "origin=[bm25,random]", f"cache={cache}",
        ])  # fmt: skip

    plain, remote = config(tmp_path / "plain"), config(f"file://{tmp_path}/shared")
    keys, expected = Artifacts().keys(plain), Artifacts().parts(plain)
    assert {"base", "origin:bm25", "function:bm25", "validation"} <= expected.keys()
    if several:
        monkeypatch.setattr(pieces, "PIECE", size)
    made, told = machine("a", tmp_path, monkeypatch)
    first = made.parts(remote)
    assert "encoding texts" in told
    assert made.keys(remote) == keys  # results in one piece are results in seven
    assert len(made.collection(remote).pieces) == (7 if several else 0)
    sizes = made.bytes_of(remote)
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "a")
    used, told = machine("b", tmp_path, monkeypatch)
    assert used.bytes_of(remote) == sizes
    second = used.parts(remote)
    assert told == ["reading beir"]  # and nothing is made
    assert first.keys() == second.keys() == expected.keys()
    for name, part in expected.items():
        assert content(part) == content(first[name]) == content(second[name]), name
    documents = second["base"].encoded.documents
    assert isinstance(documents.tokens, PiecedArray) == several
    assert (bytes_of(documents) < 3000 < bytes_of(expected["base"].encoded.documents)) == several
    assert not list((tmp_path / "b").rglob("documents*.arrow"))  # a run reads no texts
    assert not list(tmp_path.rglob("*.part"))
    # A part that is cut short behind the URI is made again, and published anew.
    (part_file,) = (tmp_path / "shared" / "parts").glob(f"{used.keys(remote)['validation']}.*")
    whole = part_file.read_bytes()
    part_file.write_bytes(whole[:-7])
    third, told = machine("c", tmp_path, monkeypatch)
    assert content(third.part(remote, "validation")) == content(expected["validation"])
    assert "ranking for validation" in told
    assert part_file.stat().st_size == len(whole)
