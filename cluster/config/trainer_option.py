"""Reads the option `trainer`: checks a training function of the user's without importing it, and finds its files."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from types import NoneType
from typing import Any

from pyrite.cluster.config.build import locate
from pyrite.cluster.config.takes import takes
from pyrite.ranking.errors import BadInput, refuse

GIVEN = ("data", "seed", "folder")
"""The arguments that every training function receives."""
FIELDS = ("data", "out", "folder", "seed", "scratch", "checkpoint")
"""The fields that every command may have."""
NAMED = ("run", "format")
"""Options of `trainer` that are not the function's."""
PLACE = re.compile(r"[^{}]*\.py:\w+")
"""A file and a function of it. The path may have blanks, but no braces, of which every command has some."""
LENGTH = "training.max_epochs"
"""The option of Pyrite's training that says how long it is."""


def trains_elsewhere(config: Mapping[str, Any]) -> bool:
    """Return whether a run trains with a function or a command of the user's."""
    return bool(config.get("trainer", {}).get("run"))


def is_command(run: str) -> bool:
    """Return whether `trainer.run` is a command, and not a file and a function."""
    return " " in run.strip() and not PLACE.fullmatch(run)


def words_of(run: str) -> list[str]:
    """Return the words of a command, as a shell reads them."""
    try:
        return shlex.split(run)
    except ValueError as error:
        raise BadInput(f"can't be read: {error}", "trainer", "close each quote") from None


def trainer_name(run: str) -> str:
    """Return the name of a training function or command in tables: FILE.py:FUNCTION, or the command's script."""
    words = words_of(run) if is_command(run) else [run]
    return next((Path(word).name for word in words if ".py" in word), words[0])


def check_trainer(config: Mapping[str, Any]) -> None:
    """Refuse a training function that does not exist, options that it does not have, and moving negatives of a command.

    The file is read, not imported.
    """
    _check_checkpoint(config)
    run = str(config["trainer"]["run"])
    options = [name for name in config["trainer"] if name not in NAMED]
    if is_command(run):
        _check_command(run, options, config)
        return
    what = "a function reads data.dataset, and needs no format"
    refuse(
        config["trainer"].get("format") is not None,
        what,
        "trainer.format",
        "leave it out, or give a command with {data}",
    )
    path, _, name = run.rpartition(":")
    signature = _signature(_function(path, name, run).args)
    try:
        signature.bind(*GIVEN, **dict.fromkeys(options))
    except TypeError as error:
        what = f"{name}({', '.join(signature.parameters)}): {error}"
        remedy = f"define it as {name}(data, seed, folder, …), and give its other arguments as trainer.KEY="
        raise BadInput(what, "trainer", remedy) from None


def check_epochs(given: Mapping[str, str]) -> None:
    """Refuse a number of epochs together with a training function or a command, which does not read it.

    Args:
        given: the values that the user gives, by key.
    """
    both = LENGTH in given and not {"trainer", "trainer.run"}.isdisjoint(given)
    remedy = "give the function an argument, as trainer.epochs=3, or write it into the command"
    refuse(both, "a trainer does not read it", LENGTH, remedy)


def _check_checkpoint(config: Mapping[str, Any]) -> None:
    """Refuse a ranker that lacks the checkpoint from which the user's training starts."""
    key = "ranker.checkpoint"
    absent = config["ranker"].get("checkpoint", "") is None
    refuse(
        absent and not takes("config", config, key, {NoneType}),
        "is null, and the trainer's model starts from a checkpoint",
        key,
        f"name its folder or its name: {key}=FOLDER",
    )


def _signature(arguments: ast.arguments) -> inspect.Signature:
    """Return the signature of a function's syntax, in which every default is None. Nothing of the user's is run."""
    none = ast.Constant(None)
    arguments.defaults = [none for _ in arguments.defaults]
    arguments.kw_defaults = [default and none for default in arguments.kw_defaults]
    empty = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, none)))  # a lambda ignores annotations
    return inspect.signature(eval(compile(empty, "trainer", "eval"), {"__builtins__": {}}))


def _function(path: str, name: str, run: str) -> ast.FunctionDef:
    """Return the syntax of a function of the user's; refuse one that is not there."""
    what = "there is no such file" if path.endswith(".py") else "names no function"
    refuse(
        not path.endswith(".py") or not Path(path).is_file(),
        what,
        f"trainer={run}",
        "give FILE.py:FUNCTION, or a command with {data}, {out} and {seed}",
    )
    try:
        body = ast.parse(Path(path).read_bytes(), path).body
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"is no Python that can be read: {error}", path, "does python run it?") from None
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    what = f"{path} defines no function {name}"
    refuse(name not in functions, what, "trainer", f"it defines {', '.join(functions) or 'none'}")
    return functions[name]


def _check_command(run: str, options: list[str], config: Mapping[str, Any]) -> None:
    from pyrite.sampling.policies.schedule import Schedule  # loads NumPy and Polars

    dense = [name for name, node in config["function"].items() if "refresh" in node]
    if dense:
        what = "a command gets negatives that stand still, and no model of Pyrite's has vectors to search"
        raise BadInput(what, f"function={dense[0]}", "give a function, FILE.py:NAME, or mine with checkpoint=")
    what = "a command gets negatives that stand still, and a schedule would stay at its start"
    moves = issubclass(locate(config["policy"]["_target_"]), Schedule)
    refuse(moves, what, "policy", "give a function, FILE.py:NAME, or choose policy=mixture")
    fields = _fields(run)
    refuse(
        not {"out", "folder"} & {*fields},
        "names no folder to leave weights in",
        "trainer",
        "write {out} into the command",
    )
    for option in options:
        what = f"the command has no {{{option}}}"
        refuse(option not in fields, what, f"trainer.{option}", "write it into the command")
    for field in fields:
        what = f"{{{field}}} is no field of a command"
        refuse(field not in (*FIELDS, *options), what, "trainer", f"give trainer.{field}=")


def _fields(run: str) -> list[str]:
    """Return the names in braces of a command."""
    try:
        return [name for _, name, _, _ in Formatter().parse(run) if name is not None]
    except ValueError as error:
        raise BadInput(f"can't be read: {error}", "trainer", "write {{ and }} for braces") from None


def files_of_trainer(config: Mapping[str, Any]) -> list[str]:
    """Return the files of a training function or command, whose content is an input of a run."""
    run = str(config.get("trainer", {}).get("run") or "")
    words = words_of(run) if is_command(run) else [run.rpartition(":")[0]]
    return [word for word in words if word and Path(word).is_file()]


def place_of(trainer: Any) -> str:
    """Return `trainer=` for a function or a command.

    Raises:
        BadInput: if no process of a run can import the function.
    """
    if isinstance(trainer, str):
        return trainer
    try:
        file = inspect.getsourcefile(trainer)
    except TypeError:
        raise BadInput(f"is a {type(trainer).__name__}", "trainer", "give a function, or a command") from None
    if file is None or not Path(file).is_file() or trainer.__qualname__ != trainer.__name__:
        what = f"{trainer.__qualname__} is not in a file, where the process of a run could import it"
        raise BadInput(what, "trainer", "define it at the top level of a script or module")
    return f"{os.path.relpath(file)}:{trainer.__name__}"
