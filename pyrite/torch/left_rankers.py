"""Scores with what a training function left behind: a checkpoint, a TREC run, or an object with encode or predict."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyrite.cluster.runs.trained import read_ranker
from pyrite.ranking.collections.collection import Collection, with_prompts
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Candidates, without_repeats
from pyrite.ranking.full_ranking import best_of
from pyrite.ranking.ranked_lists import RankedLists
from pyrite.ranking.run_files import lists_of_run
from pyrite.torch.external_training import numbers
from pyrite.torch.text_encoder import Encode, FunctionEncoder, as_bytes

logger = logging.getLogger(__name__)
Values = dict[str, NDArray[np.float64]]
RUNS = ("*.run", "*.trec", "*.run.gz", "*.trec.gz")
"""The names of TREC runs."""


@dataclass(frozen=True)
class LeftRanker:
    """The ranker that a training left behind.

    Args:
        measure: returns the values of each measure by query, given candidates and measures.
        digest: returns a digest of the weights, or of the vectors or scores that were measured: equal if nothing was
            learned differently. Call it after `measure`.
    """

    measure: Callable[[Candidates, Sequence[str]], Values]
    digest: Callable[[], str]


class DigestedEncoder(FunctionEncoder):
    """An encoder with the digest of all its vectors: of queries and documents, since one side may learn nothing."""

    def __init__(self, function: Encode) -> None:
        super().__init__(function)
        self.content = hashlib.sha256()

    def encode(self, texts: list[str], kind: str) -> Any:
        vectors = super().encode(texts, kind)
        self.content.update(numbers(vectors).tobytes())
        return vectors


def left_by(result: Any, folder: Path, collection: Collection, encoded: EncodedCollection) -> LeftRanker:
    """Open what a training function returned, or left in its folder.

    Raises:
        BadInput: if it is nothing that ranks.
    """
    if hasattr(result, "save_pretrained"):
        result.save_pretrained(str(folder))
    elif result is not None:
        return _of_object(result, collection, encoded)
    runs = sorted(file for pattern in RUNS for file in folder.glob(pattern))
    if runs:
        return _of_run(runs, collection, encoded)
    refuse(not any(folder.iterdir()), "left nothing in its folder", "trainer", "save a checkpoint or a TREC run there")
    trained = read_ranker(str(folder))
    read = trained.read(collection, encoded)
    if read.documents.labels is None:  # by which origin=category searches
        read = replace(read, documents=replace(read.documents, labels=encoded.documents.labels))
    return LeftRanker(
        lambda candidates, measures: Evaluation(read, candidates, measures)(trained.ranker),
        lambda: digest_of(folder),
    )


def _of_object(result: Any, collection: Collection, encoded: EncodedCollection) -> LeftRanker:
    """Open an object that ranks; it reads texts alone, which have the prompts of queries."""
    collection = collection.changed(queries=with_prompts(collection.queries))
    for name, opened in OBJECTS.items():
        if callable(getattr(result, name, None)):
            return opened(getattr(result, name), collection, encoded)
    what = f"returned {type(result).__name__}, which has no encode, predict or score"
    raise BadInput(what, "trainer", "save a checkpoint into the folder, or return an object that ranks")


def digest_of(folder: Path) -> str:
    """Return a digest of the weights in a folder."""
    content = hashlib.sha256()
    for file in sorted([*folder.rglob("*.safetensors"), *folder.rglob("*.bin")]):
        content.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return content.hexdigest()


def _of_encode(encode: Callable[..., Any], collection: Collection, encoded: EncodedCollection) -> LeftRanker:
    """Compare vectors by inner products; `encode` takes texts, and their kind if it has an argument `kind`."""
    of_kind = getattr(encode, "__self__", None)
    takes_kind = _takes_kind(encode)

    def vectors(texts: list[str], kind: str) -> Any:
        plain = partial(encode, kind=kind) if takes_kind else encode
        return getattr(of_kind, f"encode_{kind}", plain)(texts)

    ranker = DigestedEncoder(vectors)
    documents, queries = (as_bytes(each["text"].to_list()) for each in (collection.documents, collection.queries))
    documents = replace(documents, labels=encoded.documents.labels)  # by which origin=category searches
    read = replace(encoded, documents=documents, queries=queries)
    return LeftRanker(
        lambda candidates, measures: Evaluation(read, candidates, measures)(ranker), ranker.content.hexdigest
    )


def _takes_kind(encode: Callable[..., Any]) -> bool:
    try:
        return "kind" in signature(encode).parameters
    except (TypeError, ValueError):  # one that is compiled may have no signature
        return False


def _of_pairs(predict: Callable[[list[tuple[str, str]]], Any]) -> Callable[[list[str], list[list[str]]], Any]:
    def score(queries: list[str], documents: list[list[str]]) -> Any:
        pairs = [(query, text) for query, row in zip(queries, documents, strict=True) for text in row]
        return numbers(predict(pairs)).reshape(len(queries), -1)

    return score


def _of_score(score: Callable[..., Any], collection: Collection, encoded: EncodedCollection) -> LeftRanker:
    """Score lists of candidates, or all documents; `score` takes queries and the documents of each."""
    texts, queries = collection.documents["text"], collection.queries["text"]
    seen = hashlib.sha256()

    def measure(candidates: Candidates, measures: Sequence[str]) -> Values:
        lists = _searched(candidates, encoded) if candidates.documents is None else candidates.documents
        scores = np.full(lists.shape, -np.inf, np.float32)
        for row, (query, documents) in enumerate(zip(candidates.queries, lists, strict=True)):
            shown = documents[documents >= 0]
            read = numbers(score([queries[int(query)]], [texts.gather(shown.astype(np.uint32)).to_list()]))
            what = f"returned {read.size} scores for {len(shown)} documents"
            refuse(read.size != len(shown), what, "trainer", "return an object with one score per document")
            scores[row, documents >= 0] = read.reshape(-1)
        seen.update(scores.tobytes())
        if candidates.documents is None:
            best = best_of(scores, lists, encoded.document_key, candidates.depth or lists.shape[1])
            candidates, scores = replace(candidates, documents=best.documents, categories=None), best.scores
        return Evaluation(encoded, candidates, measures).of_scores(scores)

    return LeftRanker(measure, seen.hexdigest)


def _searched(candidates: Candidates, encoded: EncodedCollection) -> NDArray[np.int32]:
    """Return the documents that are searched for each query, without the query itself; −1 is no document."""
    documents = np.full((len(candidates.queries), len(encoded.documents)), -1, np.int32)
    for rows, space in candidates.spaces(encoded):
        documents[rows, : len(space)] = space
    lists = RankedLists(documents, np.zeros(documents.shape, np.float32))
    return without_repeats(lists, encoded, candidates.queries).documents


def _of_run(files: list[Path], collection: Collection, encoded: EncodedCollection) -> LeftRanker:
    """Rank candidates as a run does; those that it lacks come last."""
    lists = lists_of_run(list(map(str, files)), collection, None)
    lists = without_repeats(lists, encoded, np.arange(len(lists)))
    content = hashlib.sha256(b"".join(file.read_bytes() for file in files))

    def measure(candidates: Candidates, measures: Sequence[str]) -> Values:
        listed = lists.take(candidates.queries)
        lacking = candidates.queries[(listed.documents < 0).all(1)]
        if len(lacking):
            what = "%s: measured queries that are not in the run: %d (such as %r); none of their documents is ranked"
            logger.warning(what, files[0].name, len(lacking), collection.queries["id"][int(lacking[0])])
        if candidates.documents is None:  # the run ranks all documents
            inside = np.zeros(listed.documents.shape, bool)
            for rows, space in candidates.spaces(encoded):
                inside[rows] = np.isin(listed.documents[rows], space)
            searched = listed.keep(inside).head(candidates.depth)
            ranked = replace(candidates, documents=searched.documents, categories=None)
            return Evaluation(encoded, ranked, measures).of_scores(searched.scores)
        documents, scores = listed.documents, listed.scores
        same = (candidates.documents[:, :, None] == documents[:, None, :]) & (documents >= 0)[:, None, :]
        found = np.take_along_axis(scores, same.argmax(2), 1)
        return Evaluation(encoded, candidates, measures).of_scores(
            np.where(same.any(2), found, np.finfo(np.float32).min).astype(np.float32)
        )

    return LeftRanker(measure, content.hexdigest)


OBJECTS: dict[str, Callable[..., LeftRanker]] = {
    "encode": _of_encode,
    "predict": lambda predict, *of: _of_score(_of_pairs(predict), *of),
    "score": _of_score,
}
"""By the method of an object, what measures with it."""
