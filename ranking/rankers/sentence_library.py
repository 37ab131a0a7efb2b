"""Lets rankers use sentence-transformers from version 5.2 on: version 6 named and split modules differently."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from pyrite.ranking.errors import BadInput, refuse

OLDEST = (5, 2)
"""The first version that is read."""


class SentenceLibrary:
    """The package from version 6 on.

    Attributes:
        package: the package.
    """

    def __init__(self, package: Any) -> None:
        self.package = package

    def module(self, name: str, **options: Any) -> Any:
        """Return a new module: `Normalize`, `Pooling`, `SpladePooling`."""
        return getattr(self._home(name), name)(**options)

    def router(self, query: Sequence[Any], document: Sequence[Any]) -> Any:
        """Return the module that reads queries and documents with different modules."""
        return self._home("Router").Router.for_query_document(query, document)

    def _home(self, name: str) -> Any:
        from sentence_transformers.base import modules
        from sentence_transformers.sentence_transformer import modules as of_sentences
        from sentence_transformers.sparse_encoder import modules as of_sparse

        return {"Pooling": of_sentences, "SpladePooling": of_sparse}.get(name, modules)

    def read_words(self, folder: str, options: Mapping[str, Any]) -> Any:
        """Return the module that predicts masked words."""
        from sentence_transformers.base.modules import Transformer

        return Transformer(folder, transformer_task="fill-mask", **options)

    def read_pairs(self, folder: str, task: str, words: Sequence[int], options: Mapping[str, Any]) -> Any:
        """Return a `CrossEncoder` whose head differs from its checkpoint's; see `Head` of `sentence_models`."""
        from sentence_transformers.base.modules import Transformer
        from sentence_transformers.cross_encoder.modules import LogitScore

        modules = [Transformer(folder, transformer_task=task, **options), *([LogitScore(*words)] if words else [])]
        return self.package.CrossEncoder(modules=modules, device="cpu", local_files_only=True)

    def check_types(self, root: str) -> None:
        """Refuse a folder whose modules are classes that the package would run from the folder, or import."""

    def model(self, kind: str) -> Any:
        """Return a class of models, as `SentenceTransformer`."""
        return getattr(self.package, kind)

    def modules(self, model: Any) -> list[Any]:
        """Return the modules of a model, the first of which runs the transformer."""
        return list(model)

    def transformer(self, reader: Any) -> Any:
        """Return the model of transformers of a module; None if it has none."""
        return getattr(reader, "model", None)

    def replace_transformer(self, reader: Any, model: nn.Module) -> None:
        """Give a module another model of transformers."""
        reader.model = model

    def dimension(self, module: Any) -> int | None:
        """Return the length of a module's vectors: 0 if it is not known yet, None if the module does not change it."""
        return int(module.get_embedding_dimension() or 0) if hasattr(module, "get_embedding_dimension") else None

    def pooling(self, module: Any) -> str | None:
        """Return the name of a module's pooling; None if it pools nothing."""
        return getattr(module, "pooling_mode", None)

    def output(self, reader: Any) -> str:
        """Return the name of what a module reads of a transformer's output."""
        return str(reader.modality_config["text"]["method_output_name"])

    def result(self, reader: Any) -> str | None:
        """Return the name of what a module makes of plain text; None if it reads something else."""
        text = getattr(reader, "modality_config", {}).get("text")
        return reader.module_output_name if text is not None and text["method"] == "forward" else None

    def reads(self, reader: Any) -> str:
        """Return the kinds of input of a module, for messages."""
        return ", ".join(map(str, getattr(reader, "modality_config", ())))

    def set_lengths(self, reader: Any, query: int | None, document: int | None) -> None:
        """Have a module read this many tokens of queries and documents; None for all."""
        reader.query_length, reader.document_length = query, document

    def needs_6(self, what: str) -> None:
        """Raise `BadInput` if the package is older than version 6."""

    def save(self, model: Any, folder: str) -> None:
        """Write a model."""
        model.save(folder, create_model_card=False)


