"""Measures one GPU against the plain way of sentence-transformers, with torch and transformers alone.

    python -m benchmarks.gpu [--out gpu.json] [--minutes 5] [--only PART …]

Runs from a checkout without installing. Models have random weights in the shapes of MiniLM (6 layers of 384) and
BERT-base (12 of 768), and texts are made up, so nothing is downloaded. Both sides of a part run in turn, and each waits
for the device; the file has the median of the turns, and is written again after each measurement. A part for which no
time is left is named in `left_out`. Without a GPU all sizes are tiny, to see that the script runs.

The plain way pads each batch to its longest text, sorted by length if nothing is trained. It trains by autocast, and to
read it casts its weights, as sentence-transformers does. If faiss is installed for GPUs, its flat index is measured
too. Tokenizing is outside the clock on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from torch import Tensor
from torch.nn import functional as F

from pyrite.ranking.packing import Packing
from pyrite.ranking.rankers.pretrained import Pretrained, trim_last_layer
from pyrite.ranking.torch_topk import topk_float32

SMALLEST = ["--out {study}/gpu.json --minutes 1", "--out {study}/gpu.json --minutes 1 --only search"]
SHAPES = {"minilm": (384, 6), "bert_base": (768, 12)}
"""Width and layers of the models."""
WORDS = 30_522
SPECIALS = Packing((101,), (102,), (102,), ((0,), (0,), (0,), (1,), (1,)), 0)
"""BERT's special tokens and token types."""
SINGLE = Packing((101,), (), (102,), ((0,), (0,), (0,), (0,), (0,)), 0)


class Sizes(NamedTuple):
    """The sizes of the parts.

    Args:
        turns: the number of times that each side runs.
        square: the side of the matrices of the peak.
        tokens: numbers of tokens of the products at the shapes of layers.
        texts, pairs: texts to encode and pairs to score.
        batches: pairs per training step.
        steps: training steps per turn.
        vectors, asked, depth: the size of the exact search.
        layers: at most this many layers of each model.
    """

    turns: int
    square: int
    tokens: tuple[int, ...]
    texts: int
    pairs: int
    batches: tuple[int, ...]
    steps: int
    vectors: int
    asked: int
    depth: int
    layers: int


SIZES = {
    "cuda": Sizes(3, 8192, (2048, 8192, 65536), 20_000, 10_000, (128, 1024), 5, 1_000_000, 10_000, 100, 12),
    "cpu": Sizes(1, 64, (32,), 6, 4, (4,), 1, 500, 8, 5, 1),
}


class Made(NamedTuple):
    """A model and what is read with it, on the device `kind`."""

    kind: str
    shape: str
    sizes: Sizes
    length: int = 128

    def model(self, head: str = "BertModel", **options: Any) -> Any:
        """Return a model with random weights, the same for each call."""
        width, layers = SHAPES[self.shape]
        config = transformers.BertConfig(
            vocab_size=WORDS, hidden_size=width, num_hidden_layers=min(layers, self.sizes.layers),
            num_attention_heads=12, intermediate_size=4 * width, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, attn_implementation="sdpa", **options,
        )  # fmt: skip
        torch.manual_seed(0)
        pooler = {"add_pooling_layer": False} if head == "BertModel" else {}
        return getattr(transformers, head)(config, **pooler).to(self.kind)

    def texts(self, count: int, mean: float, seed: int) -> list[list[int]]:
        """Return made-up ids of texts: lengths are normal with a deviation of 40%, at most the length less specials."""
        generator = torch.Generator().manual_seed(seed)
        lengths = (torch.randn(count, generator=generator) * 0.4 + 1).mul(mean).clamp(4, self.length - 2).long()
        return [torch.randint(1000, WORDS, (n,), generator=generator).tolist() for n in lengths.tolist()]


