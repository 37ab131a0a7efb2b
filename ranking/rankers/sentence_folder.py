"""Reads and writes a bi-encoder as a folder of sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ranking.errors import BadInput
from ranking.tokenization import refused

MODULE = "sentence_transformers.models."
"""Where its modules have been named since its first versions, which the newest still understand."""
POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
SIMILARITIES = ("cosine", "dot")


@dataclass(frozen=True)
class SentenceFolder:
    """What a checkpoint's files say of how its texts become vectors; a plain checkpoint says nothing.

    Args:
        query, document: folder or name of the transformers that read them; the same where there is one.
        pooling, similarity: None where nothing is said.
    """

    query: str
    document: str
    pooling: str | None = None
    similarity: str | None = None

    @property
    def tied(self) -> bool:
        """Whether one transformer reads both."""
        return self.query == self.document

    @classmethod
    def read(cls, checkpoint: str) -> SentenceFolder:
        """Read off a folder, or off a name at the hub.

        Raises:
            BadInput: where it can't be read, or does with texts what a bi-encoder does not.
        """
        local = Path(checkpoint).expanduser()
        root = str(local) if local.is_dir() else checkpoint
        if not local.is_dir():
            _read(root, "config.json", needed=True)  # without the hub, what is not there looks like what is not read
        modules = _read(root, "modules.json")
        if modules is None:
            return cls(root, root)
        with refused(root):
            listed = [(module["type"].rpartition(".")[2], module["path"]) for module in modules]
        if [kind for kind, _ in listed] == ["Router"]:
            router = _read(root, str(Path(listed[0][1]) / "router_config.json")) or {"structure": {}, "types": {}}
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
        named = (_read(root, "config_sentence_transformers.json") or {}).get("similarity_fn_name")
        similarity = "cosine" if unit else named or "cosine"
        if similarity not in SIMILARITIES:
            raise BadInput(f"compares texts by {similarity}", root, "choose one that does so by cosine or dot")
        return cls(query, document, pooling, similarity)


def write(
    folder: str,
    towers: Mapping[str, nn.Module],
    tokenizer: Any,
    pooling: str,
    similarity: str,
    tokens: Mapping[str, int],
) -> None:
    """Write towers as `sentence_transformers.SentenceTransformer` reads them.

    Args:
        folder: made where it is not there.
        towers: transformers by route: just one under `document`, or `query` and `document` (its `Router`).
        tokenizer: of all of them.
        pooling, similarity: of `POOLINGS` and `SIMILARITIES`.
        tokens: most tokens of a text by route, special ones included.
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
        _write(root / paths[0] / "sentence_bert_config.json", {"max_seq_length": tokens[route], "do_lower_case": False})
        modes = {key: name == pooling for name, key in POOLINGS.items()}
        config: Any = model.config
        _write(root / paths[1] / "config.json", {"word_embedding_dimension": config.hidden_size} | modes)
    if len(towers) > 1:
        types = {path: MODULE + kind for modules in routes.values() for kind, path in modules}
        structure = {route: [path for _, path in modules] for route, modules in routes.items()}
        chosen = {"default_route": "document", "allow_empty_key": True}
        _write(root / "router_config.json", {"types": types, "structure": structure, "parameters": chosen})
        listed = [("Router", "")]
    else:
        (listed,) = routes.values()
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": MODULE + kind}
        for place, (kind, path) in enumerate(listed)
    ]
    _write(root / "modules.json", modules)
    _write(root / "config_sentence_transformers.json", {"similarity_fn_name": similarity})


def _tower(root: str, modules: list[tuple[str, str]]) -> tuple[str, str, bool]:
    """Checkpoint of its transformer, pooling, and whether vectors are made unit length."""
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
    config = _read(root, str(Path(modules[1][1]) / "config.json")) or {}
    said = config.get("pooling_mode") or [name for name, key in POOLINGS.items() if config.get(key)]
    modes = [said] if isinstance(said, str) else list(said)
    others = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in POOLINGS or set(others) - set(POOLINGS.values()):
        raise BadInput("pools in another way", root, f"a bi-encoder takes one of {', '.join(POOLINGS)}")
    return str(Path(root) / path) if path else root, modes[0], len(modules) == 3


def _read(root: str, name: str, needed: bool = False) -> Any:
    """The content of one file of a checkpoint; None where it has no such file and none is `needed`."""
    from transformers.utils import cached_file

    with refused(root):
        found = cached_file(root, name, _raise_exceptions_for_missing_entries=needed)
        return None if found is None else json.loads(Path(found).read_text())


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
