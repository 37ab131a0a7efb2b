"""Runs `pyrite learn`: trains an agent that chooses which function supplies a ranker's negatives, and when."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.markup import escape

from pyrite.analysis.reports import learning_words as words
from pyrite.analysis.reports.report import Table
from pyrite.cluster.commands.conduct import run_command
from pyrite.cluster.commands.experiment import Experiment, Load, Verb, Work
from pyrite.cluster.config.agents import actions_of
from pyrite.cluster.config.groups import CHOICES
from pyrite.cluster.config.override import key_of, of_keys, replaced, root_of
from pyrite.cluster.config.precision import precision_lines, with_precision
from pyrite.cluster.config.quoting import override_of
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.executors.reach import local_paths
from pyrite.cluster.output.episodes import LEARNED, RANDOM, against_random, recent
from pyrite.cluster.output.run_log import print_failures
from pyrite.cluster.output.storage import Storage, output_place
from pyrite.cluster.output.terminal import print_lines
from pyrite.cluster.rollouts import checkpoints
from pyrite.cluster.rollouts.request import MAY_CHANGE, LearnRequest, compose_learning
from pyrite.cluster.runs.agent_file import read_agent, refuse_folds
from pyrite.cluster.runs.what_was_read import sentence
from pyrite.cluster.telemetry.tracking.tracker import TrackedRun
from pyrite.cluster.telemetry.tracking.tracking import Tracking
from pyrite.cluster.telemetry.training_metrics import study_of
from pyrite.ranking.errors import refuse
from pyrite.ranking.precision import best_precision

if TYPE_CHECKING:
    from pyrite.cluster.output.result_store import ResultStore
    from pyrite.cluster.runs.artifacts import Artifacts


def plan(arguments: list[str]) -> LearnRequest:
    """Plan a learning from its overrides."""
    config = compose_learning(arguments)
    count = config["resources"]["workers"]
    what = f"each decision trains a ranker for a few batches in one process, but {count} are requested"
    refuse(count > 1, what, "resources.workers", f"step more episodes at once by workers={count}")
    arguments = with_precision(arguments, config, best_precision(config["resources"]["gpu"] > 0))
    config = compose_learning(arguments)
    return LearnRequest(config, arguments, Storage(output_place(config["out"], "learn")))


def prepare(experiment: Experiment, console: Console) -> LearnWork:
    """Read the collection, and the state of a learning that was interrupted."""
    request: LearnRequest = experiment.plan
    config, storage, note = request.config, request.storage, partial(print_lines, console)
    artifacts = experiment.artifacts_of(console)
    artifacts.make([config], only=())
    collection = artifacts.collection(config)
    refuse_folds(config, collection, {})
    note(sentence(collection, config))
    facts = {"collection": collection.name, "fingerprint": collection.fingerprint}
    keys = artifacts.keys(config)
    episodes, store = _finished_episodes(request, keys, note), request.store(keys)
    shared = 0
    if episodes is None:
        checkpoints.load(store, note)
        named = " ".join(f"{key}={config[CHOICES][key]}" for key in ("agent", "reward", "ranker"))
        named += f" episodes={config['episodes']}"
        console.print(escape(f"{named} over {'+'.join(config['function'])} on {collection.name}, results in {storage}"))
        artifacts.make([config])
        note(*artifacts.cut_texts([config]), *precision_lines(config))
        shared = sum(artifacts.bytes_of(config).values())
    return LearnWork(
        experiment=experiment,
        load=Load(episodes is None, shared, shared, reads=list(local_paths(config["ranker"]))),
        used=[(collection, config)],
        request=request,
        artifacts=artifacts,
        store=store,
        facts=facts,
        episodes=episodes,
    )


@dataclass(kw_only=True)
class LearnWork(Work):
    """One learning, new or resumed, and its episodes once it has finished.

    An error ends it. A lost process does not: the learning continues from its last state.
    """

    request: LearnRequest
    artifacts: Artifacts
    store: ResultStore
    facts: dict[str, Any]
    episodes: pl.DataFrame | None

    def content(self) -> dict[str, Any]:
        return self.request.content()

    def execute(self, console: Console, tracking: Tracking) -> None:
        from pyrite.cluster.rollouts.backends import learn
        from pyrite.cluster.rollouts.gang import check_room
        from pyrite.cluster.rollouts.learning_log import LiveLine, TrackedEpisodes
        from pyrite.cluster.rollouts.train_agent import LearningProgress

        config, storage = self.request.config, self.request.storage
        check_room(config)
        parts = {name: self.artifacts.part(config, name) for name in self.artifacts.keys(config)}
        run = TrackedRun(study_of(storage.place), {"seed": str(config["seed"])}, shlex.join(self.request.arguments))
        tracked = TrackedEpisodes(tracking, run)
        line = LiveLine(console, config["validation"]["measure"], config["episodes"])
        with line.bar:

            def on_progress(progress: LearningProgress) -> None:
                line.update(progress)
                tracked.update(progress)

            def log(event: str, message: str) -> None:
                print_lines(console, message)
                tracking.events.emit(event, says=message)

            self.episodes = learn(config, parts, self.store, self.facts, on_progress, log)
        tracked.end(self.episodes)

    def report(self, console: Console) -> int:
        assert self.episodes is not None
        show(self.episodes, self.request.config, self.request.arguments, self.request.storage, console)
        return 0


LEARN = Verb("learn", "learning", plan, prepare, MAY_CHANGE)
run_verb = partial(run_command, LEARN)
"""Runs `pyrite learn`."""


def _finished_episodes(
    request: LearnRequest, keys: Mapping[str, str], note: Callable[[str], None]
) -> pl.DataFrame | None:
    """Return the episodes of a finished learning; None if it has not finished, its files are damaged, or it was built
    from other data or code.
    """
    from pyrite.cluster.rollouts.train_agent import EPISODES

    storage = request.storage
    if (content := storage.read(EPISODES)) is None:  # the file that is written last
        return None
    changed, episodes = request.changed(keys), None
    with suppress(pl.exceptions.PolarsError):
        episodes = pl.read_parquet(io.BytesIO(content))
    if changed:
        note(f"the agent in {storage} was built from another {', '.join(changed)} and is learned again")
    elif changed is None or episodes is None:
        note(f"the agent in {storage} is damaged and is learned again from the beginning")
    return episodes if changed == [] else None


def show(
    episodes: pl.DataFrame, config: dict[str, Any], overrides: Sequence[str], storage: Storage, console: Console
) -> None:
    """Write the figures of a learning, and print its table and the next command."""
    from pyrite.analysis.reports.learning_figures import learning_curves, policy_picture

    measure = config["validation"]["measure"]
    names = actions_of(config).names
    learned = read_agent(storage.place)
    of_agent, of_random = (episodes.filter(agent=name) for name in (LEARNED, RANDOM))
    curves = learning_curves(of_agent, of_random, measure, learned.facts.get("converged_at"))
    storage.write("figures/learning.png", curves)
    if config["actions"]["documents"] is None:
        storage.write("figures/policy.png", policy_picture(of_agent, names))
    console.print(_last_episodes(episodes, measure, names), crop=False)
    trained = episodes.filter(pl.col("agent") == LEARNED).height
    if trained > config["episodes"]:
        print_lines(console, words.MORE_EPISODES.format(wanted=config["episodes"], trained=trained))
    if tests := against_random(episodes):
        difference = tests["learned"] - tests["random"]
        console.print(words.AGAINST_RANDOM.format(measure=measure, difference=difference, **tests))
    if "converged" in learned.facts:
        at = learned.facts["converged_at"]
        message = words.CONVERGED.format(at) if at else words.NOT_CONVERGED.format(trained)
        console.print(words.CRITERION.format(message, config["until"]["by"]))
    print_failures(storage, console)
    where = storage.shown()
    print_lines(console, words.WRITTEN.format(where))
    if imitation := learned.facts.get("imitation"):
        held_out = "" if imitation["after"] != imitation["after"] else words.HELD_OUT.format(**imitation)  # nan: none
        console.print(words.IMITATION.format(held_out=held_out, **imitation))
    print_lines(console, words.COMPARE.format(comparison_command(config, overrides, where)))


def _last_episodes(episodes: pl.DataFrame, measure: str, names: Sequence[str]) -> Table:
    """Return the table of the means of the last episodes, those of the random agent below."""
    rows = []
    for agent, last in ((LEARNED, 32), (RANDOM, 1 << 30)):
        count = min(last, episodes.filter(pl.col("agent") == agent).height)
        if means := recent(episodes, agent, last):
            figures = [f"{means['return']:.3f}", f"{means['validation']:.4f}", f"{means['epochs']:.1f}"]
            shares = [f"{means.get(f'share:{name}', 0):.0%}" for name in names]
            rows.append([agent, count, *figures, *shares])
    head = ["agent", "episodes", "return", measure, "epochs", *names]
    return Table(head, rows, caption=words.LAST_EPISODES.format(measure))


def comparison_command(config: dict[str, Any], overrides: Sequence[str], where: str) -> str:
    """Return the command that compares an agent with chance, in runs like those it learned on.

    Args:
        config, overrides: of the learning.
        where: the agent's folder.
    """
    return shlex.join(["pyrite", "study", *_comparison(config, overrides, where), "seeds=20"])


def _comparison(config: dict[str, Any], overrides: Sequence[str], where: str) -> list[str]:
    """Return the overrides of a study that compares the agent with chance, in runs like those it learned on."""
    run_options = {*SHAPES["config"].model_fields, "scale"} - {"seed"}
    own = of_keys(overrides, run_options, root_of)
    given, shared = {key_of(text) for text in own}, {key: config[CHOICES][key] for key in ("ranker", "scale")}
    if config["actions"]["documents"] is None:
        shared |= {"function": f"[{','.join(config['function'])}]", "selector": config[CHOICES]["selector"]}
    own += [f"{key}={value}" for key, value in shared.items() if key not in given]  # a study has other defaults
    documents = config["actions"]["documents"]
    if documents is None:
        return [*own, "policy=learned,random", override_of("policy.checkpoint", where)]
    # The uniform selector then draws from the documents that the agent picks from.
    picked = ["policy=fixed", "function=tfidf", f"function.tfidf.depth={documents}", "selector=learned,uniform"]
    return [*replaced(own, picked), override_of("selector.checkpoint", where)]
