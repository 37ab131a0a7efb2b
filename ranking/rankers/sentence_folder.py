"""Reads and writes a bi-encoder as a folder of sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from ranking.errors import BadInput
from ranking.tokenization import Prompts, refused

MODULE = "sentence_transformers.models."
"""The package of its modules since its first versions, which the newest still understand."""
POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
SIMILARITIES = ("cosine", "dot")
NO_PROMPTS = Prompts()
DECLARED = "config_sentence_transformers.json"
NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names that checkpoints use for the prompts of queries and of documents."""


@dataclass(frozen=True)
class SentenceFolder:
    """The description of text vectors in a checkpoint's files. A plain checkpoint has none.

    Args:
        query: the folder or name of the transformer that reads queries.
        document: that of documents; the same if there is one transformer.
        pooling: the pooling of token vectors. None if unspecified.
        similarity: cosine or dot. None if unspecified.
        prompts: the texts before queries and documents.
        declared: the folder's other declarations, to be written again.
    """

    query: str
    document: str
    pooling: str | None = None
    similarity: str | None = None
    prompts: Prompts = NO_PROMPTS
    declared: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def with_prompts(self, query: str | None, document: str | None) -> SentenceFolder:
        """Return a copy with other prompts: a name that the checkpoint declares, or a text. None keeps the old one.

        Raises:
            BadInput: if one looks like a name, and the checkpoint declares others.
        """
        named = self.declared.get("prompts") or {}
        given = {"query": query, "document": document}
        for kind, text in given.items():
            if named and text and text.isidentifier() and text not in named:
                remedy = f"choose one of {', '.join(named)}, or write the text out, with the space behind it"
                raise BadInput(f"declares no prompt {text!r}", f"{self.query}, ranker.{kind}_prompt", remedy)
        return replace(self, prompts=replace(self.prompts, **{
            kind: named.get(text) or ("" if text in named else text) for kind, text in given.items() if text is not None
        }))  # fmt: skip

    @property
    def tied(self) -> bool:
        """Whether one transformer reads both."""
        return self.query == self.document

    @classmethod
    def read(cls, checkpoint: str) -> SentenceFolder:
        """Read a folder, or a name at the hub.

        Raises:
            BadInput: if it can't be read, or has modules that a bi-encoder does not have.
        """
        local = Path(checkpoint).expanduser()
        root = str(local) if local.is_dir() else checkpoint
        if not local.is_dir():
            read_json(root, "config.json", needed=True)  # without the hub a missing file looks like an absent one
        modules = read_json(root, "modules.json")
        if modules is None:
            return cls(root, root)
        with refused(root):
            listed = [(module["type"].rpartition(".")[2], module["path"]) for module in modules]
        if [kind for kind, _ in listed] == ["Router"]:
            router = read_json(root, str(Path(listed[0][1]) / "router_config.json")) or {"structure": {}, "types": {}}
            routes = [
                [(router["types"][path].rpartition(".")[2], path) for path in router["structure"].get(route, [])]
                for route in ("query", "document")
            ]
        else:
            routes = [listed, listed]
        towers = [_tower(root, route) for route in routes]
        (query, pooling, unit), (document, other, also_unit) = towers
        if (pooling, unit) != (other, also_unit):
            raise BadInput("pools queries and documents differently", root, "choose a checkpoint that does not")
        declared = read_json(root, DECLARED) or {}
        similarity = "cosine" if unit else declared.get("similarity_fn_name") or "cosine"
        if similarity not in SIMILARITIES:
            raise BadInput(f"compares texts by {similarity}", root, "choose one that does so by cosine or dot")
        prompts = _prompts(root, declared)
        if prompts != NO_PROMPTS and not all(_pools_prompt(root, route) for route in routes):
            raise BadInput("leaves its prompts out of the pooling", root, "choose one that pools all tokens")
        return cls(query, document, pooling, similarity, prompts, declared)


