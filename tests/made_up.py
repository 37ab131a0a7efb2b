"""Writes small collections, and runs with judgements, to disk."""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from pyrite.ranking.collections.collection import Collection

TOPICS = ["owls", "tunnels", "trains", "gold", "pyrite", "bridges", "bats", "quartz", "rivers", "robins"]
WORDS = [f"word{number}" for number in range(60)]
Labels = Sequence[tuple[str | None, str | None]]


def write_beir(folder: Path, split: bool = True, seed: int = 0, labels: bool = True, documents: int = 60) -> Path:
    """A BEIR folder of 60 documents and 40 queries: a query shares two rare words with its document."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "qrels").mkdir(exist_ok=True)
    corpus, queries = [], []
    rows: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for number in range(documents):
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


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Files of a folder by their names, packed where a name says so."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        content = text.encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder


def write_texts(
    folder: Path,
    corpus: Iterable[Mapping[str, object] | str],
    queries: Iterable[Mapping[str, object] | str],
    qrels: Mapping[str, Iterable[tuple[str, str, int]]],
) -> Path:
    """A BEIR folder of these entries, or of lines as they are, and the judgements of each split."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, entries in (("corpus", corpus), ("queries", queries)):
        text = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in entries)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    for split, rows in qrels.items():
        table = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in rows)
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{table}", "utf-8")
    return folder


def collection_of(
    documents: Sequence[str], queries: Sequence[str], judged: Sequence[tuple[str, str, int]] = ()
) -> Collection:
    """Texts called d0, d1 and so on, and q0, q1 and so on, without splits."""
    named = {"id": pl.String, "text": pl.String}
    return Collection(
        "some",
        "",
        pl.DataFrame([(f"d{i}", text) for i, text in enumerate(documents)], named, orient="row"),
        pl.DataFrame(
            [(f"q{i}", text, None) for i, text in enumerate(queries)], named | {"split": pl.String}, orient="row"
        ),
        pl.DataFrame(judged, {"query": pl.String, "document": pl.String, "grade": pl.Int32}, orient="row"),
    )


def labelled(collection: Collection, documents: Labels, queries: Labels) -> Collection:
    """The collection with these categories and subcategories."""
    schema = {"category": pl.String, "subcategory": pl.String}
    of_documents, of_queries = (pl.DataFrame(labels, schema, orient="row") for labels in (documents, queries))
    read = collection.documents.hstack(of_documents), collection.queries.hstack(of_queries)
    return replace(collection, documents=read[0], queries=read[1])


def seventh_of(folder: Path) -> int:
    """Unpack the documents of a BEIR folder; the size of a seventh of them, in bytes."""
    packed = folder / "corpus.jsonl.gz"
    (folder / "corpus.jsonl").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    return -(-(folder / "corpus.jsonl").stat().st_size // 7)


def write_runs(folder: Path, runs: int = 4, topics: int = 12, depth: int = 6) -> Path:
    """Gzip runs in TREC's form, in `runs/`, and `qrels.txt.gz`: runs over the same documents, each in its own order."""
    rng = np.random.default_rng(0)
    (folder / "runs").mkdir(parents=True)
    for run in range(runs):
        lines = [
            f"{topic} Q0 d{topic}-{document} {rank} {depth - rank} run{run}\n"
            for topic in range(topics)
            for rank, document in enumerate(rng.permutation(2 * depth)[:depth], 1)
        ]
        with gzip.open(folder / "runs" / f"run{run}.gz", "wt", encoding="utf-8") as file:
            file.writelines(lines)
    with gzip.open(folder / "qrels.txt.gz", "wt", encoding="utf-8") as file:
        for topic in range(topics):
            file.writelines(f"{topic} 0 d{topic}-{document} {document % 3 == 0:d}\n" for document in range(2 * depth))
    return folder
