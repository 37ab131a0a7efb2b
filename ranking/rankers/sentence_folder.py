"""Reads how a checkpoint's texts become tokens, without its weights."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

from pyrite.ranking.errors import refuse
from pyrite.ranking.hub import prepare_hub
from pyrite.ranking.hub_tokenizers import local_root, read_tokenizer, refused
from pyrite.ranking.lazy import transformers
from pyrite.ranking.packing import Packing
from pyrite.ranking.tokenization import Prompts, count_subwords

MODULE = "sentence_transformers.models."
"""The package of its modules since its first versions, which the newest still understand."""
NO_PROMPTS = Prompts()
DECLARED = "config_sentence_transformers.json"
NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names that checkpoints use for the prompts of queries and of documents."""
OF_KINDS = tuple(itertools.chain(*NAMES.values()))
TABLES = {"StaticEmbedding": False, "SparseStaticEmbedding": True}
"""Modules that read a text by a table, and whether they have one weight per token instead of a vector."""
ROUTERS = ("Router", "Asym")
"""Modules that read queries and documents by modules of their own."""
SHAPES: Mapping[str, tuple[type, str]] = {"modules.json": (list, "list")}
"""The content of files that is no object, and its name in messages."""
UNLIMITED = 10**9
"""A length that no text has; tokenizers without a limit have a larger one."""


@dataclass(frozen=True)
class SentenceFolder:
    """The description of a text's tokens in a checkpoint's files. A plain checkpoint has none.

    Args:
        query: the folder or name of the transformer that reads queries.
        document: that of documents; the same if there is one transformer.
        prompts: the texts before queries and documents.
        named: the texts of all prompts that the checkpoint declares, by name.
        trained: the numbers of tokens by text (`query`, `document`) that it was trained with, special ones and the
            prompt included, if it specifies one for each.
        longest: the maximum number of tokens of any text; `UNLIMITED` if unspecified.
        plain: whether it is a checkpoint of transformers alone.
        root: the checkpoint's folder, or its name at the hub.
        folders: the folders of its modules.
        default_name: the name of its default prompt, which a cross-encoder puts before each query; None if it has none.
        static: the kind of the table that reads queries, of `TABLES`; empty if a transformer does.
        longest_query: that of a query, which may differ if a table reads queries.
    """

    query: str
    document: str
    prompts: Prompts = NO_PROMPTS
    named: Mapping[str, str | None] = field(default_factory=dict)
    trained: Mapping[str, int] = field(default_factory=dict)
    longest: int = UNLIMITED
    plain: bool = False
    root: str = ""
    folders: Sequence[str] = ()
    default_name: str | None = None
    static: str = ""
    longest_query: int = UNLIMITED

    def unused_prompts(self, of_pairs: bool = False) -> str:
        """Return a line that names declared prompts if none of them is used; empty otherwise.

        Args:
            of_pairs: whether it reads pairs: then the default prompt alone is used, whatever the others are called.
        """
        names = ", ".join(name for name, text in self.named.items() if text)
        is_used = self.default_prompt or (any(vars(self.prompts).values()) and not of_pairs)
        line = f"declares the prompts {names}, and none of them is used: ranker.query_prompt=NAME chooses one"
        return line if names and not is_used else ""

    @property
    def default_prompt(self) -> str:
        """The text of its default prompt; empty if it has none."""
        return "" if self.default_name is None else self.named[self.default_name] or ""

    def with_prompts(self, query: str | None, document: str | None) -> SentenceFolder:
        """Return a copy with other prompts: a name that the checkpoint declares, or a text. None keeps the old one.

        Raises:
            BadInput: if one looks like a name, and the checkpoint declares others.
        """
        named = {name: text or "" for name, text in self.named.items()}
        given = {"query": query, "document": document}
        typed = {kind: text for kind, text in given.items() if text is not None}
        remedy = f"choose one of {', '.join(named)}, or write the text out, with the space behind it"
        for kind, text in typed.items():
            is_unknown = any(named.values()) and text.isidentifier() and text not in named
            refuse(is_unknown, f"declares no prompt {text!r}", f"{self.query}, ranker.{kind}_prompt", remedy)
        return replace(
            self, prompts=replace(self.prompts, **{kind: named.get(text, text) for kind, text in typed.items()})
        )

    @property
    def tied(self) -> bool:
        """Whether one transformer reads both."""
        return self.query == self.document

    def lengths(self) -> dict[str, int]:
        """Return the subwords read of a query and of a document: those it was trained with, or else all that fit."""
        rest, counts = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
        if self.trained or self.longest < UNLIMITED:
            tokenizer = read_tokenizer(self.document)
            rest |= dict.fromkeys(["document"] if self.static else NAMES, Packing.of(tokenizer, pair=False).specials)
            counts = {kind: count_subwords(tokenizer, prompt) for kind, prompt in vars(self.prompts).items()}
        most = {"query": self.longest_query, "document": self.longest, **self.trained}
        return {f"max_{kind}": max(1, most[kind] - rest[kind] - counts[kind]) for kind in NAMES}

    @classmethod
    def read(cls, checkpoint: str) -> SentenceFolder:
        """Read a folder, or a name at the hub.

        Raises:
            BadInput: if it can't be read.
        """
        root = local_root(checkpoint)
        if root == checkpoint and not Path(root).is_dir():
            read_json(root, "config.json", needed=True)  # without the hub a missing file looks like an absent one
        modules = read_json(root, "modules.json")
        _check_readable(root)
        if modules is None:
            longest = _longest(root, {})
            return cls(root, root, longest=longest, plain=True, root=root, folders=[root], longest_query=longest)
        declared = read_object(root, DECLARED)
        (query, document), inner, static = _transformers(root, modules)
        in_folder = query != root or document != root
        what = f"keeps its transformer in {query.removeprefix(f'{root}/')}"
        refuse(in_folder and not Path(root).is_dir(), what, root, "download it and name the local folder")
        config = read_object(document, "sentence_bert_config.json")
        prompts, named = prompts_of(root, declared)
        longest, folders = _longest(document, config), [str(Path(root) / path) for path in inner]
        described = cls(query, document, prompts, named, _trained(config), longest, root=root, folders=folders)
        longest_query = _declared_length(query) if static else longest
        default = declared.get("default_prompt_name")
        return replace(described, default_name=default, static=static, longest_query=longest_query)


