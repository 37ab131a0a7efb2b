"""Measures what the size of a collection costs: time and memory of every process, for each input of a run.

    python -m benchmarks.growth [--documents N …] [--shards N …] [--only PART …]

The collection has documents of 60 words from 200,000 words with Zipf frequencies, in a BEIR folder that is deleted
afterwards. Each part runs in a separate process, whose memory and that of its children is sampled ten times per
second: anonymous memory, and memory including mapped files, which the system may drop. The last line shows the powers
of growth; 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.process_memory import Watched
from pyrite import cluster  # noqa: F401  before ray, which it tells how to authenticate

if TYPE_CHECKING:
    from pyrite.ranking.training import RankerTraining

SMALLEST = ["--documents 400 --words 300 --queries 40 --only read bm25 states"]
LENGTH = 60
"""Words of a document."""
ASKED = 320
"""Queries that an index is asked, 32 at once."""
CHUNK = 20_000


def write_collection(folder: Path, documents: int, words: int, queries: int) -> None:
    """A BEIR folder; a query is five words of its document, and nine of ten train."""
    rng = np.random.default_rng(0)
    shares = np.cumsum(1 / np.arange(1, words + 1))
    spelled = np.array([f"w{number:x}" for number in range(words)])
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    relevant = set(rng.choice(documents, queries, replace=False).tolist())
    kinds: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    with (folder / "corpus.jsonl").open("w") as corpus, (folder / "queries.jsonl").open("w") as asked:
        for start in range(0, documents, CHUNK):
            drawn = rng.random((min(CHUNK, documents - start), LENGTH)) * shares[-1]
            for number, row in enumerate(spelled[np.searchsorted(shares, drawn)].tolist(), start):
                corpus.write(f'{{"_id": "d{number}", "text": "{" ".join(row)}"}}\n')
                if number in relevant:
                    own = " ".join(row[:: LENGTH // 5])
                    asked.write(f'{{"_id": "q{number}", "text": "{own} {number}"}}\n')
                    kinds[("dev", "test")[number % 2] if number % 10 < 1 else "train"].append(
                        f"q{number}\td{number}\t1"
                    )
    kinds["dev"], kinds["test"] = kinds["dev"] or kinds["train"][:2], kinds["test"] or kinds["train"][2:4]
    kinds["train"] = [line for line in kinds["train"] if line not in {*kinds["dev"], *kinds["test"]}]
    for kind, lines in kinds.items():
        (folder / "qrels" / f"{kind}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines) + "\n")


def config_of(folder: Path, *overrides: str, verb: str = "config") -> dict[str, Any]:
    """Of a run over the collection, with a table of vectors for a ranker and nothing of BM25's."""
    from pyrite.cluster.config.compose import compose

    overrides = (
        "collection=beir", f"collection.path={folder / 'collection'}", f"cache={folder / 'cache'}", "vectors=random",
        "ranker=static", "scale=full", "ranker.preset=tiny", "origin=[random]", "validation.origin=random",
        "limits.dev=200", "limits.test=200", *overrides,
    )  # fmt: skip
    return compose(overrides, verb)


def dense(shards: int, mode: str, every: int) -> list[str]:
    """Overrides for negatives from an index in shards, whose vectors stay on disk."""
    return [
        "function=dense", f"function.dense.shards={shards}", f"function.dense.refresh.mode={mode}",
        f"function.dense.refresh.every={every}", "function.dense.index.memory=mapped",
    ]  # fmt: skip


def read(folder: Path) -> None:
    from pyrite.cluster.runs.artifacts import Artifacts

    Artifacts().collection(config_of(folder))


def encode(folder: Path) -> None:
    from pyrite.cluster.runs.artifacts import Artifacts

    Artifacts().part(config_of(folder), "base")


def bm25(folder: Path) -> None:
    """Lists for all queries, top 100."""
    from pyrite.cluster.runs.artifacts import Artifacts

    Artifacts().part(config_of(folder, "function=bm25"), "function:bm25")


def states(folder: Path) -> None:
    """Build what an agent's states look up: φ of queries and relevant documents, and the hardness of lists."""
    from pyrite.cluster.runs.artifacts import Artifacts

    config = config_of(folder, "function=[bm25,random]", verb="learn")
    for name in ("compressed", "similarity:bm25", "similarity:random"):
        Artifacts().part(config, name)


def index(folder: Path, shards: int) -> None:
    """Build a version in `shards` shards, and search it."""
    from pyrite.cluster.executors.session import session
    from pyrite.cluster.index.attach import attach_indexes
    from pyrite.cluster.index.client import RemoteIndex
    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.cluster.runs.assemble import assemble

    config = config_of(folder, *dense(shards, "async", 1_000_000))
    parts = Artifacts().parts(config)
    with session(dashboard=False):
        training, sampler = assemble(config, parts, 0)
        with attach_indexes(sampler.functions, training, config, "growth") as attached:
            (found,) = attached.values()
            assert isinstance(found, RemoteIndex)
            started = time.perf_counter()
            found.publish(training.ranker.state_dict(), 0)
            found.search(np.arange(1), 1, 0)
            built = time.perf_counter() - started
            rate = asked_in_batches(lambda queries, depth: found.search(queries, depth, 0), training)
    print(json.dumps({"built in s": built, "queries a second": rate}))


