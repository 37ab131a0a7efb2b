"""Judging beyond the pool: relevant documents that no run has are found by their texts."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cluster.command_line import command
from tests.made_up import write_texts

WORDS = ["wing", "flow", "heat", "shock"]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Four topics of 12 relevant documents among 120. Two runs have six of the relevant, and 14 others; no run has the
    rest."""
    folder, rng = tmp_path_factory.mktemp("beyond"), np.random.default_rng(2)
    (folder / "runs").mkdir()
    documents: list[dict[str, str]] = []
    qrels: list[tuple[str, str, int]] = []
    runs: tuple[list[str], list[str]] = ([], [])
    for topic, word in enumerate(WORDS):
        own = [f"d{topic}-{number}" for number in range(30)]
        for number, name in enumerate(own):
            said = [word, word] if number < 12 else []
            documents.append(
                {"_id": name, "title": "", "text": " ".join([*said, *rng.choice(["jet", "cone", "tail"], 5)])}
            )
            qrels.append((f"q{topic}", name, int(number < 12)))
        for run in range(2):
            ranked = rng.permutation([*own[:6], *own[12:26]])
            runs[run].extend(f"q{topic} Q0 {name} {rank} {-rank} r{run}\n" for rank, name in enumerate(ranked, 1))
    queries = [{"_id": f"q{topic}", "text": word} for topic, word in enumerate(WORDS)]
    write_texts(folder / "collection", documents, queries, {"test": qrels})
    (folder / "qrels.txt").write_text("".join(f"{query} 0 {name} {grade}\n" for query, name, grade in qrels))
    for number, lists in enumerate(runs):
        (folder / f"runs/r{number}").write_text("".join(lists))
    return folder


def found(files: Path, out: Path, *more: str) -> dict[str, float]:
    """Relevant documents found a topic with 14 judgements, and in all, by method."""
    given = [
        f"runs={files / 'runs'}", f"qrels={files / 'qrels.txt'}", "depth=20", "collection=beir",
        f"collection.path={files / 'collection'}", "method=cal,mm", "budgets=[14]", "seeds=2", "local=true", "track=[]",
        "stopping=[]", "ranking_quality=false", f"cache={files / 'cache'}", f"out={out}",
    ]  # fmt: skip
    assert command("pool", *given, *more) == 0
    rows = pl.read_parquet(out / "budgets.parquet").group_by("method", "budget").agg(pl.col("found").mean())
    return {f"{method} {budget}": mean for method, budget, mean in rows.iter_rows()}


def test_learning_from_texts_reaches_beyond_the_pool_where_the_collection_has_the_topics(files, tmp_path, refusal):
    within, beyond = found(files, tmp_path / "within"), found(files, tmp_path / "beyond", "beyond=15")
    assert within["cal 0"] == within["mm 0"] == 6  # the runs have no more
    assert beyond["cal 0"] == beyond["mm 0"] == 12
    assert beyond["cal 14"] > 11 > within["cal 14"]
    (tmp_path / "run").write_text("x1 Q0 d0-1 1 9 r\n")
    (tmp_path / "qrels").write_text("x1 0 d0-1 1\n")
    given = [f"runs=[{tmp_path / 'run'}]", f"qrels={tmp_path / 'qrels'}", "collection=beir", "beyond=5", "method=mm"]
    where = [f"collection.path={files / 'collection'}", f"cache={files / 'cache'}", f"out={tmp_path / 'out'}"]
    assert "none of the topics is a query of the collection" in refusal("pool", *given, *where, "local=true")
