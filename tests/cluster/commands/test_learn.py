"""Learning agents, in this process and with workers: for functions and for documents."""

import math
import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from pyrite.cluster.commands.learn import LEARN, _comparison, _finished_episodes, show
from pyrite.cluster.commands.resuming import read, started
from pyrite.cluster.commands.study import STUDY
from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.compose import compose
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.validate import check_run
from pyrite.cluster.output.result_store import ResultStore
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.tables import as_parquet
from pyrite.cluster.rollouts import checkpoints
from pyrite.cluster.rollouts.checkpoints import STATE, built_from
from pyrite.cluster.rollouts.environments import Environments
from pyrite.cluster.rollouts.gang import workers_of
from pyrite.cluster.rollouts.learning_log import TrackedEpisodes
from pyrite.cluster.rollouts.request import LearnRequest, compose_learning, missing
from pyrite.cluster.rollouts.train_agent import EPISODES, LearningProgress, train_agent
from pyrite.cluster.runs.agent_file import FILE, agent_of, read_agent
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.assemble import assemble
from pyrite.cluster.telemetry.tracking.tracker import TrackedRun
from pyrite.cluster.telemetry.training_metrics import LearningMetrics
from pyrite.ranking.errors import BadInput
from pyrite.results import LearningResult
from pyrite.rl.document_selector import LearnedSelector
from pyrite.rl.policy import LearnedPolicy
from pyrite.rl.trained import TrainedAgent
from tests.made_up import TOPICS, WORDS
from tests.ranking.trained import equal

SMALL = [
    "copies=2", "episodes=4", "random_baseline=0", "workers=0", "validation_sample.size=4",
    "validation_sample.every=2", "dashboard=false",
]  # fmt: skip
PICKING = [
    "episodes=2", "actions=documents", "actions.documents=6", "actions.imitate.epochs=2", "actions.imitate.states=8",
]  # fmt: skip


def taught(
    config: dict[str, Any], folder: Path, workers: int = 0, tell: Any = lambda progress: None
) -> tuple[TrainedAgent, pl.DataFrame]:
    """An agent learned into a folder, in this process by default."""
    store = ResultStore(Storage(str(folder)), "trainings")
    episodes = train_agent(Environments(config), workers, store, tell)
    return read_agent(str(folder)), episodes


@pytest.fixture(scope="module")
def config(base, ray_session) -> dict[str, Any]:
    return compose_learning([*base, *SMALL])


@pytest.fixture(scope="module")
def undisturbed(config, tmp_path_factory) -> tuple[TrainedAgent, pl.DataFrame]:
    return taught(config, tmp_path_factory.mktemp("learned") / "agent")


def test_what_a_learning_leaves(config, undisturbed, tmp_path, console):
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
    # The same seed, the same agent: a random agent in addition changes nothing.
    assert equal(agent.weights, undisturbed[0].weights)
    assert learned.equals(undisturbed[1].select(learned.columns))
    show(episodes, config | {"episodes": 1}, [], Storage(str(tmp_path)), console)
    assert f"episodes=1: {learned.height} were trained, because" in console.file.getvalue()


def test_it_ends_once_it_has_converged(config, undisturbed, tmp_path, monkeypatch):
    """Two episodes and two more are alike if any gain within a thousand errors is none."""
    node = {"_target_": "pyrite.rl.plateau.Plateau", "window": 2, "errors": 1000.0, "settled": 1.0}
    counted: list[tuple[int, bool]] = []

    def count(metrics: LearningMetrics, rows: list[Any], last: bool = False) -> None:
        counted.append((len(rows), last))

    monkeypatch.setattr(LearningMetrics, "record", count)
    agent, episodes = taught(config | {"episodes": 50, "until": node}, tmp_path)
    assert counted[-1] == (episodes.height, True)  # whatever the throttle has left out
    assert (agent.facts["converged"], agent.facts["converged_at"]) == (True, 4)
    assert equal(agent.weights, undisturbed[0].weights)  # which had four episodes
    assert episodes.equals(undisturbed[1])