def served(folder: Path, shards: int) -> None:
    """Count BM25's terms in `shards` shards, and query the actors that serve them."""
    from pyrite.cluster.executors.session import session
    from pyrite.cluster.index.attach import attach_indexes
    from pyrite.cluster.index.bm25 import ServedBm25
    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.cluster.runs.assemble import assemble

    config = config_of(folder, "function=bm25", f"function.bm25.shards={shards}")
    started = time.perf_counter()
    parts = Artifacts().parts(config)
    counted = time.perf_counter() - started
    with session(dashboard=False):
        training, sampler = assemble(config, parts, 0)
        with attach_indexes(sampler.functions, training, config, "growth") as attached:
            (found,) = attached.values()
            assert isinstance(found, ServedBm25)
            found.search(np.arange(1), 1)
            print(json.dumps({"built in s": counted, "queries a second": asked_in_batches(found.search, training)}))


def asked_in_batches(search: Callable[[NDArray[np.int64], int], object], training: RankerTraining) -> float:
    """Queries a second, 32 at once, top 100."""
    queries = np.arange(min(ASKED, len(training.encoded.queries)))
    started = time.perf_counter()
    for start in range(0, len(queries), 32):
        search(queries[start : start + 32], 100)
    return len(queries) / (time.perf_counter() - started)


def train(folder: Path, shards: int) -> None:
    """Train for 60 steps with an index that is rebuilt three times."""
    from pyrite.cluster.executors.session import session
    from pyrite.cluster.runs.artifacts import Artifacts
    from pyrite.cluster.training.study_runs import launcher

    config = config_of(
        folder, *dense(shards, "lagged", 20), "training.max_epochs=1", "limits.examples=1920", "training.batch_size=32"
    )  # fmt: skip
    with session(dashboard=False):
        launcher(config, "growth")(config, Artifacts().parts(config))


PARTS: dict[str, Callable[..., None]] = {
    "read": read,
    "encode": encode,
    "bm25": bm25,
    "states": states,
    "served": served,
    "index": index,
    "train": train,
}
IN_SHARDS = ("served", "index", "train")


def measured(part: str, folder: Path, shards: int | None = None) -> dict[str, float]:
    """Run a part in a separate process and return seconds, MiB of the largest process, and the part's output."""
    command = [sys.executable, "-m", "benchmarks.growth", "--part", part, "--folder", str(folder)]
    command += ["--shards", str(shards)] if shards is not None else []
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        with Watched(process.pid) as watched:
            said, _ = process.communicate()
    finally:
        process.terminate()
    took = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{part} ended with {process.returncode}")
    own = json.loads(said.splitlines()[-1]) if part in ("served", "index") else {}
    return {
        "seconds": took,
        "processor": watched.processor,
        "own": watched.own,
        "with files": watched.whole,
        "all": watched.together,
    } | own


def shards_of(part: str, asked: Sequence[int]) -> Sequence[int | None]:
    """Of each measurement of a part."""
    if part == "index":
        return asked
    return [max(asked) if part in IN_SHARDS else None]


def described(found: dict[str, float]) -> str:
    """One line of it for people."""
    more = "".join(f"; {key} {found[key]:,.1f}" for key in ("built in s", "queries a second") if key in found)
    times = f"{found['seconds']:7.1f} s, {found['processor']:7.1f} s of processors"
    memory = f"{found['own']:6,.0f} MiB of its own, {found['with files']:6,.0f} with files"
    return f"{times}; fullest process {memory}; all processes {found['all']:6,.0f} MiB{more}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--words", type=int, default=200_000, help="of the language")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--place", type=Path, help="where the folder is made; the system's for temporary ones")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="of one size, which is made where it is not there, and stays")
    chosen = parser.parse_args(arguments)
    if chosen.part:
        PARTS[chosen.part](chosen.folder, *(chosen.shards if chosen.part in IN_SHARDS else ()))
        return
    if chosen.folder and len(chosen.documents) > 1:
        parser.error("--folder is of one size: give one number of --documents")
    figures: dict[str, dict[int, dict[str, float]]] = {}
    for documents in chosen.documents:
        folder = chosen.folder or Path(tempfile.mkdtemp(prefix="growth-", dir=chosen.place))
        try:
            if not (folder / "collection" / "qrels" / "train.tsv").exists():
                write_collection(folder / "collection", documents, chosen.words, chosen.queries)
            print(f"{documents:,} documents, {(folder / 'collection' / 'corpus.jsonl').stat().st_size / 1e6:,.0f} MB")
            for part in chosen.only:
                for shards in shards_of(part, chosen.shards):
                    name = part if shards is None else f"{part}, {shards} shards"
                    found = figures.setdefault(name, {})[documents] = measured(part, folder, shards)
                    print(f"  {name:16s} {described(found)}", flush=True)
        finally:
            if not chosen.folder:
                shutil.rmtree(folder, ignore_errors=True)
    for name, of_sizes in figures.items():
        (small, first), (large, last) = min(of_sizes.items()), max(of_sizes.items())
        if large > small:
            powers = [math.log(last[key] / first[key]) / math.log(large / small) for key in ("processor", "own")]
            print(f"{name}: from {small:,} to {large:,} documents processors' time grows with power {powers[0]:.2f}, "
                  f"the fullest process with {powers[1]:.2f}")  # fmt: skip


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that its folder is deleted, and its part ended
    main()
