"""Packs what `benchmarks.encoders_gpu` trains on, and prints what it found.

    python -m benchmarks.encoders_pack PACK --encoder FOLDER --place NAME OVERRIDES [--place …] [--method LABEL …]
        [--option OVERRIDE …]
    python -m benchmarks.encoders_pack PACK --report FOLDER [FOLDER …]

The first command reads `experiment=encoders`, with the encoder in the folder of --encoder: for each place the subwords
of its texts, its pairs, its test queries with their candidates, and the lists of each method, in an .npz file of PACK;
the weights in half precision, of the subwords that occur; and pack.json. OVERRIDES are those of a place, in quotes:
--place quest "collection.path=FOLDER/quest". A method that `benchmarks.encoders_gpu` lacks is left out, which is
printed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

from benchmarks.archives import interval, number, signed, table
from pyrite.analysis.statistics.crossed import UNTESTED, crossed_difference
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.runs.parts import read_encoded
from pyrite.ranking.texts import Texts
from pyrite.ranking.whole_file import replace_file

SMALLEST = [
    "{out}/pack --encoder {small_bert} --place made collection.path={collection} --method 'four of BM25'\"'\"'s' "
    "--option limits.examples=24 --option ranker.precision=float32"
]
EXPERIMENT = Path(__file__).parents[1] / "cluster" / "conf" / "experiment" / "encoders.yaml"
LISTED = ("bm25", "embedding")
"""Functions whose lists travel."""


def arm_of(label: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arm of `benchmarks.encoders_gpu` that a method is; None if there is none."""
    functions, selectors = config["function"], config["selectors"]
    listed = [name for name in LISTED if name in functions]
    objective = config["objective"]
    if "Fixed" not in config["policy"]["_target_"] or objective.get("other_queries"):
        return None
    arm: dict[str, Any] = {"label": label, "hard": functions["in_batch"].get("hard", False)}
    arm |= {"margin": objective.get("margin"), "symmetric": objective.get("symmetric", False)}
    for name in listed:
        selector = selectors.get(name, config["selector"])
        arm |= {"lists": name, "count": config["negatives"][name], "simans": "SimANS" in selector["_target_"]}
        if "Window" in selector["_target_"]:
            arm |= {"first": selector["first"] - 1, "last": selector["last"]}
    return arm


