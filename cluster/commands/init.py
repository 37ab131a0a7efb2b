"""Runs `pyrite init`: writes a commented file with a first study over the user's data, and prints the command."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from pyrite.cluster.output.terminal import print_lines
from pyrite.ranking.collections.format_of import format_of
from pyrite.ranking.errors import BadInput

TIMES = {"tiny": "seconds", "small": "minutes", "medium": "about an hour", "full": "hours"}
"""How long a study takes at each scale, on a laptop."""
QUESTIONS = {
    "data": "Your data: pairs of queries and passages, a folder of BEIR, MS MARCO or TREC (empty: Python's docstrings)",
    "model": "Your model: a folder, or a name at the Hugging Face hub (empty: static word vectors, which are fast)",
    "scale": f"Time: {', '.join(f'{scale} ({time})' for scale, time in TIMES.items())} (empty: tiny)",
}
OUT = "study.yaml"


def run_verb(chosen: argparse.Namespace, console: Console) -> int:
    """Write the file, with answers from options or from the terminal."""
    texts = [*(f"data={word}" for word in chosen.words), *chosen.overrides]
    given = dict(text.partition("=")[::2] for text in texts)
    if unknown := set(given) - {*QUESTIONS, "out"}:
        raise BadInput(f"there is no option {unknown.pop()}", remedy="init takes data=, model=, scale= and out=")
    data = [text.partition("=")[2] for text in texts if text.startswith("data=")]
    if len(data) > 1:
        raise BadInput(f"names {len(data)} files or folders", " ".join(data), "name one, as data=FILE_OR_FOLDER")
    if empty := [name for name, value in given.items() if not value]:
        raise BadInput("is empty", empty[0], "give it a value, or leave it out")
    path = Path(given.get("out", OUT))
    if path.suffix not in (".yaml", ".yml"):
        raise BadInput("is no name of a file of overrides", path, "let it end in .yaml")
    if os.path.lexists(path):
        raise BadInput("already exists", path, "delete it, or choose another out=")
    asks = sys.stdin is not None and sys.stdin.isatty() and not {*given} - {"out"}
    content = study_file(**answer(given, input if asks else None), path=str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"can't be written ({error.strerror})", path, "choose another out=") from None
    print_lines(console, f"{path} is written. To run it:", f"  {shlex.join(['pyrite', 'study', str(path)])}")
    return 0


def answer(given: dict[str, str], ask: Callable[[str], str] | None) -> dict[str, str]:
    """Return an answer to each question; refuse data that do not exist, and scales that there are not."""
    answers = {}
    for name, question in QUESTIONS.items():
        answers[name] = given[name] if name in given else ask(f"{question}: ").strip() if ask else ""
    if answers["data"] and not os.path.exists(answers["data"]):
        raise BadInput("does not exist", answers["data"], "give data=FILE_OR_FOLDER, or leave it out")
    answers["scale"] = answers["scale"] or "tiny"
    if answers["scale"] not in TIMES:
        raise BadInput(f"there is no scale {answers['scale']!r}", remedy=f"choose {', '.join(TIMES)}")
    return answers


def study_file(data: str, model: str, scale: str, path: str = OUT) -> str:
    """Return the content of a file for `pyrite study`: a list of overrides with comments."""
    collection = [f"collection={format_of(data)}", f"collection.path={data}"] if data else ["collection=pydocs"]
    ranker = ["ranker=bi_encoder", f"ranker.checkpoint={model}"] if model else ["ranker=static"]
    lines = [
        f"# Do BM25 negatives help, and how many? Run it with: {shlex.join(['pyrite', 'study', path])}",
        "# Each line is an option as on the command line; `pyrite options` explains all of them.",
        "",
        "# The data.",
        *(_item(text) for text in collection),
        "# The model to train.",
        *(_item(text) for text in ranker),
        "# The negatives: the other passages of the batch, and with them 0, 1 or 4 passages that BM25 finds.",
        *map(_item, ["function=[in_batch,bm25]", "negatives.bm25=0,1,4"]),
        "# Every other method is compared with this one.",
        _item("baseline=negatives.bm25=0"),
        "# Runs per method. Three seeds show large differences, ten show small ones.",
        _item("seeds=5"),
        f"# The size: {', '.join(f'{name} ({time})' for name, time in TIMES.items())}.",
        _item(f"scale={scale}"),
        "# The folder of the results; without it a new one in outputs/.",
        "# - out=outputs/first",
    ]
    return "\n".join(lines) + "\n"


def _item(override: str) -> str:
    quoted = override.replace("'", "''")
    return f"- '{quoted}'" if any(sign in override for sign in "[]{}#:, '") else f"- {override}"
