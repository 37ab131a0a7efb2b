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
def _weight(index_offsets, index_documents, index_weights, term, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return a term's weight in a document, 0 if it does not occur there."""
    low, end = index_offsets[term], index_offsets[term + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if index_documents[middle] < document:
            low = middle + 1
        else:
            high = middle
    return index_weights[low] if low < end and index_documents[low] == document else np.float32(0)


@kernel
def _exact(index_offsets, index_documents, index_weights, terms, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Return a document's score: the weights of its terms in the query's order."""
    score = np.float32(0)
    for term in terms:
        score += _weight(index_offsets, index_documents, index_weights, term, document)
    return score


@kernel
def _add(index_offsets, index_documents, index_weights, term, score, touched, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add a term's weights to its documents' scores; return the number of documents that have a score.

    Here and below documents are unsigned: an index that can't be negative is used as it is, which saves a tenth to a
    quarter of the time.
    """
    some = index_documents[index_offsets[term] : index_offsets[term + 1]]
    weights = index_weights[index_offsets[term] : index_offsets[term + 1]]
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
def _rarest_first(index_offsets, terms, order, scratch):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `order` with the terms' positions in the query; those of the terms with the fewest documents come first."""
    for index in range(len(terms)):
        size = index_offsets[terms[index] + 1] - index_offsets[terms[index]]
        order[index] = (np.uint64(size) << np.uint64(32)) | np.uint64(index)
    sort(order, len(terms), scratch)
    for index in range(len(terms)):
        order[index] &= np.uint64(LAST)


@kernel
def _candidates(index_offsets, index_documents, index_weights, bounds, terms, space):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fill `touched` with the best documents and a few more; return their number, with `score` reset to 0."""
    score, touched, heap_scores, heap_documents = space.score, space.touched, space.heap_scores, space.heap_documents
    order, rest = space.order, space.rest
    _rarest_first(index_offsets, terms, order, space.scratch)
    rest[len(terms)] = 0.0  # the most that the terms from here on can add to a document
    for index in range(len(terms) - 1, -1, -1):
        rest[index] = rest[index + 1] + bounds[terms[order[index]]]
    rounded = ROUNDING * len(terms) * rest[0]
    count, closed = 0, False
    for index in range(len(terms)):
        term = terms[order[index]]
        size = index_offsets[term + 1] - index_offsets[term]
        # To find the last of the best costs about as much as to add that many postings.
        if count >= len(heap_scores) and (closed or (size >= count and rest[index] < rest[0] - rest[index])):
            least = _last_of_best(heap_scores, heap_documents, score, touched, count) - rounded
            closed = closed or rest[index] < least
            if closed:
                count = _keep(score, touched, count, rest[index], least)
        if not closed:
            count = _add(index_offsets, index_documents, index_weights, term, score, touched, count)
        elif count * LOOK < size:
            for position in range(count):
                document = touched[position]
                score[document] += _weight(index_offsets, index_documents, index_weights, term, document)
        else:
            some = index_documents[index_offsets[term] : index_offsets[term + 1]]
            weights = index_weights[index_offsets[term] : index_offsets[term + 1]]
            for posting in range(len(some)):
                document = np.uint32(some[posting])
                if score[document] > 0:
                    score[document] += weights[posting]
    if count >= len(heap_scores):
        least = _last_of_best(heap_scores, heap_documents, score, touched, count) - rounded
        count = _keep(score, touched, count, 0.0, least)
    for index in range(count):
        score[touched[index]] = 0.0
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


@loop
def search(  # type: ignore[no-untyped-def]  # pragma: no cover
    index_offsets, index_documents, index_weights, bounds, size, terms, offsets, first, last,
    documents, scores, pairs, pair_scores, space,
):  # fmt: skip
    """Fill rows `first` to `last` of the outputs with the best documents and the scores of pairs."""
    depth = documents.shape[1]
    score, touched, keys = space.score, space.touched, space.keys
    heap_scores, heap_documents = space.heap_scores, space.heap_documents
    for query in range(first, last):
        query_terms = terms[offsets[query] : offsets[query + 1]]
        postings = 0
        for term in query_terms:
            postings += index_offsets[term + 1] - index_offsets[term]
        held = 0
        best = depth > 0 and postings > MANY * depth * len(query_terms)
        if best:
            count = _candidates(index_offsets, index_documents, index_weights, bounds, query_terms, space)
            for index in range(count):
                value = _exact(index_offsets, index_documents, index_weights, query_terms, touched[index])
                held = _push(heap_scores, heap_documents, held, value, touched[index])
        if best or (depth == 0 and pairs.shape[1] * len(query_terms) * LOOK < postings):
            for column in range(pairs.shape[1]):
                if pairs[query, column] >= 0:
                    pair_scores[query, column] = _exact(
                        index_offsets, index_documents, index_weights, query_terms, pairs[query, column]
                    )
        else:
            dense, count = postings > DENSE * size, size
            if dense:
                for term in query_terms:
                    some = index_documents[index_offsets[term] : index_offsets[term + 1]]
                    weights = index_weights[index_offsets[term] : index_offsets[term + 1]]
                    for posting in range(len(some)):
                        score[np.uint32(some[posting])] += weights[posting]
            else:
                count = 0
                for term in query_terms:
                    count = _add(index_offsets, index_documents, index_weights, term, score, touched, count)
            for column in range(pairs.shape[1]):
                if pairs[query, column] >= 0:
                    pair_scores[query, column] = score[pairs[query, column]]
            by_block = dense and 0 < 2 * depth < len(space.highest)
            if by_block:
                count = _likely(space)
            chosen = _select(space, count, dense and not by_block) if depth > 0 else 0
            for index in range(chosen):
                document = LAST - np.int64(keys[chosen - 1 - index] & np.uint64(LAST))
                documents[query, index], scores[query, index] = document, score[document]
            if dense:
                for index in range(size):
                    score[index] = 0.0
            else:
                for index in range(count):
                    score[touched[index]] = 0.0
        # The worst comes off the heap first, so fill the list from its end.
        for index in range(held - 1, -1, -1):
            documents[query, index], scores[query, index] = heap_documents[0], heap_scores[0]
            heap_scores[0], heap_documents[0] = heap_scores[index], heap_documents[index]
            _sift_down(heap_scores, heap_documents, index)
