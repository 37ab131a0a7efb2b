"""Compiles the search of an inverted index: a term at a time, leaving out documents that can't come into the list.

A document's score is the sum of its terms' weights in the query's order, in float32, however it is found. Where a
query has many postings, its rarest terms are added up first; once the best documents so far are ahead of what all
terms that are left could give, no other document is looked at (Turtle and Flood 1995, MaxScore, a term at a time).
"""

from __future__ import annotations

import numpy as np
from numba import njit

MANY = 64
"""Postings for each place of the list and term, from which on leaving out is worth its looks."""
LOOK = 32
"""Postings that are passed in the time that one is looked up."""
ROUNDING = 1e-6
"""Of a sum of float32 for each of its terms, with plenty to spare: two sums in different order differ by less."""


@njit(nogil=True, cache=True)
def _worse(score_a, document_a, score_b, document_b):  # type: ignore[no-untyped-def]  # pragma: no cover
    return score_a < score_b or (score_a == score_b and document_a > document_b)


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def _push(scores, documents, held, score, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Put a document into a heap of the best; returns how many it holds."""
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


@njit(nogil=True, cache=True)
def _last_of_best(scores, documents, score, touched, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """The lowest score of as many best documents as the heap has places; there are at least so many."""
    held, least = 0, np.float32(0)
    for place in range(count):
        value = score[touched[place]]
        if value > least:  # seen to here: a call for each would take longer than all else
            held = _push(scores, documents, held, value, touched[place])
            least = scores[0] if held == len(scores) else least
    return scores[0]


@njit(nogil=True, cache=True)
def _weight(index_offsets, index_documents, index_weights, term, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """A term's weight in a document, 0 where it is not in it."""
    low, end = index_offsets[term], index_offsets[term + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if index_documents[middle] < document:
            low = middle + 1
        else:
            high = middle
    return index_weights[low] if low < end and index_documents[low] == document else np.float32(0)


@njit(nogil=True, cache=True)
def _exact(index_offsets, index_documents, index_weights, terms, document):  # type: ignore[no-untyped-def]  # pragma: no cover
    """A document's score: the weights of its terms in the query's order."""
    score = np.float32(0)
    for term in terms:
        score += _weight(index_offsets, index_documents, index_weights, term, document)
    return score


@njit(nogil=True, cache=True)
def _add(index_offsets, index_documents, index_weights, term, score, touched, count):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add a term's weights to its documents' scores; returns how many documents have a score by now."""
    for posting in range(index_offsets[term], index_offsets[term + 1]):
        document = index_documents[posting]
        if score[document] == 0.0:
            touched[count] = document
            count += 1
        score[document] += index_weights[posting]
    return count


@njit(nogil=True, cache=True)
def _keep(score, touched, count, more, least):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Drop the documents that stay below `least` with `more` added; returns how many are left."""
    left = 0
    for place in range(count):
        document = touched[place]
        if score[document] + more >= least:
            touched[left] = document
            left += 1
        else:
            score[document] = 0.0
    return left


@njit(nogil=True, cache=True)
def _candidates(  # type: ignore[no-untyped-def]  # pragma: no cover
    index_offsets, index_documents, index_weights, bounds, terms, score, touched, heap_scores, heap_documents
):  # fmt: skip
    """Fill `touched` with the best documents and a few more; returns how many, with all of `score` back at 0."""
    sizes = index_offsets[terms + 1] - index_offsets[terms]
    order = np.argsort(sizes, kind="mergesort")
    rest = np.zeros(len(terms) + 1)  # the most that the terms from here on can add to a document
    for place in range(len(terms) - 1, -1, -1):
        rest[place] = rest[place + 1] + bounds[terms[order[place]]]
    rounded = ROUNDING * len(terms) * rest[0]
    count, closed = 0, False
    for place in range(len(terms)):
        term, size = terms[order[place]], sizes[order[place]]
        # To look for the last of the best costs about as much as to add up so many postings.
        if count >= len(heap_scores) and (closed or (size >= count and rest[place] < rest[0] - rest[place])):
            least = _last_of_best(heap_scores, heap_documents, score, touched, count) - rounded
            closed = closed or rest[place] < least
            if closed:
                count = _keep(score, touched, count, rest[place], least)
        if not closed:
            count = _add(index_offsets, index_documents, index_weights, term, score, touched, count)
        elif count * LOOK < size:
            for position in range(count):
                document = touched[position]
                score[document] += _weight(index_offsets, index_documents, index_weights, term, document)
        else:
            for posting in range(index_offsets[term], index_offsets[term + 1]):
                if score[index_documents[posting]] > 0:
                    score[index_documents[posting]] += index_weights[posting]
    if count >= len(heap_scores):
        least = _last_of_best(heap_scores, heap_documents, score, touched, count) - rounded
        count = _keep(score, touched, count, 0.0, least)
    for place in range(count):
        score[touched[place]] = 0.0
    return count


@njit(nogil=True, cache=True)
def search(  # type: ignore[no-untyped-def]  # pragma: no cover
    index_offsets, index_documents, index_weights, bounds, size, terms, offsets, first, last,
    documents, scores, pairs, pair_scores,
):  # fmt: skip
    """Fill rows `first` to `last` of the outputs with the best documents and the scores of pairs."""
    depth = documents.shape[1]
    score = np.zeros(size, np.float32)
    touched = np.empty(size, np.int32)
    heap_scores = np.empty(depth, np.float32)
    heap_documents = np.empty(depth, np.int32)
    for query in range(first, last):
        own = terms[offsets[query] : offsets[query + 1]]
        postings = 0
        for term in own:
            postings += index_offsets[term + 1] - index_offsets[term]
        held = 0
        best = depth > 0 and postings > MANY * depth * len(own)
        if best:
            count = _candidates(
                index_offsets, index_documents, index_weights, bounds, own, score, touched, heap_scores, heap_documents
            )
            for place in range(count):
                value = _exact(index_offsets, index_documents, index_weights, own, touched[place])
                held = _push(heap_scores, heap_documents, held, value, touched[place])
        if best or (depth == 0 and pairs.shape[1] * len(own) * LOOK < postings):
            for column in range(pairs.shape[1]):
                if pairs[query, column] >= 0:
                    pair_scores[query, column] = _exact(
                        index_offsets, index_documents, index_weights, own, pairs[query, column]
                    )
        else:
            count = 0
            for term in own:
                count = _add(index_offsets, index_documents, index_weights, term, score, touched, count)
            for column in range(pairs.shape[1]):
                if pairs[query, column] >= 0:
                    pair_scores[query, column] = score[pairs[query, column]]
            for place in range(count):
                value = score[touched[place]]
                score[touched[place]] = 0.0
                if held < depth or (depth > 0 and value >= heap_scores[0]):
                    held = _push(heap_scores, heap_documents, held, value, touched[place])
        # The worst comes off the heap first, so fill the list from its end.
        for place in range(held - 1, -1, -1):
            documents[query, place], scores[query, place] = heap_documents[0], heap_scores[0]
            heap_scores[0], heap_documents[0] = heap_scores[place], heap_documents[place]
            _sift_down(heap_scores, heap_documents, place)
