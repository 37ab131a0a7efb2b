"""One Ray session and one small collection on disk for all tests of `cluster`."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

os.environ["RAY_AUTH_MODE"] = "token"

TOPICS = ["owls", "tunnels", "trains", "gold", "pyrite", "bridges", "bats", "quartz", "rivers", "robins"]
WORDS = [f"word{number}" for number in range(60)]


def write_beir(folder: Path, split: bool = True, seed: int = 0, labels: bool = True) -> Path:
    """A BEIR folder of 60 documents and 40 queries: a query shares two rare words with its document."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "qrels").mkdir(exist_ok=True)
    corpus, queries = [], []
    rows: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for number in range(60):
        words = rng.choice(WORDS, 12).tolist()
        own = [TOPICS[number % 10], f"thing{number % 20}"]
        said = {"metadata": {"category": f"half{number % 2}", "subcategory": f"tenth{number % 10}"}} if labels else {}
        corpus.append({"_id": f"d{number}", "title": own[0], "text": " ".join([*own, *words]), **said})
        if number < 40:
            queries.append({"_id": f"q{number}", "text": " ".join([*own, words[0], words[1]]), **said})
            name = ("train", "train", "train", "dev", "test")[number % 5] if split else "test"
            rows[name].append(f"q{number}\td{number}\t1")
    for name, lines in (("corpus.jsonl.gz", corpus), ("queries.jsonl.gz", queries)):
        with gzip.open(folder / name, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    for name, lines in rows.items():
        if lines:
            (folder / "qrels" / f"{name}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def beir_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with train, dev and test queries."""
    return write_beir(tmp_path_factory.mktemp("collections") / "made_up")


@pytest.fixture(scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the tests' own, also for the processes that they start."""
    before = os.environ.get("PYRITE_CACHE")
    cache = tmp_path_factory.mktemp("cache")
    os.environ["PYRITE_CACHE"] = str(cache)
    yield cache
    os.environ.pop("PYRITE_CACHE")
    if before is not None:
        os.environ["PYRITE_CACHE"] = before


@pytest.fixture(scope="session")
def base(beir_folder: Path, own_cache: Path) -> list[str]:
    """Overrides of runs that take a fraction of a second."""
    return [
        "collection=beir",
        f"collection.path={beir_folder}",
        "vectors=random",
        "encoding.min_count=1",
        "ranker.preset=tiny",
        "training.max_epochs=3",
        "training.batch_size=8",
        "measures=[AP@10,RR@10]",
        "validation.measure=AP@10",
        "optimizer.lr=0.01",
        "scale=full",
    ]


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """The test run's one Ray; commands run in this process find it and use it."""
    import ray

    from cluster.session import session

    with session(dashboard=False):
        assert ray.is_initialized()
        yield
