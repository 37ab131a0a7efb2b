"""Composes Hydra overrides into the configuration of one run."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import pickle
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.aliases import named_parts
from pyrite.cluster.config.build import locate, parts_in
from pyrite.cluster.config.declared import fill_options
from pyrite.cluster.config.grammar import parsed
from pyrite.cluster.config.groups import (
    CHOICES,
    CONF,
    NAMED_GROUPS,
    SINGLE_GROUPS,
    chosen_by_default,
    fill_defaults,
    group_options,
    part_node,
)
from pyrite.cluster.config.meant import see, yours
from pyrite.cluster.config.override import key_of, unquoted
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.quoting import quoted_path
from pyrite.cluster.config.refusals import check_names, chooses, several_values
from pyrite.cluster.config.relocated import with_new_paths
from pyrite.cluster.config.reserved import check_reserved, check_variables
from pyrite.cluster.config.secrets import VARIABLE, remember
from pyrite.cluster.config.signatures import MISSING
from pyrite.cluster.config.takes import LISTS, takes
from pyrite.cluster.config.trust import from_folder, only_read
from pyrite.cluster.config.unknown import no_group, walk, with_values
from pyrite.cluster.config.validate import check_parts, check_shape
from pyrite.cluster.config.word_vectors import word_vectors
from pyrite.cluster.lazy import hydra, omegaconf
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from omegaconf.errors import OmegaConfBaseException


def compose(overrides: Sequence[str], config: str = "config", complete: bool = True) -> dict[str, Any]:
    """Return the resolved configuration that overrides give, with the chosen names under `CHOICES`.

    Keys, groups and names are checked before Hydra composes them.

    Args:
        config: the primary file of `cluster/conf`.
        complete: whether options without a default must be given; otherwise they are `???`, and of a group the first
            part.

    Raises:
        BadInput: if an override is malformed, names an option that does not exist or has the wrong type.
    """
    texts = _with_signs(named_parts(list(map(quoted_path, overrides)), config), config)
    given = {parsed(text).key_or_group: parsed(text) for text in texts}
    required = [group for group, name in chosen_by_default(config).items() if name == MISSING and group not in given]
    _check(texts, config)
    if required and complete:
        what = f"{required[0]} has no default; choose one of {', '.join(group_options()[required[0]])}"
        raise BadInput(f"{what}{yours(required[0])}", remedy=see(config))
    texts = [*(f"{group}={group_options()[group][0]}" for group in required), *texts]
    remember(texts)
    resolved, choices = copy.deepcopy(_by_hydra(tuple(texts), config, _environment(texts), complete))
    check_parts(resolved, choices)
    _take_classes(resolved, choices, given)
    check_shape(resolved, config)
    check_reserved(resolved)
    check_variables([unquoted(text.partition("=")[2]) for text in texts], resolved)
    _resolve_negatives(resolved, given)
    return with_new_paths(resolved) | {CHOICES: _named(choices, resolved, required)}


def _named(choices: Mapping[str, Any], config: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """Return the chosen name of each group; of those that were only filled in, none."""
    named = {group: name for group, name in choices.items() if not group.startswith("hydra") and group not in required}
    if named.get("objective") == "weighted_sum":  # named after its terms
        named["objective"] = "+".join(parts_in(config["objective"])) or named["objective"]
    return named


def _check(texts: Sequence[str], config: str) -> None:
    """Refuse groups that a verb does not have, names that a group does not have, and several values of an option."""
    for override in map(parsed, texts):
        key = override.get_key_element().lstrip("+~")
        if chooses(override):
            # Of another package nothing is chosen, but something may be added.
            known = key in chosen_by_default(config) if key == override.key_or_group else override.is_add()
            if not known:
                raise no_group(key, texts, config, compose)
            check_names(override, config)
        value = override.value()
        if override.is_sweep_override() or (key in SINGLE_GROUPS and isinstance(value, list) and len(value) > 1):
            raise BadInput(one_value(str(override.input_line), texts, config), remedy=see(config))


def one_value(text: str, texts: Sequence[str], config: str) -> str:
    """Return why an override can't give several values: the option takes a list, or a single value."""
    key, _, value = text.partition("=")
    if key in group_options():
        check_names(parsed(text), config)
    others = [other for other in texts if other != text]
    content = compose(others, config, False)
    node, missing = walk(content, key.split("."))
    if missing and key not in group_options():  # refused as unknown, with what is meant
        compose([*others, f"{key}=[{value}]"], config, False)
    listed = key in NAMED_GROUPS or (key not in SINGLE_GROUPS and not missing and takes(config, content, key, LISTS))
    return several_values(key, value, listed, isinstance(node, str) and not missing and "." in key)


