"""Learning agents, in this process, with workers and with hosts."""

import functools
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import ray

from cluster.commands.learn import LearnExperiment
from cluster.output.result_store import ResultStore
from cluster.output.storage import Storage
from cluster.rollouts.backends import RemoteEnvironments, workers_of
from cluster.rollouts.environments import Environments
from cluster.rollouts.ranker_host import RankerHost
from cluster.rollouts.request import compose_learning
from cluster.rollouts.train_agent import EPISODES, LearningProgress, RolloutBackend, train_agent
from cluster.runs.agent_file import read_agent
from cluster.runs.artifacts import Artifacts
from ranking.errors import BadInput
from rl.trained import TrainedAgent

SMALL = [
    "copies=2", "episodes=4", "random_baseline=0", "workers=0", "validation_sample.size=4",
    "validation_sample.every=2", "dashboard=false",
]  # fmt: skip


def taught(
    config: dict[str, Any], folder: Path, backend: RolloutBackend | None = None, tell: Any = lambda progress: None
) -> tuple[TrainedAgent, pl.DataFrame]:
    """An agent learned into a folder, in this process by default."""
    backend = backend or RolloutBackend(functools.partial(Environments, config, None), 0, 1)
    store = ResultStore(Storage(str(folder)), "trainings")
    episodes = train_agent(config, backend, Artifacts().parts(config), store, tell)
    return read_agent(str(folder)), episodes


def same(one: TrainedAgent, other: TrainedAgent) -> bool:
    return one.weights.keys() == other.weights.keys() and all(
        weights.equal(other.weights[name]) for name, weights in one.weights.items()
    )


@pytest.fixture(scope="module")
def config(base, ray_session) -> dict[str, Any]:
    return compose_learning([*base, *SMALL])


@pytest.fixture(scope="module")
def undisturbed(config, tmp_path_factory) -> tuple[TrainedAgent, pl.DataFrame]:
    return taught(config, tmp_path_factory.mktemp("learned") / "agent")


def test_what_a_learning_leaves(config, undisturbed, tmp_path):
    told: list[LearningProgress] = []
    agent, episodes = taught(config | {"random_baseline": 2}, tmp_path, tell=told.append)
    assert agent.functions == ["bm25", "random"]
    assert agent.facts["episodes"] >= 4
    assert episodes.filter(pl.col("agent") == "random").height == 2
    learned = episodes.filter(pl.col("agent") == "learned")
    assert learned.height >= 4
    assert learned.select("copy", "episode").is_unique().all()
    assert (learned["share:bm25"] + learned["share:random"]).to_list() == pytest.approx([1] * learned.height)
    assert (learned["actions"].list.len() == learned["decisions"]).all()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["agent.safetensors", EPISODES]
    assert told[-1].episodes >= told[-1].wanted == 4
    # The same seed, the same agent: a random agent beside it changes nothing.
    assert same(agent, undisturbed[0])
    assert learned.equals(undisturbed[1].select(learned.columns))


def test_it_ends_once_it_has_converged(config, undisturbed, tmp_path):
    """Two episodes and two more are alike where any gain within a thousand errors is none."""
    node = {"_target_": "rl.plateau.Plateau", "window": 2, "errors": 1000.0, "settled": 1.0}
    agent, episodes = taught(config | {"episodes": 50, "until": node}, tmp_path)
    assert (agent.facts["converged"], agent.facts["converged_at"]) == (True, 4)
    assert same(agent, undisturbed[0])  # which had four episodes
    assert episodes.equals(undisturbed[1])


def test_rankers_on_a_host_learn_the_same(config, undisturbed, tmp_path):
    host = ray.remote(RankerHost).options(name="test-host", num_cpus=1).remote(config)
    backend = RolloutBackend(functools.partial(RemoteEnvironments, ["test-host"], 2), 0, 1)
    agent, episodes = taught(config, tmp_path, backend)
    ray.kill(host)
    assert same(agent, undisturbed[0])
    assert episodes.equals(undisturbed[1])


@pytest.mark.by_day(5)
@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["decision_every=0"], "decision_every"),
        (["decision_every=sometimes"], "decision_every"),
        (["gamma=1.5"], "gamma"),
        (["agent=nobody"], "agent"),
        (["agent.actor_lr=-1"], "actor_lr"),
        (["reward.scale=0"], "scale"),
        (["state.features=[mood]"], "features"),
        (["validation_sample.size=0"], "validation_sample.size"),
        (["policy=random"], "policy"),
        (["function=bm25"], "chooses between functions"),
        (["agent=ppo,reinforce"], "sweeps"),
        (["objective=sir_v1", "objective.levels=[4,3]"], "trains several rankers in turn, and an episode has one"),
        (["copies=0"], "copies"),
        (["copies=8", "workers=3"], "divide evenly"),
        (["episodes=8", "agent=evolution", "actions=mixture", "until=converged"], "until=converged ends one early"),
    ],
)
def test_bad_options_are_refused_in_one_line(base, overrides, says):
    with pytest.raises(BadInput, match=says) as refused:
        compose_learning([*base, *overrides])
    assert "\n" not in str(refused.value)


def test_copies_are_shared_out_evenly_and_what_can_not_be_learned_or_resumed_is_refused(config, base, tmp_path):
    assert workers_of(config | {"workers": 2, "copies": 8}) == 2
    assert workers_of(config | {"workers": None, "copies": 3}) in (1, 3)
    assert workers_of(config | {"workers": None, "copies": 8, "hosts": 2}) == 2
    with pytest.raises(BadInput, match=r"resources.workers.*by workers=2, or give actions=mixture"):
        LearnExperiment.read([*base, "resources.workers=2"])
    with pytest.raises(BadInput, match=r"config\.yaml"):
        LearnExperiment.read([], str(tmp_path))
    with pytest.raises(BadInput, match="can't change"):
        LearnExperiment.read(["episodes=3"], str(tmp_path))


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "options",
    [
        ["policy=learned", "policy.checkpoint=nowhere"],
        ["policy=learned", "policy.checkpoint=.", "function=[bm25,tfidf]"],
        ["policy=learned", "policy.checkpoint=.", "training.batch_size=16"],
        ["selector=learned", "selector.checkpoint=.", "function=tfidf"],
    ],
)
def test_an_agent_that_does_not_fit_is_refused(options, undisturbed, base, tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    Path("agent.safetensors").write_bytes(undisturbed[0].to_bytes())
    assert refusal("train", *base, *options)
