"""Reads and writes what the folder of a judging remembers: the options it was started with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyrite.cluster.commands.first_folder import STARTED_IN, absolute, recorded_folder
from pyrite.cluster.config.aliases import as_override
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.moved import with_present_paths
from pyrite.cluster.config.override import key_of, of_keys, replaced, without
from pyrite.cluster.output.storage import Storage
from pyrite.pooling.judging.folder import private_file
from pyrite.pooling.runs import files_of, listed
from pyrite.ranking.errors import BadInput, refuse

OVERRIDES = "overrides.json"
OUT = "outputs/judging"
BEFORE = {"duplicates": "keep"}
"""Options that folders of older versions do not remember, with what was done then."""
OF_A_START = {"out", "host", "hosts", "url", "port", "open_browser"}
"""Options that are neither written to the folder nor read from it: access to the page is granted only explicitly."""


def folder_of(overrides: Sequence[str]) -> Storage:
    """Return the folder that overrides name, or the default."""
    # Composed as a study, since required options of this verb may be remembered in the folder.
    out = compose(of_keys(overrides, {"out"}), "study")["out"] or OUT
    refuse("://" in out, "is not a folder on this machine", out, "SQLite needs one; give another out=")
    return Storage(out)


def remembered(storage: Storage) -> list[str]:
    """Return the overrides that a folder was started with; none if it is new."""
    content = storage.read(OVERRIDES)
    try:
        saved = json.loads(content) if content else []
        saved = saved if isinstance(saved, dict) else {"overrides": list(saved)}  # a list until version 0.1
        overrides = without(map(with_present_paths, saved["overrides"]), OF_A_START)
        lacking = BEFORE.keys() - set(map(key_of, overrides)) if overrides else ()
        return [*absolute(overrides, recorded_folder(saved)), *(f"{key}={BEFORE[key]}" for key in lacking)]
    except (ValueError, TypeError, KeyError):
        raise BadInput("is damaged", f"{storage}/{OVERRIDES}", "delete it, and give the options again") from None


def remember(storage: Storage, overrides: Sequence[str], config: Mapping[str, Any]) -> None:
    """Write down the options with which a folder was started, and the folder in which relative paths begin.

    Args:
        config: the options composed, with those that were not given.
    """
    kept = without(overrides, OF_A_START | BEFORE.keys())
    kept += [f"{key}={config[key]}" for key in BEFORE]
    storage.write(OVERRIDES, json.dumps({STARTED_IN: os.getcwd(), "overrides": kept}).encode())
    private_file(Path(storage.path(OVERRIDES)))


def grown(folder: str, overrides: Sequence[str]) -> list[str]:
    """Return the overrides for a folder whose pool grows: with its runs and then those that these do not hold."""
    refuse(
        "out" in map(key_of, overrides),
        "out= is given with --resume",
        remedy="--resume FOLDER is the folder: leave out= out",
    )
    given = [f"out={as_override(folder)}", *overrides]
    stored = remembered(folder_of(given))
    refuse(not stored, "no judgements in it", folder, "start with: pyrite judge out=FOLDER runs=…")
    before, after = compose(stored, "judge"), compose([*stored, *overrides], "judge")
    what = f"the depth was {before['depth']}, and may only rise"
    refuse(after["depth"] < before["depth"], what, f"depth={after['depth']}", f"give depth={before['depth']} or more")
    if "runs" not in map(key_of, overrides):
        return given
    inside = _files(listed(before["runs"]))
    new = [path for path in listed(after["runs"]) if not inside >= _files([path])]
    return replaced(given, [f"runs={as_override([*listed(before['runs']), *new])}"])


def _files(paths: Sequence[str]) -> set[Path]:
    return {file.resolve() for path in paths for file in files_of(path)}
