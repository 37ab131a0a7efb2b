"""An array in several files: what is read of it, and what is not."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ranking.checkpoint import from_bytes, to_bytes
from ranking.errors import BadInput
from ranking.mapped import write_array
from ranking.pieced_array import PiecedArray
from tests.examples import few

LENGTHS = [4, 0, 3, 1, 0]


@pytest.fixture(scope="module")
def pieced(tmp_path_factory) -> PiecedArray:
    return written(tmp_path_factory.mktemp("pieces"))


def written(folder: Path) -> PiecedArray:
    """The numbers 10 to 17."""
    starts = np.cumsum([0, *LENGTHS])
    files = tuple(folder / f"{number}.npy" for number in range(len(LENGTHS)))
    for file, start, length in zip(files, starts, LENGTHS, strict=False):
        write_array(file, np.arange(10 + start, 10 + start + length, dtype=np.int32))
    return PiecedArray(files, starts)


WHOLE: NDArray[np.int32] = np.arange(10, 18, dtype=np.int32)


@given(st.slices(8).filter(lambda each: (each.step or 1) > 0))
@few(30)
def test_a_slice_is_that_of_the_whole(pieced, part):
    assert pieced[part].tolist() == WHOLE[part].tolist()
    assert pieced[part].dtype == np.int32


@given(st.lists(st.integers(0, 7), max_size=20))
@few(30)
def test_positions_are_those_of_the_whole(pieced, places):
    positions = np.array(places, np.int64)
    assert pieced[positions].tolist() == WHOLE[positions].tolist()


def test_positions_may_stand_in_a_matrix(pieced):
    assert pieced[np.array([[7, 0], [4, 3]])].tolist() == [[17, 10], [14, 13]]


def test_all_of_it(pieced):
    assert len(pieced) == 8
    assert np.asarray(pieced).tolist() == WHOLE.tolist()
    assert np.concatenate([pieced, WHOLE[:1]]).tolist() == [*WHOLE.tolist(), 10]
    with pytest.raises(ValueError, match="forwards"):
        pieced[::-1]


def test_it_goes_along_as_names(pieced, tmp_path):
    assert len(pickle.dumps(pieced)) < 1500
    assert pickle.loads(pickle.dumps(pieced))[:].tolist() == WHOLE.tolist()
    folder = pieced.files[0].parent
    again = from_bytes(to_bytes({"tokens": pieced}), "part", folder.parent)["tokens"]
    assert again[:].tolist() == WHOLE.tolist()
    with pytest.raises(BadInput, match="names files beside it"):
        from_bytes(to_bytes(pieced), "elsewhere")


def test_a_file_that_is_gone_is_told_at_once(tmp_path):
    found = written(tmp_path)
    sent = pickle.dumps(found)
    found.files[2].unlink()
    with pytest.raises(BadInput, match=r"2\.npy: can't be read on this machine"):
        pickle.loads(sent)
