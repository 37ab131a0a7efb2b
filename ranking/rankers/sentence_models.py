"""Loads and saves the models of sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from pyrite.ranking.errors import refuse
from pyrite.ranking.hub_tokenizers import refused
from pyrite.ranking.quiet import quiet, unseeded
from pyrite.ranking.rankers.pretrained_weights import READ, draw_missing, first_layers, missing_weights, refuse_pickles
from pyrite.ranking.rankers.sentence_folder import SentenceFolder
from pyrite.ranking.rankers.sentence_library import library

HEADS = {"CNN", "Dense", "Dropout", "LayerNorm", "Normalize", "Pooling", "WeightedLayerPooling", "WordWeights"}
"""Modules that may follow a transformer: they read its states and the mask."""
NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Head:
    """The head of a cross-encoder, if it differs from the one that its checkpoint has.

    Args:
        task: `sequence-classification` or `text-generation`. None leaves the choice to the library.
        words: the tokens whose logits are the score: the first, minus the second if there are two.
        options: options of the transformer's configuration.
    """

    task: str | None = None
    words: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def load_model(
    kind: str, source: SentenceFolder, layers: int | None, generator: torch.Generator
) -> tuple[Any, list[str]]:
    """Load a model, in evaluation mode and on the CPU. Transformers are read as by `read_model`.

    Args:
        kind: its class, e.g. `SentenceTransformer`.
        source: the checkpoint's folder, as it describes itself.
        layers: layers to keep, as in `pyrite.ranking.rankers.pretrained_weights.read_model`.
        generator: draws the weights that the checkpoint lacks.

    Returns:
        The model, and the names of the weights of its transformers that were drawn, without those of a pooler, which
        no vector is made by.

    Raises:
        BadInput: if it can't be loaded.
    """
    made = library().model(kind)

    def read(options: dict[str, Any]) -> Any:
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))  # draws layers that it adds itself
        return made(source.root, device="cpu", local_files_only=True, trust_remote_code=False, **options)

    model, drawn = _load(read, source, layers, generator)
    return model, [name for name in drawn if not name.startswith("pooler.")]


def load_splade(source: SentenceFolder, layers: int | None, generator: torch.Generator) -> tuple[Any, list[str]]:
    """Load a masked language model as a `SparseEncoder`; its arguments and result are those of `load_model`.

    The library would make another model of a checkpoint without the head for masked words, which is drawn here.
    """
    installed = library()

    def read(options: dict[str, Any]) -> Any:
        modules = [
            installed.read_words(source.root, options),
            installed.module("SpladePooling", pooling_strategy="max"),
        ]
        return installed.model("SparseEncoder")(modules=modules, device="cpu", local_files_only=True)

    return _load(read, source, layers, generator)


def load_cross_encoder(
    source: SentenceFolder, layers: int | None, generator: torch.Generator, head: Head
) -> tuple[Any, list[str]]:
    """Load a `CrossEncoder`; its arguments and result are those of `load_model`.

    Args:
        head: the head, if it differs from the checkpoint's.
    """
    installed = library()

    def read(options: dict[str, Any]) -> Any:
        if head.task is not None:
            return installed.read_pairs(source.query, head.task, head.words, options)
        made = installed.model("CrossEncoder")
        return made(source.root, device="cpu", local_files_only=True, trust_remote_code=False, **options)

    return _load(read, source, layers, generator, head.options)


def _load(
    read: Callable[[dict[str, Any]], Any],
    source: SentenceFolder,
    layers: int | None,
    generator: torch.Generator,
    config_options: Mapping[str, Any] = NONE,
) -> tuple[Any, list[str]]:
    """Return a model and the names of its drawn weights.

    Args:
        read: makes the model, given the library's options for its transformers.
        config_options: options of the transformers' configurations.
    """
    from transformers import AutoConfig

    refuse_pickles(source.folders)
    with refused(source.root), unseeded():
        library().check_types(source.root)
        cut = {} if layers is None else first_layers(AutoConfig.from_pretrained(source.document), layers, source.root)
        cut |= config_options
        model = read({"model_kwargs": dict(READ), "config_kwargs": cut})
        drawn = []
        for folder, reader in _transformers(model, source):
            transformer = library().transformer(reader)
            check_table(transformer, reader.tokenizer, folder)
            config = AutoConfig.from_pretrained(folder, **cut)
            report = missing_weights(type(transformer), folder, config)
            drawn += draw_missing(transformer, report, folder, generator)
    return model.eval(), drawn


def _transformers(model: Any, source: SentenceFolder) -> Iterator[tuple[str, Any]]:
    """Yield the folder of each transformer that reads queries or documents, and the module that runs it."""
    from transformers import PreTrainedModel

    installed = library()
    first = installed.modules(model)[0]
    routes = getattr(first, "sub_modules", {"query": [first]})
    for name in ("query", "document"):
        if name in routes and isinstance(installed.transformer(routes[name][0]), PreTrainedModel):
            yield getattr(source, name), routes[name][0]


def check_table(transformer: Any, tokenizer: Any, where: str) -> None:
    """Refuse a tokenizer that has more tokens than the transformer's table has rows."""
    rows, tokens = transformer.get_input_embeddings().weight.shape[0], max(tokenizer.get_vocab().values()) + 1
    remedy = "save it with the tokenizer that it was trained with, or after resize_token_embeddings"
    refuse(tokens > rows, f"its tokenizer has {tokens} tokens and its table {rows}", where, remedy)


def save_model(kind: str, folder: str, modules: Sequence[nn.Module], **options: Any) -> None:
    """Save modules as a model: safetensors, the tokenizer and the configuration.

    Args:
        kind: the model's class.
        folder: the folder, created if needed.
        modules: the modules, which stay where they are.
        options: further options of the class.
    """
    installed = library()
    device = next((weight.device for module in modules for weight in module.parameters()), torch.device("cpu"))
    model = installed.model(kind)(modules=list(modules), device=str(device), local_files_only=True, **options)
    with quiet():
        installed.save(model, folder)


def check_text_transformer(module: Any, checkpoint: str, remedy: str, output: str | None = "token_embeddings") -> None:
    """Refuse a model's first module if it does not turn plain text into an output: states of tokens, or any (None)."""
    installed = library()
    made, reads = installed.result(module), installed.reads(module)
    refuse(made is None and not reads, f"reads texts by {type(module).__name__}", checkpoint, remedy)
    what = f"its transformer has no states of a text's tokens (it reads {reads})"
    refuse(made is None or output not in (None, made), what, checkpoint, remedy)


def check_heads(modules: Sequence[Any], allowed: set[str], checkpoint: str, remedy: str) -> None:
    """Refuse modules after the transformer of kinds that are not `allowed`."""
    others = [kind for kind in (type(module).__name__ for module in modules) if kind not in allowed]
    refuse(others, "reads texts by {}", checkpoint, remedy)