def lists_of(parts: Mapping[str, Any], name: str, queries: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return a function's lists of some queries, without documents that are judged relevant."""
    judgements = parts["base"].encoded.judgements
    documents = parts[f"function:{name}"].lists.documents[queries]
    return np.where(judgements.are_relevant(queries, np.maximum(documents, 0)), -1, documents).astype(np.int32)


def with_specials(texts: Texts, longest: int, marks: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the first subwords of texts between the encoder's marks, and where each text begins."""
    lengths = np.minimum(texts.lengths, longest)
    offsets = np.concatenate([[0], np.cumsum(lengths + 2)])
    tokens, within = np.empty(int(offsets[-1]), np.int32), np.arange(lengths.sum())
    tokens[offsets[:-1]], tokens[offsets[1:] - 1] = marks
    starts = np.cumsum(lengths) - lengths
    # The ids of a text are those of its subwords plus one (`pyrite.ranking.tokenization`).
    inner = texts.tokens[within + np.repeat(texts.offsets[:-1] - starts, lengths)] - 1
    tokens[within + np.repeat(offsets[:-1] + 1 - starts, lengths)] = inner
    return tokens, offsets


def packed(common: Sequence[str], methods: Sequence[Mapping[str, Any]], marks: tuple[int, int]) -> Any:
    """Return a place's arrays, its arms and the options of their training."""
    artifacts, arms, arrays, options = Artifacts(), [], dict[str, NDArray[Any]](), dict[str, Any]()
    for method in methods:
        config = compose([*common, *method["overrides"]])
        arm = arm_of(method["label"], config)
        if arm is None:
            print(f"{method['label']} can't be packed: it is left out", flush=True)
            continue
        parts = artifacts.parts(config)
        if not arrays:
            training, _ = assemble(config, parts, 0)
            encoded, split = read_encoded(parts), parts["base"].splits[0]
            pairs = np.stack([training.examples.queries, training.examples.positives], 1)
            trained = np.unique(pairs[:, 0])
            row_of_query = np.full(len(encoded.queries), -1, np.int32)
            row_of_query[trained] = np.arange(len(trained))
            judged = encoded.judgements.relevant()
            of_query = np.repeat(np.arange(len(encoded.queries)), np.diff(judged.offsets))
            arrays |= {"pairs": pairs, "row_of_query": row_of_query, "tested": split.test}
            arrays["relevant"] = np.stack([of_query, judged.documents], 1).astype(np.int32)
            for kind, texts in (("query", encoded.queries), ("document", encoded.documents)):
                longest = getattr(training.ranker, f"max_{kind}")
                arrays[f"{kind}_tokens"], arrays[f"{kind}_offsets"] = with_specials(texts, longest, marks)
            for origin in ("bm25", "random"):
                arrays[f"candidates_{origin}"] = parts[f"origin:{origin}"].take(split.test).documents
            chosen = config["optimizer"], config["training"]
            options = {"lr": chosen[0]["lr"], "weight_decay": chosen[0].get("weight_decay", 0.01)}
            options |= {"batch_size": chosen[1]["batch_size"], "epochs": chosen[1]["max_epochs"], "scale": 20.0}
        if "lists" in arm:
            guarded = "guard" in " ".join(method["overrides"]) and arm["lists"] == "embedding"
            arm["lists"] = f"{arm['lists']}{'_guarded' * guarded}"
            arrays[f"lists_{arm['lists']}"] = lists_of(parts, arm["lists"].partition("_")[0], trained)
        if parts["function:in_batch"].lists is not None:
            arm["masks"] = "masked"
            arrays["lists_masked"] = parts["function:in_batch"].lists.documents[trained]
        arms.append(arm)
    return arrays, arms, options


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--place", nargs=2, action="append", default=[], metavar=("NAME", "OVERRIDES"))
    parser.add_argument("--method", action="append", default=[], help="only methods with these labels")
    parser.add_argument("--option", action="append", default=[], help="an override for all places")
    parser.add_argument("--encoder", type=Path, help="the folder of the encoder")
    parser.add_argument("--report", type=Path, nargs="+", help="print the runs of these folders instead")
    chosen = parser.parse_args(arguments)
    if chosen.report:
        report(chosen.report)
        return
    text = EXPERIMENT.read_text("utf-8").replace("${oc.env:PYRITE_ENCODER,FOLDER}", str(chosen.encoder))
    experiment = yaml.safe_load(text.replace("collection.path='${data}/medquad'", "collection=beir"))
    methods = [method for method in experiment["methods"] if not chosen.method or method["label"] in chosen.method]
    tokenizer, model = AutoTokenizer.from_pretrained(chosen.encoder), AutoModel.from_pretrained(chosen.encoder)
    marks, chosen_places = (tokenizer.cls_token_id, tokenizer.sep_token_id), dict[str, dict[str, NDArray[Any]]]()
    arms, options = list[dict[str, Any]](), dict[str, Any]()
    for name, overrides in chosen.place:
        common = [*experiment["overrides"], *overrides.split(), *chosen.option]
        chosen_places[name], arms, options = packed(common, methods, marks)
    kinds = [f"{kind}_tokens" for kind in ("query", "document")]
    used = np.unique(np.concatenate([place[kind] for place in chosen_places.values() for kind in kinds] + [[0]]))
    chosen.pack.mkdir(parents=True, exist_ok=True)
    for name, place in chosen_places.items():
        place |= {kind: np.searchsorted(used, place[kind]).astype(np.uint16) for kind in kinds}
        with replace_file(chosen.pack / f"{name}.npz") as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, **place)  # type: ignore[arg-type]
    weights = {name: part.half().contiguous() for name, part in model.state_dict().items() if "pooler" not in name}
    words = "embeddings.word_embeddings.weight"
    weights[words] = weights[words][torch.from_numpy(used)].contiguous()
    save_file(
        {name: part for name, part in weights.items() if part.is_floating_point()}, chosen.pack / "weights.safetensors"
    )
    options["model"] = {**model.config.to_diff_dict(), "vocab_size": len(used), "pad_token_id": 0}
    for key in ("architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path"):
        options["model"].pop(key, None)
    (chosen.pack / "pack.json").write_text(json.dumps({"arms": arms, "options": options}, indent=1) + "\n", "utf-8")
    size = sum(path.stat().st_size for path in chosen.pack.iterdir()) / 2**20
    print(f"{len(chosen_places)} places, {len(arms)} arms, {size:.1f} MiB")


BASELINE = "one of BM25's and the batch"


def report(folders: Sequence[Path]) -> None:
    """Print each place's methods, with crossed intervals over seeds and queries."""
    paths = [path for folder in folders for path in sorted(folder.glob("runs-*.jsonl"))]
    rows = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    for place in dict.fromkeys(row["place"] for row in rows):
        runs = {(row["method"], row["seed"]): row for row in rows if row["place"] == place}
        for origin in next(iter(runs.values()))["AP@100"]:
            lines = []
            for method in dict.fromkeys(row for row, _ in runs):
                own = {seed: run for (name, seed), run in runs.items() if name == method}
                values = np.array([run["AP@100"][origin] for run in own.values()])
                seeds = [seed for seed in own if (BASELINE, seed) in runs]
                pairs = [(own[seed]["AP@100"][origin], runs[BASELINE, seed]["AP@100"][origin]) for seed in seeds]
                cells = np.array([np.subtract(*pair) for pair in pairs])
                test = crossed_difference(cells) if method != BASELINE and len(cells) > 2 else UNTESTED
                shown = f"{signed(test.mean)} ({interval(test.low, test.high)})" if test.is_known else ""
                seconds = f"{np.median([run['seconds'] for run in own.values()]):.0f}"
                lines.append([method, str(len(own)), number(float(values.mean())), shown, seconds])
            head = ["method", "seeds", f"AP@100, {origin}", "difference (95%)", "seconds"]
            print(f"\n{place}, {values.shape[1]} queries\n\n{table(head, sorted(lines, key=lambda line: line[2]))}")


if __name__ == "__main__":
    main()
