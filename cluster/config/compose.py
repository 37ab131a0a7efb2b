"""Composes Hydra overrides into the configuration of one run."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.aliases import named_parts
from pyrite.cluster.config.build import locate
from pyrite.cluster.config.groups import CHOICES, CONF, SINGLE_GROUPS, fill_defaults, group_options, part_node
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.parts import PARTS
from pyrite.cluster.config.quoting import quoted_path
from pyrite.cluster.config.relocated import with_new_paths
from pyrite.cluster.config.secrets import VARIABLE, remember
from pyrite.cluster.config.trust import from_folder
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from omegaconf import DictConfig


def compose(overrides: Sequence[str], config: str = "config", complete: bool = True) -> dict[str, Any]:
    """Return the resolved configuration that Hydra overrides give, with the chosen names under `CHOICES`.

    Args:
        config: the primary file of `cluster/conf`.
        complete: whether options without a default must be given; otherwise they are `???`, and of a group the first
            part.

    Raises:
        BadInput: if an override is malformed, names an option that does not exist or has the wrong type.
    """
    from hydra.errors import HydraException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    from pyrite.cluster.config.refusals import reason, refuse_lists, see, unreadable
    from pyrite.cluster.config.validate import check_parts, check_shape

    overrides = _set_or_add(named_parts(list(map(quoted_path, overrides)), config))
    refuse_lists(overrides, config)
    missing = []  # groups without a default that are not given
    if not complete:
        required = re.findall(r"^  - (\w+): \?\?\?", (CONF / f"{config}.yaml").read_text("utf-8"), re.MULTILINE)
        missing = [group for group in required if group not in map(key_of, overrides)]
    overrides = [*(f"{group}={group_options()[group][0]}" for group in missing), *overrides]
    remember(overrides)
    of_user = {found[1] for text in overrides for found in VARIABLE.finditer(text)}
    read = tuple(sorted(item for item in os.environ.items() if item[0].startswith("PYRITE_") or item[0] in of_user))
    try:
        resolved, choices = copy.deepcopy(_by_hydra(tuple(overrides), config, read, complete))
    except OverrideParseException as error:
        raise unreadable(error.override, error) from None
    except (HydraException, OmegaConfBaseException, ValueError) as error:  # ValueError: the value of a group is no name
        message = reason(error, overrides, config, compose)
        raise BadInput(message, remedy=None if message.endswith("?") else see(config)) from None
    check_parts(resolved, choices)
    _take_classes(resolved, choices, overrides)
    _resolve_negatives(resolved, overrides)
    resolved = with_new_paths({str(key): value for key, value in resolved.items()})
    check_shape(resolved, config)
    named = {
        str(group): option
        for group, option in choices.items()
        if not str(group).startswith("hydra") and group not in missing
    }
    if named.get("objective") == "weighted_sum":  # named after its terms
        terms = [name for name, value in resolved["objective"].items() if isinstance(value, dict) and name != "weights"]
        named["objective"] = "+".join(terms) or named["objective"]
    return resolved | {CHOICES: named}


def compose_recorded(overrides: Sequence[str], config: str = "config") -> dict[str, Any]:
    """Return the configuration of overrides that were read from a folder of results, which may come from anywhere."""
    with from_folder():
        return compose(overrides, config)


@functools.lru_cache(maxsize=2000)
def _by_hydra(
    overrides: tuple[str, ...], config: str, environment: tuple[tuple[str, str], ...], complete: bool = True
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the composed configuration and the chosen names, composed once per process.

    Hydra takes a tenth of a second, nearly all of it to read and merge the files that overrides choose; then it sets
    values. So the result of each choice of files is cached, and the values of each run are set in a copy.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf
    from omegaconf.errors import InterpolationToMissingValueError

    parsed = OverridesParser.create().parse_overrides(list(overrides))
    values = [each for each in parsed if each.package is None and not _chooses(each.key_or_group, each.value())]
    if any(each.is_sweep_override() or each.is_hydra_override() for each in parsed):
        values = []  # Hydra refuses the former, and the latter are its options
    files = tuple(str(each.input_line) for each in parsed if each not in values)
    composed, choices = copy.deepcopy(_of_files(files, config, environment))
    ConfigLoaderImpl._apply_overrides_to_config(values, composed)
    try:
        resolved: Any = OmegaConf.to_container(composed, resolve=True, throw_on_missing=complete)
    except InterpolationToMissingValueError:
        if complete:
            raise
        resolved = OmegaConf.to_container(composed)  # shows what refers to the missing option
    return resolved, choices


def _chooses(key: str, value: Any) -> bool:
    """Return whether an override chooses names of a group; all others set a value."""
    return key in group_options() and not isinstance(value, dict)


@functools.lru_cache(maxsize=500)
def _of_files(
    overrides: tuple[str, ...], config: str, environment: tuple[tuple[str, str], ...]
) -> tuple[DictConfig, dict[Any, Any]]:
    """Return the unresolved configuration of a choice of files, and the choice."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf, open_dict

    _store_parts()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = hydra_compose(config, list(overrides), return_hydra_config=True)
    choices: Any = OmegaConf.to_container(composed.hydra.runtime.choices)
    with open_dict(composed):
        del composed["hydra"]
    content = OmegaConf.to_container(composed, resolve=False)
    fill_defaults(content)
    filled: Any = OmegaConf.create(content)
    OmegaConf.set_struct(filled, True)
    return filled, choices


