"""Merges the adapters of peft into their base models, so that a folder of an adapter is a checkpoint like any other."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from pyrite.ranking.adapter_folder import CONFIG, WEIGHTS, config_of, folders_of, local_base
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.hub import default_cache, prepare_hub
from pyrite.ranking.lazy import huggingface_hub, peft, safetensors, torch, transformers
from pyrite.ranking.quiet import unseeded
from pyrite.ranking.rankers.sentence_library import library
from pyrite.ranking.whole_file import keep_folder

TASKS = {"SEQ_CLS": "AutoModelForSequenceClassification", "CAUSAL_LM": "AutoModelForCausalLM"}
"""The class of the base model by the task that an adapter was trained for; AutoModel for others."""
TEXTS = (".json", ".txt", ".model", ".jinja")
"""Endings of files that describe a model, its tokenizer and what follows the transformer."""
_log = logging.getLogger(__name__)


def merged_adapter(folder: Path) -> Path:
    """Return the folder of the whole model of an adapter: its base model with the adapter's products added in.

    It is kept in the cache's folder, under the digest of the adapter and its base model.

    Raises:
        BadInput: if peft is not installed, the base model is not here, or the adapter is no safetensors file.
    """
    files = [file for place in folders_of(folder) for file in _files(place, (".safetensors", *TEXTS))]
    return _merged(folder.resolve(), tuple(file.stat().st_mtime_ns for file in files))


@functools.lru_cache(maxsize=16)
def _merged(folder: Path, changed: tuple[int, ...]) -> Path:
    config = config_of(folder)
    base = _base_of(folder, config)
    content = hashlib.sha256(str(base).encode())
    for root, endings in ((folder, (".safetensors", *TEXTS)), (base, TEXTS)):
        for file in _files(root, endings):
            content.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
    for file in _files(base, (".safetensors",)):  # too large to be read each time
        stat = file.stat()
        content.update(f"{file.relative_to(base)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    models = default_cache() / "models"
    whole = models / content.hexdigest()[:16]
    if not whole.exists():
        models.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=models) as unfinished:
            copied = Path(shutil.copytree(folder, Path(unfinished) / "adapter"))
            (copied / CONFIG).write_text(json.dumps(config | {"base_model_name_or_path": str(base)}))
            with _one_line(folder):
                _write_whole(copied, base, config, Path(unfinished) / "model")
            keep_folder(Path(unfinished) / "model", whole)
    _log.warning("%s: the adapter is merged into its base model, %s", folder, base)
    return whole


def _files(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files within a folder that have one of some endings."""
    return sorted(file for file in folder.rglob("*") if file.suffix in endings and file.is_file())


def _base_of(folder: Path, config: dict[str, Any]) -> Path:
    """Return the folder of an adapter's base model: on this machine, or downloaded."""
    local, name = local_base(folder, config), config["base_model_name_or_path"]
    if local is not None:
        return local
    try:
        refuse(name.startswith((".", "/", "~")) or name.count("/") != 1, "is no name at the hub")
        return Path(_downloaded(name))
    except (BadInput, OSError):
        what = f"is an adapter, and its base model {name} is not here"
        remedy = f"put it there, or next to the adapter as {folder.parent / Path(name).name}"
        raise BadInput(what, folder, remedy) from None


def _downloaded(name: str) -> str:
    prepare_hub()
    patterns = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
    return str(huggingface_hub.snapshot_download(name, allow_patterns=patterns))


@contextmanager
def _one_line(folder: Path) -> Iterator[None]:
    """A context that turns the errors of peft into one line."""
    try:
        import peft  # noqa: F401

        with unseeded():
            yield
    except ImportError:
        raise BadInput("is an adapter, and peft is not installed", folder, "pip install 'pyrite-ir[peft]'") from None
    except (
        OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, safetensors.SafetensorError,
    ) as error:  # fmt: skip
        why = next(iter(str(error).splitlines()), type(error).__name__)
        remedy = "merge it into its base model (merge_and_unload of peft), and save that"
        raise BadInput(f"is an adapter that can't be merged ({why})", folder, remedy) from None


def _write_whole(adapter: Path, base: Path, config: dict[str, Any], folder: Path) -> None:
    """Write the whole model of an adapter whose configuration names its base model's folder."""
    given: dict[str, Any] = {"device": "cpu", "local_files_only": True, "trust_remote_code": False}
    read: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True}
    described = next((place for place in (adapter, base) if (place / "modules.json").is_file()), None)
    if described is not None:
        declared = json.loads((described / "config_sentence_transformers.json").read_text("utf-8"))
        installed = library()
        installed.check_types(str(described))
        kind = installed.model(declared.get("model_type") or "SentenceTransformer")
        model = kind(str(described), model_kwargs=read, **given)
        reader = installed.modules(model)[0]
        if described is base:
            installed.transformer(reader).load_adapter(str(adapter))
        whole = unload(installed.transformer(reader))
        fresh = type(whole)(whole.config)  # without what transformers notes on adapters, which it would save
        fresh.load_state_dict(whole.state_dict())
        installed.replace_transformer(reader, fresh)
        installed.save(model, str(folder))
        return
    kind = getattr(transformers, _class_of(adapter, base, config))
    options = {"num_labels": 1} if "SequenceClassification" in kind.__name__ and not _labels(base) else {}
    adapted = peft.PeftModel.from_pretrained(kind.from_pretrained(base, **read, **options), str(adapter))
    whole = adapted.merge_and_unload()
    whole.save_pretrained(folder)
    texts = adapter if (adapter / "tokenizer_config.json").is_file() else base
    transformers.AutoTokenizer.from_pretrained(texts, trust_remote_code=False).save_pretrained(folder)


def _labels(base: Path) -> bool:
    """Return whether a base model has a head for labels."""
    architectures = json.loads((base / "config.json").read_text("utf-8")).get("architectures") or [""]
    return str(architectures[0]).endswith("ForSequenceClassification")


def _class_of(adapter: Path, base: Path, config: dict[str, Any]) -> str:
    """Return the class of the base model that an adapter's weights are for: with a head, or without."""
    if config.get("task_type") in TASKS:
        return TASKS[config["task_type"]]
    with safetensors.safe_open(adapter / WEIGHTS, "pt") as weights:
        names = list(weights.keys())
    of_base = transformers.AutoConfig.from_pretrained(base, trust_remote_code=False)
    inner = transformers.models.auto.modeling_auto.MODEL_MAPPING[type(of_base)].base_model_prefix
    headed = any(name.startswith(f"base_model.model.{inner}.") for name in names)
    architecture = str((of_base.architectures or ["AutoModel"])[0])
    return architecture if headed else "AutoModel"


def unload(model: nn.Module) -> nn.Module:
    """Add the products of a model's adapters to its weights, in place, and remove the adapters."""
    for name, module in list(model.named_modules()):
        if isinstance(module, peft.tuners.tuners_utils.BaseTunerLayer):
            module.merge()
            above, _, last = name.rpartition(".")
            setattr(model.get_submodule(above), last, module.get_base_layer())
    return model
