"""Parts from outside the repository plug in: in Python here, from the command line in `tests/cluster`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ranking.sources import Sources
from sampling.policies.fixed import Fixed
from sampling.policies.mixture import Mixture
from sampling.retrieval.bm25 import Bm25Function
from sampling.sampler import Sampler
from sampling.selection.uniform import Uniform
from tests.sampling.outside import IN_BATCH, WINDOW
from tests.sampling.test_contracts import check, ready, training_of


def written(text: str, name: str) -> Any:
    scope: dict[str, Any] = {"__name__": "outside"}
    exec(text, scope)
    return scope[name]


def test_a_window_keeps_what_selectors_promise(tiny_sources: Sources) -> None:
    window, function = written(WINDOW, "Window"), ready(Bm25Function(), tiny_sources)
    check(tiny_sources, lambda: Sampler(Fixed(), {"bm25": function}, window(0, 4), 2, np.random.default_rng(1)))
    training = training_of(tiny_sources)
    batch = training.next_batch()
    source = Sampler(Fixed(), {"bm25": function}, window(1, 3), 2, np.random.default_rng(1))
    whole = function.top(batch, 3, np.random.default_rng(0)).documents
    for row, head in zip(source.negatives(batch, training), whole, strict=True):
        assert {d for d in row.tolist() if d >= 0} == {d for d in head[1:].tolist() if d >= 0}


def test_the_positives_of_others_keep_what_functions_promise(tiny_sources: Sources) -> None:
    """It knows nothing of judgements: documents that are relevant for a query are left out for it."""
    function = ready(written(IN_BATCH, "OthersPositives")(), tiny_sources)
    check(tiny_sources, lambda: Sampler(Fixed(), {"others": function}, Uniform(), 2, np.random.default_rng(1)))
    bm25 = ready(Bm25Function(), tiny_sources)
    both = {"others": function, "bm25": bm25}
    check(tiny_sources, lambda: Sampler(Mixture(per="negative"), both, Uniform(), 4, np.random.default_rng(1)))
    training = training_of(tiny_sources)
    training.batch_size = 5
    batch = training.next_batch()
    source = Sampler(Mixture(per="query"), both, Uniform(), 4, np.random.default_rng(3))
    negatives = source.negatives(batch, training)
    judgements = training.encoded.judgements.relevant()
    from_others = source.assigned[:, 0] == 0
    assert 0 < from_others.sum() < 5  # a part of the batch is asked for, and the whole batch answers
    for row in np.flatnonzero(from_others):
        own = set(judgements.of(int(batch.queries[row]))[0].tolist())
        assert {d for d in negatives[row].tolist() if d >= 0} == set(batch.positives.tolist()) - own
