"""Measures encoding and finding each query's top 100 against sentence-transformers' `mine_hard_negatives`.

    python -m benchmarks.mining FOLDER [--documents N] [--turns N]

Each side runs in a separate process on one core, from texts in memory to lists in memory, including tokenization; they
alternate. Memory is the peak of the whole process (VmHWM) including libraries. FOLDER is a BEIR folder.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.two_sides import TwoSides, peak

SMALLEST = ["{collection} --checkpoint {minilm} --documents 0 --here"]
DEPTH = 100
SUBWORDS = 254
"""Of a text, without the two special tokens: this model's length in sentence-transformers is 256."""
TIE = 1e-5
"""Scores this near are one score: neither side's arithmetic tells them apart."""


def read(folder: Path, documents: int) -> tuple[list[str], list[str], NDArray[np.int32]]:
    """Distinct texts of documents, distinct queries with one relevant document among them, and which it is."""

    def lines(name: str) -> list[tuple[str, str]]:
        with gzip.open(folder / f"{name}.jsonl.gz", "rt") as file:
            rows = [json.loads(line) for line in file]
        return [(row["_id"], " ".join(filter(None, [row.get("title"), row["text"]]))) for row in rows]

    place: dict[str, int] = {}
    of_id = {name: place.setdefault(text, len(place)) for name, text in lines("corpus")[: documents or None]}
    relevant: dict[str, set[int]] = {}
    for file in sorted((folder / "qrels").glob("*.tsv")):
        for line in file.read_text().splitlines()[1:]:
            query, document, grade = line.split("\t")
            if int(grade) > 0:
                relevant.setdefault(query, set()).add(of_id.get(document, -1))
    asked: dict[str, int] = {}
    for name, text in lines("queries"):
        found = relevant.get(name, set())
        if len(found) == 1 and -1 not in found:
            asked.setdefault(text, *found)
    return list(place), list(asked), np.array(list(asked.values()), np.int32)


def theirs(chosen: argparse.Namespace) -> dict[str, Any]:
    """Lists, seconds and memory of `mine_hard_negatives`."""
    texts, queries, positives = read(chosen.folder, chosen.documents)
    import faiss
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    model: Any = SentenceTransformer(chosen.checkpoint, device="cpu")
    dataset = Dataset.from_dict({"query": queries, "positive": [texts[each] for each in positives]})
    encoded: dict[str, float] = {}
    encode = model.encode_query  # the last text is read there

    def noted(*arguments: Any, **named: Any) -> Any:
        vectors = encode(*arguments, **named)
        encoded.update(encoding=time.perf_counter() - started, encoding_peak=peak())
        return vectors

    model.encode_query = noted
    started = time.perf_counter()
    mined = mine_hard_negatives(
        dataset, model, corpus=texts, num_negatives=DEPTH, output_format="n-tuple", output_scores=True,
        use_faiss=True, verbose=False,
    )  # fmt: skip
    spent = {"seconds": time.perf_counter() - started, "peak": peak()} | encoded
    row, query = {text: place for place, text in enumerate(texts)}, {text: place for place, text in enumerate(queries)}
    documents = np.full((len(queries), DEPTH), -1, np.int32)
    scores = np.full((len(queries), DEPTH), -np.inf, np.float32)
    (scored,) = [name for name in mined.column_names if name.startswith("score")]
    for each in mined:
        at = query[each["query"]]
        documents[at] = [row[each[f"negative_{place + 1}"]] for place in range(DEPTH)]
        scores[at] = each[scored][-DEPTH:]
    return {"documents": documents, "scores": scores} | spent


def ours(chosen: argparse.Namespace) -> dict[str, Any]:
    """The same of `BiEncoder`, `embed` and `VectorIndex`."""
    texts, queries, positives = read(chosen.folder, chosen.documents)
    import polars as pl
    import torch

    from pyrite.ranking.embedding import embed
    from pyrite.ranking.index import IndexOptions, VectorIndex
    from pyrite.ranking.ranked_lists import RankedLists
    from pyrite.ranking.rankers.bi_encoder import BiEncoder
    from pyrite.ranking.rankers.inputs import RankerInputs
    from pyrite.ranking.tokenization import subwords

    torch.set_num_threads(1)
    ranker = BiEncoder(chosen.checkpoint, max_query=SUBWORDS, max_document=SUBWORDS).start(
        RankerInputs(torch.Generator())
    )
    started = time.perf_counter()
    of_texts, of_queries = (subwords(ranker.tokenizer, pl.Series(each), SUBWORDS) for each in (texts, queries))
    vectors = embed(ranker, of_texts, np.arange(len(texts)))
    asked = embed(ranker, of_queries, np.arange(len(queries)), queries=True)
    encoding = {"encoding": time.perf_counter() - started, "encoding_peak": peak()}
    documents, scores = VectorIndex.build(vectors, IndexOptions()).search(asked, DEPTH + 1)
    lists = RankedLists(documents, scores).keep(documents != positives[:, None])
    spent = {"seconds": time.perf_counter() - started, "peak": peak()} | encoding
    from benchmarks.scoring import matmul_rate  # not before: its imports take memory

    lengths = np.concatenate([of_texts.lengths, of_queries.lengths]) + ranker.packing.specials
    work = float(multiplications(ranker.query_tower.model, lengths))
    spent |= {"work": work, "rate": matmul_rate()}
    return {"documents": lists.documents[:, :DEPTH], "scores": lists.scores[:, :DEPTH]} | spent


