"""`pyrite learn`: an agent learns which function should supply a ranker's negatives, and when."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cluster.config.compose import CHOICES, build, compose
from cluster.config.schema import SHAPES
from cluster.output.event_log import EventLog
from cluster.output.failure_summary import failure_summary
from cluster.output.failure_summary import show as show_losses
from cluster.output.manifest import CONFIG, read_config, read_config_of, refuse_taken, write_config
from cluster.output.storage import Storage, new_place
from cluster.plan.point import root_of
from cluster.plan.sweep import key_of, values_of
from cluster.rollouts import checkpoints
from cluster.rollouts.environments import actions_of
from cluster.runs.agent_file import check_candidates, learner_of, read_agent
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import check
from cluster.telemetry.tracking.tracker import Run
from cluster.telemetry.tracking.tracking import tracked, trackers
from cluster.telemetry.training_metrics import study_of
from ranking.errors import BadInput
from rl.environment import check_decision_every

MAY_CHANGE = ("workers", "hosts", "save_every", "on_loss", "address", "dashboard", "track")
"""Options that a learning may be resumed with: its result does not depend on them."""
NOT_OF_THE_RESULT = (*MAY_CHANGE, CHOICES, "out", "cache", "weights")
"""Keys of a configuration on which what is learned does not depend."""


@dataclass(frozen=True)
class LearnRequest:
    """A learning as the user asked for it.

    Args:
        config: composed.
        overrides: that gave it.
        storage: where it goes.
    """

    config: dict[str, Any]
    overrides: list[str]
    storage: Storage


def read_arguments(arguments: Sequence[str], resume: str | None = None) -> LearnRequest:
    """A new learning from the command line, or one to go on with from its folder.

    Raises:
        BadInput: where an option is wrong, the folder holds something else, or nothing to go on with.
    """
    if resume is not None:
        return _continued(arguments, resume)
    config = compose_learning(arguments)
    storage = Storage(config["out"] or new_place("learn"))
    refuse_taken(storage)
    return LearnRequest(config, list(arguments), storage)


def compose_learning(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of a learning, each part of it built once to see that it can be.

    Raises:
        BadInput: where an option is wrong, or sweeps.
    """
    for text in overrides:
        if "=" in text and len(values_of(text)) != 1:
            raise BadInput(f"{text} sweeps", remedy="learn one agent at a time, or several in a `pyrite study`")
    config = compose(overrides, "learn")
    documents = config["actions"]["documents"]
    part = "policy" if documents is None else "selector"
    if learner_of(config) != part:
        raise BadInput(f"{part} is what is learned", part, "leave it out")
    check(config)
    if len(build(config["objective"]).stages()) > 1:
        what = f"{config[CHOICES]['objective']} trains several rankers in turn, and an episode has one"
        raise BadInput(what, "objective", "learn with another, as objective=sir_v3")
    for key in ("agent", "reward", "state", "validation_sample"):
        build(config[key])
    check_decision_every(config["decision_every"], actions_of(config))
    if documents is not None:
        build(config["actions"]["imitate"])
        check_candidates(config, documents)
    return config


def _continued(arguments: Sequence[str], place: str) -> LearnRequest:
    fixed = [text for text in arguments if root_of(text) not in MAY_CHANGE]
    if fixed:
        raise BadInput(f"{fixed[0]} can't change a learning that has begun", place, "leave it out, or start another")
    saved = read_config_of("learn", Storage(place))
    changed = set(map(key_of, arguments))
    overrides = [*(text for text in map(str, saved["learn"]) if key_of(text) not in changed), *arguments]
    return LearnRequest(compose_learning(overrides), overrides, Storage(place))


def conduct(request: LearnRequest, console: Console) -> int:
    """Learn, and write what there is to see.

    Returns:
        0: what fails ends in an error, and what is lost on the way is repeated from the last state.
    """
    from cluster.object_store import check_store
    from cluster.rollouts.backends import attempts
    from cluster.rollouts.failures import through_losses
    from cluster.rollouts.live_line import LiveLine
    from cluster.rollouts.tracked_episodes import TrackedEpisodes
    from cluster.rollouts.trainer import EPISODES, Progress
    from cluster.session import session

    config, storage = request.config, request.storage
    ended = _ended(storage, storage.read(EPISODES), console)
    if ended is not None:
        show(ended, config, request.overrides, storage, console)
        return 0
    checkpoints.load(storage, lambda line: console.print(line, soft_wrap=True, markup=False))
    built, resumed = trackers(config["track"]), storage.read(CONFIG) is not None
    artifacts = Artifacts(lambda line: console.print(f"[dim]{line} …[/]"))
    collection = artifacts.collection(config)
    facts = {"collection": collection.name, "fingerprint": collection.fingerprint}
    record(request, facts)
    parts = {name: artifacts.part(config, name) for name in artifacts.keys(config)}
    named = " ".join(f"{key}={config[CHOICES][key]}" for key in ("agent", "reward", "ranker"))
    console.print(escape(f"{named} over {'+'.join(config['function'])} on {collection.name}, results in {storage}"))
    shared = 0 if config["hosts"] else sum(artifacts.bytes_of(config).values())  # hosts read the cache
    run = Run(study_of(storage.place), {"seed": str(config["seed"])}, shlex.join(request.overrides))
    with (
        tracked(built, storage, console, "learn", resumed) as tracking,
        session(config["address"], config["dashboard"], shared) as dashboard,
    ):
        check_store(shared, shared, lambda line: console.print(f"[dim]{line}[/]"))
        if dashboard:
            console.print(f"[dim]Ray's dashboard: {dashboard}[/]")
        following = TrackedEpisodes(tracking, run)
        with LiveLine(console, config["validation"]["measure"]) as line:

            def tell(progress: Progress) -> None:
                line.tell(progress)
                following.tell(progress)

            def note(said: str) -> None:
                console.print(escape(said), soft_wrap=True)
                tracking.events.emit("lost", says=said)

            episodes = through_losses(attempts(config, parts, storage, facts), tell, note)
        following.end(episodes)
    show(episodes, config, request.overrides, storage, console)
    return 0


