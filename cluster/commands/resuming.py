"""Starts an experiment from its overrides, or continues one from its folder: `--resume OUT`, or `resume=auto`.

An experiment is planned again from `config.yaml`. Its preparation then leaves out finished results that were built from
the same data and code (`output.result_store.ResultStore`). The others continue from their last state
(`output.result_store.SavedState`), or start.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from pyrite.cluster.commands.experiment import Experiment, Plan, Verb
from pyrite.cluster.commands.first_folder import absolute, entered, recorded_folder
from pyrite.cluster.config.aliases import quoted_baseline
from pyrite.cluster.config.nested import nodes
from pyrite.cluster.config.override import key_of, of_keys, replaced, root_of, unquoted, values_by_key, without
from pyrite.cluster.config.quoting import override_of, quoted_path
from pyrite.cluster.config.relocated import KEY, moves, relocated
from pyrite.cluster.config.reserved import is_reserved
from pyrite.cluster.config.secrets import concealed
from pyrite.cluster.config.trust import (
    check_classes,
    from_folder,
    named_classes,
    trusting_typed,
    typed_command,
)
from pyrite.cluster.output.manifest import CONFIG, read_config_of, refuse_taken
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import applying
from pyrite.cluster.plan.extension import GROWING
from pyrite.ranking.errors import refuse

MOVED = "moved"
"""Key in `config.yaml` of the new paths of collections, by the old ones."""
EXTENDED = "extended"
"""Key in `config.yaml` of the commands that added to an experiment."""
TYPED = "typed"
"""Key in `config.yaml` of the overrides of the first command."""
RESUME = "resume"
"""The option that starts an experiment, or goes on with it: `resume=auto`."""


def read(verb: Verb, arguments: Sequence[str], resume: str | None = None) -> Experiment:
    """Start an experiment from its overrides, or continue one from its folder.

    Args:
        arguments: its overrides. With `resume=auto` among them, it continues if `out=` holds what the same verb left.
        resume: the folder of an experiment to continue, with overrides that change it; None starts a new one.
    """
    typed = [quoted_baseline(quoted_path(text)) for text in arguments]
    automatic = is_automatic(typed, resume)
    typed = without(typed, {RESUME})
    if automatic and holds_results(out := output_of(typed)):
        return _continued(verb, typed, out, again=True)
    return started(verb, typed) if resume is None else _continued(verb, typed, resume)


def started(verb: Verb, typed: list[str]) -> Experiment:
    """Start an experiment from its overrides."""
    plan = verb.plan(typed)
    if plan.storage is not None and not verb.same_folder:
        refuse_taken(plan.storage)
    return Experiment(verb, plan, typed)


def is_automatic(arguments: Sequence[str], resume: str | None = None) -> bool:
    """Return whether overrides contain `resume=auto`; refuse other values, and `--resume` with it."""
    given = of_keys(arguments, {RESUME})
    for text in given:
        refuse(
            unquoted(text.partition("=")[2]) != "auto",
            "has no such value",
            text,
            "write resume=auto to start or go on, or --resume FOLDER",
        )
    refuse(given and resume is not None, "--resume and resume=auto exclude each other", resume, "leave one of them out")
    return bool(given)


def output_of(arguments: Sequence[str]) -> str:
    """Return the folder of `out=`, which `resume=auto` needs."""
    out = unquoted(values_by_key(arguments).get("out", "null"))
    refuse(out == "null", "resume=auto goes on in a folder", RESUME, "name it with out=FOLDER")
    return out


def holds_results(folder: str) -> bool:
    """Return whether a command has written its configuration to a folder."""
    return Storage(folder).read(CONFIG) is not None


def recorded(saved: Mapping[str, Any], first: bool = False) -> list[str]:
    """Return the overrides in a manifest: those of the first command, and unless `first` those that added to it."""
    typed = _texts(saved.get(TYPED))
    if first:
        return typed
    added = [text for command in _texts(saved.get(EXTENDED)) for text in shlex.split(command)[4:]]
    return [*typed, *_texts(saved.get("overrides")), *added]


def _continued(verb: Verb, typed: list[str], folder: str, again: bool = False) -> Experiment:
    """Continue an experiment from its folder, which may come from anywhere.

    Args:
        again: whether the whole command was typed again, instead of what changes.
    """
    storage = Storage(folder)
    saved = read_config_of(verb.name, storage)
    start, started_in = recorded_folder(saved, folder), os.getcwd()
    with nullcontext() if start is None else entered(start):
        moved = {**_mapping(saved.get(MOVED)), **moves(recorded(saved), absolute(typed, started_in))}
    if again:
        _refuse_shorter(verb, typed, saved, folder)
    changes = _changes(verb, typed, saved, start or os.curdir, started_in, bool(moved), again)
    for text in changes:
        if root_of(text) not in verb.may_change:
            verb.check_change(verb, text, folder)
    with ExitStack() as left:
        left.enter_context(relocated(moved))
        left.enter_context(trusting_typed(typed))
        command = [verb.name, *typed, "resume=auto"] if again else [verb.name, "--resume", folder, *typed]
        left.enter_context(typed_command(command))
        check_classes(saved, "file")
        if start is not None:
            storage = storage if "://" in folder else Storage(os.path.abspath(folder))
            changes = absolute(changes, started_in)
            left.enter_context(entered(start))
        with from_folder():
            plan = (verb.continued or _planned_again(verb))(changes, saved, storage)
        joined = left.pop_all()
    if additions := without(changes, verb.may_change, root_of):
        additions += of_keys(changes, verb.recorded)
    first = recorded(saved, first=True)
    chosen = without(_texts(saved.get("overrides")), set(map(key_of, first)))
    return Experiment(verb, plan, first, chosen, resumed=True, moved=moved, additions=additions, joined=joined)


def _planned_again(verb: Verb) -> Any:
    """Return what plans a verb from the overrides in its manifest, and those that are given again."""

    def plan(changes: list[str], saved: dict[str, Any], storage: Storage) -> Plan:
        overrides: Any = saved.get("overrides")
        what = f"is not the configuration of a {verb.noun}"
        refuse(not isinstance(overrides, list), what, f"{storage}/{CONFIG}", "name the folder of one")
        return verb.plan(replaced(list(map(str, overrides)), [override_of("out", storage.place), *changes]))

    return plan


def _changes(
    verb: Verb, typed: Sequence[str], saved: Mapping[str, Any], start: str, started_in: str, moved: bool, again: bool
) -> list[str]:
    """Return the overrides that add to the manifest, and all that may change.

    One that repeats a recorded one, or only trusts what it names, adds nothing, nor does the new path of a collection.
    """
    texts = recorded(saved)
    may_change = {*verb.may_change} - ({*verb.recorded} if again else set())  # a later one may be recorded
    if not again:  # seeds=1 is not known where seeds=2 came after it
        growing = {key_of(each): each for each in of_keys(texts, GROWING)}
        texts = [*without(texts, GROWING), *growing.values()]
    known = {*texts, *absolute(texts, os.path.abspath(start))}
    new = without(typed, applying({KEY: moved, "out": again}))
    return [
        text
        for text in new
        if root_of(text) in may_change
        or not (_trusts_again(text, texts, saved) or known & {text, concealed(text), *absolute([text], started_in)})
    ]


def _trusts_again(text: str, recorded: Sequence[str], saved: Mapping[str, Any]) -> bool:
    """Return whether an override names the classes of a recorded one, or reserved values of it, which trusts them."""
    classes = named_classes([text])
    same = bool(classes) and classes in [named_classes([each]) for each in of_keys(recorded, {key_of(text)})]
    value = unquoted(text.partition("=")[2])
    return same or (is_reserved(text) and any(isinstance(node, str) and value in node for node in nodes(saved)))


def _refuse_shorter(verb: Verb, typed: Sequence[str], saved: Mapping[str, Any], folder: str) -> None:
    """Refuse a command that lacks an option of the one that it resumes: another was probably meant."""
    given = {*map(key_of, typed), "out"}
    for text in recorded(saved, first=True):
        what = f"holds a {verb.noun} with {text}, and resume=auto goes on with the same overrides"
        refuse(
            key_of(text) not in given and root_of(text) not in verb.may_change,
            what,
            folder,
            f"give {text} too, or choose another out=",
        )


def _texts(value: Any) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, str]:
    return dict(value) if isinstance(value, dict) else {}
