"""Parts are made once, whoever asks first."""

import threading
from pathlib import Path
from typing import Any

import pytest

from cluster.config.compose import compose
from cluster.runs.artifacts import Artifacts
from ranking.collections import cache
from ranking.collections.reader import Reader


def test_those_who_ask_at_once_make_a_collection_and_its_parts_once(
    base: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, notes, read = compose([*base, "seed=0", "function=bm25", f"cache={tmp_path}"]), list[str](), list[str]()
    make, build = Artifacts._make, cache.build

    def read_counted(reader: Reader, *rest: Any) -> None:
        read.append(reader.name)
        build(reader, *rest)

    monkeypatch.setattr(cache, "build", read_counted)

    def counted(self: Artifacts, config: dict[str, Any], name: str) -> Any:
        notes.append(name)
        return make(self, config, name)

    monkeypatch.setattr(Artifacts, "_make", counted)
    found: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: found.append(Artifacts().parts(config))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert read == ["made_up"]
    assert sorted(notes) == sorted(found[0])
    assert not list(tmp_path.rglob("*.lock"))
