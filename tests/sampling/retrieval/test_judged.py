from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from ranking.errors import BadInput
from sampling.retrieval.judged import Judged
from tests.sampling.batches import batch_of, prepared


def test_what_was_judged_and_not_found_relevant(encoded_of):
    """Neither the relevant ones nor those that nobody has read; the nearly relevant first."""
    encoded = encoded_of([[1]] * 9, [[1]] * 3, {0: {0: 2, 1: 0, 4: -2, 6: -1, 8: 0}, 2: {5: 3, 7: 0}})
    function, rng = prepared(Judged(), encoded), np.random.default_rng(0)
    top = function.top(batch_of(0, 1, 2), 5, rng)
    assert top.documents.tolist() == [[1, 8, 6, 4, -1], [-1] * 5, [7, -1, -1, -1, -1]]
    assert top.scores.tolist() == [[0, 0, -1, -2, -np.inf], [-np.inf] * 5, [0, *[-np.inf] * 4]]
    assert (top.documents.dtype, top.scores.dtype) == (np.int32, np.float32)
    drawn = function.sample(batch_of(np.zeros(12_000, int)), 2, rng).documents
    sets, frequencies = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)
    assert sets.tolist() == [[1, 4], [1, 6], [1, 8], [4, 6], [4, 8], [6, 8]]
    assert chisquare(frequencies).pvalue > 0.001
    few = function.sample(batch_of(2, 1), 3, rng).documents
    assert few.tolist() == [[7, -1, -1], [-1, -1, -1]]


def test_a_higher_threshold_makes_more_of_them(encoded_of):
    encoded = encoded_of([[1]] * 4, [[1]], {0: {0: 2, 1: 1, 2: 0}})
    strict = replace(encoded, judgements=replace(encoded.judgements, relevant_from=2))
    assert prepared(Judged(), strict).top(batch_of(0), 4, np.random.default_rng(0)).documents.tolist() == [
        [1, 2, -1, -1]
    ]


def test_a_collection_without_any_is_bad_input(encoded_of):
    with pytest.raises(BadInput, match="no document was judged not relevant"):
        prepared(Judged(), encoded_of([[1]] * 3, [[1]], {0: {0: 1}}))