def _transformers(root: str, modules: Sequence[Any]) -> tuple[list[str], list[str], str]:
    """Return what reads queries and documents, the folders of all modules within the root, and the kind of the table
    that reads queries, empty if there is none.
    """
    with refused(root):
        listed = [(module["type"].rpartition(".")[2], module["path"]) for module in modules]
        kind, path = [*listed, ("", "")][0]
        routes = _routes(root, path) if kind in ROUTERS else {}
        (table, query), (other, document) = (routes.get(name, [(kind, path)])[0] for name in NAMES)
    inner = [path for _, path in itertools.chain(listed, *routes.values())]
    static = table if table in TABLES and other not in TABLES else ""
    return [str(Path(root) / query), str(Path(root) / document)], inner, static


def _routes(root: str, path: str) -> dict[str, list[tuple[str, str]]]:
    """Return the kind and folder of each module that a router has for queries, documents and other texts."""
    router = read_json(root, str(Path(path) / "router_config.json"), needed=True)
    missing = sorted(NAMES.keys() - router["structure"].keys())
    what = f"its Router has no route {{}} (it has {', '.join(router['structure'])})"
    refuse(missing, what, root, "save it by Router.for_query_document(query, document)")
    kinds = {name: str(kind).rpartition(".")[2] for name, kind in router["types"].items()}
    return {
        route: [(kinds[name], str(Path(path) / name)) for name in names] for route, names in router["structure"].items()
    }


