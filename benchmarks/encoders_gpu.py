"""Trains whole encoders on one GPU with torch and transformers alone: as many runs as a call has time for.

    python -m benchmarks.encoders_gpu PACK OUT [--minutes 8] [--processes 8] [--seeds 5] [--done FOLDER …]

PACK is written by `benchmarks.encoders_pack`: encoded texts, lists of candidates, half-precision weights and the arms
of `experiment=encoders`. Processes share the device. Each run is a line of OUT/runs-PROCESS.jsonl, with the AP@100 of
every test query; runs that are in a folder of --done are not repeated, so that a later call continues. Seeds come
first: after any number of minutes the arms have about equally many. `benchmarks.encoders_pack --report` prints them.

It reads nothing of Pyrite: the loss, the selectors and the measure are written again below, and the CPU's runs are not
repeated to the bit. Weights are float32, computed with in bfloat16.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertModel

SMALLEST = ["{pack} {out}/runs --minutes 1 --processes 1 --seeds 1 --device cpu"]
CHUNK = 512
"""Texts of one forward pass."""
PRECISION = torch.bfloat16
"""Of the products; weights and their updates are float32."""
PICKED = 16
"""Candidates that SimANS scores."""


@dataclass(frozen=True)
class Arm:
    """A way of choosing negatives.

    Args:
        lists: the name of the lists that `count` further negatives of each query are from.
        first, last: the ranks of the lists that are used.
        simans: whether they are drawn close to the positive's score.
        hard: whether they are negatives of all queries of the batch.
        masks: the name of the lists of documents that are no negatives of a query.
        margin: how far above the positive's score a document is no negative.
        symmetric: whether documents choose their query too.
    """

    label: str
    lists: str = "bm25"
    count: int = 0
    first: int = 0
    last: int = 100
    simans: bool = False
    hard: bool = False
    masks: str = ""
    margin: float | None = None
    symmetric: bool = False


class Place:
    """A collection's arrays on a device.

    Args:
        path: an .npz file of PACK.
    """

    def __init__(self, path: Path, device: str) -> None:
        self.name, self.device = path.stem, device
        self.arrays: dict[str, NDArray[Any]] = dict(np.load(path))
        self.relevant = np.sort(self.keys(self.arrays["relevant"][:, 0], self.arrays["relevant"][:, 1]))

    def keys(self, queries: NDArray[Any], documents: NDArray[Any]) -> NDArray[np.int64]:
        """Return one number per pair."""
        return queries.astype(np.int64) * 2**32 + documents

    def texts(self, kind: str, rows: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Return the padded tokens of some texts and whether they are present, int64 [n, longest]."""
        tokens, offsets = self.arrays[f"{kind}_tokens"], self.arrays[f"{kind}_offsets"]
        lengths = offsets[rows + 1] - offsets[rows]
        places = np.arange(lengths.max())
        present = places < lengths[:, None]
        padded = tokens[np.minimum(offsets[rows][:, None] + places, len(tokens) - 1)].astype(np.int64) * present
        return torch.from_numpy(padded).to(self.device), torch.from_numpy(present.astype(np.int64)).to(self.device)


def embed(model: BertModel, place: Place, kind: str, rows: NDArray[Any]) -> Tensor:
    """Return the unit vectors of some texts: the mean over their tokens."""
    order = np.argsort(-np.diff(place.arrays[f"{kind}_offsets"])[rows], kind="stable")
    parts = []
    for start in range(0, len(rows), CHUNK):
        ids, present = place.texts(kind, rows[order[start : start + CHUNK]])
        with torch.autocast(place.device, PRECISION, enabled=PRECISION.itemsize < 4):
            states = model(input_ids=ids, attention_mask=present).last_hidden_state
        weights = present[..., None].float()
        parts.append(F.normalize((states.float() * weights).sum(1) / weights.sum(1), dim=1))
    back = torch.from_numpy(np.argsort(order)).to(place.device)
    return torch.cat(parts)[back]


