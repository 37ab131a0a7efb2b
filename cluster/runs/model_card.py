"""Writes the model card of a trained ranker, and pushes weights and card to a hub with the user's token."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pyrite.cluster.config.build import build, build_each
from pyrite.cluster.config.counts import counts_of
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.terminal import counted
from pyrite.cluster.plan.sweep import Planned
from pyrite.cluster.runs.cut_checkpoints import cut_of, frozen_of
from pyrite.cluster.runs.outcome import Outcome, read_outcome
from pyrite.cluster.runs.zero_shot import zero_shot_rows
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.lazy import huggingface_hub

TOKEN = "HF_TOKEN"
"""Environment variable with the user's token."""


def card(planned: Planned, outcome: Outcome, collection: Collection, transformer: bool) -> str:
    """Return a model card with data, policy, seed, measures, and the command that repeats the run.

    The weights of a `transformer` are the folder of a checkpoint that other libraries load.
    """
    tags = ["pyrite", "information-retrieval", "hard-negatives"]
    head: dict[str, Any] = {"tags": tags}
    if transformer:
        head = {"library_name": "sentence-transformers", "tags": ["sentence-transformers", *tags]}
    lines = [f"| {key} | {value} |" for key, value in _facts(planned, outcome, collection).items()]
    command = shlex.join(["pyrite", "train", *planned.overrides])
    return "\n".join([
        f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n", f"# {planned.name}\n",
        "Trained with Pyrite.\n", "| | |", "|---|---|", *lines, "",
        "On test queries, and BM25's own order of the same candidates:\n",
        "| candidates | measure | ranker | BM25 |", "|---|---|---|---|", *_measured(planned, outcome), "",
        f"The same again, to the last bit on a CPU:\n\n```\n{command}\n```\n",
    ])  # fmt: skip


def _facts(planned: Planned, outcome: Outcome, collection: Collection) -> dict[str, Any]:
    """Return what a ranker is, and what it was trained on and how."""
    config, chosen = planned.config, planned.config[CHOICES]
    functions = build_each(config["function"], "function", trust="composed")
    counts = counts_of(config, functions, build(config["policy"], "policy", trust="composed")) or {}
    negatives = ", ".join(f"{count} of {name}" for name, count in counts.items())
    selectors = [f"of {name} {node['_target_'].rpartition('.')[2]}" for name, node in config["selectors"].items()]
    checkpoint = config["ranker"].get("checkpoint")
    return {
        "ranker": chosen["ranker"],
        **({"checkpoint": f"{checkpoint} ({cut_of(config) or 'whole'})"} if checkpoint else {}),
        **({"frozen": frozen} if (frozen := frozen_of(config)) else {}),
        "data": f"{collection.name} (fingerprint {collection.fingerprint}; {counted(collection.size, 'document')})",
        "policy": chosen["policy"],
        "retrieval functions": ", ".join(config["function"]),
        "selector": ", ".join([chosen["selector"], *selectors]),
        "negatives a pair": negatives or str(config["sampling"]["negatives"]),
        "objective": chosen["objective"],
        **({"teacher": chosen["teacher"]} if config.get("teacher") else {}),
        "seed": config["seed"],
        "training": f"{counted(outcome.steps, 'step')}, best after epoch {outcome.best_epoch} of {outcome.epochs}",
    }


def _measured(planned: Planned, outcome: Outcome) -> list[str]:
    """Return the rows of the measures on the run's collection, and on others."""
    measured = [
        f"| {origin} | {measure} | {values.mean():.4f} | {outcome.bm25[origin][measure].mean():.4f} |"
        for origin, measures in outcome.values.items()
        for measure, values in measures.items()
    ]
    other = [
        f"| {row['collection']}: {row['origin']} | {row['measure']} | {row['value']:.4f} | {row['bm25']:.4f} |"
        for rows in zero_shot_rows(planned.name, outcome)
        for row in rows.iter_rows(named=True)
    ]
    return measured + other


def write_cards(storage: Storage, runs: Iterable[Planned], collections: Mapping[str, Collection]) -> None:
    """Write a card next to the weights of each run that has weights."""
    files = set(storage.names("weights"))
    for planned in runs:
        outcome = read_outcome(storage, planned.name)
        if outcome is None or f"{planned.name}.json" not in files:
            continue
        transformer = f"{planned.name}.safetensors" not in files
        text = card(planned, outcome, collections[planned.name], transformer).encode()
        storage.write(f"weights/{planned.name}/README.md" if transformer else f"weights/{planned.name}.md", text)


def check_push(repository: str, storage: Storage | None) -> None:
    """Check, before a run begins, that its ranker can be pushed."""
    refuse(
        not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII),
        f"{repository!r} is no repository",
        "push",
        "write push=OWNER/NAME",
    )
    if storage is None or not storage.local:
        raise BadInput("a ranker that is pushed is also written on this machine", "push", "give out=FOLDER too")
    refuse(
        not os.environ.get(TOKEN),
        "there is no token of the hub",
        "push",
        f"set {TOKEN} to your own, with the right to write",
    )


def push(storage: Storage, run: str, repository: str) -> str:
    """Push a ranker's weights and card to a repository of the user, and create the repository if it does not exist."""
    weights = Path(storage.path("weights"))
    with tempfile.TemporaryDirectory() as folder:
        if (weights / run).is_dir():
            shutil.copytree(weights / run, folder, dirs_exist_ok=True)
        else:
            shutil.copy(weights / f"{run}.safetensors", Path(folder) / "model.safetensors")
            shutil.copy(weights / f"{run}.md", Path(folder) / "README.md")
        shutil.copy(weights / f"{run}.json", Path(folder) / "model.json")
        hub = huggingface_hub.HfApi(token=os.environ[TOKEN])
        try:
            url = hub.create_repo(repository, exist_ok=True)
            hub.upload_folder(repo_id=repository, folder_path=folder, commit_message=f"Pyrite: {run}")
        except (huggingface_hub.errors.HfHubHTTPError, OSError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            remedy = f"the ranker is kept in {storage.shown('weights')}"
            raise BadInput(f"could not be pushed ({reason[:200]})", f"push={repository}", remedy) from None
    return str(url)
