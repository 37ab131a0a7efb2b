"""Options that change in mid-run: what was before stays, what comes after is exact however it is interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.config.changes import check_changes, config_at
from cluster.config.compose import compose
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import Waits, run
from cluster.runs.outcome import Outcome
from ranking.errors import BadInput
from tests.cluster.runs.test_execute import Kept, values

LONG = ["training.max_epochs=6", "training.patience=6", "ranker=static", "optimizer=adamw"]
CHANGES = (
    "changes=[{after:2,optimizer.lr:0.02,sampling.negatives:2,optimizer.weight_decay:0.3},{after:4,optimizer.lr:0.001}]"
)


def prepared(base: list[str], *overrides: str) -> tuple[dict[str, Any], dict[str, Any]]:
    config = compose([*base, *LONG, *overrides])
    check_changes(config)
    return config, Artifacts().parts(config)


def in_parts(config: dict[str, Any], parts: dict[str, Any], store: Kept, ends: list[int]) -> Outcome:
    for end in ends:
        with pytest.raises(Waits):
            run(config, parts, store=store, until=end)
    return run(config, parts, store=store)


def test_what_was_before_a_change_stays_and_what_follows_is_another(base: list[str]) -> None:
    config, parts = prepared(base, CHANGES)
    changed, plain = run(config, parts), run(config | {"changes": []}, parts)
    assert changed.losses[0][:2] == plain.losses[0][:2]
    assert all(ours != others for ours, others in zip(changed.losses[0][2:], plain.losses[0][2:], strict=True))


def test_a_change_to_what_an_option_is_changes_nothing(base: list[str]) -> None:
    config, parts = prepared(base)
    lr, decay = config["optimizer"]["lr"], config["optimizer"]["weight_decay"]
    same = [{"after": 3, "optimizer.lr": lr, "optimizer.weight_decay": decay}]
    one, other = run(config, parts), run(config | {"changes": same}, parts)
    assert one.losses == other.losses
    assert values(one).tobytes() == values(other).tobytes()


@pytest.mark.parametrize("policy", ["policy=fixed", "policy=random", "policy=schedule"])
def test_in_parts_it_is_the_same_run(base: list[str], policy: str) -> None:
    config, parts = prepared(base, CHANGES, policy, *([] if policy == "policy=fixed" else ["function=[bm25,random]"]))
    whole, one = run(config, parts), in_parts(config, parts, Kept(), [1, 2, 4, 5])
    assert one.losses == whole.losses
    assert values(one).tobytes() == values(whole).tobytes()


def test_the_state_of_another_goes_on_as_if_it_had_been_ones_own(base: list[str]) -> None:
    config, parts = prepared(base, CHANGES)
    parent, store = config | {"changes": config["changes"][:1]}, Kept()
    with pytest.raises(Waits):
        run(parent, parts, store=store, until=4)
    whole, one = run(config, parts), run(config, parts, store=store)
    assert one.losses == whole.losses
    assert values(one).tobytes() == values(whole).tobytes()


def test_a_run_that_has_waited_says_again_where_it_is(base: list[str]) -> None:
    config, parts = prepared(base)
    store, told = Kept(), []
    for _ in range(2):
        with pytest.raises(Waits):
            run(config, parts, lambda progress: told.append(progress.epoch), store, until=2)
    assert told == [1, 2, 2]


def test_training_that_is_over_before_does_not_wait(base: list[str]) -> None:
    config, parts = prepared(base)
    assert run(config, parts, until=6).epochs == 6


def test_options_by_epoch() -> None:
    config = compose([CHANGES, "training.max_epochs=6"])
    lr = [config_at(config, epoch)["optimizer"]["lr"] for epoch in range(6)]
    assert lr == [0.001, 0.001, 0.02, 0.02, 0.001, 0.001]
    assert [config_at(config, epoch)["sampling"]["negatives"] for epoch in (1, 2, 5)] == [4, 2, 2]


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["changes=[{after:2,training.batch_size:8}]"], "training.batch_size shapes a run from its beginning"),
        (["changes=[{after:2,ranker.width:8}]"], "shapes a run from its beginning"),
        (["changes=[{after:2,function.bm25.depth:8}]"], "shapes a run from its beginning"),
        (["changes=[{after:0,optimizer.lr:0.1}]"], "after 0 of 6 epochs"),
        (["changes=[{after:6,optimizer.lr:0.1}]"], "after 6 of 6 epochs"),
        (["changes=[{after:3,optimizer.lr:0.1},{after:3,optimizer.lr:0.2}]"], "after 3 of 6 epochs"),
        (["changes=[{optimizer.lr:0.1}]"], "after None of 6 epochs"),
        (["changes=[{after:2,policy.nothing:0.1}]"], "there is no option policy.nothing"),
        (["changes=[{after:2,optimizer.fused:1}]"], "optimizer.fused is no number"),
        (["changes=[{after:2,optimizer.what:1}]"], "does not read what at every step"),
        (["changes=[{after:2,sampling.negatives:1.5}]"], "give whole numbers"),
        (["changes=[{after:2,optimizer.lr:0.1}]", "resources.workers=2"], "alone in its process"),
        (["changes=[{after:2,objective.temperature:0.1}]", "objective=sir_v1"], "no option objective.temperature"),
        (["changes=[{after:2,optimizer.lr:0.1}]", "objective=sir_v1"], "several stages"),
    ],
)
def test_changes_that_are_refused(overrides: list[str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        check_changes(compose(["training.max_epochs=6", *overrides]))


def test_weight_decay_from_nothing_is_refused(base: list[str]) -> None:
    change = "changes=[{after:2,optimizer.weight_decay:0.1}]"
    config, parts = prepared(base, change, "optimizer.weight_decay=0", "ranker=feed_forward")
    with pytest.raises(BadInput, match="one group of weights"):
        run(config, parts)