def _environment(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the environment variables on which what is composed may depend."""
    named = {found[1] for text in texts for found in VARIABLE.finditer(text)}
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith("PYRITE_") or item[0] in named))


def compose_recorded(overrides: Sequence[str], config: str = "config") -> dict[str, Any]:
    """Return the configuration of overrides of a folder of results, which may come from anywhere, to show or compare
    it: nothing is carried out.
    """
    with from_folder(), only_read():
        return compose(overrides, config)


@functools.cache
def recorded_or_none(overrides: str) -> dict[str, Any] | None:
    """Return the configuration of a recorded run, by the line of its overrides; None if this version can't compose it.

    A class of the user's may be missing here, or an option be of another version.
    """
    try:
        return compose_recorded(shlex.split(overrides))
    except BadInput:
        return None


@functools.lru_cache(maxsize=2000)
def _by_hydra(
    overrides: tuple[str, ...], config: str, environment: tuple[tuple[str, str], ...], complete: bool = True
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the composed configuration and the chosen names, composed once per process.

    Hydra takes a tenth of a second, nearly all of it to read and merge the files that overrides choose; then it sets
    values. So the result of each choice of files is cached, and the values of each run are set in a copy.
    """
    values = [each for each in map(parsed, overrides) if not chooses(each)]
    files = tuple(str(each.input_line) for each in map(parsed, overrides) if chooses(each))
    try:
        of_files, choices = _of_files(files, config, environment)
        composed = with_values(values, of_files, overrides, config, compose)
    except (hydra.errors.HydraException, omegaconf.errors.OmegaConfBaseException, ValueError) as error:
        what = f"can't compose {' '.join(overrides)} ({str(error).strip().partition(chr(10))[0]})"
        raise BadInput(what, remedy=see(config)) from None
    try:
        return _resolved(composed, complete), choices
    except omegaconf.errors.OmegaConfBaseException as error:
        raise BadInput(_unresolved(error, composed), remedy=see(config)) from None


def _resolved(composed: DictConfig, complete: bool) -> Any:
    try:
        return omegaconf.OmegaConf.to_container(composed, resolve=True, throw_on_missing=complete)
    except omegaconf.errors.InterpolationToMissingValueError:
        if complete:
            raise
        return omegaconf.OmegaConf.to_container(composed)  # shows what refers to the missing option


def _unresolved(error: OmegaConfBaseException, composed: DictConfig) -> str:
    """Return why a configuration has no values: an option has no default, or refers to something that is not there."""
    of_missing = omegaconf.errors.MissingMandatoryValue, omegaconf.errors.InterpolationToMissingValueError
    if isinstance(error, of_missing):
        content = omegaconf.OmegaConf.to_container(composed, resolve=False)
        keys = omegaconf.OmegaConf.missing_keys(composed)
        asked = min(key for key in keys if walk(content, key.split("."))[0] == MISSING)
        return f"{asked} has no default; give it with {asked}=…"
    return f"{error.full_key}: {str(error.msg).partition(chr(10))[0]}"


@functools.lru_cache(maxsize=500)
def _of_files(
    overrides: tuple[str, ...], config: str, environment: tuple[tuple[str, str], ...]
) -> tuple[bytes, dict[str, Any]]:
    """Return the unresolved configuration of a choice of files, and the choice.

    The configuration is pickled: its copies are made so in a sixth of the time that `copy.deepcopy` takes.
    """
    _store_parts()
    hydra.core.global_hydra.GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        composed = hydra.compose(config, list(overrides), return_hydra_config=True)
    choices: Any = omegaconf.OmegaConf.to_container(composed.hydra.runtime.choices)
    with omegaconf.open_dict(composed):
        del composed["hydra"]
    content: Any = omegaconf.OmegaConf.to_container(composed, resolve=False)
    fill_options(content, config)
    fill_defaults(content)
    filled: Any = omegaconf.OmegaConf.create(content)
    omegaconf.OmegaConf.set_struct(filled, True)
    return pickle.dumps(filled), choices


@functools.cache
def _store_parts() -> None:
    store = hydra.core.config_store.ConfigStore.instance()
    for group, parts in PARTS.items():
        for name in parts:
            store.store(name, part_node(group, name), group)


def _resolve_negatives(config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Set the number of negatives per example if it is not given: 4, or the whole batch with `function=in_batch` alone.

    With `function=[in_batch,…]` and `policy.each` it is the whole batch and what the other functions add. A recipe's
    number counts documents that are read only as negatives. Those of the batch are read anyway.
    """
    sampling = config.get("sampling", {})
    if "negatives" not in sampling:
        return
    first, *others = config["function"]
    each = config["policy"].get("each")
    adds = each * getattr(locate(config["policy"]["_target_"]), "multiple", 1) if isinstance(each, int) else 0
    typed = "sampling.negatives" in given and sampling["negatives"] is not None
    if first == "in_batch" and not typed and (not others or adds > 0):
        sampling["negatives"] = max(config["training"]["batch_size"] - 1, 1) + adds * bool(others)
    elif sampling["negatives"] is None:
        sampling["negatives"] = 4


def _with_signs(overrides: Sequence[str], config: str) -> list[str]:
    """Return the overrides, with those that may add an option marked by `++`, which sets or adds.

    These are options of a class that replaces a part, or is a new one, whose constructor decides which options there
    are, and what the user marked by `+`. A group that a verb has needs no sign.
    """
    classes = tuple(key.removesuffix("_target_") for key in map(key_of, overrides) if key.endswith("._target_"))
    return [_with_sign(text, classes, config) for text in overrides]


def _with_sign(text: str, classes: tuple[str, ...], config: str) -> str:
    """Return an override with its sign; `classes` are the beginnings of the options of classes that are named."""
    key, plain = key_of(text), text.lstrip("+")
    if text.startswith("~") or "@" in key:
        return text
    if key in chosen_by_default(config):
        return plain
    adds = text.startswith("+") or key.startswith(classes)
    return f"++{plain}" if adds else text


def _take_classes(config: dict[str, Any], choices: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Let a class that `GROUP._target_=` names replace the chosen part.

    Options that the class has too, and those that are given, stay. The other options of the part are removed.
    """
    for group in SINGLE_GROUPS:
        node: Any = config.get(group)
        path = node.get("_target_") if isinstance(node, dict) else None
        if f"{group}._target_" in given and isinstance(path, str):  # the shape refuses what names no class
            target = locate(path)
            kept = {*inspect.signature(target).parameters, *(key.removeprefix(f"{group}.") for key in given)}
            config[group] = {key: value for key, value in node.items() if key.startswith("_") or key in kept}
            choices[group] = target.__name__


OF_TEXTS = ("collection", "vectors", "encoding", "strict", "relabel", "cache")
"""Options that runs share with verbs that read a collection without training on it."""
TEXTS_ONLY = "texts_only"
"""The key of a configuration by which nothing is trained, so that its queries need not suffice to cross-validate."""


def texts_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run over the texts that another verb's options name, as its part `base`."""
    whole = compose([])
    chosen = whole[CHOICES] | {"collection": config[CHOICES]["collection"]}
    texts = {key: config[key] for key in OF_TEXTS if key in config}
    # A ranker is opened with its weights, and needs no others.
    texts["vectors"] = word_vectors({"vectors": whole["vectors"]} | config | {"ranker": None})
    return whole | texts | {CHOICES: chosen, TEXTS_ONLY: True}
