"""Compiles the search of an inverted index, term by term, skipping documents that can't enter the list.

A document's score is the sum of its terms' weights in the query's order, in float32, whichever way it is found. If a
query has many postings, its rarest terms are added first; once the best documents so far are ahead of what all
remaining terms could add, no other document is considered (Turtle and Flood 1995, MaxScore, one term at a time).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.ranking.kernels import kernel, loop
from pyrite.ranking.sorting_kernels import select, sort

MANY = 64
"""Postings per list entry and term from which skipping pays."""
LOOK = 32
"""Postings that are added in the time of one look-up."""
DENSE = 0.5
"""Postings per document from which the scores of all documents are read, instead of a list of those with a score."""
KEYS = 4
"""Keys per list entry that are gathered before the best are chosen among them."""
BLOCK = 32
"""Documents per block whose highest score is looked at first."""
LAST = 2**31 - 1
"""The highest number of a document."""
ROUNDING = 1e-6
"""A bound of the error of a float32 sum per term: two sums in different order differ by less."""


class Workspace(NamedTuple):
    """The arrays that a thread needs while it searches.

    Args:
        score: float32 [documents], 0 between queries.
        bits: the same memory as uint32: the bits of scores that are not negative order as the scores do.
        touched: int32 [documents].
        heap_scores, heap_documents: float32 and int32 [depth].
        keys: uint64 [KEYS · depth].
        highest: uint32 [blocks].
        scratch: uint64, as long as the depth, the blocks, and the terms of the longest query.
        order: uint64 [terms of the longest query].
        rest: float64, one longer.
    """

    score: NDArray[np.float32]
    bits: NDArray[np.uint32]
    touched: NDArray[np.int32]
    heap_scores: NDArray[np.float32]
    heap_documents: NDArray[np.int32]
    keys: NDArray[np.uint64]
    highest: NDArray[np.uint32]
    scratch: NDArray[np.uint64]
    order: NDArray[np.uint64]
    rest: NDArray[np.float64]

    @classmethod
    def of(cls, size: int, depth: int, terms: int) -> Workspace:
        """Make the workspace to search `size` documents for the best `depth`, by at most `terms` terms."""
        score, blocks = np.zeros(size, np.float32), (size + BLOCK - 1) // BLOCK
        return cls(
            score,
            score.view(np.uint32),
            np.empty(size, np.int32),
            np.empty(depth, np.float32),
            np.empty(depth, np.int32),
            np.empty(KEYS * depth, np.uint64),
            np.empty(blocks, np.uint32),
            np.empty(max(depth, blocks, terms), np.uint64),
            np.empty(terms, np.uint64),
            np.empty(terms + 1, np.float64),
        )


@kernel
def _worse(score_a, document_a, score_b, document_b):  # type: ignore[no-untyped-def]  # pragma: no cover
    return score_a < score_b or (score_a == score_b and document_a > document_b)


@kernel
def _sift_down(scores, documents, size):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Restore the heap (the worst document on top) after its top was replaced."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            return
        if child + 1 < size and _worse(scores[child + 1], documents[child + 1], scores[child], documents[child]):
            child += 1
        if not _worse(scores[child], documents[child], scores[parent], documents[parent]):
            return
        scores[parent], scores[child] = scores[child], scores[parent]
        documents[parent], documents[child] = documents[child], documents[parent]
        parent = child


@kernel
def _push(scores, documents, held, score, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put a document into a heap of the best; return the number that it holds."""
    if held < len(scores):
        child = held
        scores[child], documents[child] = score, document
        while child > 0:
            parent = (child - 1) // 2
            if not _worse(scores[child], documents[child], scores[parent], documents[parent]):
                break
            scores[parent], scores[child] = scores[child], scores[parent]
            documents[parent], documents[child] = documents[child], documents[parent]
            child = parent
        return held + 1
    if held > 0 and _worse(scores[0], documents[0], score, document):
        scores[0], documents[0] = score, document
        _sift_down(scores, documents, held)
    return held