def multiplications(model: Any, lengths: NDArray[np.int64]) -> int:
    """Multiply-adds that texts of these lengths need: every token through each layer, and with every other one."""
    import torch

    of_token = sum(each.weight.numel() for each in model.modules() if isinstance(each, torch.nn.Linear))
    of_pair = 2 * model.config.num_hidden_layers * model.config.hidden_size
    return int(of_token * lengths.sum() + of_pair * (lengths**2).sum())


BOTH = TwoSides("benchmarks.mining", {"ours": ours, "theirs": theirs})


def apart(left: dict[str, Any], right: dict[str, Any]) -> tuple[float, int, int]:
    """How far the lists are: largest difference of scores at a rank; documents of one list alone; and of those, how
    many are no tie at the end of the list."""
    alone = broken = 0
    for side, other in ((left, right), (right, left)):
        for mine, scores, others in zip(side["documents"], side["scores"], other["documents"], strict=True):
            lost = ~np.isin(mine, others)
            alone += int(lost.sum())
            broken += int((scores[lost] > scores[-1] + TIE).sum())
    return float(np.abs(left["scores"] - right["scores"]).max()), alone, broken


def medians(results: list[dict[str, Any]]) -> dict[str, float]:
    """Of the figures of several turns."""
    figures = [name for name, value in results[0].items() if isinstance(value, float)]
    return {name: float(np.median([each[name] for each in results])) for name in figures}


def lists_of(result: dict[str, Any]) -> dict[str, Any]:
    """The lists of one turn, as arrays."""
    return {name: np.asarray(result[name]) for name in ("documents", "scores")}


def conduct(chosen: argparse.Namespace) -> None:
    """Both sides in turn, and what comes of it."""
    found = BOTH.in_turns(chosen)
    mid = {side: medians(results) for side, results in found.items()}
    mine, other = mid["ours"], mid["theirs"]
    queries = len(found["ours"][0]["documents"])
    print(f"top {DEPTH} for {queries:,} queries, one core, {chosen.turns} turns")
    for name, side in (("mine_hard_negatives", other), ("BiEncoder, VectorIndex", mine)):
        print(f"  {name:24s} {side['seconds']:7.1f} s, {side['encoding']:7.1f} s of it encoding; peak "
              f"{side['peak']:6.0f} MiB, {side['encoding_peak']:6.0f} MiB while encoding")  # fmt: skip
    print(f"  {other['seconds'] / mine['seconds']:.2f} times as fast (goal: 1.1), ", end="")
    print(f"encoding {other['encoding'] / mine['encoding']:.2f}; ", end="")
    print(f"memory {mine['peak'] / other['peak']:.2f} of theirs (goal: 0.6 at most)")
    reached = mine["work"] / mine["encoding"]
    print(f"  the encoder does {reached / 1e9:.1f} G multiply-adds a second of the texts, without padding, ", end="")
    print(f"{reached / mine['rate']:.0%} of the {mine['rate'] / 1e9:.1f} G of a large matrix product")
    difference, lone, broken = apart(lists_of(found["ours"][0]), lists_of(found["theirs"][0]))
    print(
        f"  scores differ by {difference:.1e} at most; of {2 * queries * DEPTH:,} documents {lone} stand in one ",
        end="",
    )
    print(f"side's list alone, {broken} of them no tie with its last (goal: 0)")


def main(arguments: Sequence[str] | None = None) -> None:
    known = BOTH.parser(__doc__)
    known.add_argument("--documents", type=int, default=2000, help="the first so many; 0 takes all")
    BOTH.conduct(known, arguments, conduct)


if __name__ == "__main__":
    main()
