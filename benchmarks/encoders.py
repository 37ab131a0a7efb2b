"""Measures encoders on one core of a CPU against sentence-transformers: training, encoding and scoring.

    python -m benchmarks.encoders FOLDER [--precision float32 bfloat16] [--only training encoding scoring]

FOLDER is a BEIR folder, MedQuAD's here. Sides take turns in one process, and the seconds are those of CPU, without
those of tokenizing on either side. The peer in bfloat16 is the quicker of its two ways, bfloat16 and float32; ratios of
training are those of `benchmarks.in_batch` and `benchmarks.transformers`, which this runs at 32 pairs × 64 subwords and
2 blocks × 16 documents × 256.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import in_batch, transformers
from benchmarks.tokenizing import tokenizing
from benchmarks.transformers import default_checkpoint
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.parts import read_encoded
from pyrite.ranking.embedding import embed
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained import read_in

SMALLEST = [
    "{collection} vectors=random encoding.min_count=1 --checkpoint {small_bert} --layers 1 --texts 8 --turns 1 "
    "--steps 5 --precision float32 --length 16"
]
PARTS = ("training", "encoding", "scoring")


def in_turn(turns: int, sides: dict[str, Callable[[], Any]], count: int, unit: str) -> dict[str, Any]:
    """Print the rate of each side per second of CPU, medians of the turns; return the last results."""
    spent: dict[str, list[float]] = {name: [] for name in sides}
    results: dict[str, Any] = {}
    with tokenizing() as tokenized:
        for _ in range(turns + 1):
            for name, side in sides.items():
                tokenized.take()
                started = time.process_time()
                results[name] = side()
                spent[name].append(time.process_time() - started - tokenized.take())
    rates = {name: count / float(np.median(seconds[1:])) for name, seconds in spent.items()}  # the first turn warms
    best = max(rate for name, rate in rates.items() if name != "Pyrite")
    for name, rate in rates.items():
        said = f"; {rate / best:.2f} times the quicker peer" if name == "Pyrite" else ""
        print(f"  {name:32s} {rate:8.1f} {unit} a second{said}")
    return results


def encoding(chosen: argparse.Namespace, precision: str) -> None:
    """Compare `SentenceTransformer.encode` and `embed`."""
    from sentence_transformers import SentenceTransformer

    config = compose([
        "collection=beir", f"collection.path={chosen.folder}", "ranker=bi_encoder", "origin=[bm25]",
        f"ranker.checkpoint={chosen.checkpoint}", f"ranker.max_document={chosen.length}", *chosen.overrides,
    ])  # fmt: skip
    artifacts = Artifacts()
    encoded, collection = read_encoded(artifacts.parts(config)), artifacts.collection(config)
    rows = np.arange(min(chosen.texts, len(encoded.documents)))
    ours = BiEncoder(chosen.checkpoint, layers=chosen.layers, max_document=chosen.length, precision="float32")
    ours.start(RankerInputs(torch.Generator().manual_seed(0))).eval()
    texts = collection.documents["text"].gather(rows).to_list()
    with tempfile.TemporaryDirectory() as folder:
        ours.save_pretrained(folder)
        peers = {f"encode, {name}": SentenceTransformer(folder, device="cpu") for name in {"float32", precision}}
    if precision == "bfloat16":
        peers["encode, bfloat16"].bfloat16()
        read_in(ours, precision)
    sides: dict[str, Callable[[], Any]] = {
        name: lambda peer=peer: peer.encode(texts, convert_to_numpy=False, convert_to_tensor=True).float().numpy()  # type: ignore[misc]
        for name, peer in peers.items()
    }
    print(f"encoding {len(rows)} documents of up to {chosen.length} subwords, {precision}")
    results = in_turn(
        chosen.turns, sides | {"Pyrite": lambda: embed(ours, encoded.documents, rows)}, len(rows), "texts"
    )
    units = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in results.values()]
    least = min(float((units[-1] * unit).sum(1).min()) for unit in units)
    print(f"  cosine with the peers' vectors: {least:.4f} at least")


def scoring(chosen: argparse.Namespace, precision: str) -> None:
    """Compare `CrossEncoder.predict` and `score`."""
    from sentence_transformers import CrossEncoder as Peer

    config = compose([
        "collection=beir", f"collection.path={chosen.folder}", "ranker=cross_encoder", "origin=[bm25]",
        f"ranker.checkpoint={chosen.checkpoint}", *chosen.overrides,
    ])  # fmt: skip
    artifacts = Artifacts()
    encoded, collection = read_encoded(artifacts.parts(config)), artifacts.collection(config)
    count = min(chosen.texts, len(encoded.documents), len(encoded.queries))
    rows = np.arange(count)
    ours = CrossEncoder(chosen.checkpoint, layers=chosen.layers, precision="float32")
    ours.start(RankerInputs(torch.Generator().manual_seed(0))).eval()
    pairs = [*zip(*(frame["text"].gather(rows) for frame in (collection.queries, collection.documents)), strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        ours.save_pretrained(folder)
        peers = {f"predict, {name}": Peer(folder, device="cpu") for name in {"float32", precision}}
    if precision == "bfloat16":
        peers["predict, bfloat16"].bfloat16()
        read_in(ours, precision)

    @torch.no_grad()
    def score() -> Any:
        queries, documents = (
            represent(texts.take(rows))
            for represent, texts in (
                (ours.represent_queries, encoded.queries),
                (ours.represent_documents, encoded.documents),
            )
        )
        return ours.interact(queries, documents).float().numpy()

    sides: dict[str, Callable[[], Any]] = {
        name: lambda peer=peer: peer.predict(pairs, activation_fn=torch.nn.Identity(), convert_to_tensor=True)  # type: ignore[misc]
        for name, peer in peers.items()
    }
    print(f"scoring {count} pairs, as long as the model takes them, {precision}")
    results = in_turn(chosen.turns, sides | {"Pyrite": score}, count, "pairs")
    apart = [np.abs(results["Pyrite"] - scores.float().numpy()).max() for scores in [*results.values()][:-1]]
    print(f"  scores differ by {max(apart):.1e} at most")


def training(chosen: argparse.Namespace, precision: str) -> None:
    """Run the two trainers' benchmarks."""
    size = ["--layers", str(chosen.layers or 2), "--steps", str(chosen.steps), "--checkpoint", chosen.checkpoint]
    common = [str(chosen.folder), *chosen.overrides, *size, "--precision", precision]
    lengths = ["64", "256"] if chosen.length > 64 else [str(chosen.length)] * 2
    in_batch.main([*common, "--only", "bi_encoder", "--batch", str(min(32, chosen.texts)), "--length", lengths[0]])
    transformers.main([*common, "--only", "trainer", "--length", lengths[1]])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BEIR folder, e.g. MedQuAD's")
    parser.add_argument("overrides", nargs="*", help="of the configuration, e.g. vectors=random")
    parser.add_argument("--precision", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--checkpoint", default=default_checkpoint(), help="of a BERT; MiniLM by default")
    parser.add_argument("--layers", type=int, default=None, help="all of them by default, and 2 to train")
    parser.add_argument("--length", type=int, default=256, help="subwords of a document to encode or to train on")
    parser.add_argument("--texts", type=int, default=400, help="texts to encode, and pairs to score")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15, help="training steps")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    parts = {"training": training, "encoding": encoding, "scoring": scoring}
    for precision in chosen.precision:
        for name in chosen.only:
            parts[name](chosen, precision)


if __name__ == "__main__":
    main()
