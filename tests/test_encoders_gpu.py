"""Encoders on one GPU: the same texts, candidates and measure as Pyrite's, and runs that continue."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

from benchmarks import encoders_gpu, encoders_pack
from benchmarks.encoders_gpu import Arm, Place, loss_of, mined
from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import make_ranker
from pyrite.cluster.runs.parts import read_encoded
from pyrite.ranking.evaluation.evaluation import Evaluation
from tests.made_up import write_beir

ALONE = ["--processes", "1", "--seeds", "1", "--device", "cpu"]
ARMS = [
    Arm("plain"), Arm("both", symmetric=True), Arm("mask", margin=-100.0), Arm("hard", count=2, hard=True),
    Arm("soft", count=2),
]  # fmt: skip
SMALL = ["limits.examples=24", "training.batch_size=8", "training.max_epochs=1", "ranker.precision=float32"]
SMALL += ["ranker.max_document=24", "measures=[AP@100]", "limits.test=8"]


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, small_bert: str) -> Path:
    """A pack of a made-up collection and an encoder of random weights, with five arms."""
    folder = tmp_path_factory.mktemp("encoders")
    place = f"collection.path={write_beir(folder / 'made', documents=120)}"
    methods = ["the batch alone", "four of BM25's", "SimANS", "hard in-batch", "both directions"]
    chosen = [word for method in methods for word in ("--method", method)]
    options = [word for option in SMALL for word in ("--option", option)]
    encoders_pack.main([str(folder / "pack"), "--place", "made", place, *chosen, *options, "--encoder", small_bert])
    return folder / "pack"


def model_of(pack: Path) -> BertModel:
    described = json.loads((pack / "pack.json").read_text("utf-8"))
    model = BertModel(BertConfig(**described["options"]["model"]), add_pooling_layer=False)
    model.load_state_dict({name: part.float() for name, part in load_file(pack / "weights.safetensors").items()})
    return model.eval()


def test_the_measure_is_pyrites(pack, small_bert, monkeypatch):
    monkeypatch.setattr(encoders_gpu, "PRECISION", torch.float32)
    place = Place(pack / "made.npz", "cpu")
    config = compose([
        "collection=beir", f"collection.path={pack.parent / 'made'}", "ranker=bi_encoder", "origin=[bm25,random]",
        f"ranker.checkpoint={small_bert}", "ranker.max_query=32", *SMALL,
    ])  # fmt: skip
    artifacts = Artifacts()
    parts = artifacts.parts(config)
    ranker = make_ranker(config, parts["base"], np.random.default_rng(0)).eval()
    tested = parts["base"].splits[0].test
    assert place.arrays["tested"].tolist() == tested.tolist()
    for origin in ("bm25", "random"):
        evaluation = Evaluation(read_encoded(parts), parts[f"origin:{origin}"].take(tested), ["AP@100"])
        scores, theirs = evaluation.scores(ranker), encoders_gpu.scores_of(model_of(pack), place, origin)
        present = place.arrays[f"candidates_{origin}"] >= 0
        assert np.abs(20 * theirs - scores)[present].max() < 0.05  # weights are packed in half precision
        values = evaluation.of_scores(scores)["AP@100"]
        assert encoders_gpu.precision_by_query(place, origin, scores) == pytest.approx(values.tolist(), abs=1e-6)


def test_arms_have_their_negatives(pack):
    place, model, rng = Place(pack / "made.npz", "cpu"), model_of(pack), np.random.default_rng(0)
    pairs = place.arrays["pairs"].astype(np.int64)[:8]
    drawn = mined(model, place, Arm("four", count=4), pairs, 20.0, rng)
    lists = place.arrays["lists_bm25"][place.arrays["row_of_query"][pairs[:, 0]]]
    for row, of_query in zip(drawn, lists, strict=True):
        assert len(set(row.tolist())) == 4
        assert set(row.tolist()) <= set(of_query.tolist())
    relevant = {tuple(pair) for pair in place.arrays["relevant"].tolist()}
    assert not any(
        (int(query), int(document)) in relevant
        for query, row in zip(pairs[:, 0], drawn, strict=True)
        for document in row
    )
    near = mined(model, place, Arm("near", count=1, simans=True), pairs, 20.0, rng)
    assert near.shape == (8, 1)


def test_losses_by_hand(pack):
    place, model = Place(pack / "made.npz", "cpu"), model_of(pack)
    pairs = place.arrays["pairs"].astype(np.int64)
    pairs = pairs[np.unique(pairs[:, 1], return_index=True)[1]][:4]
    losses = {}
    with torch.no_grad():
        for arm in ARMS:
            losses[arm.label] = float(loss_of(model, place, arm, pairs, 20.0, np.random.default_rng(1)))
        queries, documents = (
            encoders_gpu.embed(model, place, kind, rows)
            for kind, rows in (("query", pairs[:, 0]), ("document", pairs[:, 1]))
        )
        scores = 20 * queries @ documents.T
    whole = torch.nn.functional.cross_entropy(scores, torch.arange(4))
    assert losses["plain"] == pytest.approx(float(whole), abs=1e-3)
    back = torch.nn.functional.cross_entropy(scores.T, torch.arange(4))
    assert losses["both"] == pytest.approx(float(whole + back) / 2, abs=1e-3)
    assert losses["mask"] == pytest.approx(0.0, abs=1e-6)
    assert losses["hard"] > losses["soft"] > losses["plain"]


@pytest.mark.nightly
def test_runs_are_made_without_polars(pack, tmp_path):
    program = (
        "import sys\nfrom benchmarks import encoders_gpu\n"
        f"encoders_gpu.main([{str(pack)!r}, {str(tmp_path)!r}, *{ALONE}])\n"
        "assert not {'ray', 'hydra', 'polars', 'pyrite'} & set(sys.modules), sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1], capture_output=True)


def test_nothing_of_pyrite_is_imported():
    imports = re.findall(r"^ *(?:from|import) (\w+)", Path(encoders_gpu.__file__).read_text("utf-8"), re.MULTILINE)
    assert not {"ray", "hydra", "polars", "pyrite", "benchmarks"} & {*imports}
    assert "transformers" in imports


@pytest.mark.nightly
def test_runs_continue(pack, tmp_path, capsys):
    encoders_gpu.main([str(pack), str(tmp_path), *ALONE])
    first = (tmp_path / "runs-0.jsonl").read_text("utf-8").splitlines()
    assert len(first) == 5
    encoders_gpu.main([str(pack), str(tmp_path), *ALONE])
    assert (tmp_path / "runs-0.jsonl").read_text("utf-8").splitlines() == first
    capsys.readouterr()
    encoders_pack.main([str(pack), "--report", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "made, 8 queries" in printed
    assert "| four of BM25's | 1 | ." in printed


@pytest.mark.nightly
def test_processes_share_the_runs(pack, tmp_path):
    values = []
    for processes in ("1", "2"):
        out = tmp_path / processes
        encoders_gpu.main([str(pack), str(out), "--processes", processes, "--seeds", "1", "--device", "cpu"])
        rows = [json.loads(line) for path in out.glob("*.jsonl") for line in path.read_text().splitlines()]
        values.append({row["method"]: row["AP@100"] for row in rows})
    assert len(values[0]) == 5
    assert values[0] == values[1]
