"""Vectors of all documents are kept between a validation and a test of the same weights, with the same results."""

import numpy as np
import pytest
import torch

from pyrite.cluster.config.compose import compose
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.execute import run
from pyrite.ranking import kept_vectors
from pyrite.ranking.kept_vectors import KeptVectors, weights_key
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.inputs import RankerInputs

CONTENTS = np.arange(3, dtype=np.uint64)


@pytest.fixture(scope="module")
def config(base, checkpoint):
    mine = [text for text in base if not text.startswith(("ranker.preset", "training.max_epochs"))]
    return compose([
        *mine, "ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "training.max_epochs=2", "limits.examples=8",
        "function=in_batch", "origin=full", "validation.origin=full", "seed=0",
    ])  # fmt: skip


def outcome_of(config, monkeypatch) -> tuple[dict, int]:
    """Return the values of the test, and how often all documents were read."""
    counts, size = [], len(Artifacts().parts(config)["base"].encoded.documents)
    read = BiEncoder.represent_documents

    def counting(ranker, texts):
        counts.append(len(texts))
        return read(ranker, texts)

    with monkeypatch.context() as patch:
        patch.setattr(BiEncoder, "represent_documents", counting)
        outcome = run(config, Artifacts().parts(config))
    return outcome.values["full"], counts.count(size)


def test_a_test_reads_what_the_best_validation_has_read(config, monkeypatch):
    kept, few = outcome_of(config, monkeypatch)
    monkeypatch.setattr(BiEncoder, "keeps_documents", False)
    plain, many = outcome_of(config, monkeypatch)
    assert (few, many) == (2, 3)  # two validations; and the test
    assert kept.keys() == plain.keys()
    for name, values in plain.items():
        np.testing.assert_array_equal(kept[name], values)


def test_other_weights_and_other_documents_are_read(monkeypatch):
    kept, reads = KeptVectors(), []

    def read():
        reads.append(len(reads))
        return torch.full((3, 2), float(len(reads)))

    first = kept.of(b"a", CONTENTS, read)
    assert kept.of(b"a", CONTENTS, read) is first
    assert kept.of(b"b", CONTENTS, read)[0, 0] == 2
    assert kept.of(b"a", CONTENTS[::-1].copy(), read)[0, 0] == 3
    monkeypatch.setattr(kept_vectors, "MOST", 24)  # the bytes of one block
    kept.of(b"c", CONTENTS, read)
    assert kept.of(b"c", CONTENTS, read)[0, 0] == 4
    assert kept.of(b"a", CONTENTS, read)[0, 0] == 5  # the oldest had gone


def test_weights_are_told_apart(config):
    ranker = BiEncoder(config["ranker"]["checkpoint"], precision="float32")
    ranker.start(RankerInputs(torch.Generator().manual_seed(0)))
    ranker.train()
    assert weights_key(ranker) is None
    ranker.eval()
    before = weights_key(ranker)
    assert before is not None
    assert weights_key(ranker) == before
    with torch.no_grad():
        next(ranker.parameters()).view(-1)[0] += 1e-3
    assert weights_key(ranker) != before
