"""Tests of `cluster.config.refusals`."""

from __future__ import annotations

import re

import pytest

from cluster.config.compose import compose
from cluster.config.refusals import RENAMED, new_name
from ranking.errors import BadInput


@pytest.mark.parametrize("old", ["on_loss=continue", "on_lost_index=wait"])
def test_an_option_that_was_removed_says_what_to_do(old: str) -> None:
    with pytest.raises(BadInput, match=r"on_los.* any more: an index that is lost is always waited for: leave it out"):
        compose(["ranker=bi_encoder", "function=dense", f"function.dense.refresh.{old}"])


@pytest.mark.parametrize(
    ("old", "new"),
    [("hold=4", "decision_every"), ("yardstick=0", "random_baseline"), ("panel.size=9", "validation_sample.size")],
)
def test_old_names_of_a_learning_are_refused_with_the_new_ones(old: str, new: str) -> None:
    with pytest.raises(BadInput, match=rf"{new} now"):
        compose([old], "learn")


def test_an_option_of_a_learning_that_was_removed_says_what_to_do() -> None:
    with pytest.raises(BadInput, match=r"on_loss any more: whatever a learning loses is repeated from its last state"):
        compose(["on_loss=continue"], "learn")


@pytest.mark.parametrize(
    ("override", "instead"),
    [("trial_scheduler=pb2", "trial_scheduler=asha"), ("scheduler=pb2", "search=optuna")],
)
def test_the_removed_population_search_is_refused_with_what_to_use(override: str, instead: str) -> None:
    with pytest.raises(BadInput, match=f"any more: runs that continue from each other's weights.*{instead}"):
        compose([override], "study" if override.startswith("trial") else "config")


def test_options_that_change_within_a_run_are_refused() -> None:
    with pytest.raises(BadInput, match="no option changes any more: options stay the same throughout a run"):
        compose(["changes=[{after:3,optimizer.lr:0.1}]"])


def test_no_new_name_is_an_old_one() -> None:
    assert new_name("on_loss") is None
    assert not set(RENAMED) & set(RENAMED.values())


@pytest.mark.parametrize(
    ("override", "primary", "new"),
    [
        ("documents.path=x", "judge", "collection.path=x now"),
        ("scale=tiny", "pool", "pool_scale=tiny now"),
        ("scheduler=asha", "config", "trial_scheduler=asha"),
        ("scheduler=none", "config", "trial_scheduler=null"),
    ],
)
def test_an_option_that_meant_something_else_in_one_verb_is_refused(override: str, primary: str, new: str) -> None:
    with pytest.raises(BadInput, match=re.escape(new)):
        compose([override], primary)
