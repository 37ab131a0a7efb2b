"""Saves and loads training states as safetensors, so that loading can run no code."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.errors import BadInput
from pyrite.ranking.lazy import safetensors, torch
from pyrite.ranking.mapped import open_array
from pyrite.ranking.pieced_array import PiecedArray

FORMAT = "pyrite-state-1"
KEY = "pyrite"
"""The only key of a file's metadata: safetensors writes several in random order, so that equal states would differ."""
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "C64": "complex64", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""The names of safetensors' number types in torch and NumPy."""


def to_bytes(state: Any) -> bytes:
    """Return a nest of dicts, lists, numbers, strings, bytes, tensors and arrays as one safetensors file.

    A dataclass is stored as the dict of its fields, and loaded as one. A mapped array is stored as the name of its
    file and folder, which has to be next to the written file.
    """
    packer = _Packer()
    plan = json.dumps(packer.pack(state))
    # A safetensors file needs a tensor; states without one are legal here.
    tensors = packer.tensors or {"none": torch.zeros(0)}
    entries = ((name, str(tensor.dtype), tuple(tensor.shape), _content(tensor)) for name, tensor in tensors.items())
    described = {"format": FORMAT, "state": plan, "digest": _digest(plan, entries)}
    saved = safetensors.torch.save(tensors, {KEY: json.dumps(described)})
    tensors.clear()  # the packer refers to itself, so the copies would stay until the garbage collector runs
    return saved


class _Packer:
    """Writes a state as a plan in JSON, and gathers its tensors, by number.

    Tensors are copied, because safetensors takes neither those that share memory nor those that are not contiguous.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._forms: Mapping[type, Callable[[Any], Any]] = {
            PiecedArray: self._pieced,
            bytes: lambda value: self._keep("bytes", torch.from_numpy(np.frombuffer(value, np.uint8).copy())),
            np.ndarray: self._array,
            torch.Tensor: lambda value: self._keep(
                "tensor", value.detach().cpu().clone(memory_format=torch.contiguous_format)
            ),
            dict: lambda value: {"dict": [[key, self.pack(item)] for key, item in value.items()]},
            list: lambda value: list(map(self.pack, value)),
            tuple: lambda value: list(map(self.pack, value)),
            np.generic: lambda value: value.item(),
        }

    def pack(self, value: Any) -> Any:
        """Return the plan of a value."""
        kinds = type(value).__mro__
        form = next(filter(None, map(self._forms.get, kinds)), None)
        if form is None and is_dataclass(value):
            return self.pack({field.name: getattr(value, field.name) for field in fields(value)})
        return value if form is None else form(value)

    def _pieced(self, value: PiecedArray) -> dict[str, Any]:
        return {"pieced": list(map(_place, value.files)), "starts": self.pack(value.starts)}

    def _array(self, value: NDArray[Any]) -> dict[str, str]:
        file = getattr(value, "file", None)
        if file is not None:
            return {"mapped": _place(file)}
        return self._keep("array", torch.from_numpy(np.array(value, order="C")))

    def _keep(self, kind: str, tensor: torch.Tensor) -> dict[str, str]:
        name = str(len(self.tensors))
        self.tensors[name] = tensor
        return {kind: name}


def _place(file: Path) -> str:
    """Return the name of a file and of its folder."""
    return "/".join(file.parts[-2:])


def _content(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a tensor."""
    flat = tensor.reshape(-1)
    if flat.stride() != (1,):  # possible for a tensor of at most one number, whose bytes then can't be viewed
        flat = torch.empty(len(flat), dtype=tensor.dtype).copy_(flat)
    return flat.view(torch.uint8).numpy().data


def from_bytes(data: bytes, where: str = "checkpoint", beside: Path | None = None) -> Any:
    """Return the state that `to_bytes` wrote (tuples become lists). Torch is imported only if there are tensors.

    Args:
        where: the file's name, for the error.
        beside: the folder with the folders of mapped arrays. None if none may be mapped.

    Raises:
        BadInput: if it is cut short, damaged or not such a file.
    """
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header["__metadata__"]
        metadata = json.loads(metadata[KEY]) if KEY in metadata else metadata  # older files have several keys
        plan = json.loads(metadata["state"])
        stored = {
            name: (DTYPES[entry["dtype"]], entry["shape"], entry["data"])
            for name, entry in safetensors.deserialize(data)
        }
        entries = ((name, f"torch.{kind}", tuple(shape), part) for name, (kind, shape, part) in stored.items())
        written = FORMAT, _digest(metadata["state"], entries)
        if (metadata["format"], metadata["digest"]) != written:
            raise ValueError(metadata["format"])
    except Exception as error:  # whatever a broken file makes the parsers raise
        raise BadInput(
            f"is not a whole checkpoint ({type(error).__name__})", where, "delete it to start over"
        ) from None
    state = _Unpacker(stored, where, beside).unpack(plan)
    stored.clear()  # as in `to_bytes`
    return state


class _Unpacker:
    """Makes a state from its plan and the content of its tensors, see `_Packer`.

    Args:
        stored: type, shape and bytes of each tensor.
        where, beside: see `from_bytes`.
    """

    def __init__(self, stored: Mapping[str, tuple[str, Any, Any]], where: str, beside: Path | None) -> None:
        self._stored, self._where, self._beside = stored, where, beside
        self._forms: Mapping[str, Callable[[Any], Any]] = {
            "mapped": lambda value: open_array(self._named(value["mapped"])),
            "pieced": lambda value: PiecedArray(
                tuple(map(self._named, value["pieced"])), np.array(self.unpack(value["starts"]))
            ),
            "tensor": lambda value: self._tensor(*stored[value["tensor"]]),
            "bytes": lambda value: bytes(stored[value["bytes"]][2]),
            "array": lambda value: self._array(*stored[value["array"]]),
            "dict": lambda value: {key: self.unpack(item) for key, item in value["dict"]},
        }

    def unpack(self, value: Any) -> Any:
        """Return the value of a plan."""
        if isinstance(value, list):
            return list(map(self.unpack, value))
        return self._forms[next(iter(value))](value) if isinstance(value, dict) else value

    def _named(self, file: str) -> Path:
        if self._beside is None:
            raise BadInput("names files beside it, which only the cache does", self._where)
        folder, name = file.split("/")
        return self._beside / folder / name

    def _tensor(self, kind: str, shape: Sequence[int], content: Any) -> torch.Tensor:
        dtype = getattr(torch, kind)
        return (torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)).reshape(shape)

    def _array(self, kind: str, shape: Sequence[int], content: Any) -> NDArray[Any]:
        return np.frombuffer(content, kind).reshape(shape)


def _digest(plan: str, entries: Iterable[tuple[str, str, tuple[int, ...], bytes | memoryview]]) -> str:
    """Return the CRC-32 of a file's content, which detects any byte that a disk returns wrong."""
    digest = zlib.crc32(plan.encode())
    for name, kind, shape, content in sorted(entries, key=lambda entry: entry[0]):
        digest = zlib.crc32(content, zlib.crc32(f"{name} {kind} {shape}".encode(), digest))
    return f"{digest:08x}"
