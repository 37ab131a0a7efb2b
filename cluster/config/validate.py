"""Checks options, before anything starts: their types, the classes that they name, and how they go together.

`compose` has `check_parts` and `check_shape` look at every configuration: each part at its level and of a class that is
trusted, each key of the type that `schema` declares. A command has `check_run`, `check_learning` or `check_pooling`
build what needs no data, where a class refuses its own options, and hold options against each other. What only the
cluster tells, `plan.resources.check_demand` refuses once it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cluster.config.agents import actions_of, checkpoint_of, learner_of
from cluster.config.build import build
from cluster.config.counts import counts_of
from cluster.config.groups import CHOICES, NAMED_GROUPS, SINGLE_GROUPS, group_options
from cluster.config.trust import check_classes
from ranking.errors import BadInput
from ranking.teachers import no_teacher

if TYPE_CHECKING:
    from rl.mixture import MixtureAgent
    from rl.trained import TrainedAgent


def check_parts(config: dict[Any, Any], choices: dict[Any, Any]) -> None:
    """See that parts stand at the level of their kind, and that a folder names only classes that are trusted.

    Args:
        config: composed.
        choices: the option chosen of each group.

    Raises:
        BadInput: where they do not.
    """
    check_classes(config)
    for group in group_options():
        node, chosen = config.get(group), choices.get(group)
        if isinstance(node, dict):
            _check_level(group, node, chosen if isinstance(chosen, str) else None)


def _check_level(group: str, node: dict[Any, Any], chosen: str | None) -> None:
    """Refuse a file of an option whose `_target_` stands a level too high or too low."""
    file = f"conf/{group}/{chosen}.yaml" if chosen else f"conf/{group}"
    if group in NAMED_GROUPS and isinstance(node.get("_target_"), str):
        name = chosen or "NAME"
        begin = f"with `# @package method.{name}`" if group == "method" else f"with `{name}:`, `_target_` beneath"
        what = f"{group} takes parts by their names, and here _target_ has none"
        raise BadInput(what, file, f"begin the file {begin}; on the command line write +{group}.NAME._target_=…")
    inner = [key for key, value in node.items() if isinstance(value, dict) and "_target_" in value]
    if group in SINGLE_GROUPS and "_target_" not in node and len(inner) == len(node) == 1:
        what = f"_target_ stands under {inner[0]!r}, and {group} is one part without a name"
        raise BadInput(what, file, "begin the file with `_target_: package.module.Class`, its options beneath")


def check_shape(config: dict[str, Any], primary: str) -> None:
    """Hold a composed configuration against the types of its keys (`schema`).

    Args:
        config: without its choices.
        primary: the primary file that it comes from.

    Raises:
        BadInput: where a key is missing, unknown, or holds something else.
    """
    from pydantic import ValidationError

    from cluster.config.refusals import refusal
    from cluster.config.schema import SHAPES

    try:
        SHAPES[primary].model_validate(config)
    except ValidationError as error:
        raise refusal(error, config=primary) from None


def check_run(config: dict[str, Any], agent: TrainedAgent | MixtureAgent | None) -> None:
    """Build what needs no data, so that bad options of a run are refused before anything starts.

    Args:
        config: composed.
        agent: that it acts by (`runs/agent_file.agent_of`); None where it is still to be learned, or there is none.

    Raises:
        BadInput: where a part of the configuration refuses its options, or two parts do not go together.
    """
    from ranking.evaluation.measures import parse
    from ranking.rankers.cascade import Cascade

    for key in ("objective", "policy", "selector", "vectors", "encoding", "ranker", "training", "scheduler", "batches"):
        made = build(config[key], key)
        if key == "objective":
            passes = getattr(made, "passes", "one")
        if key == "ranker" and issubclass(made.func, Cascade) and passes != "level":
            raise BadInput(
                "a cascade has a model for each level, and this objective scores all levels with the first",
                "objective",
                "choose objective=sir_v3 or sir_v4 with objective.passes=level",
            )
    for group in ("function", "origin"):
        for name, node in config[group].items():
            build(node, f"{group}.{name}")
    check_counts(config)
    if agent is not None:
        check_agent(config, agent)
    check_workers(config["resources"])
    if config["resources"]["shard"]:
        check_sharding(config)
    build(config["sampling"]["guard"], "sampling.guard")
    for measure in [*config["measures"], config["validation"]["measure"]]:
        parse(measure)


def check_counts(config: dict[str, Any]) -> None:
    """Hold policy, functions, selectors and objective against the numbers of negatives, before anything starts.

    Raises:
        BadInput: where they do not go together.
    """
    policy, objective = build(config["policy"], "policy"), build(config["objective"], "objective")
    functions = {name: build(node, f"function.{name}") for name, node in config["function"].items()}
    policy.set_functions(list(functions))
    counts = counts_of(config, functions, policy)
    objective.check_block(config["sampling"]["negatives"] if counts is None else sum(counts.values()))
    if counts is not None:
        policy.set_counts(list(counts.values()))
        if len(objective.stages()) > 1:
            what = "an objective of several stages hands on lists of one length"
            raise BadInput(what, "negatives", "give one number for all functions: sampling.negatives")
    for name, node in config["selectors"].items():
        build(node, f"selector.{name}")
    if objective.needs_teacher and not config.get("teacher"):
        raise no_teacher("there is no teacher to learn from", "objective")


def check_agent(config: dict[str, Any], agent: TrainedAgent | MixtureAgent) -> None:
    """See that a run's agent fits it.

    Raises:
        BadInput: where it was learned for other functions or smaller batches, or is the other part.
    """
    from rl.mixture import MixtureAgent

    checkpoint = checkpoint_of(config)
    part = "selector" if agent.documents else "policy"
    if config[part].get("checkpoint") != checkpoint:
        raise BadInput(f"this agent is a {part}", checkpoint, f"give {part}=learned {part}.checkpoint={checkpoint}")
    if set(agent.functions) != set(config["function"]):
        raise BadInput(
            f"the agent chooses among {agent.functions}, not {list(config['function'])}",
            checkpoint,
            f"give function=[{','.join(agent.functions)}]",
        )
    if isinstance(agent, MixtureAgent):
        return
    if agent.documents:
        check_candidates(config, agent.documents)
    if config["training"]["batch_size"] > agent.pairs:
        raise BadInput(
            f"the agent reads batches of up to {agent.pairs} pairs",
            "training.batch_size",
            f"give training.batch_size={agent.pairs}",
        )


def check_candidates(config: dict[str, Any], documents: int) -> None:
    """See that there are documents to pick from: those nearest to each query in tf·idf space.

    Raises:
        BadInput: where the functions are others, or their lists too short.
    """
    from sampling.retrieval.tfidf import TfIdf

    functions = config["function"]
    if len(functions) != 1 or not isinstance(build(next(iter(functions.values()))), TfIdf):
        raise BadInput(
            f"documents are picked from the lists of tfidf, not of {', '.join(functions)}",
            "function",
            "give policy=fixed function=tfidf",
        )
    name, node = next(iter(functions.items()))
    if node["depth"] < documents:
        raise BadInput(
            f"the agent picks from {documents} documents and the lists have {node['depth']}",
            f"function.{name}.depth",
            f"give function.{name}.depth={documents} or more",
        )


def check_workers(asked: Mapping[str, Any]) -> None:
    """Hold the options of several workers against each other.

    Args:
        asked: `resources` of a run.

    Raises:
        BadInput: where they make no sense together.
    """
    if asked["least"] is not None and asked["least"] > asked["workers"]:
        what = f"least is {asked['least']} and there are {asked['workers']} workers to begin with"
        raise BadInput(what, "resources.least", "choose no more than resources.workers")


def check_sharding(config: Mapping[str, Any]) -> None:
    """See that a run whose workers split the weights needs a whole ranker nowhere.

    Raises:
        BadInput: where it does, or has one worker.
    """
    from ranking.sharding import SHARDED
    from sampling.retrieval.dense import Dense
    from sampling.selection.adversarial import Adversarial

    where = "resources.shard"
    if config["resources"]["workers"] == 1:
        raise BadInput("one worker has nobody to split weights with", where, "choose resources.workers=2 or more")
    ranker = build(config["ranker"], "ranker").func
    if not (isinstance(ranker, type) and issubclass(ranker, SHARDED)):
        remedy = "choose bi_encoder, cross_encoder, late_interaction or decoder, or resources.shard=false"
        raise BadInput(f"the weights of {ranker.__name__} are not split over workers", where, remedy)
    if config["keep_at"]:
        raise BadInput("states for forks are those of one process", where, "leave keep_at out")
    for name, node in config["function"].items():
        if isinstance(made := build(node, f"function.{name}"), Dense) and made.refresh.mode not in ("lagged", "async"):
            remedy = "choose refresh.mode=lagged or async, whose index is built beside the training"
            raise BadInput("each worker would read with a whole ranker", f"function.{name}.refresh", remedy)
    for key, node in {"selector": config["selector"], **config["selectors"]}.items():
        if isinstance(build(node, key), Adversarial):
            raise BadInput(
                "each worker would copy the whole ranker", "selector", "choose another, or resources.shard=false"
            )


def check_learning(config: dict[str, Any], agent: TrainedAgent | MixtureAgent | None) -> None:
    """See that what an agent is to learn can be learned.

    Args:
        config: of conf/learn.yaml, composed.
        agent: that another part of it acts by.

    Raises:
        BadInput: where a part refuses its options, or two of them do not go together.
    """
    from rl.environment import check_decision_every

    documents = config["actions"]["documents"]
    part = "policy" if documents is None else "selector"
    if learner_of(config) != part:
        raise BadInput(f"{part} is what is learned", part, "leave it out")
    check_run(config, agent)
    if len(build(config["objective"]).stages()) > 1:
        what = f"{config[CHOICES]['objective']} trains several rankers in turn, and an episode has one"
        raise BadInput(what, "objective", "learn with another, as objective=sir_v3")
    for key in ("agent", "reward", "state", "validation_sample"):
        build(config[key])
    if config.get("until") is not None:
        build(config["until"])
    check_decision_every(config["decision_every"], actions_of(config))
    check_shares(config["copies"], config["workers"], config["hosts"])
    if documents is not None:
        build(config["actions"]["imitate"])
        check_candidates(config, documents)


def check_shares(copies: int, workers: int | None, hosts: int) -> None:
    """See that copies can be shared out evenly over workers, and workers over hosts.

    Args:
        copies: of the environment.
        workers: that step them; None: as many as there are hosts, or as fit.
        hosts: that hold their rankers; 0: none.

    Raises:
        BadInput: where they can't.
    """
    workers = hosts or None if workers is None else workers
    if workers and copies % workers:
        raise BadInput(f"{copies} copies can't be shared out over {workers} workers", "copies", "choose a multiple")
    if hosts and (not workers or workers % hosts):
        raise BadInput(f"{workers} workers can't be shared out over {hosts} hosts", "workers", "choose a multiple")


def check_pooling(config: dict[str, Any]) -> None:
    """See that a pool comes from one place: runs and their judgements, a file that names them, or neither.

    Args:
        config: of conf/pool.yaml, composed.

    Raises:
        BadInput: where options exclude each other.
    """
    if config["pools"] is not None and (config["runs"] is not None or config["qrels"] is not None):
        raise BadInput("pools= is given beside runs= or qrels=", remedy="write them into the file that pools= names")
    if config["pools"] is None and config["runs"] is None and config["qrels"] is not None:
        raise BadInput("qrels= is given without runs=", remedy="give runs=FOLDER")