@kernel
def _last_of_best(scores, documents, score, touched, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the lowest score among the best documents that fill the heap; there must be enough documents."""
    held, least = 0, np.float32(0)
    for index in range(count):
        value = score[touched[index]]
        if value > least:  # checked here: a call for each would take longer than everything else
            held = _push(scores, documents, held, value, touched[index])
            least = scores[0] if held == len(scores) else least
    return scores[0]


@kernel
def _weight(index, term, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return a term's weight in a document, 0 if it does not occur there."""
    low, end = index.offsets[term], index.offsets[term + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if index.documents[middle] < document:
            low = middle + 1
        else:
            high = middle
    return index.weights[low] if low < end and index.documents[low] == document else np.float32(0)


@kernel
def _exact(index, terms, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return a document's score: the weights of its terms in the query's order."""
    score = np.float32(0)
    for term in terms:
        score += _weight(index, term, document)
    return score


@kernel
def _add(index, term, score, touched, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add a term's weights to its documents' scores; return the number of documents that have a score.

    Here and below documents are unsigned: an index that can't be negative is used as it is, which saves a tenth to a
    quarter of the time.
    """
    some = index.documents[index.offsets[term] : index.offsets[term + 1]]
    weights = index.weights[index.offsets[term] : index.offsets[term + 1]]
    for posting in range(len(some)):
        document = np.uint32(some[posting])
        if score[document] == 0.0:
            touched[count] = document
            count += 1
        score[document] += weights[posting]
    return count


@kernel
def _keep(score, touched, count, more, least):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Drop the documents that stay below `least` with `more` added; return the number that is left."""
    left = 0
    for index in range(count):
        document = touched[index]
        if score[document] + more >= least:
            touched[left] = document
            left += 1
        else:
            score[document] = 0.0
    return left


@kernel
def _rarest_first(index, terms, order, scratch):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `order` with the terms' positions in the query; those of the terms with the fewest documents come first."""
    for place in range(len(terms)):
        size = index.offsets[terms[place] + 1] - index.offsets[terms[place]]
        order[place] = (np.uint64(size) << np.uint64(32)) | np.uint64(place)
    sort(order, len(terms), scratch)
    for place in range(len(terms)):
        order[place] &= np.uint64(LAST)


@kernel
def _candidates(index, terms, space):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `touched` with the best documents and a few more; return their number, with `score` reset to 0."""
    score, touched, heap_scores, heap_documents = space.score, space.touched, space.heap_scores, space.heap_documents
    order, rest = space.order, space.rest
    _rarest_first(index, terms, order, space.scratch)
    rest[len(terms)] = 0.0  # the most that the terms from here on can add to a document
    for place in range(len(terms) - 1, -1, -1):
        rest[place] = rest[place + 1] + index.bounds[terms[order[place]]]
    rounded = ROUNDING * len(terms) * rest[0]
    count, closed = 0, False
    for place in range(len(terms)):
        term = terms[order[place]]
        size = index.offsets[term + 1] - index.offsets[term]
        # To find the last of the best costs about as much as to add that many postings.
        if count >= len(heap_scores) and (closed or (size >= count and rest[place] < rest[0] - rest[place])):
            least = _last_of_best(heap_scores, heap_documents, score, touched, count) - rounded
            closed = closed or rest[place] < least
            if closed:
                count = _keep(score, touched, count, rest[place], least)
        if not closed:
            count = _add(index, term, score, touched, count)
        elif count * LOOK < size:
            for position in range(count):
                document = touched[position]
                score[document] += _weight(index, term, document)
        else:
            some = index.documents[index.offsets[term] : index.offsets[term + 1]]
            weights = index.weights[index.offsets[term] : index.offsets[term + 1]]
            for posting in range(len(some)):
                document = np.uint32(some[posting])
                if score[document] > 0:
                    score[document] += weights[posting]
    if count >= len(heap_scores):
        least = _last_of_best(heap_scores, heap_documents, score, touched, count) - rounded
        count = _keep(score, touched, count, 0.0, least)
    for place in range(count):
        score[touched[place]] = 0.0
    return count


@kernel
def _select(space, count, dense):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put the best documents first in `keys`, ascending; return their number.

    A key is the bits of a score and then the document, so that of equal scores the first document is better. Whenever
    the keys are full, the best `depth` stay.
    """
    bits, keys, depth = space.bits, space.keys, len(space.heap_scores)
    held, least, lowest = 0, np.uint64(0), np.uint32(0)
    for index in range(count):
        document = index if dense else np.int64(space.touched[index])
        if bits[document] < lowest or bits[document] == 0:
            continue
        key = (np.uint64(bits[document]) << np.uint64(32)) | np.uint64(LAST - document)
        if key > least:
            keys[held] = key
            held += 1
            if held == len(keys):
                least = _best_keys(keys, held, depth)
                held, lowest = depth, np.uint32(least >> np.uint64(32))
    if held > depth:
        _best_keys(keys, held, depth)
        held = depth
    sort(keys, held, space.scratch)
    return held


@kernel
def _best_keys(keys, held, depth):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put the `depth` highest keys first, the lowest of them at 0; return it."""
    least = select(keys, held, held - depth)
    for index in range(depth):
        keys[index] = keys[held - depth + index]
    return least


@kernel
def _likely(space):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `touched` with the documents that may be among the best `depth`; return their number.

    The best documents of `depth` blocks are as many documents, so none that is worse than the last of them is needed.
    """
    highest, bits, touched = space.highest, space.bits, space.touched
    blocks = len(highest)
    for block in range(blocks):
        best = np.uint32(0)
        for document in range(block * BLOCK, min((block + 1) * BLOCK, len(bits))):
            best = max(best, bits[document])
        highest[block] = best
        space.scratch[block] = best
    lowest = np.uint32(select(space.scratch, blocks, blocks - len(space.heap_scores)))
    count = 0
    for block in range(blocks):
        if highest[block] >= lowest:
            for document in range(block * BLOCK, min((block + 1) * BLOCK, len(bits))):
                touched[count] = document
                count += bits[document] >= lowest
    return count


@kernel
def _postings_of(index, terms):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return the number of postings of a query's terms."""
    postings = 0
    for term in terms:
        postings += index.offsets[term + 1] - index.offsets[term]
    return postings


@kernel
def _score_pairs(index, terms, pairs, pair_scores):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Score the documents of a query's pairs, each by itself."""
    for column in range(len(pairs)):
        if pairs[column] >= 0:
            pair_scores[column] = _exact(index, terms, pairs[column])


@kernel
def _search_by_bounds(index, terms, documents, scores, space):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill a query's list, considering only documents whose terms may be enough."""
    heap_scores, heap_documents, held = space.heap_scores, space.heap_documents, 0
    for position in range(_candidates(index, terms, space)):
        value = _exact(index, terms, space.touched[position])
        held = _push(heap_scores, heap_documents, held, value, space.touched[position])
    # The worst comes off the heap first, so fill the list from its end.
    for position in range(held - 1, -1, -1):
        documents[position], scores[position] = heap_documents[0], heap_scores[0]
        heap_scores[0], heap_documents[0] = heap_scores[position], heap_documents[position]
        _sift_down(heap_scores, heap_documents, position)


@kernel
def _add_all(index, terms, dense, space):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add all terms' weights to their documents' scores; return the number of documents with a score, or of all."""
    count = 0
    for term in terms:
        if not dense:
            count = _add(index, term, space.score, space.touched, count)
            continue
        some = index.documents[index.offsets[term] : index.offsets[term + 1]]
        weights = index.weights[index.offsets[term] : index.offsets[term + 1]]
        for posting in range(len(some)):
            space.score[np.uint32(some[posting])] += weights[posting]
    return index.size if dense else count


@kernel
def _clear(score, touched, dense, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Set all scores to 0 if `dense`, or else those of the touched documents."""
    if dense:
        for document in range(len(score)):
            score[document] = 0.0
    else:
        for position in range(count):
            score[touched[position]] = 0.0


@kernel
def _search_by_sums(index, terms, dense, documents, scores, pairs, pair_scores, space):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill a query's list and the scores of its pairs from the scores of all documents that have one."""
    depth, score, keys = len(documents), space.score, space.keys
    count = _add_all(index, terms, dense, space)
    for column in range(len(pairs)):
        if pairs[column] >= 0:
            pair_scores[column] = score[pairs[column]]
    by_block = dense and 0 < 2 * depth < len(space.highest)
    likely = _likely(space) if by_block else count
    chosen = _select(space, likely, dense and not by_block) if depth > 0 else 0
    for position in range(chosen):
        document = LAST - np.int64(keys[chosen - 1 - position] & np.uint64(LAST))
        documents[position], scores[position] = document, score[document]
    _clear(score, space.touched, dense, count)


@loop
def search(index, terms, offsets, first, last, documents, scores, pairs, pair_scores, space):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill rows `first` to `last` of the outputs with the best documents and the scores of pairs.

    Args:
        index: see `pyrite.ranking.postings.Postings`.
    """
    depth = documents.shape[1]
    for query in range(first, last):
        own = terms[offsets[query] : offsets[query + 1]]
        postings = _postings_of(index, own)
        if depth > 0 and postings > MANY * depth * len(own):
            _search_by_bounds(index, own, documents[query], scores[query], space)
            _score_pairs(index, own, pairs[query], pair_scores[query])
        elif depth == 0 and pairs.shape[1] * len(own) * LOOK < postings:
            _score_pairs(index, own, pairs[query], pair_scores[query])
        else:
            _search_by_sums(
                index, own, postings > DENSE * index.size, documents[query], scores[query], pairs[query],
                pair_scores[query], space,
            )  # fmt: skip