def mined(
    model: BertModel, place: Place, arm: Arm, pairs: NDArray[Any], scale: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the further negatives of a batch, int64 [pairs, count]; −1 is no document."""
    lists = place.arrays[f"lists_{arm.lists}"][place.arrays["row_of_query"][pairs[:, 0]], arm.first : arm.last]
    keys = np.where(lists >= 0, rng.random(lists.shape), np.inf)
    count = PICKED if arm.simans else arm.count
    drawn = np.take_along_axis(lists, np.argsort(keys, 1)[:, :count], 1).astype(np.int64)
    if not arm.simans:
        return drawn
    with torch.no_grad():
        queries = embed(model, place, "query", pairs[:, 0])
        rows, places = np.unique(np.concatenate([pairs[:, 1:], np.maximum(drawn, 0)], 1), return_inverse=True)
        documents = embed(model, place, "document", rows)[torch.from_numpy(places.reshape(len(pairs), -1))]
        scores = (scale * torch.einsum("qd,qkd->qk", queries, documents)).double().cpu().numpy()
    logits = -((scores[:, 1:] - scores[:, :1]) ** 2) + rng.gumbel(size=drawn.shape)
    best = np.argsort(np.where(drawn >= 0, -logits, np.inf), 1)[:, : arm.count]
    return np.take_along_axis(drawn, best, 1)


def loss_of(
    model: BertModel, place: Place, arm: Arm, pairs: NDArray[Any], scale: float, rng: np.random.Generator
) -> Tensor:
    """Return the loss of a batch of pairs (query, relevant document)."""
    count = len(pairs)
    further = mined(model, place, arm, pairs, scale, rng) if arm.count else np.zeros((count, 0), np.int64)
    columns = np.concatenate([pairs[:, 1], further.T.ravel()])
    owners = np.concatenate([np.arange(count), np.tile(np.arange(count), further.shape[1])])
    own, others = owners == np.arange(count)[:, None], np.arange(len(columns)) < count
    used = (own | others | arm.hard) & (columns >= 0)
    asked = np.broadcast_to(pairs[:, :1], used.shape)
    used &= ~np.isin(place.keys(asked, np.maximum(columns, 0)), place.relevant)
    if arm.masks:
        masks = place.arrays[f"lists_{arm.masks}"][place.arrays["row_of_query"][pairs[:, 0]]]
        used &= ~(columns == masks[:, :, None]).any(1)
    used[np.arange(count), np.arange(count)] = True
    queries = embed(model, place, "query", pairs[:, 0])
    rows, places = np.unique(np.maximum(columns, 0), return_inverse=True)
    scores = scale * queries @ embed(model, place, "document", rows)[torch.from_numpy(places.ravel())].T
    kept, target = torch.from_numpy(used).to(scores.device), torch.arange(count, device=scores.device)
    if arm.margin is not None:
        kept &= scores <= scores[target, target][:, None] + arm.margin
        kept[target, target] = True
    loss = F.cross_entropy(scores.masked_fill(~kept, -torch.inf), target)
    if not arm.symmetric:
        return loss
    return (loss + F.cross_entropy(scores[:, :count].masked_fill(~kept[:, :count], -torch.inf).T, target)) / 2


@torch.no_grad()
def scores_of(model: BertModel, place: Place, origin: str) -> NDArray[np.float32]:
    """Return the cosines of the test queries and an origin's candidates, float32 [queries, depth]."""
    shown = place.arrays[f"candidates_{origin}"].astype(np.int64)
    queries = embed(model, place, "query", place.arrays["tested"])
    rows, places = np.unique(np.maximum(shown, 0), return_inverse=True)
    documents = embed(model, place, "document", rows)[torch.from_numpy(places.reshape(shown.shape))]
    scores: NDArray[np.float32] = torch.einsum("qd,qkd->qk", queries, documents).cpu().numpy()
    return scores


def precision_by_query(place: Place, origin: str, scores: NDArray[np.float32]) -> list[float]:
    """Return the AP@100 of each test query, from the scores of an origin's candidates."""
    asked, shown = place.arrays["tested"], place.arrays[f"candidates_{origin}"].astype(np.int64)
    order = np.argsort(np.where(shown >= 0, -scores, np.inf), 1, kind="stable")[:, :100]
    ranked = np.take_along_axis(shown, order, 1)
    hits = np.isin(place.keys(np.broadcast_to(asked[:, None], ranked.shape), ranked), place.relevant) & (ranked >= 0)
    total = (place.relevant[:, None] // 2**32 == asked).sum(0)
    precision = hits.cumsum(1) / np.arange(1, hits.shape[1] + 1)
    values = (precision * hits).sum(1) / np.maximum(total, 1)
    return [round(float(value), 6) for value in values]


def run(pack: Path, place: Place, arm: Arm, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Train one encoder and measure it."""
    rng, started = np.random.default_rng([seed, 61]), time.time()
    torch.manual_seed(seed)
    model = BertModel(BertConfig(**options["model"]), add_pooling_layer=False)
    model.load_state_dict({name: part.float() for name, part in load_file(pack / "weights.safetensors").items()})
    model = model.to(place.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options["lr"], weight_decay=options["weight_decay"])
    pairs, losses, read = place.arrays["pairs"].astype(np.int64), [], 0
    for _ in range(options["epochs"]):
        order = rng.permutation(len(pairs))
        for start in range(0, len(order), options["batch_size"]):
            loss = loss_of(
                model, place, arm, pairs[order[start : start + options["batch_size"]]], options["scale"], rng
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            read += 1
    model.eval()
    origins = [name.removeprefix("candidates_") for name in place.arrays if name.startswith("candidates_")]
    values = {origin: precision_by_query(place, origin, scores_of(model, place, origin)) for origin in origins}
    row = {"place": place.name, "method": arm.label, "seed": seed, "AP@100": values}
    return {**row, "loss": float(np.mean(losses[-10:])), "steps": read, "seconds": round(time.time() - started, 1)}


def units(pack: Path, described: dict[str, Any], seeds: int, done: Sequence[Path]) -> Iterator[tuple[str, Arm, int]]:
    """Yield the place, arm and seed of each run that is not done, a seed at a time."""
    known = {
        (row["place"], row["method"], row["seed"])
        for folder in done
        for path in sorted(folder.glob("runs-*.jsonl"))
        for row in map(json.loads, path.read_text("utf-8").splitlines())
    }
    for seed in range(seeds):
        for path in sorted(pack.glob("*.npz")):
            for arm in described["arms"]:
                if (path.stem, arm["label"], seed) not in known:
                    yield path.stem, Arm(**arm), seed


def work(process: int, todo: Sequence[tuple[str, Arm, int]], chosen: dict[str, Any], until: float) -> None:
    """Run units until the time is over; a run that would outlast it is not begun."""
    torch.set_num_threads(1)
    pack, described, places, longest = chosen["pack"], chosen["described"], dict[str, Place](), 0.0
    for name, arm, seed in todo:
        if time.time() + longest > until:
            return
        if name not in places:
            places[name] = Place(pack / f"{name}.npz", chosen["device"])
        row = run(pack, places[name], arm, seed, described["options"])
        longest = max(longest, row["seconds"])
        with (chosen["out"] / f"runs-{process}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**row, "processor": chosen["processor"]}) + "\n")
        print(f"{name}, {arm.label}, seed {seed}: {np.mean(row['AP@100']['bm25']):.4f}, {row['seconds']} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--processes", type=int, default=7, help="that share the device; at most 8 files come back")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--done", type=Path, nargs="*", default=[], help="folders of runs of earlier calls")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = parser.parse_args(arguments)
    until = time.time() + 60 * chosen.minutes
    chosen.out.mkdir(parents=True, exist_ok=True)
    processor = torch.cuda.get_device_name() if chosen.device == "cuda" else chosen.device
    described = json.loads((chosen.pack / "pack.json").read_text("utf-8"))
    todo = [*units(chosen.pack, described, chosen.seeds, [*chosen.done, chosen.out])]
    options = {**vars(chosen), "processor": processor, "described": described}
    if chosen.processes == 1:
        work(0, todo, options, until)
        return
    spawn, count = multiprocessing.get_context("spawn"), chosen.processes
    shares = [(process, todo[process::count], options, until) for process in range(count)]
    working = [spawn.Process(target=work, args=share) for share in shares]
    for process in working:
        process.start()
    for process in working:
        process.join()
    print(f"{sum(process.exitcode == 0 for process in working)} of {chosen.processes} processes ended well", flush=True)


if __name__ == "__main__":
    main()