@pytest.mark.nightly
def test_workers_learn_the_same(config, undisturbed, tmp_path):
    agent, episodes = taught(config, tmp_path, workers=1)
    assert equal(agent.weights, undisturbed[0].weights)
    assert episodes.equals(undisturbed[1])


@pytest.mark.by_day(10)
@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["gamma=1.5"], "gamma"),
        (["agent=nobody"], "agent"),
        (["state.features=[mood]"], "features"),
        (["policy=random"], "policy"),
        (["function=bm25"], "an agent needs at least two functions to choose from, and there is only bm25"),
        (["agent.lr=1"], "no option agent.lr; agent has actor_lr, critic_lr"),
        (["state.epochs=1"], "no option state.epochs; state has"),
        (["agent=ppo,reinforce"], "one value here, not ppo,reinforce; learn one agent at a time"),
        (["function=bm25,random"], r"takes a list; write function=\[bm25,random\]; learn one agent at a time"),
        (["objective=sir_v1", "objective.levels=[4,3]"], "trains several rankers in turn, and an episode has one"),
        (["copies=0"], "copies"),
        (["copies=8", "workers=3"], "divide evenly"),
        (["copies=2", "workers=1", "agent.learners=3"], "agent.learners is 3, and there are 2 copies; choose copies=3"),
        (["episodes=31", "until=converged"], "until=converged compares episodes after 32, and learning ends after 31"),
        (["episodes=40", "until=converged", "until.after=33"], "compares episodes after 48"),
        ([*PICKING, "decision_every=4"], "picked for one batch"),
        ([*PICKING, "function=bm25"], "lists of tfidf"),
        ([*PICKING, "function.tfidf.depth=5"], "picks from 6 documents and the lists have 5"),
        ([*PICKING, "selector=uniform"], "selector is what this command learns"),
        ([*PICKING, "actions.documents=1"], "actions.documents"),
        ([*PICKING, "selector.tfidf=top"], "selector.tfidf: Top would pick the negatives instead of .*; leave it out"),
        ([*PICKING, "policy.candidates=8"], "policy: Fixed has selectors or a window of its own, .* as policy=fixed"),
        (["decision_every=0"], "^decision_every is 0"),
        (["decision_every=week"], "^decision_every is 'week'; choose a whole number or 'epoch'$"),
        (["actions=mixture"], "there is no actions=mixture any more: .*search=optuna policy=schedule"),
        (["agent=evolution", "actions=mixture", "agent.candidates=4"], "any more: .*search=optuna policy=schedule"),
        (["agent=bandit"], "there is no agent=bandit any more: .*search=optuna"),
        (["agent=schedule"], "there is no agent=schedule any more: .*search=optuna"),
        (["state=progress"], "there is no state=progress any more: .*search=optuna"),
        (["actions.mixture.each=1"], "there is no option actions.mixture.* any more: .*search=optuna"),
        (["hosts=1"], "there is no option hosts any more: each worker holds the rankers that it steps"),
        (["agent.warm_start=somewhere"], "there is no option agent.warm_start any more: .*search=optuna"),
    ],
)
def test_bad_options_are_refused_in_one_line(base, overrides, says):
    with pytest.raises(BadInput, match=says) as refused:
        compose_learning([*base, *overrides])
    assert "\n" not in str(refused.value)


def test_a_gain_over_the_random_agent_needs_two_of_its_episodes(base):
    gain = [*base, "until=converged", "until.gain=.05", "episodes=50"]
    for copies, episodes in ((1, 0), (8, 0), (1, 1)):
        says = f"until.gain: it is tested .*, and there are {episodes}; give (random_baseline=16)"
        with pytest.raises(BadInput, match=says) as refused:
            compose_learning([*gain, f"copies={copies}", f"random_baseline={episodes}"])
        compose_learning([*gain, f"copies={copies}", re.search(says, str(refused.value))[1]])
    compose_learning([*gain, "copies=2", "random_baseline=1"])  # each copy has one