@functools.cache
def _store_parts() -> None:
    from hydra.core.config_store import ConfigStore

    for group, parts in PARTS.items():
        for name in parts:
            package = f"{group}.{name}" if group == "method" else None
            ConfigStore.instance().store(name, part_node(group, name), group, package)


def _resolve_negatives(config: dict[Any, Any], overrides: Sequence[str]) -> None:
    """Set the number of negatives per example if it is not given: 4, or the whole batch with `function=in_batch` alone.

    With `function=[in_batch,…]` and `policy.each` it is the whole batch and what the other functions add. A recipe's
    number counts documents that are read only as negatives. Those of the batch are read anyway.
    """
    sampling, functions = config.get("sampling"), config.get("function")
    if not isinstance(sampling, dict) or "negatives" not in sampling:
        return
    names = [*functions] if isinstance(functions, dict) else []
    policy = config["policy"] if isinstance(config.get("policy"), dict) else {}
    each, target, adds = policy.get("each"), policy.get("_target_"), 0
    if isinstance(each, int) and isinstance(target, str):
        adds = each * getattr(locate(target), "multiple", 1)
    of_batch = names[:1] == ["in_batch"] and (len(names) == 1 or adds > 0)
    given = "sampling.negatives" in map(key_of, overrides)
    if sampling["negatives"] is not None and (given or not of_batch):
        return
    size = config["training"]["batch_size"] if of_batch else None
    sampling["negatives"] = max(size - 1, 1) + adds * (len(names) > 1) if isinstance(size, int) else 4


def _set_or_add(overrides: Sequence[str]) -> list[str]:
    """Return the overrides, with options of a class that replaces a part, or is a new one, written as additions.

    So they need no `+`. The constructor of the class decides which options there are.
    """
    named = {key.removesuffix("_target_") for key in map(key_of, overrides) if key.endswith("._target_")}
    return [
        f"++{text.lstrip('+')}" if not text.startswith("~") and key_of(text).startswith(tuple(named)) else text
        for text in overrides
    ]


def _take_classes(config: dict[Any, Any], choices: dict[Any, Any], overrides: Sequence[str]) -> None:
    """Let a class that `GROUP._target_=` names replace the chosen part.

    Options that the class has too, and those that are given, stay. The other options of the part are removed.
    """
    given = set(map(key_of, overrides))
    for group in SINGLE_GROUPS:
        node = config.get(group)
        if f"{group}._target_" not in given or not isinstance(node, dict) or not isinstance(node.get("_target_"), str):
            continue
        target = locate(node["_target_"])
        parameters = inspect.signature(target).parameters
        for key in [str(key) for key in node]:
            if not key.startswith("_") and key not in parameters and f"{group}.{key}" not in given:
                del node[key]
        choices[group] = target.__name__


OF_TEXTS = ("collection", "vectors", "encoding", "strict", "cache")
"""Options that runs share with verbs that read a collection without training on it."""
TEXTS_ONLY = "texts_only"
"""The key of a configuration by which nothing is trained, so that its queries need not suffice to cross-validate."""


def texts_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run over the texts that another verb's options name, as its part `base`."""
    whole = compose([])
    chosen = whole[CHOICES] | {"collection": config[CHOICES]["collection"]}
    return whole | {key: config[key] for key in OF_TEXTS if key in config} | {CHOICES: chosen, TEXTS_ONLY: True}
