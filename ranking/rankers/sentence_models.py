"""Loads and saves the models of sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pyrite.ranking.errors import BadInput
from pyrite.ranking.hub_tokenizers import local_root, refused
from pyrite.ranking.rankers.pretrained import quiet, reading

HEADS = {"CNN", "Dense", "Dropout", "LayerNorm", "Normalize", "Pooling", "WeightedLayerPooling", "WordWeights"}
"""Modules that may follow a transformer: they read its states and the mask."""


def library() -> Any:
    """Return the package.

    Raises:
        BadInput: if it is not installed, or too old.
    """
    try:
        import sentence_transformers

        sentence_transformers.MultiVectorEncoder  # noqa: B018 - new in version 6
    except (ImportError, AttributeError):
        what = "sentence-transformers from version 6 on is not installed"
        raise BadInput(what, "ranker", "pip install 'pyrite-ir[transformers]'") from None
    return sentence_transformers


def load_model(kind: str, checkpoint: str, layers: int | None, generator: torch.Generator) -> tuple[Any, list[str]]:
    """Load a model, in evaluation mode and on the CPU. Transformers are read as by `read_model`.

    Args:
        kind: its class, e.g. `SentenceTransformer`.
        checkpoint: a folder, or a name at the hub.
        layers: layers to keep, as in `pyrite.ranking.rankers.pretrained.read_model`.
        generator: draws the weights that the checkpoint lacks.

    Returns:
        The model, and the names of the weights of its transformers that were drawn.

    Raises:
        BadInput: if it can't be loaded.
    """
    made = getattr(library(), kind)
    root = local_root(checkpoint)
    local = Path(root).is_dir()
    with refused(checkpoint), reading(root, layers, generator) as drawn:
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))  # draws layers that it adds itself
        model = made(root, device="cpu", local_files_only=local, trust_remote_code=False)
    return model.eval(), drawn


def load_splade(checkpoint: str, layers: int | None, generator: torch.Generator) -> tuple[Any, list[str]]:
    """Load a masked language model as a `SparseEncoder`; its arguments and result are those of `load_model`.

    The library would make another model of a checkpoint without the head for masked words, which is drawn here.
    """
    made = library().SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    root = local_root(checkpoint)
    with refused(checkpoint), reading(root, layers, generator) as drawn:
        reader = Transformer(root, transformer_task="fill-mask")
        model = made(modules=[reader, SpladePooling("max")], device="cpu", local_files_only=True)
    return model.eval(), drawn


def save_model(kind: str, folder: str, modules: Sequence[nn.Module], **options: Any) -> None:
    """Save modules as a model: safetensors, the tokenizer and the configuration.

    Args:
        kind: the model's class.
        folder: the folder, created if needed.
        modules: the modules, which stay where they are.
        options: further options of the class.
    """
    made = getattr(library(), kind)
    device = next((weight.device for module in modules for weight in module.parameters()), torch.device("cpu"))
    model = made(modules=list(modules), device=str(device), local_files_only=True, **options)
    with quiet():
        model.save(folder, create_model_card=False)


def check_text_transformer(module: Any, checkpoint: str, remedy: str) -> None:
    """Refuse a model's first module if it does not turn plain text into states of tokens."""
    kind = type(module).__name__
    if not hasattr(module, "modality_config"):
        raise BadInput(f"reads texts by {kind}", checkpoint, remedy)
    text = module.modality_config.get("text")
    plain = text is not None and text["method"] == "forward" and module.module_output_name == "token_embeddings"
    if not plain:
        known = ", ".join(map(str, module.modality_config))
        raise BadInput(f"its transformer has no states of a text's tokens (it reads {known})", checkpoint, remedy)


def check_heads(modules: Sequence[Any], allowed: set[str], checkpoint: str, remedy: str) -> None:
    """Refuse modules after the transformer of kinds that are not `allowed`."""
    for module in modules:
        if type(module).__name__ not in allowed:
            raise BadInput(f"reads texts by {type(module).__name__}", checkpoint, remedy)
