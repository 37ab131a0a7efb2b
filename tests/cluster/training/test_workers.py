"""Runs on two workers of Ray Train."""

import os
import signal
import sys
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load

from cluster.config.compose import compose
from cluster.executors.resources import WAITING, Resources, at_once, check_demand, demand
from cluster.output.result_store import SavedState
from cluster.output.storage import Storage
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import run
from cluster.runs.outcome import Outcome
from cluster.runs.progress import Progress
from cluster.runs.results import execute_run
from cluster.training.study_runs import launcher
from ranking.errors import BadInput
from tests.made_up import TOPICS, WORDS
from tests.ranking.checkpoints import write_checkpoint

SGD = {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.5}
"""Adam makes whole steps of gradients that are zero but for rounding, and rounding is what workers differ by."""


class Fatal(SavedState):
    """A state whose second keeping kills the process, once."""

    def save(self, state: bytes) -> None:
        super().save(state)
        kept = len(self.storage.names("kept"))
        self.storage.write(f"kept/{kept}", b"")
        if kept == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def prepared(overrides: list[str], epochs: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    config = compose([*overrides, f"training.max_epochs={epochs}", f"training.patience={epochs}", "selector=top"])
    config["optimizer"] = SGD
    artifacts = Artifacts()
    return config, artifacts.parts(config), artifacts.keys(config)


def assert_close(one: Outcome, other: Outcome) -> None:
    np.testing.assert_allclose(one.losses, other.losses, atol=1e-6)
    np.testing.assert_allclose(one.validations, other.validations, atol=1e-9)
    assert (one.epochs, one.best_epoch, one.steps) == (other.epochs, other.best_epoch, other.steps)
    for origin, values in other.values.items():
        assert one.queries[origin].tolist() == other.queries[origin].tolist()
        for measure, by_query in values.items():
            np.testing.assert_allclose(one.values[origin][measure], by_query, atol=1e-9)
    counts = ("function", "batches", "negatives", "missing")
    for row, its in zip(one.sampler, other.sampler, strict=True):
        assert [row[key] for key in counts] == [its[key] for key in counts]


def test_a_killed_worker_changes_nothing_and_any_number_of_workers_goes_on(base, ray_session, kills, tmp_path):
    from ray import cloudpickle

    from cluster.training.workers import run_on_workers

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    config, parts, keys = prepared(base, 6)
    whole = run(config, parts)
    store = Fatal(Storage(str(tmp_path)), "shared", keys)
    told: list[int] = []

    def stop(progress: Progress) -> None:
        told.append(progress.epoch)
        if progress.epoch == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_workers(config | {"resources": config["resources"] | {"workers": 2}}, parts, stop, store, 0)
    # The state of epoch 2 was kept, its worker killed, and both went on from it.
    assert told == [1, 2, 3, 4, 5]
    assert len(store.storage.names("kept")) >= 4
    assert_close(run(config, parts, store=store), whole)


@pytest.mark.nightly
def test_workers_that_split_the_weights_go_on_from_one_process(base, ray_session, tmp_path):
    from cluster.training.workers import run_on_workers

    words = [*WORDS, *TOPICS, *(f"thing{number}" for number in range(20))]
    checkpoint = write_checkpoint(tmp_path / "bert", "bert", words)
    options = ["ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "ranker.layers=2", "weights=true"]
    config, parts, keys = prepared([*base, *options], 3)
    whole = run(config, parts)
    store = SavedState(Storage(str(tmp_path)), "shared", keys)

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, parts, stop, store, 0)
    told: list[int] = []
    shared = config | {"resources": config["resources"] | {"workers": 2, "shard": True}}
    outcome = run_on_workers(shared, parts, lambda progress: told.append(progress.epoch), store, 0)
    assert told == [2, 3]
    assert_close(outcome, whole)
    assert outcome.weights.keys() == whole.weights.keys()
    read = [load(each["model.safetensors"]) for each in (outcome.weights, whole.weights)]
    for name, weight in read[1].items():
        np.testing.assert_allclose(read[0][name].numpy(), weight.numpy(), atol=1e-5)
    assert len(store.storage.names("states")) == 2  # each worker has kept its own
    store.delete()
    assert not store.storage.names("states")


def test_bad_input_of_a_worker_ends_the_run_at_once(base, ray_session, kills, tmp_path):
    config, parts, keys = prepared(base, 2)
    shared = config | {"resources": config["resources"] | {"workers": 2}}
    shared |= {"measures": ["AP@never"], "save_every": 0}
    (tmp_path / "states").write_text("in the way of the folder")
    with pytest.raises(BadInput):
        execute_run("bad", shared, keys, parts, Storage(str(tmp_path)), lambda progress: None, launcher(shared))


ASKED = {"cpu": 2, "gpu": 0.5, "memory": None, "workers": 1, "least": None, "placement": "pack", "custom": None}


def test_what_runs_take():
    four = ASKED | {"workers": 4}
    assert Resources.of_run(ASKED).bundle() == {"CPU": 2, "GPU": 0.5}
    assert Resources.of_run(four) == Resources(cpu=0, memory=WAITING)
    assert demand(four) == {"CPU": 8, "GPU": 2.0}
    assert at_once([], {"CPU": 2}) is None
    assert at_once([demand(four)], {"CPU": 17, "GPU": 8}) == 2
    assert at_once([demand(four), {"CPU": 9}], {"CPU": 17, "GPU": 8}) == 1
    assert at_once([demand(four)], {"CPU": 17, "GPU": 2}) == 1
    assert at_once([demand(four)], {"CPU": 2}) == 1
    check_demand(four, {"CPU": 8, "GPU": 2})
    with pytest.raises(BadInput, match=r"resources.cpu: a run asks for 8 and this machine has 7; choose fewer"):
        check_demand(four, {"CPU": 7, "GPU": 2})
    with pytest.raises(BadInput, match=r"resources.gpu: a run asks for 0.5 and this machine has 0$"):
        check_demand(ASKED, {"CPU": 7})
    assert Resources.of_run(ASKED | {"memory": 1.5}).bundle() == {"CPU": 2, "GPU": 0.5, "memory": 1.5e9}
    with pytest.raises(BadInput, match=r"resources.memory: a run asks for 6 and this machine has 4; choose fewer"):
        check_demand(four | {"memory": 1.5}, {"CPU": 8, "GPU": 2, "memory": 4e9})
