"""Names libraries that take long to import: each is imported when one of its names is first used.

>>> from pyrite.ranking.lazy import transformers  # at the top of a file, as if it were imported
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import faiss as faiss
    import fsspec as fsspec
    import huggingface_hub as huggingface_hub
    import optuna as optuna
    import peft as peft
    import psutil as psutil
    import pyarrow as pyarrow
    import safetensors as safetensors
    import safetensors.numpy
    import safetensors.torch
    import scipy as scipy
    import scipy.stats
    import sentence_transformers as sentence_transformers
    import sklearn as sklearn
    import threadpoolctl as threadpoolctl
    import tokenizers as tokenizers
    import torch as torch
    import transformers as transformers


class Library:
    """A library, or a module of one, that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        vars(self)["_path"] = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # such as __deepcopy__
            raise AttributeError(name)
        module = import_module(self._path)
        if not hasattr(module, name) and find_spec(f"{self._path}.{name}"):  # a module that it does not import
            import_module(f"{self._path}.{name}")
        found = getattr(module, name)
        return Library(found.__name__) if isinstance(found, ModuleType) else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(import_module(self._path), name, value)


def library(name: str) -> Library:
    """Return a library as this module's attribute of that name."""
    if name.startswith("__"):  # such as __path__
        raise AttributeError(name)
    return Library(name)


if not TYPE_CHECKING:
    __getattr__ = library
