"""Refuses options that the composed parts do not have, with the options that they have and the one that is meant."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.groups import group_options, groups_of
from pyrite.cluster.config.other_names import refusal, suggest_all
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.refusals import no_option
from pyrite.ranking.errors import BadInput

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override
    from omegaconf import DictConfig

Compose = Callable[[Sequence[str], str, bool], dict[str, Any]]


def walk(content: Any, path: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the deepest node on a path, and the names of the path that it does not have."""
    for depth, name in enumerate(path):
        if not isinstance(content, Mapping) or name not in content:
            return content, list(path[depth:])
        content = content[name]
    return content, []


def with_values(
    values: Sequence[Override], of_files: DictConfig, overrides: Sequence[str], config: str, compose: Compose
) -> DictConfig:
    """Return a configuration with the values of overrides; refuse the first of an option that does not exist.

    Args:
        values: the overrides that set values; those with `++` may add options.
        of_files: what the chosen files give.
        overrides: all overrides of the command, for the suggestion.
        compose: `pyrite.cluster.config.compose.compose`, which tries suggestions.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.errors import HydraException
    from omegaconf import OmegaConf

    composed = copy.deepcopy(of_files)
    for place, each in enumerate(values):
        try:
            ConfigLoaderImpl._apply_overrides_to_config([each], composed)
        except (HydraException, AssertionError, ValueError) as error:  # as OmegaConf refuses options of a value
            before = copy.deepcopy(of_files)
            ConfigLoaderImpl._apply_overrides_to_config([*values[:place]], before)
            content: Any = OmegaConf.to_container(before, resolve=False)
            typed, within = each.key_or_group, getattr(error.__cause__, "full_key", None)  # of a mapping, the inner one
            absent = [key for key in (typed, within) if key and walk(content, key.split("."))[1]]
            if not absent:
                raise
            raise _unknown(absent[0], content, overrides, config, compose) from None
    return composed


def no_group(key: str, overrides: Sequence[str], config: str, compose: Compose) -> BadInput:
    """Return the error for a group that a verb does not have."""
    return no_option(key, config, f" here{suggest_all(overrides, key, config, compose)}")


def _unknown(key: str, content: Mapping[str, Any], overrides: Sequence[str], config: str, compose: Compose) -> BadInput:
    root, *rest = path = key.split(".")
    if root == "selectors" and len(path) > 2:  # as `aliases` writes selector.NAME.OPTION
        written = ".".join(["selector", *rest])
        return no_option(written, config, f"; is selector.{rest[0]}=NAME missing?")
    if root in groups_of(config) and not content.get(root):
        return no_option(key, config, f"; is {root}={'|'.join(group_options()[root])} missing?")
    # The name of another tool is the ranker's option, not that of an agent or of a method.
    of_verb = root in set(groups_of(config)) - set(groups_of("config"))
    siblings = _siblings(key, content, overrides, lambda text, others: refusal(text, others, config, compose))
    instead = "" if of_verb or (siblings.endswith("?") and rest) else suggest_all(overrides, key, config, compose)
    return no_option(key, config, instead or siblings)


def _siblings(
    key: str, content: Mapping[str, Any], overrides: Sequence[str], refused: Callable[[str, list[str]], str]
) -> str:
    """Return the known options next to an unknown one, and the one that is most like it if its value is accepted.

    Args:
        refused: returns why an override is refused next to others, or nothing.
    """
    path = key.split(".")
    node, (name, *rest) = walk(content, path)
    outer = ".".join(path[: -len(rest) - 1])
    if not isinstance(node, Mapping):
        return f"; {outer} is a value and has no options"
    names = [str(each) for each in node if not str(each).startswith("_")]
    close = difflib.get_close_matches(name, names, 1)
    value = next((text.partition("=")[2] for text in overrides if key_of(text) == key), "")
    likely = [f"{outer}.{'.'.join([each, *rest])}" for each in close] if outer else _anywhere(content, path, close)
    others = [text for text in overrides if key_of(text) != key]
    accepted = [each for each in likely if not value or not refused(f"{each}={value}", others)]
    meant = f"; did you mean {accepted[0]}={value or '…'}?" if accepted else ""
    return f"; {outer} has {', '.join(names) or 'no options'}{meant}" if outer else meant


def _anywhere(content: Mapping[str, Any], path: Sequence[str], close: Sequence[str]) -> list[str]:
    """Return the options of a whole configuration that an unknown one may mean: it has too many to list.

    Args:
        close: the most similar name of the first level, if any.
    """
    parts = [*close, *(part for part, inner in content.items() if not walk(inner, path)[1])]
    paths = [[*close, *path[1:]], [*parts[-1:], *path], path[1:]]
    return [".".join(each) for each in paths if each and not walk(content, each)[1]]
