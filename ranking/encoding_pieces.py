"""Encodes a collection in pieces: counts words piece by piece, then encodes the texts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl

from pyrite.ranking.collections.arrow_files import mapped, write_whole
from pyrite.ranking.collections.collection import Collection
from pyrite.ranking.collections.pieces import Run
from pyrite.ranking.contents import text_hashes
from pyrite.ranking.encoding import EncodedCollection, Encoder, count_words, encode_texts, merge_counts
from pyrite.ranking.mapped import open_array, write_array
from pyrite.ranking.reading import Reading
from pyrite.ranking.text_pieces import Encode, encode_pieces

COUNTED = {"word": pl.String(), "count": pl.UInt32()}
HASHED = {"hash": pl.UInt64()}
VOCABULARY = "vocabulary.arrow"


def count_piece(pieces: tuple[Path, ...], folder: Path, limit: int, reading: Reading, number: int) -> None:
    """Count in how many documents of a piece each word occurs, and hash the texts."""
    file = _counts(folder, number)
    if not file.exists():
        documents = mapped(pieces[number])
        hashes = pl.DataFrame({"hash": text_hashes(documents["text"])})
        write_whole(_hashes(folder, number), HASHED, [hashes])
        write_whole(file, COUNTED, [count_words(documents, limit, reading)])


def word_encoder(vocabulary: Path, limit: int, reading: Reading) -> Encode:
    """Return the function that encodes documents with a vocabulary on disk."""
    words = mapped(vocabulary)["word"].to_list()
    return lambda frame: encode_texts(frame, words, limit, reading)


def encode_in_pieces(
    encoder: Encoder, collection: Collection, folder: Path, run: Run
) -> tuple[EncodedCollection, list[str]]:
    """Return the result of `Encoder.encode`, with the documents' arrays mapped from files.

    Args:
        collection: a collection in several pieces.
        folder: the folder of the files; the files of an interrupted call are used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pieces = collection.pieces
    run(partial(count_piece, pieces, folder, encoder.max_document, collection.reading), len(pieces))
    parts = (mapped(_counts(folder, number)) for number in range(len(pieces)))  # opened one by one
    queries = count_words(collection.queries, encoder.max_document, collection.reading)
    vocabulary, idf = merge_counts(
        chain(parts, [queries]), collection.size + len(collection.queries), encoder.min_count, encoder.max_words
    )
    write_whole(folder / VOCABULARY, {"word": pl.String()}, [pl.DataFrame({"word": vocabulary})])
    make = partial(word_encoder, folder / VOCABULARY, encoder.max_document, collection.reading)
    texts = encode_pieces(pieces, folder, make, run)
    hashes = np.concatenate([mapped(_hashes(folder, number))["hash"].to_numpy() for number in range(len(pieces))])
    encoded = encoder.with_documents(collection, texts, vocabulary, idf, hashes)
    assert encoded.documents.labels is not None
    write_array(folder / "labels.npy", encoded.documents.labels)
    write_array(folder / "keys.npy", encoded.document_key)
    documents = replace(texts, labels=open_array(folder / "labels.npy"))
    return replace(encoded, documents=documents, document_key=open_array(folder / "keys.npy")), vocabulary


def _hashes(folder: Path, number: int) -> Path:
    return folder / f"hashes-{number:05d}.arrow"


def _counts(folder: Path, number: int) -> Path:
    return folder / f"counts-{number:05d}.arrow"
