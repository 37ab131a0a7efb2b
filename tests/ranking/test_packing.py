from itertools import pairwise

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pyrite.ranking.packing import PASS_COSTS, PASSES, Packing, buckets
from pyrite.ranking.tokenization import read_tokenizer, subwords
from tests.ranking.checkpoints import KINDS

BY_HAND = Packing((1,), (2,), (2, 9), ((0,), (0,), (0,), (1,), (1, 1)), 7)
FIRST = ["moles dig", "hard mineral of silicon", "gold"]
SECOND = ["bridges carry trains over rivers", "quartz", "gold is a soft metal"]


@pytest.fixture(params=[*KINDS, "small_bert"])
def checkpoint(request, made_up) -> str:
    """Made up in three architectures, and a real one."""
    found: str = request.getfixturevalue("small_bert") if request.param == "small_bert" else made_up(request.param)
    return found


def ids(tokenizer: object, texts: list[str]) -> Tensor:
    return torch.from_numpy(subwords(tokenizer, pl.Series(texts), 20).padded(20))


@pytest.mark.parametrize("pair", [True, False])
def test_as_the_tokenizer_itself_packs(checkpoint, pair):
    tokenizer = read_tokenizer(checkpoint)
    given_texts = (FIRST, SECOND) if pair else (FIRST,)
    expected = read_tokenizer(checkpoint)(*given_texts, padding=True, return_tensors="pt")
    packing = Packing.of(tokenizer, pair)
    packed = packing.pack(*(ids(tokenizer, texts) for texts in given_texts))
    assert set(packed) == set(expected)
    for name, tensor in packed.items():
        assert tensor.dtype == torch.int64
        assert tensor.tolist() == expected[name].tolist()
    assert packing.specials == tokenizer.num_special_tokens_to_add(pair)


def test_empty_texts_and_ends_of_unlike_length():
    packed = BY_HAND.pack(torch.tensor([[0, 0], [12, 13]]), torch.tensor([[0], [22]]))
    assert packed["input_ids"].tolist() == [[1, 2, 2, 9, 7, 7, 7], [1, 11, 12, 2, 21, 2, 9]]
    assert packed["attention_mask"].tolist() == [[1, 1, 1, 1, 0, 0, 0], [1] * 7]
    assert packed["token_type_ids"].tolist() == [[0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]
    nothing = BY_HAND.pack(torch.zeros(0, 3, dtype=torch.int32), torch.zeros(0, 2, dtype=torch.int32))
    assert nothing["input_ids"].shape == (0, 4)


TEXT = st.lists(st.integers(1, 50), max_size=5)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=6))
def test_any_pair_is_its_parts_in_a_row(pairs):
    first, second = (
        torch.tensor([[*text, *[0] * (5 - len(text))] for text in texts]) for texts in zip(*pairs, strict=True)
    )
    packed = BY_HAND.pack(first, second)
    for row, (one, other) in enumerate(pairs):
        sequence = [1, *(token - 1 for token in one), 2, *(token - 1 for token in other), 2, 9]
        length = int(packed["attention_mask"][row].sum())
        assert packed["input_ids"][row, :length].tolist() == sequence
        assert set(packed["input_ids"][row, length:].tolist()) <= {7}
    assert packed["attention_mask"].any(0).all(), "a column is padding in every row"


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 200))
def test_buckets_partition_and_keep_to_the_budget(lengths, budget):
    parts = [part.tolist() for part in buckets(torch.tensor(lengths, dtype=torch.int64), budget)]
    assert sorted(place for part in parts for place in part) == list(range(len(lengths)))
    longest = [max(lengths[place] for place in part) for part in parts]
    assert longest == sorted(longest)
    for part, length in zip(parts, longest, strict=True):
        assert len(part) == 1 or len(part) * length <= budget

    def padding(part: list[int]) -> int:
        return len(part) * max(lengths[place] for place in part) - sum(lengths[place] for place in part)

    for part in parts:
        assert padding(part) <= budget // PASSES
    for part, following in pairwise(parts):  # no bucket is left early
        further = [*part, following[0]]
        assert len(further) * lengths[following[0]] > budget or padding(further) > budget // PASSES


def test_rows_are_padded_to_a_multiple_whose_padding_is_masked():
    first = torch.tensor([[5, 6, 7], [8, 0, 0]], dtype=torch.int32)
    plain, wide = (BY_HAND.pack(first, first[:, :2], multiple=multiple) for multiple in (1, 8))
    width = plain["input_ids"].shape[1]
    assert wide["input_ids"].shape[1] == 16 > width > 8
    for name, tensor in plain.items():
        assert torch.equal(wide[name][:, :width], tensor), name
    assert (wide["input_ids"][:, width:] == BY_HAND.padding).all()
    assert not wide["attention_mask"][:, width:].any()


def test_a_device_whose_passes_cost_more_makes_fewer():
    lengths = torch.arange(1, 129).repeat(8)
    parts = [len(list(buckets(lengths, cost.budget, cost.passes))) for cost in PASS_COSTS.values()]
    assert parts == [37, 2]  # of 66,048 tokens