def _ended(storage: Storage, episodes: bytes | None, console: Console) -> pl.DataFrame | None:
    """The episodes of a learning that has ended; None where it has not, or what it left is damaged."""
    if episodes is None:  # written last
        return None
    try:
        read_agent(storage.place)
        return pl.read_parquet(io.BytesIO(episodes))
    except (BadInput, pl.exceptions.PolarsError):
        line = f"what {storage} holds of its agent is damaged; it is learned again from the beginning"
        console.print(line, soft_wrap=True, markup=False)
        return None


def record(request: LearnRequest, facts: dict[str, Any]) -> None:
    """Write down what the learning is, or see that its collection is still the one that it began with."""
    storage = request.storage
    if storage.read(CONFIG) is not None:
        if read_config(storage).get("facts") != facts:
            raise BadInput("the collection has changed since this learning began", storage.place, "start another")
        return
    content = {
        "command": shlex.join(["pyrite", "learn", *request.overrides]),
        "learn": request.overrides,
        "facts": facts,
        **{key: value for key, value in request.config.items() if key != CHOICES},
    }
    write_config(storage, content)


def show(
    episodes: pl.DataFrame, config: dict[str, Any], overrides: Sequence[str], storage: Storage, console: Console
) -> None:
    """Write the figures of a learning, print its table and how to go on."""
    from cluster.output.episodes import LEARNED, RANDOM, against_random, recent
    from cluster.reports.learning_figures import learning_curves, policy_picture

    measure = config["validation"]["measure"]
    storage.write("figures/learning.png", learning_curves(episodes, measure))
    names = actions_of(config).names
    if config["actions"]["documents"] is None:
        storage.write("figures/policy.png", policy_picture(episodes, names))
    title = f"the last episodes (of {measure} the best epoch's, on validation queries)"
    table = Table(title=title, title_justify="left")
    for column in ("agent", "episodes", "return", measure, "epochs", *names):
        table.add_column(column, justify="left" if column == "agent" else "right")
    for agent, last in ((LEARNED, 32), (RANDOM, 1 << 30)):
        means = recent(episodes, agent, last)
        count = min(last, episodes.filter(pl.col("agent") == agent).height)
        if means:
            shares = [f"{means.get(f'share:{name}', 0):.0%}" for name in names]
            figures = [f"{means['return']:.3f}", f"{means['validation']:.4f}", f"{means['epochs']:.1f}"]
            table.add_row(agent, str(count), *figures, *shares)
    console.print(table)
    tests = against_random(episodes)
    if tests:
        console.print(
            f"{measure} of the last episodes against the random agent's: {tests['learned'] - tests['random']:+.4f}, "
            f"t-test p = {tests['t_p']:.3g}, Kolmogorov-Smirnov p = {tests['ks_p']:.3g}"
        )
    show_losses(failure_summary(EventLog.read(storage)), console)
    where = storage.shown()
    console.print(escape(f"agent, episodes and figures: {where}"), soft_wrap=True)
    imitation = read_agent(storage.place).facts.get("imitation")
    if imitation:
        console.print(
            "imitation of BM25: share of the picks that were its documents, of queries that were held out, "
            f"{imitation['before']:.0%} before and {imitation['after']:.0%} after; "
            f"{imitation['learned']:.0%} of those learned from"
        )
    again = shlex.join(["pyrite", "study", *_comparison(config, overrides, where), "seeds=20"])
    console.print(escape(f"compare it over fresh seeds: {again}"), soft_wrap=True)


def _comparison(config: dict[str, Any], overrides: Sequence[str], where: str) -> list[str]:
    """Overrides of a study that holds the agent against chance, in the runs that it learned on."""
    of_runs = {*SHAPES["config"].model_fields, "scale"} - {"seed"}
    own = [text for text in overrides if key_of(text).split(".")[0] in of_runs]
    if config["actions"]["documents"] is None:
        return [*own, "policy=learned,random", f"policy.checkpoint={where}"]
    return [*own, "policy=fixed", "function=tfidf", "selector=learned,uniform", f"selector.checkpoint={where}"]
