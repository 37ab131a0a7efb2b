"""Reads and writes a late-interaction ranker as a folder of PyLate."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ranking.errors import BadInput
from ranking.rankers.sentence_folder import DECLARED, MODULE, read_json, write_json
from ranking.tokenization import refused

DENSE = "pylate.models.Dense.Dense"
IDENTITY = "torch.nn.modules.linear.Identity"


@dataclass(frozen=True)
class ColbertFolder:
    """The description of token vectors in a folder, with PyLate's defaults. A plain checkpoint has none.

    Args:
        transformer: the folder or name of the transformer.
        projection: weights of the linear layer after it, `weight` and perhaps `bias`. None if there is none.
        query_prefix: the token after the first special one that marks queries.
        document_prefix: the token after the first special one that marks documents.
        query_length: tokens of a query with special ones and the prefix. None if unspecified.
        document_length: tokens of a document, in the same way.
        expansion: whether queries are filled up to their length with mask tokens, which are compared too.
        attended: whether the query's tokens attend to those.
        skipped: words of documents that are not compared.
        declared: the folder's other declarations, to be written again.
    """

    transformer: str
    projection: Mapping[str, Tensor] | None = None
    query_prefix: str = "[Q] "
    document_prefix: str = "[D] "
    query_length: int | None = None
    document_length: int | None = None
    expansion: bool = True
    attended: bool = False
    skipped: tuple[str, ...] = tuple(string.punctuation)
    declared: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, checkpoint: str) -> ColbertFolder:
        """Read a folder, or a name at the hub.

        Raises:
            BadInput: if it can't be read, or has another projection than one linear layer.
        """
        local = Path(checkpoint).expanduser()
        root = str(local) if local.is_dir() else checkpoint
        if not local.is_dir():
            read_json(root, "config.json", needed=True)
        modules, declared = read_json(root, "modules.json"), read_json(root, DECLARED) or {}
        if modules is None:
            return cls(root)
        with refused(root):
            listed = [(module["type"].rpartition(".")[2], module["path"]) for module in modules]
        if [kind for kind, _ in listed] not in (["Transformer", "Dense"], ["Transformer"]):
            known = ", ".join(kind for kind, _ in listed)
            raise BadInput(f"reads texts by {known}", root, "a late-interaction ranker is Transformer, Dense")
        transformer = str(Path(root) / listed[0][1]) if listed[0][1] else root
        given: dict[str, Any] = {
            "query_prefix": declared.get("query_prefix"),
            "document_prefix": declared.get("document_prefix"),
            "query_length": declared.get("query_length"),
            "document_length": declared.get("document_length"),
            "expansion": declared.get("do_query_expansion"),
            "attended": declared.get("attend_to_expansion_tokens"),
            "skipped": None if declared.get("skiplist_words") is None else tuple(declared["skiplist_words"]),
        }
        options = {name: value for name, value in given.items() if value is not None}
        projection = _projection(root, listed[1][1]) if len(listed) > 1 else None
        return cls(transformer, projection, declared=declared, **options)

    def write(self, folder: str, model: nn.Module, projection: nn.Linear, tokenizer: Any) -> None:
        """Write a ranker as PyLate's `ColBERT` reads it.

        Args:
            folder: the folder, created if needed.
            model: the model of transformers.
            projection: the linear layer after it.
            tokenizer: the tokenizer, with both prefixes in its vocabulary.
        """
        from safetensors.torch import save_file

        root = Path(folder)
        (root / "1_Dense").mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder)  # type: ignore[operator]
        tokenizer.save_pretrained(folder)
        write_json(root / "sentence_bert_config.json", {"max_seq_length": self.document_length, "do_lower_case": False})
        save_file(
            {f"linear.{name}": weights.detach().contiguous() for name, weights in projection.named_parameters()},
            root / "1_Dense" / "model.safetensors",
        )
        sizes = {"in_features": projection.in_features, "out_features": projection.out_features}
        kind = {"bias": projection.bias is not None, "activation_function": IDENTITY, "use_residual": False}
        write_json(root / "1_Dense" / "config.json", sizes | kind)
        modules = [("", MODULE + "Transformer"), ("1_Dense", DENSE)]
        write_json(
            root / "modules.json",
            [
                {"idx": number, "name": str(number), "path": path, "type": kind}
                for number, (path, kind) in enumerate(modules)
            ],
        )
        declared = {
            "model_type": "ColBERT",
            "similarity_fn_name": "MaxSim",
            "query_prefix": self.query_prefix,
            "document_prefix": self.document_prefix,
            "query_length": self.query_length,
            "document_length": self.document_length,
            "do_query_expansion": self.expansion,
            "attend_to_expansion_tokens": self.attended,
            "skiplist_words": list(self.skipped),
        }
        write_json(root / DECLARED, dict(self.declared) | declared)


def _projection(root: str, path: str) -> Mapping[str, Tensor]:
    """Return the weights of the linear layer after the transformer."""
    from safetensors.torch import load_file
    from transformers.utils import cached_file

    config = read_json(root, f"{path}/config.json") or {}
    activation = str(config.get("activation_function", IDENTITY)).rpartition(".")[2]
    if activation != "Identity" or config.get("use_residual"):
        raise BadInput("has another projection than one linear layer", f"{root}/{path}", "choose another checkpoint")
    with refused(root):
        file = cached_file(root, f"{path}/model.safetensors")
        weights = load_file(str(file))
        return {name.removeprefix("linear."): tensor.float() for name, tensor in weights.items()}