@pytest.mark.parametrize(("name", "part"), [("policy", LearnedPolicy), ("selector", LearnedSelector)])
def test_the_example_of_overrides_of_a_learning_can_be_typed(name, part):
    (example,) = re.findall(r"learn: .*?(\[.+\])", part.__doc__)
    learned = compose([f"{name}=learned", f"{name}.learn={example}"])[name]["learn"]
    assert [text.count("=") for text in learned] == [1, 1]


def test_copies_are_shared_out_evenly_and_what_can_not_be_learned_or_resumed_is_refused(config, base, tmp_path):
    nodes = [{"CPU": 2.0, "GPU": 1.0}, {"CPU": 1.5}, {}]

    def workers(nodes: Any, copies: int = 8, wanted: int | None = 4, learners: int = 0, **resources: float) -> int:
        changed = {"copies": copies, "workers": wanted, "resources": config["resources"] | resources}
        return workers_of(config | changed | {"agent": config["agent"] | {"learners": learners}}, nodes)

    assert workers(nodes, wanted=2) == 2
    assert workers(nodes) == 2  # three have room, and don't divide the copies evenly
    assert workers(nodes, copies=3, wanted=None) == 3
    assert workers(nodes[:1], copies=3, wanted=None) == 1
    assert workers(nodes[2:]) == 1  # which waits for a node
    assert workers(nodes, wanted=0) == 0
    for cpus, most in ((0.5, 4), (1.5, 2), (2, 1), (3, 1)):
        assert workers(nodes, cpu=cpus) == most
    for gpus, most in ((0.25, 2), (0.5, 2), (1, 1)):  # next to the two cores of the node with a GPU
        assert workers(nodes, gpu=gpus) == most
    assert workers(nodes, learners=1) == 2
    assert workers(nodes, learners=2) == 1
    with pytest.raises(BadInput, match=r"resources.workers.*by workers=2$"):
        read(LEARN, [*base, "resources.workers=2"])
    with pytest.raises(BadInput, match=r"config\.yaml"):
        read(LEARN, [], str(tmp_path))
    (tmp_path / "config.yaml").write_text("learn: []\nfacts: {}\n")
    with pytest.raises(BadInput, match="can't change"):
        read(LEARN, ["episodes=3"], str(tmp_path))


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


@pytest.mark.parametrize("option", ["seed=0", "negatives.tfidf=1", "negatives.tfidf=2", "sampling.negatives=1"])
def test_each_pick_of_an_agent_is_a_negative(own, option):
    """Whatever the options, two actions give two sets of negatives, with as many of each query as it has picks."""
    config = compose_learning([*own, *SMALL, *PICKING, option])
    (environment,) = Environments(config)([0])
    environment.reset()
    sampler, batch = environment.sampler, environment.training.next_batch()
    for first in (0, 2):
        action = np.tile(np.arange(first, first + environment.actions.picks), environment.actions.pairs)
        environment.actions.apply(sampler, action % 6)
        negatives = sampler.negatives(batch, environment.training)
        lists = sampler.functions["tfidf"].top(batch, 6, np.random.default_rng(0)).documents
        assert negatives.tolist() == lists[:, action[: environment.actions.picks] % 6].tolist()


@pytest.fixture(scope="module")
def picking(own) -> dict[str, Any]:
    return compose_learning([*own, *SMALL, *PICKING])


@pytest.fixture(scope="module")
def folder(picking, tmp_path_factory) -> Path:
    """An agent that was learned."""
    folder = tmp_path_factory.mktemp("picking") / "agent"
    taught(picking, folder)
    return folder


def test_what_a_learning_of_picks_leaves(picking, folder):
    agent = read_agent(str(folder))
    assert (agent.documents, agent.functions, agent.decision_every) == (6, ["tfidf"], 1)
    assert agent.network["shapes"]["candidates"] == [8, 6, 5]
    figures = agent.facts["imitation"]
    assert set(figures) == {"before", "after", "learned"}
    assert all(0 <= figure <= 1 for figure in figures.values())
    episodes = pl.read_parquet(folder / "episodes.parquet")
    names = [f"share:{name}" for name in actions_of(picking).names]
    assert episodes.select(pl.sum_horizontal(names)).to_series().to_list() == pytest.approx([1] * episodes.height)
    assert episodes["actions"].list.len().to_list() == [0] * episodes.height


