import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.torch import load, save

from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.errors import BadInput

ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.float64, np.int8, np.int32, np.int64, np.bool_, np.uint8]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**130), 2**130)  # generators keep 128 bits
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.binary(max_size=5)
    | ARRAYS
    | ARRAYS.map(torch.from_numpy)
)
KEYS = st.text("ab_:", max_size=3) | st.integers(-3, 3)
STATES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return isinstance(other, float) and (one == other or (math.isnan(one) and math.isnan(other)))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and same(one.numpy(), other.numpy())
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@given(STATES)
def test_a_state_comes_back_as_it_was(state):
    assert same(state, from_bytes(to_bytes(state)))


def test_a_state_is_the_same_file_each_time_and_older_files_are_read():
    state = {"weights": torch.arange(3.0), "facts": {"episodes": 3}}
    assert len({to_bytes(state) for _ in range(20)}) == 1
    content = to_bytes(state)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    older = save(load(content), json.loads(header["__metadata__"]["pyrite"]))  # three keys
    assert torch.equal(from_bytes(older)["weights"], state["weights"])


def test_words_of_the_format_are_keys_like_others():
    state = {"tensor": {"array": 1}, "dict": [["a", 2]], "array": {"tensor": "0"}}
    assert from_bytes(to_bytes(state)) == state


def test_shared_transposed_and_read_only_arrays():
    array = np.arange(6.0).reshape(2, 3)
    array.flags.writeable = False
    tensor = torch.arange(6.0).reshape(2, 3)
    written = [array, array, array.T, tensor.T, tensor, tensor[:, 1], array[::-1]]
    state = from_bytes(to_bytes(written))
    for found, given_one in zip(state, written, strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(given_one))
    state[0][0, 0] = 9  # what comes back can be written, and nobody else sees it
    assert array[0, 0] == state[1][0, 0] == 0


def test_a_copy_is_kept_and_numpy_numbers_and_tuples_become_pythons():
    state = from_bytes(to_bytes((np.float32(0.5), np.int64(3), torch.zeros(2, requires_grad=True), (1, 2))))
    assert state[:2] == [0.5, 3]
    assert state[3] == [1, 2]
    assert not state[2].requires_grad


@pytest.mark.parametrize("bit_generator", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_a_generators_state_goes_on(bit_generator):
    rng = np.random.Generator(bit_generator(7))
    rng.random(3)
    other = np.random.Generator(bit_generator(8))
    other.bit_generator.state = from_bytes(to_bytes(rng.bit_generator.state))
    assert np.array_equal(rng.random(5), other.random(5))


def test_what_is_cut_short_is_bad_input():
    data = to_bytes({"weights": torch.randn(30, 4), "losses": [0.5, 0.25], "order": np.arange(9)})
    assert len(data) > 600
    for length in (*range(0, len(data), 97), -1):
        with pytest.raises(BadInput, match="delete it"):
            from_bytes(data[:length], "run.safetensors")
    with pytest.raises(BadInput):
        from_bytes(data + b"x")


def test_another_file_is_bad_input_and_a_pickle_is_never_run():
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return pytest.fail, ("a pickle was loaded",)

    tensors = {"a": torch.zeros(1)}
    headers = (None, {"format": "pyrite-state-1"}, {"format": "another", "state": "{}"})
    others = [save(tensors, header) for header in headers]
    for data in (b"", b"\0" * 64, pickle.dumps(Trap()), *others):
        with pytest.raises(BadInput, match=r"^run\.safetensors: .*whole checkpoint"):
            from_bytes(data, "run.safetensors")
    with pytest.raises(TypeError):
        to_bytes({"object": object()})