class OlderLibrary(SentenceLibrary):
    """The package from version 5.2 on, before version 6."""

    def _home(self, name: str) -> Any:
        from sentence_transformers import models
        from sentence_transformers.sparse_encoder import models as of_sparse

        return {"SpladePooling": of_sparse}.get(name, models)

    def module(self, name: str, **options: Any) -> Any:
        renamed = {"embedding_dimension": "word_embedding_dimension"} if name == "Pooling" else {}
        return super().module(name, **{renamed.get(key, key): value for key, value in options.items()})

    def read_words(self, folder: str, options: Mapping[str, Any]) -> Any:
        from sentence_transformers.sparse_encoder.models import MLMTransformer

        return MLMTransformer(folder, model_args=options["model_kwargs"], config_args=options["config_kwargs"])

    def read_pairs(self, folder: str, task: str, words: Sequence[int], options: Mapping[str, Any]) -> Any:
        if task != "sequence-classification":
            self.needs_6("a language model that judges pairs")
        return self.package.CrossEncoder(folder, device="cpu", local_files_only=True, **options)

    def check_types(self, root: str) -> None:
        listed = [module["type"] for file in Path(root).glob("modules.json") for module in json.loads(file.read_text())]
        for file in Path(root).rglob("router_config.json"):
            listed += json.loads(file.read_text())["types"].values()
        foreign = [kind for kind in listed if not str(kind).startswith("sentence_transformers.")]
        remedy = "choose a checkpoint of modules of sentence-transformers, or use its version 6"
        refuse(foreign, "its module {} is code that is not run", root, remedy)

    def model(self, kind: str) -> Any:
        if kind == "MultiVectorEncoder":
            self.needs_6("late interaction")
        return super().model(kind)

    def modules(self, model: Any) -> list[Any]:
        return [model] if type(model).__name__ == "CrossEncoder" else list(model)

    def transformer(self, reader: Any) -> Any:
        return getattr(reader, self._attribute(reader), None)

    def replace_transformer(self, reader: Any, model: nn.Module) -> None:
        setattr(reader, self._attribute(reader), model)

    def _attribute(self, reader: Any) -> str:
        return {"CrossEncoder": "model"}.get(type(reader).__name__, "auto_model")

    def dimension(self, module: Any) -> int | None:
        for name in ("get_sentence_embedding_dimension", "get_word_embedding_dimension"):
            if hasattr(module, name):
                return int(getattr(module, name)() or 0)
        return None

    def pooling(self, module: Any) -> str | None:
        return module.get_pooling_mode_str() if hasattr(module, "get_pooling_mode_str") else None

    def output(self, reader: Any) -> str:
        return "last_hidden_state" if type(reader).__name__ == "Transformer" else "logits"

    def result(self, reader: Any) -> str | None:
        kinds = {"Transformer": "token_embeddings", "MLMTransformer": "token_embeddings", "CrossEncoder": "scores"}
        return kinds.get(type(reader).__name__)

    def reads(self, reader: Any) -> str:
        return ""

    def set_lengths(self, reader: Any, query: int | None, document: int | None) -> None:
        if document is not None:
            reader.max_seq_length = document

    def needs_6(self, what: str) -> None:
        remedy = "pip install --upgrade 'sentence-transformers>=6'"
        raise BadInput(f"{what} needs sentence-transformers 6", "ranker", remedy)

    def save(self, model: Any, folder: str) -> None:
        options = {} if type(model).__name__ == "CrossEncoder" else {"create_model_card": False}
        model.save(folder, **options)


def library() -> SentenceLibrary:
    """Return the package that is installed.

    Raises:
        BadInput: if it is not installed, or too old.
    """
    try:
        import sentence_transformers
    except ImportError:
        version: tuple[int, ...] = (0,)
    else:
        version = tuple(int(part) for part in sentence_transformers.__version__.split(".")[:2])
    what = "sentence-transformers from version 5.2 on is not installed"
    refuse(version < OLDEST, what, "ranker", "pip install --upgrade 'sentence-transformers>=5.2'")
    return (SentenceLibrary if version >= (6,) else OlderLibrary)(sentence_transformers)
