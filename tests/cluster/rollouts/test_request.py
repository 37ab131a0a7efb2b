"""Agents that a study learns first: their names, their options, and the runs that may use them."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from pyrite.cluster.commands import learn
from pyrite.cluster.commands.study_plan import plan
from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.build import build
from pyrite.cluster.config.relocated import relocated
from pyrite.cluster.output.provenance import differences
from pyrite.cluster.rollouts.environments import state_tables_of
from pyrite.cluster.rollouts.request import LearnRequest, compose_learning, with_agents
from pyrite.cluster.runs.agent_file import FILE, refuse_folds
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.ranking.errors import BadInput
from pyrite.rl.networks import PolicyNetwork
from pyrite.rl.trained import TrainedAgent
from tests.made_up import write_beir

POLICY = ["function=[bm25,random]", "selector=uniform", "policy=learned"]
SELECTOR = ["function=tfidf", "selector=learned", "policy=fixed"]


def requests(overrides: list[str], out: str | Path) -> dict[str, LearnRequest]:
    """The learnings that a study of one seed needs, by the agent's name."""
    study = plan([*overrides, "seeds=1", f"out={out}"])
    return with_agents(study.runs()[0], study.storage)[1]


def write_agent(overrides: list[str], folder: Path, **facts: str) -> str:
    """Write an agent that learned nothing."""
    config = compose_learning(overrides)
    parts = Artifacts().parts(config)
    actor = PolicyNetwork(
        state_tables_of(config, parts).space, actions_of(config).space.n, torch.Generator().manual_seed(0)
    )
    agent = TrainedAgent(
        list(config["function"]), build(config["state"], trust="composed"), 1, config["training"]["batch_size"],
        parts["compressed"].dimension, actor.description(), actor.state_dict(), None, dict(facts),
    )  # fmt: skip
    folder.mkdir()
    (folder / FILE).write_bytes(agent.to_bytes())
    return str(folder)


def test_an_agent_keeps_its_name_when_a_collection_moves_or_states_are_saved_more_often(base, beir_folder, tmp_path):
    study = [*base, *POLICY]
    first = list(requests(study, tmp_path / "out"))
    moved = tmp_path / "moved"
    shutil.copytree(beir_folder, moved)
    others = [text.replace(str(beir_folder), str(moved)) for text in study]
    with relocated({str(beir_folder): str(moved)}):
        assert list(requests(others, tmp_path / "out")) == first
    for unused in ("save_every_batches=10", "weights=true", "cache=null"):
        assert list(requests([*study, unused], tmp_path / "out")) == first
    assert list(requests([*study, "optimizer.lr=0.1"], tmp_path / "out")) != first


def test_a_result_whose_agent_must_be_learned_again_says_so():
    assert differences({"base": "a", "agent": "b", "code of rl": "c"}, {}) == ["agent"]


@pytest.mark.parametrize(
    ("place", "agents"),
    [
        ("out", "out/agents/{}"),
        ("s3://bucket/study?region=eu-west-1&scheme=http", "s3://bucket/study/agents/{}?region=eu-west-1&scheme=http"),
    ],
)
def test_agents_are_in_a_folder_each(base, place, agents, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learnings = requests([*base, *POLICY, "policy.agent=0,1"], f"'{place}'")
    assert len(learnings) == 2
    for name, learning in learnings.items():
        assert learning.storage.place == agents.format(name)
        assert learning.storage.path(FILE).endswith(f"/agents/{name}/{FILE}")


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (["policy.learn=['seed=7']"], "policy.learn: seed=7 is no option .*; give policy.agent=7"),
        (["policy.learn=['out=x']"], "policy.learn: out=x is no option .*leave it out"),
        (["policy.learn=['workers=2']"], "policy.learn: workers=2"),
        (["policy.learn=['actions=documents']"], "actions=documents is no option of a policy .*selector=learned"),
        (["policy.learn=['function=[random,bm25,tfidf]']"], r"policy.learn: .*; give function=\[random,bm25,tfidf\]"),
        (["policy.learn=['training.batch_size=4']"], "up to 4 pairs; give training.batch_size=4"),
        (["policy.learn=['vectors.dimension=7']"], "policy.learn: the agent would read other word vectors"),
        (
            ["policy.checkpoint=x", "policy.agent=0,1"],
            "x: policy.agent choose.*leave out policy.agent, or policy",
        ),
        (["policy.checkpoint=x", "policy.learn=['episodes=9']"], "leave out policy.learn, or policy.checkpoint"),
        ([*SELECTOR, "selector.checkpoint=x", "selector.agent=2"], "leave out selector.agent, or selector.checkpoint"),
    ],
)
def test_options_of_a_learning_that_its_runs_could_not_use_are_refused(base, method, says, tmp_path):
    with pytest.raises(BadInput, match=says):
        requests([*base, *POLICY, *method], tmp_path / "out")


def test_an_agent_is_no_selector_of_one_function(base, refusal):
    said = refusal("train", *base, "policy=fixed", "function=[random,tfidf]", "selector.tfidf=learned")
    assert said.startswith("selector.tfidf: an agent picks all negatives of a run")


def test_an_agent_is_not_measured_on_queries_that_it_learned_from(base, tmp_path, refusal):
    folder = write_beir(tmp_path / "one_split", split=False)
    overrides = [text if not text.startswith("collection.path") else f"collection.path={folder}" for text in base]
    agents = {}
    for name, text in (("same", overrides), ("other", base)):
        fingerprint = Artifacts().collection(compose_learning(text)).fingerprint
        agents[name] = write_agent(base, tmp_path / name, fingerprint=fingerprint)
    method = [*overrides, *POLICY, "training.max_epochs=1"]
    says = "one_split: it has no split and is cross-validated"
    for verb, agent in (("learn", []), ("train", [f"policy.checkpoint={agents['same']}"])):
        options = method if verb == "train" else overrides
        assert refusal(verb, *options, *agent).startswith(says)
    study = [*method, "seeds=1", "local=true"]
    assert refusal("study", *study, f"out={tmp_path / 'first'}").startswith(says)
    assert refusal("study", *study, f"policy.checkpoint={agents['same']}", f"out={tmp_path / 'b'}").startswith(says)
    elsewhere = [*base, *POLICY, "training.max_epochs=1", f"policy.learn=['collection.path={folder}']"]
    assert refusal("study", *elsewhere, "seeds=1", "local=true", f"out={tmp_path / 'c'}").startswith(says)
    config: Any = plan([*study, f"policy.checkpoint={agents['other']}"]).runs()[0][0].config
    collection = Artifacts().collection(config)
    refuse_folds(config, collection, {})
    refuse_folds(config, collection.changed(fingerprint="third"), {agents["other"]: "fourth"})
    with pytest.raises(BadInput, match="cross-validated"):
        refuse_folds(config, collection, {agents["other"]: collection.fingerprint})


def test_chance_draws_from_the_documents_that_an_agent_picks_from(base, tmp_path):
    overrides = [*base, "actions=documents", "actions.documents=6", "function.tfidf.depth=30"]
    proposed = learn._comparison(compose_learning(overrides), overrides, str(tmp_path / "agent"))
    runs, _ = plan([*proposed, "seeds=1", f"out={tmp_path / 'out'}"]).runs()
    configs = [run.config for run in runs]
    depths = {each["selector"]["_target_"].rpartition(".")[2]: each["function"]["tfidf"]["depth"] for each in configs}
    assert depths == {"LearnedSelector": 6, "Uniform": 6}
