"""Counts the calls of this project between the command line and three effects that readers look for.

    python -m benchmarks.frames [--of study train index] [-v]

Each command is run with few documents, in this process. A profiler (`sys.setprofile`) waits for the first call of the
effect and counts the calls above it that are code of this project: functions, generators and wrappers of decorators,
from `cli.main` down. Prints the number of calls and of files; `-v` prints the calls too.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tests.made_up import write_beir

SMALLEST = ["--of train"]
ROOT = Path(__file__).resolve().parents[1]
TINY = [
    "collection=beir", "vectors=random", "encoding.min_count=1", "ranker=dssm", "ranker.preset=tiny", "scale=tiny",
    "training.max_epochs=1", "training.batch_size=8", "policy=fixed", "selector=uniform",
]  # fmt: skip
EFFECTS = {
    "study": (
        ["study", *TINY, "function=bm25", "seeds=1", "local=true", "concurrent=1", "dashboard=false"],
        "ranking/training.py",
        "steps",
    ),
    "train": (["train", *TINY, "function=bm25"], "ranking/training.py", "steps"),
    "index": (
        ["train", *TINY, "function=dense", "origin=bm25", "validation.origin=bm25"],
        "cluster/index/client.py",
        "search",
    ),
}
"""The command, and the file and function that are its effect."""


def project_calls(frame: FrameType | None) -> list[tuple[str, str]]:
    """Return file and function of the project's calls above a frame, from the outermost on, the frame's included."""
    calls: list[tuple[str, str]] = []
    while frame is not None:
        name = frame.f_code.co_filename
        path = Path(os.path.realpath(name)).relative_to(ROOT) if os.path.realpath(name).startswith(f"{ROOT}/") else None
        if path and not name.startswith("<") and path.parts[0] not in ("benchmarks", ".venv"):
            calls.append((path.as_posix(), frame.f_code.co_qualname))
        frame = frame.f_back
    return calls[::-1]


def path_to(command: Sequence[str], file: str, function: str) -> list[tuple[str, str]]:
    """Run a command in this process; return the calls above the first call of a function."""
    from pyrite.cluster.commands.cli import main

    found: list[list[tuple[str, str]]] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == function and code.co_filename.endswith(file) and not found:
            found.append(project_calls(frame))
            sys.setprofile(None)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        with suppress(SystemExit), redirect_stdout(sys.stderr):  # a command that ends well exits too
            main(list(command))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found[0]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", nargs="+", choices=EFFECTS, default=list(EFFECTS))
    parser.add_argument("-v", action="store_true", help="print the calls")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    with tempfile.TemporaryDirectory() as folder:
        collection = write_beir(Path(folder) / "collection")
        os.environ["PYRITE_CACHE"] = f"{folder}/cache"
        for name in chosen.of:
            command, file, function = EFFECTS[name]
            given = f"collection.path={collection}"
            calls = path_to([*command, given, f"out={folder}/{name}"], file, function)
            print(
                f"{name:6} {len(calls):2} calls in {len({path for path, _ in calls}):2} files to {function} in {file}"
            )
            for path, call in calls if chosen.v else ():
                print(f"       {path}: {call}")


if __name__ == "__main__":
    main()
