"""What a run, an index and an agent take of a cluster, packed and spread: as docs/guide/cluster.md has it."""

from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle

from cluster.commands.mine import MineExperiment
from cluster.config.compose import compose
from cluster.executors.resources import Resources, at_once, check_bundle, check_demand, demand
from cluster.executors.task import Task
from cluster.executors.tune import placement_of
from cluster.executors.worker import Origin
from cluster.index.encoder_pool import EncoderOptions
from cluster.output.storage import Storage
from cluster.plan.sweep import Planned, identity, plan, points
from cluster.pools.trial import resources_of
from cluster.training.coordinator import _scaling
from cluster.training.study_runs import task_of
from ranking.errors import BadInput

DENSE = ["ranker=bi_encoder", "ranker.checkpoint=none", "function=dense", "function.dense.refresh.mode=lagged"]


def trial(*overrides: str) -> Any:
    """The placement of a run's trial."""
    config = compose(list(overrides))
    artifacts: Any = SimpleNamespace(provenance=lambda config: {}, keys=lambda config: {})
    task = task_of(Planned("run", (), (), config), artifacts, Storage("/nowhere"))
    return placement_of({"task": cloudpickle.dumps((task, Origin()))})


def pooled(*overrides: str) -> dict[str, float]:
    task = Task("", "", {}, resources_of(compose(list(overrides), "pool")))
    (only,) = placement_of({"task": cloudpickle.dumps((task, Origin()))}).bundles
    return dict(only)


def test_a_trial_with_its_encoders_and_ray_trains_workers_are_packed_or_spread():
    packed = trial(*DENSE, "index.encoders=2", "index.cpu=0.5")
    assert packed.bundles == [{"CPU": 1}, {"CPU": 0.5}, {"CPU": 0.5}]
    assert packed.strategy == "PACK"
    assert trial("resources.placement=spread").strategy == "SPREAD"
    asked = compose(["resources.placement=spread", "resources.workers=3", "resources.custom={rack_a: 1}"])["resources"]
    scaling = _scaling(asked)
    assert scaling.placement_strategy == "SPREAD"
    assert scaling.resources_per_worker["rack_a"] == 1
    assert EncoderOptions.of(compose([*DENSE, "resources.placement=spread"])).spread
    assert not EncoderOptions.of(compose(DENSE)).spread


def test_what_a_cluster_calls_its_own_is_asked_for_by_each_process_and_no_part_of_a_run():
    asked = compose(["resources.custom={rack_a: 0.5}", "resources.cpu=2"])["resources"]
    assert Resources.of(asked).bundle() == Resources.of_run(asked).bundle() == {"CPU": 2, "GPU": 0, "rack_a": 0.5}
    four = asked | {"workers": 4}
    assert demand(four) == {"CPU": 8, "GPU": 0, "rack_a": 2}
    assert at_once([demand(four)], {"CPU": 64, "rack_a": 5}) == 2
    with pytest.raises(BadInput, match=r"^resources.custom.rack_a: a run asks for 2 and this machine has 1"):
        check_demand(four, {"CPU": 8, "rack_a": 1})
    elsewhere = ["resources.placement=spread", "resources.custom={rack_a: 1}"]
    assert identity(compose(elsewhere)) == identity(compose([]))
    (one,) = plan(*points([[]], [], elsewhere), [], [0])
    (other,) = plan(*points([[]], [], []), [], [0])
    assert one.name == other.name


def test_pooling_and_mining_ask_for_what_a_cluster_calls_its_own():
    own = ["custom={rack_a: 0.5}", "memory=2"]
    method = pooled(*own, "cpu=2")
    assert method == {"CPU": 2, "memory": 2e9, "rack_a": 0.5}
    mined = Resources.of(compose([*own, "workers=2", "gpu=0.5"], "mine")).ray_options()
    assert mined == {"num_cpus": 1, "num_gpus": 0.5, "memory": 2_000_000_000, "resources": {"rack_a": 0.5}}
    assert pooled("cpu=0.5") == {"CPU": 0.5}
    assert Resources.of(compose([], "mine")).ray_options() == {"num_cpus": 1, "num_gpus": 0}
    with pytest.raises(BadInput, match=r"^custom.rack_a: a method asks for 0.5 and this machine has 0"):
        check_bundle(method, {"CPU": 8, "memory": 8e9}, "a method")
    with pytest.raises(BadInput, match="mines in this process"):  # one worker reserves nothing
        MineExperiment.new(["custom={rack_a: 1}"])


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        *(("config", f"resources.{wrong}") for wrong in ("placement=tight", "custom={rack_a: 0}", "custom=3")),
        *((verb, wrong) for verb in ("pool", "mine") for wrong in ("custom={rack_a: 0}", "custom=3", "memory=0")),
    ],
)
def test_what_can_not_be_asked_for_is_refused(verb, wrong):
    with pytest.raises(BadInput, match=wrong.split("=")[0]):
        compose([wrong], verb)
