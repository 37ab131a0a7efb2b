"""What a run, an index and an agent take of a cluster, packed and spread: as docs/cluster.md has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.config.compose import compose
from cluster.index.attach import encoder_options
from cluster.plan.resources import at_once, bundle, check_demand, demand, own_bundle, strategy
from cluster.plan.sweep import identity, plan, points
from cluster.training.coordinator import _scaling
from cluster.tune.trainable import _resources
from ranking.errors import BadInput

DENSE = ["ranker=bi_encoder", "ranker.checkpoint=none", "function=dense", "function.dense.refresh.mode=lagged"]


def trial(*overrides: str) -> Any:
    """The placement of a run's trial."""
    return _resources({"run": {"config": json.dumps(compose(list(overrides)))}})


def test_a_trial_is_packed_with_its_encoders_or_spread() -> None:
    packed = trial(*DENSE, "index.encoders=2", "index.cpu=0.5")
    assert packed.bundles == [{"CPU": 1}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert packed.strategy == "PACK"
    assert trial("resources.placement=spread").strategy == "SPREAD"


def test_what_a_cluster_calls_its_own_is_asked_for_by_each_process() -> None:
    asked = compose(["resources.custom={rack_a: 0.5}", "resources.cpu=2"])["resources"]
    assert bundle(asked) == own_bundle(asked) == {"CPU": 2, "GPU": 0, "rack_a": 0.5}
    four = asked | {"workers": 4}
    assert demand(four) == {"CPU": 8, "GPU": 0, "rack_a": 2}
    assert at_once([demand(four)], {"CPU": 64, "rack_a": 5}) == 2
    with pytest.raises(BadInput, match=r"^resources.custom.rack_a: a run asks for 2 and this machine has 1"):
        check_demand(four, {"CPU": 8, "rack_a": 1})


def test_ray_trains_workers_and_an_index_apart_are_placed_alike() -> None:
    asked = compose(["resources.placement=spread", "resources.workers=3", "resources.custom={rack_a: 1}"])["resources"]
    scaling = _scaling(asked)
    assert scaling.placement_strategy == strategy(asked) == "SPREAD"
    assert scaling.resources_per_worker["rack_a"] == 1
    assert encoder_options(compose([*DENSE, "resources.placement=spread"])).spread
    assert not encoder_options(compose(DENSE)).spread


def test_a_run_is_the_same_wherever_it_runs() -> None:
    elsewhere = ["resources.placement=spread", "resources.custom={rack_a: 1}"]
    assert identity(compose(elsewhere)) == identity(compose([]))
    (one,) = plan(*points([[]], [], elsewhere), [], [0])
    (other,) = plan(*points([[]], [], []), [], [0])
    assert one.name == other.name


@pytest.mark.parametrize("wrong", ["resources.placement=tight", "resources.custom={rack_a: 0}", "resources.custom=3"])
def test_places_that_make_no_sense(wrong: str) -> None:
    with pytest.raises(BadInput, match=wrong.split("=")[0]):
        compose([wrong])
