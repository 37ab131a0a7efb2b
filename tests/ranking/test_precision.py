"""What a machine multiplies in is found out; transformers keep their scores apart, and read with smaller weights."""

import copy

import numpy as np
import pytest
import torch

from pyrite.ranking import precision
from pyrite.ranking.errors import BadInput
from pyrite.ranking.precision import best_precision
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.pretrained import Pretrained, read_in
from pyrite.ranking.texts import Texts


@pytest.fixture
def no_choice(monkeypatch):
    monkeypatch.delenv(precision.CHOSEN)


@pytest.fixture
def processor(monkeypatch, tmp_path, no_choice):
    """Replaces the processor's description."""

    def describe(text: str) -> None:
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(precision, "CPUINFO", tmp_path / "cpuinfo")
        precision._cpu_multiplies.cache_clear()

    yield describe
    precision._cpu_multiplies.cache_clear()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx2 avx512f amx_bf16 amx_tile\n", "bfloat16"),
        ("flags\t\t: fpu avx512_bf16\n", "bfloat16"),
        ("flags\t\t: fpu avx2 avx512f\n", "float32"),
        ("model name\t: amx_bf16\nflags\t\t: fpu\n", "float32"),
        ("", "float32"),
    ],
)
def test_the_flags_of_a_processor(processor, text, expected):
    processor(text)
    assert best_precision(gpu=False) == expected


def test_no_description_and_a_choice(processor, monkeypatch, tmp_path):
    processor("flags : amx_bf16")
    monkeypatch.setattr(precision, "CPUINFO", tmp_path / "none")
    assert best_precision(gpu=False) == "float32"
    monkeypatch.setenv(precision.CHOSEN, "float16")
    assert best_precision(gpu=True) == "float16"


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16")])
def test_the_capability_of_a_gpu(no_choice, monkeypatch, capability, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert best_precision(gpu=True) == expected


def started(kind, checkpoint, **options):
    return kind(checkpoint, max_query=8, max_document=16, **options).start(RankerInputs(torch.Generator())).eval()


TEXTS = Texts.of([[5, 6, 7, 8], [9, 10], [11, 12, 13]])


def test_automatic_is_the_choice_of_the_machine(made_up, monkeypatch):
    ranker = started(BiEncoder, made_up())
    assert ranker.query_tower.precision == torch.float32
    monkeypatch.setenv(precision.CHOSEN, "bfloat16")
    assert ranker.query_tower.precision == torch.bfloat16
    assert copy.deepcopy(ranker).query_tower.precision == torch.bfloat16
    explicit = started(BiEncoder, made_up(), precision="bfloat16")
    assert ranker.represent_documents(TEXTS).equal(explicit.represent_documents(TEXTS))
    assert ranker.represent_documents(TEXTS).dtype == torch.float32  # losses and optimizers see no other
    with pytest.raises(BadInput, match=r"precision is .half.; choose auto, float32, bfloat16 or float16"):
        Pretrained(torch.nn.Linear(1, 1), precision="half")


@torch.no_grad()
def test_weights_are_held_in_it_where_nothing_is_trained(made_up):
    ranker = started(BiEncoder, made_up(), precision="float32")
    whole = ranker.represent_documents(TEXTS)
    read_in(ranker, "bfloat16")
    assert {weight.dtype for weight in ranker.document_tower.parameters()} == {torch.bfloat16}
    read = ranker.represent_documents(TEXTS)
    assert read.dtype == torch.float32
    assert 0 < float((read - whole).abs().max()) < 0.05
    other = started(BiEncoder, made_up(), precision="float32")
    read_in(other, "float32")
    assert other.represent_documents(TEXTS).equal(whole)


@torch.no_grad()
@pytest.mark.parametrize("only_reads", [False, True])
def test_pairs_are_told_apart_in_bfloat16(made_up, only_reads):
    """Scores rounded to bfloat16 have three digits, and many would be tied."""
    ranker = started(CrossEncoder, made_up(), precision="bfloat16")
    if only_reads:
        read_in(ranker, "bfloat16")
    rng = np.random.default_rng(0)
    documents = Texts.of([rng.integers(5, 40, 9).tolist() for _ in range(200)])
    queries = ranker.represent_queries(Texts.of([[5, 6, 7]]))
    scores = ranker.interact(queries[:, None], ranker.represent_documents(documents)[None])
    assert scores.dtype == torch.float32
    assert not scores.equal(scores.bfloat16().float())
    assert len(scores.unique()) > len(scores.bfloat16().unique())
    assert not torch.is_autocast_enabled("cpu")


def test_a_head_leaves_autocast_only_for_itself_and_trains(made_up):
    ranker = started(CrossEncoder, made_up(), precision="bfloat16").train()
    queries = ranker.represent_queries(Texts.of([[5, 6, 7]]))
    with torch.autocast("cpu", torch.bfloat16):
        scores = ranker.interact(queries[:, None], ranker.represent_documents(TEXTS)[None])
        assert torch.is_autocast_enabled("cpu")
    scores.sum().backward()
    gradients = [weight.grad.dtype for weight in ranker.parameters() if weight.grad is not None]
    assert gradients
    assert set(gradients) == {torch.float32}
