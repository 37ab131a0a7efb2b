"""Brackets of a search are drawn by its own seed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from cluster.search.hyperband import SeededHyperBand


def brackets(seed: int, count: int = 60) -> list[int]:
    found = SeededHyperBand(grace_period=1, reduction_factor=2, brackets=3, max_t=64, seed=seed)
    found.set_search_properties("validation", "max")
    for number in range(count):
        found.on_trial_add(None, SimpleNamespace(trial_id=str(number)))
    return [found._brackets.index(found._trial_info[str(number)]) for number in range(count)]


def test_brackets_follow_from_the_seed_and_no_global_generator() -> None:
    np.random.seed(1)  # noqa: NPY002  what it must not depend on
    one = brackets(0)
    np.random.seed(2)  # noqa: NPY002
    assert brackets(0) == one
    assert brackets(1) != one
    assert one.count(0) > one.count(1) > one.count(2) > 0  # the more rungs, the more likely
