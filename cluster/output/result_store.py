"""Stores the results of an output folder, each with what it was built from, and the states of unfinished work."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pyrite.cluster.output.provenance import content_digest, differences
from pyrite.cluster.output.storage import Storage
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput

BUILT_FROM = "made_of"
"""Key, in a result, of what it was built from."""
FILES = "files"
"""Key, in a result, of the checksums of the files that belong to it."""


class Named(Protocol):
    """Work that leaves a result."""

    @property
    def name(self) -> str:
        """The key of its result."""


Item = TypeVar("Item", bound=Named)
Provenance = Mapping[str, str]
"""Digests of the data and code that a result depends on, by name (`pyrite.cluster.output.provenance`)."""


@dataclass(frozen=True)
class ResultStore:
    """The results in one subfolder of an output folder.

    A result is finished if it and its files are whole, and it was built from the data and code that would be used now.
    A resumed command computes all others again.

    Example:
        >>> import tempfile
        >>> from pyrite.cluster.output.storage import Storage
        >>> storage = Storage(tempfile.mkdtemp())
        >>> ResultStore(storage, "runs", {"data": "a"}, ".json").write("first", {"loss": 0.5})
        >>> ResultStore(storage, "runs", {"data": "a"}, ".json").has("first")
        True
        >>> ResultStore(storage, "runs", {"data": "b"}, ".json").has("first")
        False
    """

    storage: Storage
    folder: str
    built_from: Callable[[str], Provenance] | Provenance | None = None
    """The same for all results, or by key; None accepts every whole result, for commands that only read."""
    ending: str = ".safetensors"
    """Suffix of the files: `.json` for results without arrays."""

    def file(self, key: str) -> str:
        """Return the path of a result in the output folder."""
        return f"{self.folder}/{key}{self.ending}"

    def keys(self) -> list[str]:
        """Return the keys of all results that were written, in order."""
        return sorted(name.removesuffix(self.ending) for name in self.storage.names(self.folder))

    def has(self, key: str) -> bool:
        """Return whether a result is finished."""
        return self._differences(key) == []

    def finished(self, work: Iterable[Named]) -> tuple[set[str], Counter[str]]:
        """Return the keys of the finished results, and the number of outdated ones by what has changed.

        Args:
            work: what has results, each under its name.
        """
        present, done, outdated = set(self.storage.names(self.folder)), set[str](), Counter[str]()
        for key in (each.name for each in work):
            changed = self._differences(key) if f"{key}{self.ending}" in present else None
            if changed:
                outdated[", ".join(changed)] += 1
            elif changed is not None:
                done.add(key)
        return done, outdated

    def outdated_states(self, work: Iterable[Named]) -> int:
        """Return the number of unfinished results whose states are all built from other data or code."""
        saved = self.storage.names("states")
        states = [self.state(each.name) for each in work]
        return sum(bool(state.of_its_name(saved)) and Path(state.file).name not in saved for state in states)

    def read(self, key: str) -> dict[str, Any] | None:
        """Return a result, whatever it was built from; None if there is none, or it is damaged."""
        content = self.storage.read(self.file(key))
        try:
            result = unpacked(content) if self.ending != ".json" else json.loads(content or b"null")
        except ValueError:
            return None
        return result if isinstance(result, dict) else None

    def write(self, key: str, result: Mapping[str, Any], files: Mapping[str, bytes] | None = None) -> None:
        """Write a result, whole or not at all. It holds arrays, too, unless results are JSON.

        Files of data in the output folder that belong to it are written first, as they are, so that a result is not
        there without them.
        """
        for name, content in (files or {}).items():
            self.storage.write_data(name, content)
        checksums = {FILES: {name: zlib.crc32(content) for name, content in files.items()}} if files else {}
        whole = {**result, **checksums, BUILT_FROM: dict(self._built_from(key) or {})}
        self.storage.write(self.file(key), json.dumps(whole).encode() if self.ending == ".json" else to_bytes(whole))

    def state(self, key: str) -> SavedState:
        """Return the saved state of an unfinished result."""
        return SavedState(self.storage, key, self._built_from(key) or {})

    def _built_from(self, key: str) -> Provenance | None:
        return self.built_from(key) if callable(self.built_from) else self.built_from

    def _differences(self, key: str) -> list[str] | None:
        """Return what has changed since a result was built; None if it is missing, or it or a file is damaged."""
        result, now = self.read(key), self._built_from(key)
        if result is None:
            return None
        try:
            for name, checksum in result.get(FILES, {}).items():
                if zlib.crc32(self.storage.content(name)) != checksum:
                    return None
            return [] if now is None else differences(result.get(BUILT_FROM, {}), now)
        except (AttributeError, TypeError):  # JSON of another shape
            return None


def unfinished(work: Iterable[Item], done: Container[str]) -> list[Item]:
    """Return what has no result among those that are done."""
    return [each for each in work if each.name not in done]


def outdated_lines(outdated: Mapping[str, int], kind: str = "results") -> list[str]:
    """Return the messages to print when a resumed command computes outdated results again."""
    again = "and are computed again"
    return [f"{count} {kind} were built from another {changed} {again}" for changed, count in outdated.items()]


def begun_again_lines(count: int) -> list[str]:
    """Return the message to print when unfinished runs can't continue from their states."""
    return [f"{count} of the unfinished runs were begun with other data or code and begin again"] if count else []


def unpacked(content: bytes | None) -> Any:
    """Return what `pyrite.ranking.checkpoint.to_bytes` packed; None if there is nothing or it is damaged."""
    try:
        return None if content is None else from_bytes(content)
    except BadInput:
        return None


class SavedState:
    """The state of unfinished work, from which it resumes after an interrupt.

    A digest of the data and code that the work uses is in the file's name: work that uses others does not find it.
    """

    def __init__(self, storage: Storage, name: str, built_from: Provenance) -> None:
        self.storage, self.name, self.file = storage, name, f"states/{name}-{content_digest(built_from)}.safetensors"

    def load(self) -> bytes | None:
        """Return the last state; None at the start, or if the state is damaged."""
        state = self.storage.read(self.file)
        return None if unpacked(state) is None else state

    def save(self, state: bytes) -> None:
        """Write the state, whole or not at all."""
        self.storage.write(self.file, state)

    def delete(self) -> None:
        """Delete the state, and those of the same work that were built from other data or code."""
        for name in self.of_its_name(self.storage.names("states")):
            self.storage.delete(f"states/{name}")

    def of_its_name(self, saved: Iterable[str]) -> list[str]:
        """Return the files among `saved` that hold states of this work, whatever they were built from."""
        return [name for name in saved if name.rpartition("-")[0] == self.name]
