"""Refuses options that the composed parts do not have, with the options that they have and the one that is meant."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyrite.cluster.config.groups import fill_defaults, group_options, groups_of
from pyrite.cluster.config.other_names import refusal, suggest_all
from pyrite.cluster.config.override import values_by_key, without
from pyrite.cluster.config.refusals import no_option, see
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.lazy import hydra, omegaconf
from pyrite.ranking.errors import BadInput
from pyrite.ranking.similar import similar

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
    values: Sequence[Override], of_files: bytes, overrides: Sequence[str], config: str, compose: Compose
) -> DictConfig:
    """Return a configuration with the values of overrides; refuse the first of an option that does not exist.

    Args:
        values: the overrides that set values; those with `++` may add options.
        of_files: what the chosen files give, pickled.
        overrides: all overrides of the command, for the suggestion.
        compose: `pyrite.cluster.config.compose.compose`, which tries suggestions.
    """
    loader = hydra._internal.config_loader_impl.ConfigLoaderImpl
    values = sorted(values, key=_order)
    composed = _with_replaced(of_files, values)
    for place, each in enumerate(values):
        try:
            loader._apply_overrides_to_config([each], composed)
        # OmegaConf refuses options of a value by the other two.
        except (hydra.errors.HydraException, AssertionError, ValueError) as error:
            before = _with_replaced(of_files, values)
            loader._apply_overrides_to_config([*values[:place]], before)
            content: Any = omegaconf.OmegaConf.to_container(before, resolve=False)
            fill_defaults(content)  # of parts that overrides added
            typed, within = each.key_or_group, getattr(error.__cause__, "full_key", None)  # of a mapping, the inner one
            for key in filter(None, (typed, within)):
                if walk(content, key.split("."))[1]:
                    raise _unknown(key, content, overrides, config, compose) from None
            composed = omegaconf.OmegaConf.create(content)
            omegaconf.OmegaConf.set_struct(composed, True)
            loader._apply_overrides_to_config([each], composed)
    return composed


def _replacing(override: Override) -> tuple[str, Any]:
    """Return the key of the part that an override names with its class, and the class; two blanks if it names none."""
    key, value = override.key_or_group, override.value()
    if key.endswith("._target_"):
        return key.removesuffix("._target_"), value
    return (key, value["_target_"]) if isinstance(value, dict) and "_target_" in value else ("", "")


def _order(override: Override) -> tuple[bool, int]:
    """Return the key by which overrides are applied: classes before the options of their parts, outer ones first."""
    key, _ = _replacing(override)
    return not key, key.count(".")


def _with_replaced(of_files: bytes, values: Sequence[Override]) -> DictConfig:
    """Return what the chosen files give, but of parts within parts that overrides replace the defaults of their class.

    Of a group's own part those options stay that the new class has too (`pyrite.cluster.config.compose`).
    """
    composed: DictConfig = pickle.loads(of_files)
    for key, path in map(_replacing, values):
        if _is_part(composed, key.rpartition(".")[0]) and _is_part(composed, key):
            part = {"_target_": path}
            fill_defaults(part)
            omegaconf.OmegaConf.update(composed, key, part, merge=False)
    return composed


def _is_part(composed: DictConfig, key: str) -> bool:
    return bool(key) and "_target_" in (omegaconf.OmegaConf.select(composed, key) or ())


def no_group(key: str, overrides: Sequence[str], config: str, compose: Compose) -> BadInput:
    """Return the error for a group that a verb does not have, but may be another's."""
    if having := [verb for verb in SHAPES if key in groups_of(verb)]:
        verb = having[0] if having[0] != "config" else "train"
        other = f"{verb} has it, see `pyrite options --for {verb}`"
        return BadInput(f"there is no option {key} here", remedy=f"{see(config)}; {other}")
    return no_option(key, config, f" here{suggest_all(overrides, key, config, compose)}")


def _unknown(key: str, content: Mapping[str, Any], overrides: Sequence[str], config: str, compose: Compose) -> BadInput:
    root, *rest = key.split(".")
    shown = key.replace("selectors.", "selector.", 1) if len(rest) > 1 else key  # as it is typed, before `aliases`
    if root == "selectors" and len(rest) > 1 and rest[0] not in content[root]:
        return no_option(shown, config, f"; is selector.{rest[0]}=NAME missing?")
    if root in groups_of(config) and not content.get(root):
        return no_option(key, config, f"; is {root}={'|'.join(group_options()[root])} missing?")
    # The name of another tool is the ranker's option, not that of an agent or of a method.
    of_verb = root in set(groups_of(config)) - set(groups_of("config"))
    whole = {**dict.fromkeys(groups_of(config)), **content}  # with the parts that are left out unless they are chosen
    siblings = _siblings(key, whole, overrides, lambda text, others: refusal(text, others, config, compose))
    instead = "" if of_verb or (siblings.endswith("?") and rest) else suggest_all(overrides, key, config, compose)
    hint = instead or siblings.replace("selectors.", "selector.")
    return no_option(shown, config, hint or (_of_study(key, overrides, compose) if config == "config" else ""))


def _of_study(key: str, overrides: Sequence[str], compose: Compose) -> str:
    """Return the end of the message about an option of no run, if one of studies is like it and takes the value."""
    meant, value = similar(key, SHAPES["study"].model_fields), values_by_key(overrides).get(key)
    if not meant or not value:
        return ""
    try:
        compose([f"{meant}={value}"], "study", True)
    except BadInput:
        return ""
    return f"; did you mean `pyrite study {meant}={value}`?"


def _siblings(
    key: str, content: Mapping[str, Any], overrides: Sequence[str], refused: Callable[[str, list[str]], str]
) -> str:
    """Return the known options next to an unknown one, and the one that is most like it if its value is accepted.

    Args:
        refused: returns why an override is refused next to others, or nothing.
    """
    path = key.split(".")
    node, missing = walk(content, path)
    outer = ".".join(path[: -len(missing)])
    if not isinstance(node, Mapping):
        return f"; {outer} is a value and has no options"
    names = [name for name in map(str, node) if not name.startswith("_")]
    value, others = values_by_key(overrides).get(key, ""), without(overrides, {key})
    likely = _likely(content, path, len(missing), names)
    written = (f"{each}={form}" for each in likely for form in (value or "…", f"[{value}]"))  # one, or one of a list
    accepted = next((text for text in written if not value or not refused(text, others)), "")
    meant = f"; did you mean {accepted}?" if accepted else ""
    return f"; {outer} has {', '.join(names) or 'no options'}{meant}" if outer else meant


def _likely(content: Mapping[str, Any], path: Sequence[str], missing: int, names: Sequence[str]) -> Iterator[str]:
    """Yield the options of a configuration that an unknown one may mean.

    A whole configuration has too many options to list, so an option of a part is meant too, and one outside of it. The
    other options of a part that is like the first name are tried, since what others chose may have them.

    Args:
        missing: how many names at the end of the path there are not.
        names: what there is instead of the first of them.
    """
    known, (name, *rest) = path[:-missing], path[-missing:]
    close = similar(name, names)
    paths = [[*known, close, *rest]] if close else []
    if not known:
        paths += [[part, *path] for part, inner in content.items() if not walk(inner, path)[1]][-1:]
        paths += [rest]
    tried = paths[:1] if close and not known and content[close] else []
    return (".".join(each) for each in paths if each and (each in tried or not walk(content, each)[1]))
