"""Saves and loads training states as safetensors, so that loading can run no code."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pyrite.ranking.errors import BadInput
from pyrite.ranking.lazy import safetensors, torch
from pyrite.ranking.mapped import MappedArray, open_array
from pyrite.ranking.pieced_array import PiecedArray

if TYPE_CHECKING:
    import torch

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
    tensors: dict[str, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> str:
        name = str(len(tensors))
        tensors[name] = tensor
        return name

    # Copies, because safetensors takes neither tensors that share memory nor those that are not contiguous.
    def pack(value: Any) -> Any:
        if isinstance(value, MappedArray) and value.file is not None:
            return {"mapped": "/".join(value.file.parts[-2:])}
        if isinstance(value, PiecedArray):
            return {"pieced": ["/".join(file.parts[-2:]) for file in value.files], "starts": pack(value.starts)}
        if isinstance(value, bytes):
            return {"bytes": keep(torch.from_numpy(np.frombuffer(value, np.uint8).copy()))}
        if isinstance(value, np.ndarray):
            return {"array": keep(torch.from_numpy(np.array(value, order="C")))}
        if isinstance(value, torch.Tensor):
            return {"tensor": keep(value.detach().cpu().clone(memory_format=torch.contiguous_format))}
        if is_dataclass(value) and not isinstance(value, type):
            value = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, dict):
            return {"dict": [[key, pack(item)] for key, item in value.items()]}
        if isinstance(value, list | tuple):
            return [pack(item) for item in value]
        return value.item() if isinstance(value, np.generic) else value

    def content(tensor: torch.Tensor) -> memoryview:
        flat = tensor.reshape(-1)
        if flat.stride() != (1,):  # possible for a tensor of at most one number, whose bytes then can't be viewed
            flat = torch.empty(len(flat), dtype=tensor.dtype).copy_(flat)
        return flat.view(torch.uint8).numpy().data

    plan = json.dumps(pack(state))
    # A safetensors file needs a tensor; states without one are legal here.
    tensors = tensors or {"none": torch.zeros(0)}
    entries = ((name, str(tensor.dtype), tuple(tensor.shape), content(tensor)) for name, tensor in tensors.items())
    described = {"format": FORMAT, "state": plan, "digest": _digest(plan, entries)}
    saved = safetensors.torch.save(tensors, {KEY: json.dumps(described)})
    tensors.clear()  # `pack` refers to itself, so the copies would stay until the garbage collector runs
    return saved


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
        if metadata["format"] != FORMAT:
            raise ValueError(metadata["format"])
        plan = json.loads(metadata["state"])
        stored = {
            name: (DTYPES[entry["dtype"]], entry["shape"], entry["data"])
            for name, entry in safetensors.deserialize(data)
        }
        entries = ((name, f"torch.{kind}", tuple(shape), part) for name, (kind, shape, part) in stored.items())
        if metadata["digest"] != _digest(metadata["state"], entries):
            raise ValueError("its digest differs")
    except Exception as error:  # whatever a broken file makes the parsers raise
        raise BadInput(
            f"is not a whole checkpoint ({type(error).__name__})", where, "delete it to start over"
        ) from None

    def named(file: str) -> Path:
        if beside is None:
            raise BadInput("names files beside it, which only the cache does", where)
        folder, name = file.split("/")
        return beside / folder / name

    def unpack(value: Any) -> Any:
        if isinstance(value, list):
            return [unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "mapped" in value and len(value) == 1:
            return open_array(named(value["mapped"]))
        if "pieced" in value:
            return PiecedArray(tuple(map(named, value["pieced"])), np.array(unpack(value["starts"])))
        if "tensor" in value:
            kind, shape, content = stored[value["tensor"]]
            dtype = getattr(torch, kind)
            return (torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)).reshape(shape)
        if "bytes" in value:
            return bytes(stored[value["bytes"]][2])
        if "array" in value:
            kind, shape, content = stored[value["array"]]
            return np.frombuffer(content, kind).reshape(shape)
        return {key: unpack(item) for key, item in value["dict"]}

    state = unpack(plan)
    stored.clear()  # as in `to_bytes`
    return state


def _digest(plan: str, entries: Iterable[tuple[str, str, tuple[int, ...], bytes | memoryview]]) -> str:
    """Return the CRC-32 of a file's content, which detects any byte that a disk returns wrong."""
    digest = zlib.crc32(plan.encode())
    for name, kind, shape, content in sorted(entries, key=lambda entry: entry[0]):
        digest = zlib.crc32(content, zlib.crc32(f"{name} {kind} {shape}".encode(), digest))
    return f"{digest:08x}"