def _check_readable(root: str) -> None:
    """Refuse a checkpoint whose weights are quantized, or whose architecture is code next to it.

    Raises:
        BadInput: if it is one.
    """
    config = read_object(root, "config.json")
    quantized = config.get("quantization_config")
    how = quantized.get("quant_method", "unknown method") if isinstance(quantized, dict) else quantized
    remedy = "save it in float32, float16 or bfloat16 (dequantize() of transformers, then save_pretrained)"
    refuse(quantized, f"its weights are quantized ({how})", root, remedy)
    if config.get("auto_map"):
        kind = config.get("model_type")
        what = f"its architecture {kind} is code in its folder, which is not run"
        remedy = "choose a checkpoint of an architecture that transformers has"
        refuse(kind not in transformers.CONFIG_MAPPING, what, root, remedy)


def _trained(config: Mapping[str, Any]) -> dict[str, Any]:
    lengths = {kind: config.get(f"{kind}_length") for kind in NAMES}
    return lengths if all(lengths.values()) else {}


def _longest(folder: str, config: Mapping[str, Any]) -> int:
    """Return the maximum number of tokens of a text: older folders have it in the library's file, newer in the
    tokenizer's, and no transformer reads more than its positions. `UNLIMITED` if there is no limit."""
    declared = config.get("max_seq_length") or _declared_length(folder)
    return min(int(number) for number in (declared, positions_of(folder), UNLIMITED) if number > 0)


def _declared_length(folder: str) -> int:
    """Return the maximum number of tokens of a text that a tokenizer declares; `UNLIMITED` if it declares none."""
    return int(min(read_object(folder, "tokenizer_config.json").get("model_max_length", UNLIMITED), UNLIMITED))


def positions_of(folder: str) -> int:
    """Return the number of positions that a transformer has learned; `UNLIMITED` if it is not known."""
    config = read_object(folder, "config.json")
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int) or positions < 1:
        return UNLIMITED
    # Some count positions from after that of the padding.
    offset = any(name in str(config.get("model_type")) for name in ("roberta", "mpnet", "longformer", "camembert"))
    return positions - (int(config.get("pad_token_id", 0)) + 1 if offset else 0)


def prompts_of(root: str, declared: Mapping[str, Any]) -> tuple[Prompts, dict[str, str | None]]:
    """Return the texts before queries and documents (the prompts of their names, or else the default one), and all.

    A default with the other one's name does not count, as in `encode_query` and `encode_document`.
    """
    prompts, default = declared.get("prompts", {}), declared.get("default_prompt_name")
    are_texts = isinstance(prompts, dict) and {*map(type, prompts.values())} <= {str, NoneType}
    where = f"{root}/{DECLARED}"
    refuse(not are_texts, "its prompts are no texts by name", where, 'write them as {"query": "query: "}')
    unknown = default not in (None, *prompts)
    refuse(unknown, f"has no prompt {default!r}, its default", where, f"it declares {', '.join(prompts) or 'none'}")
    usable = {name: text for name, text in prompts.items() if text is not None}
    fallback = "" if default in OF_KINDS else usable.get(default, "")
    chosen = {}
    for kind, names in NAMES.items():
        given = [usable[name] for name in names if name in usable]
        chosen[kind] = [*filter(None, given), *given, fallback][0]
    return Prompts(**chosen), dict(prompts)


def read_json(root: str, name: str, needed: bool = False) -> Any:
    """Return the content of a checkpoint's JSON file; None if it does not exist and is not `needed`."""
    with refused(root):
        file = checkpoint_file(root, name, needed)
        if file is None:
            return None
        content = json.loads(file.read_text("utf-8"))
        shape, called = SHAPES.get(name, (dict, "object"))
        if not isinstance(content, shape):
            raise ValueError(f"{name} is no {called}")
        return content


def read_object(root: str, name: str) -> dict[str, Any]:
    """Return the values of a checkpoint's JSON file that are not null; an empty object if it does not exist."""
    content = read_json(root, name) or {}
    return {key: value for key, value in content.items() if value is not None}


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

    prepare_hub()
    path = transformers.utils.cached_file(root, name, _raise_exceptions_for_missing_entries=needed)
    return None if path is None else Path(path)


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