def test_a_run_takes_its_negatives_from_an_agent_that_picks(own, folder):
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


@pytest.mark.by_day(5)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            ["selector=learned", "selector.checkpoint={folder}", "selector.tfidf=top"],
            "instead of the agent; leave it out",
        ),
        (["selector=learned", "selector.checkpoint={folder}", "policy.candidates=8"], "as policy=fixed"),
        (["policy=learned", "policy.checkpoint=nowhere"], "nowhere"),
        (["policy=learned", "policy.checkpoint=.", "function=[bm25,tfidf]"], "give function=[bm25,random]"),
        (["policy=learned", "policy.checkpoint=.", "training.batch_size=16"], "give training.batch_size=8"),
        (["selector=learned", "selector.checkpoint=.", "function=tfidf"], "give policy=learned"),
        (["policy=learned", "policy.checkpoint={folder}"], "give selector=learned"),
        (["selector=learned", "selector.checkpoint={folder}", "function=bm25"], "give function=[tfidf]"),
        (["selector=learned", "selector.checkpoint={folder}", "function.tfidf.depth=5"], "depth=6 or more"),
    ],
)
def test_where_an_agent_does_not_fit(own, undisturbed, folder, wrong, message, tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    Path("agent.safetensors").write_bytes(undisturbed[0].to_bytes())
    assert message in refusal("train", *own, *(text.format(folder=folder) for text in wrong))


def test_an_agent_of_other_data_or_code_is_learned_again(config, undisturbed, tmp_path):
    agent, episodes = undisturbed
    request = LearnRequest(config, [], Storage(str(tmp_path / "agents" / "one")))
    run: Any = SimpleNamespace(config={"policy": {"checkpoint": request.storage.place}})
    keys = {"base": "a", "function:run_file": "b"}
    learned_from = built_from(request.store(keys))
    cases = [
        (learned_from, {}),
        (learned_from | {"function:run_file": "c"}, {"function:run_file": 1}),
        ({}, {"version": 1}),
    ]
    for before, outdated in cases:
        request.storage.write(FILE, replace(agent, built_from=before).to_bytes())
        request.storage.write(EPISODES, as_parquet(episodes))
        left, counted = missing({"one": request}, [run], lambda config: keys)
        assert (list(left), counted) == (["one"] if outdated else [], outdated)
        said: list[str] = []
        finished = _finished_episodes(request, keys, said.append)
        assert (finished is None) == bool(outdated)
        assert [name for name in outdated if f"another {name} and is learned again" in said[0]] == list(outdated)
    request.storage.write(FILE, b"damaged")
    assert missing({"one": request}, [run], lambda config: keys) == ({"one": request}, {})
    assert missing({"one": request}, [], lambda config: keys) == ({}, {})


@pytest.mark.nightly
def test_an_interrupted_learning_of_picks_goes_on(picking, folder, tmp_path, monkeypatch):
    """To the same agent, also of what imitation had come to."""
    save = checkpoints.save

    def save_and_stop(*state: Any) -> None:
        save(*state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            taught(picking | {"save_every": 0}, tmp_path)
    assert (tmp_path / STATE).exists()
    one, (other, _) = read_agent(str(folder)), taught(picking, tmp_path)
    assert equal(one.weights, other.weights)
    assert one.facts == other.facts


def test_the_study_that_a_learning_proposes_is_of_its_own_ranker_and_functions(tmp_path):
    overrides = ["agent=ppo", "collection=pydocs", "scale=tiny", "episodes=8"]
    proposed = _comparison(compose_learning(overrides), overrides, str(tmp_path / "agent"))
    runs, _ = started(STUDY, [*proposed, "seeds=1", f"out={tmp_path / 'out'}"]).plan.runs()
    policies = {run.config["policy"]["_target_"].rpartition(".")[2] for run in runs}
    assert policies == {"LearnedPolicy", "RandomPolicy"}
    assert {run.config[CHOICES]["ranker"] for run in runs} == {"feed_forward"}  # a study's own experiment has another
    assert {tuple(run.config["function"]) for run in runs} == {("bm25", "random")}
    assert {run.config[CHOICES]["scale"] for run in runs} == {"tiny"}


@pytest.mark.parametrize("folder", ["a,b", "agent (1)", "~x", "it's"])
@pytest.mark.parametrize("picks", [[], ["actions=documents"]])
def test_the_study_that_a_learning_proposes_names_one_agent_whatever_its_folder_is_called(folder, picks):
    overrides = [*picks, "collection=pydocs", "scale=tiny"]
    proposed = _comparison(compose_learning(overrides), overrides, f"outputs/{folder}")
    part = "selector" if picks else "policy"
    runs, _ = started(STUDY, [*proposed, "seeds=1", "out=elsewhere"]).plan.runs()
    assert [run.config[part].get("checkpoint") for run in runs] == [f"outputs/{folder}", None]


def test_a_result_names_the_command_that_compares_its_agent(tmp_path, monkeypatch):
    """With the collection that it learned on, and chance."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.csv").write_text("query,positive\nwhat eats moths,bats do\n")
    typed = ["collection=pairs", "collection.path=pairs.csv", "ranker=static", "scale=tiny", "selector=uniform"]
    LearnRequest(compose_learning(typed), typed, Storage("a,b")).record(Artifacts().collection(compose(typed)))
    program, verb, *overrides = shlex.split(LearningResult("a,b").comparison_command)
    assert (program, verb) == ("pyrite", "study")
    runs, _ = started(STUDY, [*overrides, f"out={tmp_path / 'out'}"]).plan.runs()
    assert {run.config["collection"]["path"] for run in runs} == {"pairs.csv"}
    assert {run.config["policy"].get("checkpoint") for run in runs} == {"a,b", None}


def shown_of(facts: dict[str, Any], config: dict[str, Any], undisturbed: Any, folder: Path, console: Any) -> str:
    """What a learning prints if its agent has these facts."""
    agent, episodes = undisturbed
    (folder / FILE).write_bytes(replace(agent, facts=facts).to_bytes())
    show(episodes, config, [], Storage(str(folder)), console)
    return console.file.getvalue()


def test_imitation_without_held_out_queries_has_no_share_of_them(config, undisturbed, tmp_path, console):
    figures = {"before": math.nan, "after": math.nan, "learned": 0.3}
    said = shown_of({"imitation": figures}, config, undisturbed, tmp_path, console)
    assert "share of picks that are BM25's documents: 30% on the training queries" in " ".join(said.split())
    figures = {"before": 0.1, "after": 0.2, "learned": 0.3}
    said = shown_of({"imitation": figures}, config, undisturbed, tmp_path, console)
    assert "10% before and 20% after on held-out queries, 30% on the training" in " ".join(said.split())


def test_episodes_of_which_no_progress_was_reported_are_tracked_at_the_end(undisturbed):
    """Progress is sent once per second, and a learning that has converged ends before it has all episodes."""
    episodes, sent = undisturbed[1], list[tuple[int, float]]()
    tracking: Any = SimpleNamespace(
        begin=lambda run: None,
        log=lambda name, step, numbers: sent.append((step, numbers["learned/return"])),
        end=lambda *arguments: None,
        events=SimpleNamespace(emit=lambda *arguments, **facts: None),
    )
    tracked = TrackedEpisodes(tracking, TrackedRun("study", {"seed": "0"}, ""))
    tracked.update(LearningProgress(episodes.to_dicts()[:1], 1, 100))
    tracked.end(episodes)
    assert sent == list(enumerate(episodes["return"].to_list(), 1))