def padded(texts: Sequence[list[int]]) -> Tensor:
    """Return the ids plus one, with 0 after a text's end, as `Packing.pack` reads them."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(text) + 1 for text in texts], batch_first=True)


class Tokenized:
    """Sequences of texts, or of pairs with `others`, as a tokenizer gives them, made outside the clock."""

    def __init__(self, texts: Sequence[list[int]], others: Sequence[list[int]] = ()) -> None:
        pairs = zip(texts, others, strict=True) if others else ((text, None) for text in texts)
        rows = [[101, *one, 102, *([*other, 102] if other else [])] for one, other in pairs]
        self.lengths = torch.tensor([len(row) for row in rows])
        self.ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)

    def batches(self, size: int) -> Iterator[Tensor]:
        """Yield the rows of batches, the longest texts first."""
        return iter(torch.argsort(self.lengths, descending=True, stable=True).split(size))

    def batch(self, rows: Tensor, kind: str) -> dict[str, Tensor]:
        """Return some rows, padded to the longest."""
        ids = self.ids[rows, : int(self.lengths[rows].max())]
        return {"input_ids": ids.to(kind), "attention_mask": (ids > 0).long().to(kind)}


def mean_of(output: Any, mask: Tensor) -> Tensor:
    """Return unit vectors: the mean of each text's tokens."""
    weights = mask.unsqueeze(-1).float()
    return F.normalize((output.last_hidden_state.float() * weights).sum(1) / weights.sum(1), dim=1)


