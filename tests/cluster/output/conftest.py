"""A store of objects for tests: without renaming or appending, and what is written shows when it is closed."""

import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from pyrite.cluster.output import storage

SCHEME = "store://"


class Objects(fs.FileSystemHandler):
    """Objects by their names; folders are prefixes. `written` counts the bytes of each."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: list[tuple[str, int]] = []

    def get_type_name(self) -> str:
        return "objects"

    def open_input_stream(self, path: str) -> Any:
        if path not in self.objects:
            raise FileNotFoundError(path)
        return pa.PythonFile(pa.BufferReader(self.objects[path]), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Upload(self, path), mode="w")

    def open_input_file(self, path: str) -> Any:
        return self.open_input_stream(path)

    def normalize_path(self, path: str) -> str:
        return path

    def delete_file(self, path: str) -> None:
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(path)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        below = {name: name.removeprefix(f"{selector.base_dir}/") for name in self.objects}
        inside = [name for name, rest in below.items() if rest != name and (selector.recursive or "/" not in rest)]
        return [fs.FileInfo(name, fs.FileType.File) for name in inside]

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, fs.FileType.File if path in self.objects else fs.FileType.NotFound) for path in paths]

    def _refused(self, *given: Any) -> Any:
        raise NotImplementedError("an object store cannot")

    move = copy_file = open_append_stream = create_dir = delete_dir = delete_dir_contents = _refused
    delete_root_dir_contents = _refused


class _Upload(io.BytesIO):
    """An object on its way: nothing shows before the end."""

    def __init__(self, store: Objects, path: str) -> None:
        super().__init__()
        self.store, self.path = store, path

    def close(self) -> None:
        if not self.closed:
            self.store.objects[self.path] = self.getvalue()
            self.store.written.append((self.path, len(self.getvalue())))
        super().close()


@pytest.fixture
def store(monkeypatch) -> Objects:
    """Places that begin with `store://` lie in it."""
    store, usual = Objects(), storage.open_files
    files = fs.PyFileSystem(store)

    def open_files(place: str) -> tuple[Any, str]:
        return (files, place.removeprefix(SCHEME)) if place.startswith(SCHEME) else usual(place)

    monkeypatch.setattr(storage, "open_files", open_files)
    return store
