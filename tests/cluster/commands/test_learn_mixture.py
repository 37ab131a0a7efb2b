"""Tests of `pyrite learn actions=mixture`: searches by whole trainings, resumable, the same wherever they train."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.commands.learn import _comparison
from cluster.commands.study import StudyExperiment
from cluster.config.build import build
from cluster.config.compose import compose
from cluster.config.groups import CHOICES
from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage
from cluster.rollouts.candidates import CandidateTraining, in_ray_tasks, in_this_process, train_candidate
from cluster.rollouts.request import compose_learning
from cluster.rollouts.search import search_agent
from cluster.runs.agent_file import read_agent
from cluster.runs.artifacts import Artifacts
from cluster.runs.assemble import assemble
from ranking.errors import BadInput
from rl.mixture import RULES, WINDOWS, MixtureAgent, MixturePolicy
from tests.cluster.command_line import command

SMALL = [
    "actions=mixture", "ranker=static", "ranker.preset=tiny", "vectors=random", "training.batch_size=8",
    "training.max_epochs=2", "function=[in_batch,bm25]", "actions.mixture.each=1", "sampling.negatives=4",
    "decision_every=3", "agent.candidates=4", "episodes=8", "encoding.min_count=1", "state.probes=4",
]  # fmt: skip


def store(folder: Path, built_from: dict[str, str] | None = None) -> ResultStore:
    return ResultStore(Storage(str(folder)), "trainings", built_from)


def learning(beir_folder: Path, *more: str) -> dict[str, Any]:
    return compose_learning(["collection=beir", f"collection.path={beir_folder}", *SMALL, *more])


@pytest.mark.by_day(1)
@pytest.mark.parametrize("agent", ["evolution", "schedule"])
def test_a_search_goes_on_where_it_was_and_its_agent_is_used(beir_folder, own_cache, tmp_path, agent):
    more = ["agent.rounds=1", "agent.finalists=2", "agent.sampler=tpe"] if agent == "schedule" else []
    config = learning(beir_folder, f"agent={agent}", "validation.origin=[bm25,random]", *more)
    parts, whole = Artifacts().parts(config), store(tmp_path / "whole")
    told: list[int] = []
    episodes = search_agent(config, in_this_process(config, parts, whole), whole, lambda at: told.append(at.episodes))
    trainings = 6 if agent == "schedule" else 8
    assert told[-1] == len(whole.storage.names("trainings")) == trainings
    assert (episodes["return"] > 0).all()
    assert np.allclose(episodes["share:in_batch"] + episodes["share:bm25"], 1)

    # In another order, and cut short after three trainings.
    half = store(tmp_path / "half")

    def backwards(trainings: Sequence[CandidateTraining]) -> Iterator[dict[str, Any]]:
        for each in trainings[:-4:-1]:
            yield train_candidate(config, parts, each, half)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_agent(config, backwards, half)
    done = set(half.storage.names("trainings"))
    assert len(done) == 3
    again = []

    def counted(trainings: Sequence[CandidateTraining]) -> Iterator[dict[str, Any]]:
        again.extend(trainings)
        yield from in_this_process(config, parts, half)(trainings)

    search_agent(config, counted, half)
    assert len(again) == trainings - 3
    assert np.array_equal(read_agent(half.storage.place).parameters, read_agent(whole.storage.place).parameters)
    assert half.storage.read("episodes.parquet") == whole.storage.read("episodes.parquet")

    learned = read_agent(str(tmp_path / "whole"))
    assert isinstance(learned, MixtureAgent)
    assert learned.facts["trainings"] == told[-1]
    study = ["policy=learned", f"policy.checkpoint={tmp_path / 'whole'}"]
    of_learning = ("actions", "agent", "state", "episodes", "decision_every")
    own = [text for text in SMALL if not text.startswith(of_learning)]
    run = compose(["collection=beir", f"collection.path={beir_folder}", *own, *study])
    training, sampler = assemble(run, Artifacts().parts(run), 0)
    assert isinstance(sampler.policy, MixturePolicy)
    training.fit(sampler)
    supplied = {row["function"]: row["negatives"] for row in sampler.report()}
    assert supplied["in_batch"] > supplied["bm25"] > 0


def test_trainings_of_other_code_are_repeated(beir_folder, own_cache, tmp_path):
    config = learning(beir_folder, "agent=bandit", "episodes=4")
    trained = list[str]()

    def search(code: str) -> None:
        results = store(tmp_path, {"base": "a", "code of rl": code})

        def evaluate(trainings: Sequence[CandidateTraining]) -> Iterator[dict[str, Any]]:
            for training in trainings:
                trained.append(training.key)
                known = {"generation": 0, "candidate": training.candidate, "seed": 0, "return": 0.5, "epochs": 1}
                known |= {"parameters": training.agent.parameters, "steps": 1, "diverged": False, "decisions": []}
                results.write(training.key, known | {"curve": {"validation": [0.5]}})
                yield known | {"curve": {"validation": [0.5]}}

        search_agent(config, evaluate, results)

    for code, count in (("old", 4), ("old", 4), ("new", 8)):
        search(code)
        assert len(trained) == count
    assert set(trained) == {f"000-{number:02d}-0" for number in range(4)}


def test_a_generation_shares_its_seeds_and_too_many_workers_are_refused(beir_folder, own_cache, monkeypatch, tmp_path):
    config = learning(beir_folder, "agent=evolution")
    agent = MixtureAgent([], None, None, 1, "linear", np.zeros(0), {})

    def state(generation: int, candidate: int) -> tuple[int, ...]:
        sequence = CandidateTraining(generation, candidate, 0, agent).sequence(config["seed"])
        return tuple(sequence.generate_state(4))

    assert state(0, 0) == state(0, 1)
    assert state(0, 0) != state(1, 0)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0})
    config = learning(beir_folder, "agent=evolution", "resources.workers=99")
    with pytest.raises(BadInput, match=r"asks for 99 .*; choose fewer resources.workers"):
        in_ray_tasks(config, {}, store(tmp_path))


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["agent=ppo"], "shares of them"),
        (["agent=evolution", "actions=functions"], "actions=mixture"),
        (["agent=evolution", "state=batch"], "progress"),
        (["agent=evolution", "decision_every=epoch"], "every given number of batches"),
        (["agent=evolution", "episodes=1"], "less than a generation"),
        (["agent=evolution", "actions.mixture.each=0"], "^actions.mixture.each is 0"),
        (["agent=evolution", "decision_every=0"], "^decision_every is 0"),
        (["agent=evolution", "decision_every=week"], "^decision_every is 'week'; input .* integer or 'epoch'$"),
        (["agent=evolution", "actions.mixture.window=wide"], "window"),
        (["agent=schedule", "state.features=[one]"], "depends on the time"),
        (["agent=population"], "agent=schedule"),
        (["agent=evolution", "agent.warm_start=somewhere"], "pyrite fork"),
    ],
)
def test_what_does_not_fit_together_is_refused(more, says):
    small = [text for text in SMALL if not text.startswith("agent.")]
    if "actions=functions" in more:
        small = [text for text in small if not text.startswith(("actions", "state"))]
    if "state=batch" in more or "agent=ppo" in more:
        small = [text for text in small if not text.startswith("state.")]
    with pytest.raises(BadInput, match=says):
        compose_learning([*small, *more])


def test_the_command_searches_in_this_process_without_ray(beir_folder, own_cache, tmp_path, monkeypatch):
    def refuse(*arguments: object) -> None:
        raise AssertionError("Ray was started")

    monkeypatch.setattr("cluster.executors.session._start", refuse)
    collection = ["collection=beir", f"collection.path={beir_folder}"]
    out = tmp_path / "agent"
    assert command("learn", "agent=bandit", *collection, *SMALL, "episodes=4", "workers=0", f"out={out}") == 0
    assert pl.read_parquet(out / "episodes.parquet").height == 4


@pytest.mark.nightly
def test_the_command_searches_in_ray_tasks(ray_session, beir_folder, own_cache, tmp_path, capsys):
    out = tmp_path / "agent"
    asked = ["agent=evolution", "collection=beir", f"collection.path={beir_folder}", *SMALL, "workers=1"]
    assert command("learn", *asked, f"out={out}") == 0
    said = capsys.readouterr().out
    assert "policy=learned,schedule,mixture policy.each=1" in said
    assert pl.read_parquet(out / "episodes.parquet").height == 8
    assert {each.name for each in (out / "figures").iterdir()} == {"learning.png", "policy.png"}
    config = learning(beir_folder, "agent=evolution")
    here = store(tmp_path / "here")
    search_agent(config, in_this_process(config, Artifacts().parts(config), here), here)
    there = read_agent(str(out))
    assert np.array_equal(there.parameters, read_agent(here.storage.place).parameters)


@pytest.mark.nightly
def test_a_candidate_on_two_workers_has_the_numbers_of_one(ray_session, beir_folder, own_cache, tmp_path):
    sgd = {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.5}  # see tests/cluster/training/test_workers.py
    config = learning(beir_folder, "agent=evolution", "resources.workers=2", "workers=0") | {"optimizer": sgd}
    parts, agent = Artifacts().parts(config), build(config["agent"])
    size = RULES[agent.rule].size(2, WINDOWS[config["actions"]["mixture"]["window"]], config["state"]["features"])
    mixture = MixtureAgent(
        list(config["function"]), build(config["actions"]["mixture"]), build(config["state"]),
        config["decision_every"], agent.rule, np.linspace(-1, 1, size), {},
    )  # fmt: skip
    candidate = CandidateTraining(0, 0, 0, mixture)
    one, two = store(tmp_path / "one"), store(tmp_path / "two")
    (here,) = in_this_process(config, parts, one)([candidate])
    (there,) = in_ray_tasks(config, parts, two)([candidate])
    written = two.read(candidate.key)
    assert written["return"] == there["return"]
    assert (there["epochs"], there["steps"]) == (here["epochs"], here["steps"])
    np.testing.assert_allclose(there["return"], here["return"], atol=1e-6)
    np.testing.assert_allclose(np.array(there["decisions"]), np.array(here["decisions"]), atol=1e-4)
    np.testing.assert_allclose(np.array(there["states"]), np.array(here["states"]), atol=1e-4)
    assert here["steps"] > 0


def test_what_functions_cost_is_charged(beir_folder, own_cache, tmp_path):
    free = learning(beir_folder, "agent=bandit", "episodes=4")
    dear = learning(beir_folder, "agent=bandit", "episodes=4", "actions.mixture.costs={bm25: 0.1}")
    parts = Artifacts().parts(free)
    rows = []
    for name, config in (("free", free), ("dear", dear)):
        storage = store(tmp_path / name)
        rows.append(search_agent(config, in_this_process(config, parts, storage), storage))
    assert rows[1]["return"].to_list() == pytest.approx(list(rows[0]["return"] - 0.1 * rows[0]["share:bm25"]))
    with pytest.raises(BadInput, match="costs"):
        learning(beir_folder, "agent=bandit", "actions.mixture.costs={bm25: -1}")


def test_the_study_that_a_learning_proposes_is_of_its_own_ranker_and_functions(tmp_path):
    overrides = ["agent=evolution", "actions=mixture", "collection=pydocs", "scale=tiny", "episodes=8"]
    proposed = _comparison(compose_learning(overrides), overrides, str(tmp_path / "agent"))
    runs, _ = StudyExperiment.new([*proposed, "seeds=1", f"out={tmp_path / 'out'}"]).plan.runs()
    policies = {run.config["policy"]["_target_"].rpartition(".")[2] for run in runs}
    assert policies == {"LearnedPolicy", "Schedule", "Mixture"}
    assert {run.config[CHOICES]["ranker"] for run in runs} == {"feed_forward"}  # a study's own experiment has another
    assert {tuple(run.config["function"]) for run in runs} == {("bm25", "random")}
    assert {run.config[CHOICES]["scale"] for run in runs} == {"tiny"}
