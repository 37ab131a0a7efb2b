"""Learning agents that pick documents, from the command line's options to a run that uses one."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.config.agents import actions_of
from cluster.config.compose import compose
from cluster.config.validate import check_run
from cluster.rollouts.checkpoints import STATE
from cluster.rollouts.request import compose_learning
from cluster.rollouts.train_agent import LearningProgress
from cluster.runs.agent_file import agent_of, read_agent
from cluster.runs.artifacts import Artifacts
from cluster.runs.assemble import assemble
from ranking.errors import BadInput
from tests.cluster.commands.test_learn import SMALL, same, taught
from tests.made_up import TOPICS, WORDS

PICKING = [
    "episodes=2", "actions=documents", "actions.documents=6", "actions.imitate.epochs=2", "actions.imitate.states=8",
]  # fmt: skip


@pytest.fixture(scope="module")
def own(base, tmp_path_factory) -> list[str]:
    """Overrides of runs with word vectors, which tf·idf needs."""
    words = [*TOPICS, *WORDS, *(f"thing{number}" for number in range(20))]
    rows = np.random.default_rng(0).normal(size=(len(words), 6))
    lines = [f"{word} {' '.join(f'{number:.4f}' for number in row)}" for word, row in zip(words, rows, strict=True)]
    path = tmp_path_factory.mktemp("vectors") / "words.txt"
    path.write_text("\n".join(lines) + "\n")
    rest = [text for text in base if not text.startswith("vectors=")]
    return [*rest, "vectors=file", f"vectors.path={path}", "training.max_epochs=2"]


@pytest.fixture(scope="module")
def config(own) -> dict[str, Any]:
    return compose_learning([*own, *SMALL, *PICKING])


@pytest.fixture(scope="module")
def folder(config, tmp_path_factory) -> Path:
    """An agent that was learned."""
    folder = tmp_path_factory.mktemp("picking") / "agent"
    taught(config, folder)
    return folder


def test_what_it_leaves(config, folder):
    agent = read_agent(str(folder))
    assert (agent.documents, agent.functions, agent.decision_every) == (6, ["tfidf"], 1)
    assert agent.network["shapes"]["candidates"] == [8, 6, 5]
    figures = agent.facts["imitation"]
    assert set(figures) == {"before", "after", "learned"}
    assert all(0 <= figure <= 1 for figure in figures.values())
    episodes = pl.read_parquet(folder / "episodes.parquet")
    names = [f"share:{name}" for name in actions_of(config).names]
    assert episodes.select(pl.sum_horizontal(names)).to_series().to_list() == pytest.approx([1] * episodes.height)
    assert episodes["actions"].list.len().to_list() == [0] * episodes.height


def test_a_run_takes_its_negatives_from_it(own, folder):
    config = compose([*own, "selector=learned", f"selector.checkpoint={folder}"])
    check_run(config, agent_of(config))
    training, sampler = assemble(config, Artifacts().parts(config), 0)
    batch = training.next_batch()
    negatives = sampler.negatives(batch, training)
    nearest = sampler.functions["tfidf"].top(batch, 6, np.random.default_rng(0)).documents
    assert (negatives >= 0).any()
    for row, own_list in zip(negatives, nearest, strict=True):
        picks = row[row >= 0].tolist()
        assert set(picks) <= set(own_list.tolist())
        assert len(set(picks)) == len(picks)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["decision_every=4"], "picked for one batch"),
        (["function=bm25"], "lists of tfidf"),
        (["function.tfidf.depth=5"], "picks from 6 documents and the lists have 5"),
        (["selector=uniform"], "selector is what this command learns"),
        (["actions.imitate.top=0"], "actions.imitate.top"),
        (["actions.documents=1"], "actions.documents"),
    ],
)
def test_what_can_not_be_learned(own, wrong, message):
    with pytest.raises(BadInput, match=message):
        compose_learning([*own, *SMALL, *PICKING, *wrong])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["policy=learned", "policy.checkpoint={folder}"], "give selector=learned"),
        (["selector=learned", "selector.checkpoint={folder}", "function=bm25"], "give function=\\[tfidf\\]"),
        (["selector=learned", "selector.checkpoint={folder}", "function.tfidf.depth=5"], "depth=6 or more"),
    ],
)
def test_where_an_agent_does_not_fit(own, folder, wrong, message):
    config = compose([*own, *(text.format(folder=folder) for text in wrong)])
    with pytest.raises(BadInput, match=message):
        check_run(config, agent_of(config))


@pytest.mark.nightly
def test_an_interrupted_learning_goes_on(config, folder, tmp_path):
    """To the same agent, also of what imitation had come to."""

    def interrupt(progress: LearningProgress) -> None:
        if (tmp_path / STATE).exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        taught(config | {"save_every": 0}, tmp_path, tell=interrupt)
    one, (other, _) = read_agent(str(folder)), taught(config, tmp_path)
    assert same(one, other)
    assert one.facts == other.facts