def write(
    folder: str,
    towers: Mapping[str, nn.Module],
    tokenizer: Any,
    pooling: str,
    similarity: str,
    tokens: Mapping[str, int],
    prompts: Prompts,
    declared: Mapping[str, Any],
) -> None:
    """Write towers as `sentence_transformers.SentenceTransformer` reads them.

    Args:
        folder: the folder, created if needed.
        towers: transformers by route: one under `document`, or `query` and `document` (its `Router`).
        tokenizer: the tokenizer of all of them.
        pooling: one of `POOLINGS`.
        similarity: one of `SIMILARITIES`.
        tokens: the maximum number of tokens of a text by route, prompt and special ones included.
        prompts: the texts before queries and documents. They get the names that `encode_query` and
            `encode_document` look for, whatever the checkpoint called them.
        declared: the checkpoint's declarations (`SentenceFolder.declared`), kept unless one of ours replaces them.
    """
    root = Path(folder)
    routes: dict[str, list[tuple[str, str]]] = {}
    for route, model in towers.items():
        before = f"{route}_" if len(towers) > 1 else ""
        paths = (f"{before}0_Transformer" if before else "", f"{before}1_Pooling", f"{before}2_Normalize")
        kinds = ("Transformer", "Pooling", "Normalize") if similarity == "cosine" else ("Transformer", "Pooling")
        routes[route] = list(zip(kinds, paths, strict=False))
        for _, path in routes[route]:
            (root / path).mkdir(parents=True, exist_ok=True)
        model.save_pretrained(root / paths[0])  # type: ignore[operator]
        tokenizer.save_pretrained(root / paths[0])
        write_json(
            root / paths[0] / "sentence_bert_config.json", {"max_seq_length": tokens[route], "do_lower_case": False}
        )
        modes = {key: name == pooling for name, key in POOLINGS.items()}
        config: Any = model.config
        write_json(root / paths[1] / "config.json", {"word_embedding_dimension": config.hidden_size} | modes)
    if len(towers) > 1:
        types = {path: MODULE + kind for modules in routes.values() for kind, path in modules}
        structure = {route: [path for _, path in modules] for route, modules in routes.items()}
        chosen = {"default_route": "document", "allow_empty_key": True}
        write_json(root / "router_config.json", {"types": types, "structure": structure, "parameters": chosen})
        listed = [("Router", "")]
    else:
        (listed,) = routes.values()
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": MODULE + kind}
        for number, (kind, path) in enumerate(listed)
    ]
    write_json(root / "modules.json", modules)
    content: dict[str, Any] = dict(declared) | {"similarity_fn_name": similarity}
    if prompts != NO_PROMPTS:
        content["prompts"] = dict(content.get("prompts") or {}) | vars(prompts)
    write_json(root / DECLARED, content)


def _prompts(root: str, declared: Mapping[str, Any]) -> Prompts:
    """Return the texts before queries and documents: the prompts of their names, or else the default one.

    A default with the other one's name does not count, as in `encode_query` and `encode_document`.
    """
    prompts, default = declared.get("prompts") or {}, declared.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise BadInput("its prompts are no texts by name", f"{root}/{DECLARED}", 'write them as {"query": "query: "}')
    if default is not None and default not in prompts:
        known = ", ".join(prompts) or "none"
        raise BadInput(f"has no prompt {default!r}, its default", f"{root}/{DECLARED}", f"it declares {known}")
    chosen = {}
    for kind, names in NAMES.items():
        given = [prompts[name] for name in names if prompts.get(name) is not None]
        named = {name for other in NAMES.values() for name in other}
        fallback = "" if default is None or default in named else prompts[default] or ""
        chosen[kind] = next(filter(None, given), "") if given else fallback
    return Prompts(**chosen)


def _pools_prompt(root: str, modules: list[tuple[str, str]]) -> bool:
    """Return whether a prompt's tokens are pooled with those of the text, as in a bi-encoder."""
    config = read_json(root, str(Path(modules[1][1]) / "config.json")) or {}
    return config.get("include_prompt") is not False


def _tower(root: str, modules: list[tuple[str, str]]) -> tuple[str, str, bool]:
    """Return the checkpoint of a tower's transformer, its pooling, and whether vectors have unit length."""
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise BadInput(
            f"reads texts by {', '.join(kinds) or 'nothing'}",
            root,
            "a bi-encoder is Transformer, Pooling, Normalize",
        )
    path = modules[0][1]
    if path and not Path(root).is_dir():
        raise BadInput(f"keeps its transformer in {path}", root, "download it and name the local folder")
    config = read_json(root, str(Path(modules[1][1]) / "config.json")) or {}
    listed = config.get("pooling_mode") or [name for name, key in POOLINGS.items() if config.get(key)]
    modes = [{"lasttoken": "last"}.get(mode, mode) for mode in ([listed] if isinstance(listed, str) else listed)]
    others = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in POOLINGS or set(others) - set(POOLINGS.values()):
        raise BadInput("pools in another way", root, f"a bi-encoder takes one of {', '.join(POOLINGS)}")
    return str(Path(root) / path) if path else root, modes[0], len(modules) == 3


def read_json(root: str, name: str, needed: bool = False) -> Any:
    """Return the content of a checkpoint's JSON file; None if it does not exist and is not `needed`."""
    with refused(root):
        file = checkpoint_file(root, name, needed)
        return None if file is None else json.loads(file.read_text())


def checkpoint_file(root: str, name: str, needed: bool = True) -> Path | None:
    """Return the path of a checkpoint's file, downloaded if necessary; None if it does not exist and is not `needed`.

    Raises:
        OSError: if it is needed and does not exist.
    """
    if Path(root).is_dir():  # without transformers, whose import takes half a second
        file = Path(root) / name
        if needed and not file.is_file():
            raise FileNotFoundError(f"there is no {name}")
        return file if file.is_file() else None
    from transformers.utils import cached_file

    path = cached_file(root, name, _raise_exceptions_for_missing_entries=needed)
    return None if path is None else Path(path)


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
