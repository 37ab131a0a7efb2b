"""Reads the weights of pretrained transformers from a folder or the hub, whole or their first layers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from pyrite.ranking.errors import refuse
from pyrite.ranking.hub import prepare_hub
from pyrite.ranking.hub_tokenizers import local_root, refused
from pyrite.ranking.packaged import check_packaged
from pyrite.ranking.quiet import quiet, unseeded

READ: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True, "ignore_mismatched_sizes": True}
"""Options of transformers' `from_pretrained`: only safetensors, and what does not fit is missing."""
FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", "*.metadata")
"""The files of a checkpoint that are downloaded: weights as safetensors, and texts."""
PICKLES = ("pytorch_model*.bin", "adapter_model*.bin")


def read_model(
    kind: str, checkpoint: str, layers: int | None, generator: torch.Generator, **options: Any
) -> tuple[Any, list[str]]:
    """Read a model of transformers with its pretrained weights. Weights that the checkpoint lacks are drawn.

    Only safetensors are read: a checkpoint of pickles is refused.

    Args:
        kind: the class of transformers, e.g. `AutoModel`.
        checkpoint: a folder, or a name at the hub.
        layers: the number of layers to keep, from the input. None keeps all.
        generator: draws missing weights: normal with the model's deviation, biases 0.
        options: options of the model's configuration, e.g. `num_labels=1`.

    Returns:
        The model, and the names of the weights that were drawn.

    Raises:
        BadInput: if the checkpoint can't be read or has fewer layers.
    """
    import transformers

    root = downloaded(checkpoint)
    with refused(root), unseeded():
        config = transformers.AutoConfig.from_pretrained(root, trust_remote_code=False, **options)
        for name, value in first_layers(config, layers, root).items():
            setattr(config, name, value)
        made = getattr(transformers, kind)
        model, report = made.from_pretrained(
            root, config=config, trust_remote_code=False, output_loading_info=True, **READ
        )
        drawn = draw_missing(model, report, root, generator)
    return model.eval(), drawn


def missing_weights(kind: Any, folder: str, config: Any) -> dict[str, Any]:
    """Return transformers' report of a model that another library has read from a folder: it is read once more.

    A library that calls `from_pretrained` itself does not pass the report on.

    Args:
        kind: the model's class.
        config: its configuration as it was read.
    """
    _, report = kind.from_pretrained(folder, config=config, output_loading_info=True, **READ)
    return dict(report)


def first_layers(config: Any, layers: int | None, checkpoint: str) -> dict[str, Any]:
    """Return the options of a configuration that keep its first layers; none if `layers` is None.

    Raises:
        BadInput: if it has fewer layers.
    """
    if layers is None:
        return {}
    has = config.num_hidden_layers
    refuse(not 1 <= layers <= has, f"layers is {layers}", "ranker.layers", f"{checkpoint} has {has}")
    lists = {
        name: value[:layers] for name, value in vars(config).items() if isinstance(value, list) and len(value) == has
    }
    return {"num_hidden_layers": layers} | lists  # such as the types of the layers, or their windows


def draw_missing(model: Any, report: dict[str, Any], checkpoint: str, generator: torch.Generator) -> list[str]:
    """Draw the weights that a checkpoint lacks, and return their names.

    Args:
        report: transformers' report of what was missing or did not fit.
    """
    parameters = dict(model.named_parameters())
    other = [name for name, *_ in report["mismatched_keys"]]
    # A head for other labels counts as missing, and so does the layer that pools. Everything else has to be there.
    body = {id(weight) for name, weight in model.base_model.named_parameters() if "pooler" not in name}

    def is_of_body(name: str) -> bool:
        return id(parameters.get(name)) in body

    wrong = [f"{name} is not as its config.json says" for name in filter(is_of_body, other)]
    wrong += [f"has no weights {name}" for name in filter(is_of_body, sorted(report["missing_keys"]))]
    remedy = "choose a checkpoint that is whole"
    refuse(wrong, "{}" + f" and {len(wrong) - 1} more" * (len(wrong) > 1), checkpoint, remedy)
    finite = all(torch.isfinite(weight.detach().sum()) for weight in parameters.values())
    refuse(not finite, "has weights that are no numbers (nan)", checkpoint, remedy)
    drawn = sorted({*report["missing_keys"], *other})
    deviation = getattr(model.config, "initializer_range", 0.02)
    with torch.no_grad():
        for name in filter(parameters.__contains__, drawn):
            if parameters[name].dim() > 1:
                parameters[name].normal_(0, deviation, generator=generator)
            else:
                parameters[name].fill_(float(name.endswith(("norm.weight", "LayerNorm.weight"))))
    return drawn


def downloaded(checkpoint: str) -> str:
    """Return a checkpoint's folder; that of a name at the hub is downloaded, without what could be a pickle.

    Raises:
        BadInput: if it can't be downloaded, or is a package's and not what that package is known to hold.
    """
    root = local_root(checkpoint)
    if Path(root).is_dir():
        check_packaged(Path(root))
        return root
    from huggingface_hub import snapshot_download

    prepare_hub()
    with refused(checkpoint), quiet():
        return str(snapshot_download(root, allow_patterns=list(FILES)))


def refuse_pickles(folders: Iterable[str]) -> None:
    """Refuse weights that are pickles: a library might load them if there are no others.

    Args:
        folders: the folders of a model's modules.
    """
    for folder in map(Path, folders):
        remedy = "save it again with save_pretrained, which writes model.safetensors"
        refuse(
            any(file for pattern in PICKLES for file in folder.glob(pattern)) and not any(folder.glob("*.safetensors")),
            "its weights are pickles, which are not read",
            folder,
            remedy,
        )