class Report:
    """The measurements so far, in a file that is whole at any time."""

    def __init__(self, path: Path, kind: str, minutes: float) -> None:
        self.path, self.kind, self.end = path, kind, time.monotonic() + 60 * minutes
        name = torch.cuda.get_device_name() if kind == "cuda" else "CPU"
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        self.content: dict[str, Any] = {"device": name, **versions, "rows": [], "left_out": []}

    def add(self, part: str, side: str, **numbers: Any) -> None:
        """Append a row, print it and write the file."""
        row = {"part": part, "side": side} | numbers
        self.content["rows"].append(row)
        print(" ".join(f"{key}={value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items()))
        self.write()

    def write(self) -> None:
        other = self.path.with_suffix(".part")
        other.write_text(json.dumps(self.content, indent=1))
        other.replace(self.path)

    def wait(self) -> None:
        """Wait until the device has done all its work."""
        if self.kind == "cuda":
            torch.cuda.synchronize()

    def sides(self, part: str, turns: int, actions: dict[str, Callable[[], Any]], **per: float) -> dict[str, Any]:
        """Measure actions in turn after one round that is not counted; return the results.

        Args:
            per: counts, of which the rate per second is reported.
        """
        took: dict[str, list[float]] = {side: [] for side in actions}
        results: dict[str, Any] = {}
        if self.kind == "cuda":
            torch.cuda.reset_peak_memory_stats()
        for turn in range(turns + 1):  # the first is not counted
            for side, action in actions.items():
                self.wait()
                started = time.perf_counter()
                results[side] = action()
                self.wait()
                if turn:
                    took[side].append(time.perf_counter() - started)
            if time.monotonic() > self.end and turn:
                break
        for side, seconds in took.items():
            median = statistics.median(seconds)
            memory = {"peak_gb": torch.cuda.max_memory_allocated() / 1e9} if self.kind == "cuda" else {}
            rates = {f"{name}_per_s": count / median for name, count in per.items()}
            self.add(part, side, seconds=median, **rates, **memory)
        return results


def peak(report: Report, made: Made) -> None:
    """Measure matrix products, square and in the shapes of layers."""
    sizes = made.sizes
    width = SHAPES[made.shape][0]
    shapes = [(sizes.square,) * 3, *((tokens, width, 4 * width) for tokens in sizes.tokens)]
    for rows, inner, columns in shapes:
        one, other = (torch.randn(shape, device=made.kind) for shape in ((rows, inner), (inner, columns)))
        half = one.bfloat16(), other.bfloat16()
        actions = {"float32": lambda: one @ other, "bfloat16": lambda: half[0] @ half[1]}  # noqa: B023
        name = f"product {rows} x {inner} x {columns}"
        report.sides(name, sizes.turns, actions, flop=2.0 * rows * inner * columns)


def encoding(report: Report, made: Made) -> None:
    """Measure reading texts as vectors."""
    texts = made.texts(made.sizes.texts, 80, 1)
    ids, tokenized, half = padded(texts), Tokenized(texts), made.model().bfloat16().eval()
    tower = Pretrained(made.model(), "bfloat16").eval()
    tower.only_read("bfloat16")

    @torch.inference_mode()
    def plainly() -> Tensor:
        order = list(tokenized.batches(256))
        batches = (tokenized.batch(rows, made.kind) for rows in order)
        parts = [mean_of(half(**batch), batch["attention_mask"]).cpu() for batch in batches]
        return torch.cat(parts)[torch.argsort(torch.cat(order))]

    @torch.inference_mode()
    def ours() -> Tensor:
        return vectors_of(tower, ids).cpu()

    actions: dict[str, Callable[[], Any]] = {"plain": plainly, "pyrite": ours}
    results = report.sides(f"encoding {made.shape}", made.sizes.turns, actions, texts=len(texts))
    report.add(
        f"encoding {made.shape}", "both", least_cosine=float((results["plain"] * results["pyrite"]).sum(1).min())
    )


def vectors_of(tower: Pretrained, ids: Tensor) -> Tensor:
    """Return unit vectors of texts in passes, as `pyrite.ranking.rankers.bi_encoder` computes them."""
    kind = next(tower.parameters()).device
    places = tower.cut((ids > 0).sum(1) + SINGLE.specials)
    packs = (SINGLE.pack(ids[rows], multiple=tower.cost.multiple) for rows in places)
    passes = [{name: tensor.to(kind) for name, tensor in packed.items()} for packed in packs]
    parts = [
        mean_of(output, packed["attention_mask"]) for output, packed in zip(tower.outputs(passes), passes, strict=True)
    ]
    return torch.cat(parts)[torch.argsort(torch.cat(places)).to(kind)]


def loss_of(vectors: Tensor, pairs: int) -> Tensor:
    """Return the in-batch loss of queries and, after them, their documents."""
    scores = 20 * vectors[:pairs] @ vectors[pairs:].T
    return F.cross_entropy(scores, torch.arange(pairs, device=scores.device))


def steps(made: Made, pairs: int) -> dict[str, Callable[[], Any]]:
    """Return a training step of each side."""
    queries, documents = made.texts(pairs, 16, 2), made.texts(pairs, 80, 3)
    ids, tokenized, rows = padded([*queries, *documents]), [*map(Tokenized, (queries, documents))], torch.arange(pairs)
    plain, tower = made.model().train(), Pretrained(made.model(), "bfloat16").train()
    adams = [torch.optim.AdamW(model.parameters(), 2e-5, fused=True) for model in (plain, tower)]

    def plainly() -> None:
        adams[0].zero_grad()
        with torch.autocast(made.kind, torch.bfloat16):
            batches = [kind.batch(rows, made.kind) for kind in tokenized]
            vectors = torch.cat([mean_of(plain(**batch), batch["attention_mask"]) for batch in batches])
            loss = loss_of(vectors, pairs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        adams[0].step()

    def ours() -> float:
        adams[1].zero_grad()
        loss = loss_of(vectors_of(tower, ids), pairs)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([w.grad for w in tower.parameters() if w.grad is not None])
        of_step = float(torch.stack([loss.detach(), norm]).cpu()[0])  # read once per step, as `Optimization.finish`
        adams[1].step()
        return of_step

    return {"plain": plainly, "pyrite": ours}


def training(report: Report, made: Made) -> None:
    """Measure in-batch training, with the share of time in which the device is idle."""
    sizes = made.sizes
    for pairs in sizes.batches:
        actions = steps(made, pairs)
        repeated = {side: repeat(action, sizes.steps) for side, action in actions.items()}
        part = f"training {made.shape} {pairs} pairs"
        report.sides(part, sizes.turns, repeated, pairs=pairs * sizes.steps)
        if report.kind == "cuda":
            for side, action in actions.items():
                report.add(part, side, **profiled(action, report))
        torch.cuda.empty_cache()


def repeat(action: Callable[[], Any], times: int) -> Callable[[], None]:
    """Return an action that runs another one several times."""

    def repeated() -> None:
        for _ in range(times):
            action()

    return repeated


def profiled(action: Callable[[], Any], report: Report) -> dict[str, float]:
    """Return a step's kernels, copies, waits and the share of its time without a kernel."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        started = time.perf_counter()
        action()
        report.wait()
        took = time.perf_counter() - started
    events = list(profile.events() or [])
    on_device = [event for event in events if event.device_type == torch.autograd.DeviceType.CUDA]
    busy = sum(event.time_range.elapsed_us() for event in on_device) / 1e6
    return {
        "idle": max(0.0, 1 - busy / took),
        "kernels": float(sum("Memcpy" not in event.name and "Memset" not in event.name for event in on_device)),
        "copies": float(sum("Memcpy" in event.name for event in on_device)),
        "waits": float(sum(event.name == "cudaStreamSynchronize" for event in events)),
    }


def search(report: Report, made: Made) -> None:
    """Measure the exact top documents of many queries."""
    sizes = made.sizes
    generator = torch.Generator(made.kind).manual_seed(0)
    vectors = F.normalize(torch.randn(sizes.vectors, 384, device=made.kind, generator=generator), dim=1)
    queries = F.normalize(torch.randn(sizes.asked, 384, device=made.kind, generator=generator), dim=1)
    on_host = queries.cpu().numpy()

    def plainly() -> Tensor:
        parts = [(some @ vectors.T).topk(sizes.depth, 1).values for some in queries.split(1024)]
        return torch.cat(parts).cpu()

    actions: dict[str, Callable[[], Any]] = {
        "plain": plainly,
        "pyrite": lambda: torch.from_numpy(topk_float32(on_host, vectors, sizes.depth)[0]),
    }
    if report.kind == "cuda" and find_spec("faiss") is not None:
        import faiss

        if hasattr(faiss, "GpuIndexFlatIP"):
            index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), 384)
            index.add(vectors.cpu().numpy())
            actions["faiss"] = lambda: torch.from_numpy(index.search(on_host, sizes.depth)[0])
    results = report.sides("top documents", sizes.turns, actions, queries=sizes.asked)
    apart = [(results["plain"] - other.sort(1, descending=True).values).abs().max() for other in results.values()]
    report.add("top documents", "all", scores_differ_by=float(max(apart)))


def scoring(report: Report, made: Made) -> None:
    """Measure a cross-encoder's scores of pairs."""
    count = made.sizes.pairs
    first, second = made.texts(count, 12, 4), made.texts(count, 80, 5)
    second = [text[: made.length - 3 - len(start)] for start, text in zip(first, second, strict=True)]
    options: dict[str, Any] = {"head": "BertForSequenceClassification", "num_labels": 1}
    half = made.model(**options).bfloat16().eval()
    trimmed = made.model(**options).eval()
    trim_last_layer(trimmed)
    tower = Pretrained(trimmed, "bfloat16").eval()
    tower.only_read("bfloat16")
    ids, tokenized = (padded(first), padded(second)), Tokenized(first, second)

    @torch.inference_mode()
    def plainly() -> Tensor:
        order, parts = list(tokenized.batches(128)), []
        for rows in order:
            batch = tokenized.batch(rows, made.kind)
            types = torch.cumsum(F.pad(batch["input_ids"] == 102, (1, -1)), 1).clamp(max=1)
            parts.append(half(**batch, token_type_ids=types * batch["attention_mask"]).logits[:, 0].float().cpu())
        return torch.cat(parts)[torch.argsort(torch.cat(order))]

    @torch.inference_mode()
    def ours() -> Tensor:
        def read(rows: Tensor) -> Tensor:
            packed = SPECIALS.pack(*(some[rows] for some in ids), multiple=tower.cost.multiple)
            scores: Tensor = tower({name: tensor.to(made.kind) for name, tensor in packed.items()}).logits[:, 0]
            return scores

        lengths = sum((some > 0).sum(1) for some in ids) + SPECIALS.specials
        return tower.in_passes(torch.as_tensor(lengths), read).float().cpu()

    actions: dict[str, Callable[[], Any]] = {"plain": plainly, "pyrite": ours}
    results = report.sides(f"scoring {made.shape}", made.sizes.turns, actions, pairs=count)
    apart = float((results["plain"] - results["pyrite"]).abs().max())
    report.add(f"scoring {made.shape}", "both", scores_differ_by=apart)


PARTS: dict[str, Callable[[Report, Made], None]] = {
    "peak": peak, "training": training, "encoding": encoding, "search": search, "scoring": scoring,
}  # fmt: skip
WITHOUT_SHAPE = ("search",)


def jobs(kind: str, only: Sequence[str]) -> Iterator[tuple[str, Callable[[], None], Made]]:
    for name in only:
        for shape in list(SHAPES)[: 1 if name in WITHOUT_SHAPE else None]:
            yield name, PARTS[name], Made(kind, shape, SIZES[kind])  # type: ignore[misc]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="the file of results")
    parser.add_argument("--minutes", type=float, default=5, help="no part begins after these")
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    chosen = parser.parse_args(arguments)
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    report = Report(chosen.out, kind, chosen.minutes)
    for name, part, made in jobs(kind, chosen.only):
        if time.monotonic() > report.end:
            report.content["left_out"].append(f"{name} {made.shape}")
            continue
        try:
            part(report, made)
        except torch.cuda.OutOfMemoryError as error:
            report.add(name, made.shape, error=str(error).splitlines()[0])
    report.write()
    print(f"written to {chosen.out}")


if __name__ == "__main__":
    sys.exit(main())
