"""Checks options before anything starts: their types, the classes that they name, and whether they fit together.

`compose` calls `check_parts` and `check_shape` for every configuration: parts must be at the right level and of a
trusted class, and keys of the type that `schema` declares. A command calls `check_run`, `check_learning` or
`check_pooling`, which build the parts that need no data and check options against each other. Requests that only the
cluster can refuse, `executors.resources.check_demand` refuses once it is there.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pyrite.cluster.config.agents import AgentNeeds, actions_of, checkpoint_of, learner_of
from pyrite.cluster.config.build import build, build_each, parts_in
from pyrite.cluster.config.counts import counts_of
from pyrite.cluster.config.declared import absent
from pyrite.cluster.config.groups import CHOICES, NAMED_GROUPS, SINGLE_GROUPS, group_options
from pyrite.cluster.config.refusals import missing, refusal
from pyrite.cluster.config.schema import SHAPES
from pyrite.cluster.config.trainer_option import check_trainer, trains_elsewhere
from pyrite.cluster.config.trust import check_classes, origin
from pyrite.ranking.errors import BadInput, no_teacher, refuse
from pyrite.ranking.lazy import torch

if TYPE_CHECKING:
    from pyrite.rl.trained import TrainedAgent
    from pyrite.sampling.retrieval.function import RetrievalFunction


def check_parts(config: dict[Any, Any], choices: dict[Any, Any]) -> None:
    """Refuse parts that are not at the level of their group, and untrusted classes that a folder names."""
    check_classes(config, origin())
    for group in group_options():
        node, chosen = config.get(group), choices.get(group)
        if isinstance(node, dict):
            _check_level(group, node, chosen if isinstance(chosen, str) else None)


def _check_level(group: str, node: dict[Any, Any], chosen: str | None) -> None:
    """Refuse a file whose `_target_` is a level too high or too low."""
    file = f"conf/{group}/{chosen}.yaml" if chosen else f"conf/{group}"
    begin = f"with `{chosen or 'NAME'}:`, `_target_` beneath"
    what = f"{group} takes named parts, and this _target_ has no name"
    refuse(
        group in NAMED_GROUPS and "_target_" in node,
        what,
        file,
        f"begin the file {begin}; on the command line write +{group}.NAME._target_=…",
    )
    inner = list(parts_in(node))
    what = f"_target_ is under {', '.join(map(repr, inner))}, but {group} is one part without a name"
    refuse(
        group in SINGLE_GROUPS and "_target_" not in node and len(inner) == len(node) == 1,
        what,
        file,
        "begin the file with `_target_: package.module.Class`, its options beneath",
    )


def check_shape(config: dict[str, Any], primary: str) -> None:
    """Refuse keys of a composed configuration that are missing, unknown, or of another type than in `schema`."""
    try:
        SHAPES[primary].model_validate(config)
    except ValidationError as error:
        raise refusal(error, config=primary) from None
    if left_out := absent(config, primary):
        raise missing(left_out, config=primary)


def check_run(config: dict[str, Any], agent: TrainedAgent | None) -> None:
    """Build the parts that need no data, so that bad options of a run are refused before anything starts.

    The agent that it uses (`pyrite.cluster.runs.agent_file.agent_of`) is None if it must be learned first, or there is
    none.
    """
    from pyrite.ranking.evaluation.measures import parse
    from pyrite.ranking.rankers.dense import DenseRanker
    from pyrite.sampling.retrieval.dense import Dense
    from pyrite.sampling.retrieval.memory import Memory

    elsewhere = trains_elsewhere(config)
    if elsewhere:
        check_trainer(config)
    kinds = ("collection", "objective", "policy", "selector", "vectors", "encoding", "ranker", "training", "scheduler")
    parts = {key: build(config[key], key, trust="composed") for key in (*kinds, "batches")}
    ranker = type(parts["ranker"])
    for name, function in build_each(config["function"], "function", trust="composed").items():
        remedy = "choose ranker=bi_encoder, static or dssm, or function=embedding with a fixed encoder"
        refuse(
            isinstance(function, Dense | Memory) and not elsewhere and not issubclass(ranker, DenseRanker),
            f"it compares vectors, and {ranker.__name__} has none",
            f"function={name}",
            remedy,
        )
    build_each(config["origin"], "origin", trust="composed")
    check_optimizer(config["optimizer"])
    check_counts(config)
    if agent is not None:
        check_agent(config, agent)
    least, workers = config["resources"]["least"], config["resources"]["workers"]
    what = f"least is {least}, but the run starts with {workers} workers"
    refuse(least is not None and least > workers, what, "resources.least", "choose no more than resources.workers")
    check_selectors(config)
    check_guards(config)
    for measure in [*config["measures"], config["validation"]["measure"]]:
        parse(measure)


def check_selectors(config: Mapping[str, Any]) -> None:
    """Refuse an agent as the selector of one function, and what would pick instead of it or show it another list."""
    if "checkpoint" in config["selector"]:
        for name, node in config["selectors"].items():
            what = f"{node['_target_'].rpartition('.')[2]} would pick the negatives instead of the agent"
            raise BadInput(what, f"selector.{name}", "leave it out")
        policy = build(config["policy"], "policy", trust="composed")
        picks = policy.selectors_of(build_each(config["function"], "function", trust="composed"))
        what = f"{type(policy).__name__} has selectors or a window of its own, and the agent picks from whole lists"
        refuse(bool(picks) or policy.window is not None, what, "policy", "leave out its options, as policy=fixed")
    for name, node in config["selectors"].items():
        what = "an agent picks all negatives of a run, and not those of one function"
        refuse("checkpoint" in node, what, f"selector.{name}", "give policy=fixed function=tfidf selector=learned")


def check_guards(config: Mapping[str, Any]) -> None:
    """Refuse a guard with a selector that takes documents of other queries' lists, which it has not seen."""
    from pyrite.sampling.guard import Guard
    from pyrite.sampling.selection.shared import Shared

    guard: Guard = build(config["guard"], "guard", trust="composed")
    own = build_each(config["selectors"], "selector", trust="composed")
    selector = build(config["selector"], "selector", trust="composed")
    functions = build_each(config["function"], "function", trust="composed")
    refuse(
        any(
            isinstance(own.get(name, selector), Shared) and (guard.active or getattr(function, "guard", guard).active)
            for name, function in functions.items()
        ),
        "it shows a query documents of other queries' lists, which no guard has compared with its positive",
        "selector=shared",
        "choose another selector, as uniform, or leave the guard out",
    )


def check_optimizer(node: dict[str, Any]) -> None:
    """Refuse options of an optimizer that its class, usually one of torch's, refuses when it gets the weights."""
    factory = build(node, "optimizer", trust="composed")
    known = inspect.signature(factory.func).parameters
    weights = [torch.nn.Parameter(torch.zeros(2, 2))]
    for name, value in factory.keywords.items():
        if name in known and not _may_be(known[name], value):
            raise BadInput(f"optimizer.{name} is {value!r}", remedy=_remedy(known[name]))
    try:
        factory(weights)
    except OF_TORCH as error:
        for name, value in factory.keywords.items():
            try:
                factory.func(weights, **{"lr": 0.001, name: value})
            except OF_TORCH:
                remedy = _remedy(known[name]) if name in known else None
                raise BadInput(f"optimizer.{name} is {value!r}", remedy=remedy) from None
        raise BadInput(str(error).partition("\n")[0], "optimizer", "see `pyrite options`") from None


OF_TORCH = (TypeError, ValueError, RuntimeError)
"""What an optimizer of torch raises for options that it refuses."""
REMEDIES: Mapping[type, Callable[[Any], str]] = {
    bool: lambda default: "choose true or false",
    int: "choose a number from 0 up, as {:g}".format,
    float: "choose a number from 0 up, as {:g}".format,
    tuple: lambda default: f"give {len(default)} numbers, as {list(default)}",
}
"""What to do about an option that is refused, by its kind."""


def _kind_of(parameter: inspect.Parameter) -> type:
    """Return the type of an option, by its annotation and its default."""
    return bool if "bool" in str(parameter.annotation) else type(parameter.default)


def _may_be(parameter: inspect.Parameter, value: Any) -> bool:
    """Return whether a value may be an option. Torch takes a text as true."""
    kind = _kind_of(parameter)
    if kind is bool:
        return type(value) in (bool, type(parameter.default))
    if parameter.name == "lr" or kind in (int, float):
        return type(value) in (int, float) and math.isfinite(value)
    return True


def _remedy(parameter: inspect.Parameter) -> str:
    if parameter.name == "lr":
        return "choose a number above 0"
    return REMEDIES.get(_kind_of(parameter), lambda default: "see the documentation of its class")(parameter.default)


def check_counts(config: dict[str, Any]) -> None:
    """Refuse numbers of negatives that policy, functions, selectors and objective do not fit."""
    from pyrite.sampling.selection.window import Window

    policy = build(config["policy"], "policy", trust="composed")
    objective = build(config["objective"], "objective", trust="composed")
    functions = build_each(config["function"], "function", trust="composed")
    actions = getattr(policy, "actions", None) or ()  # those that are given to `aligned`
    for action in actions:
        if action.function in functions:
            action.check_ranks(functions[action.function].depth)
    policy.set_functions(list(functions))
    for name, function in functions.items():
        what = f"function={name} shows a query documents of the others of its batch, and there are none"
        refuse(
            function.supply(config["training"]["batch_size"], 1) == 0, what, "training.batch_size", "choose 2 or more"
        )
    counts = counts_of(config, functions, policy)
    objective.check_block(config["sampling"]["negatives"] if counts is None else sum(counts.values()))
    if counts is not None:
        policy.set_counts(list(counts.values()))
    selectors = [*build_each(config["selectors"], "selector", trust="composed").values()]
    if len(objective.stages()) > 1:
        what = "an objective with several stages needs lists of one length"
        refuse(counts is not None, what, "negatives", "give one number for all functions: sampling.negatives")
        selectors.append(build(config["selector"], "selector", trust="composed"))
        windows = [isinstance(each, Window) for each in selectors]
        windows += [each.window is not None for each in (policy, *actions)]
        what = "after its first stage it learns from the head of each list, whatever a window shows"
        remedy = "leave out selector=window and windows of the policy, or choose an objective with one stage"
        refuse(any(windows), what, "objective", remedy)
    if objective.needs_teacher:
        _check_teacher(config, functions)


def _check_teacher(config: dict[str, Any], functions: Mapping[str, RetrievalFunction]) -> None:
    """Refuse an objective that learns from a teacher without one, without lists that it could score, or for a dev loss,
    whose random negatives it hasn't scored."""
    from pyrite.sampling.retrieval.function import RetrievalFunction

    if not config.get("teacher"):
        raise no_teacher("there is no teacher to learn from", "objective")
    what = "the teacher has no scores of random documents, so the objective has no dev loss"
    refuse(config["validation"]["negatives"], what, "validation.negatives", "choose validation.negatives=null")
    listed = any(type(function).rank is not RetrievalFunction.rank for function in functions.values())
    what = f"a teacher scores documents in lists made before the training, and {' and '.join(functions)} has none"
    remedy = "add a function with a list, as function=[in_batch,bm25] negatives.bm25=1"
    refuse(not listed and config["training"]["positives"] == 1, what, "teacher", remedy)


def check_agent(config: dict[str, Any], agent: TrainedAgent | AgentNeeds) -> None:
    """Refuse an agent that was learned for other functions or smaller batches than the run's, or as the other part.

    Args:
        agent: the agent, or what it will need if a study learns it first.
    """
    checkpoint = checkpoint_of(config)
    part = "selector" if agent.documents else "policy"
    where = checkpoint or f"{part}.learn"
    refuse(
        config[part].get("checkpoint") != checkpoint,
        f"this agent is a {part}",
        checkpoint,
        f"give {part}=learned {part}.checkpoint={checkpoint}",
    )
    what = f"the agent chooses among {agent.functions}, not {list(config['function'])}"
    refuse(
        set(agent.functions) != set(config["function"]),
        what,
        where,
        f"give function=[{','.join(agent.functions)}]",
    )
    if agent.documents:
        check_candidates(config, agent.documents)
    what = f"the agent reads batches of up to {agent.pairs} pairs"
    refuse(
        config["training"]["batch_size"] > agent.pairs,
        what,
        "training.batch_size",
        f"give training.batch_size={agent.pairs}",
    )


def check_candidates(config: dict[str, Any], documents: int) -> None:
    """Refuse a run without enough documents to pick from: those nearest to each query in tf·idf space."""
    from pyrite.sampling.retrieval.tfidf import TfIdf

    functions = config["function"]
    what = f"documents are picked from the lists of tfidf, not of {', '.join(functions)}"
    refuse(
        len(functions) != 1 or not isinstance(build(next(iter(functions.values())), trust="composed"), TfIdf),
        what,
        "function",
        "give policy=fixed function=tfidf",
    )
    name, node = next(iter(functions.items()))
    what = f"the agent picks from {documents} documents and the lists have {node['depth']}"
    where = f"function.{name}.depth"
    refuse(node["depth"] < documents, what, where, f"give {where}={documents} or more")


def check_learning(config: dict[str, Any], agent: TrainedAgent | None) -> None:
    """Refuse options of a learning that its parts refuse, or that do not fit together."""
    from pyrite.rl.environment import check_decision_every

    documents = config["actions"]["documents"]
    part = "policy" if documents is None else "selector"
    refuse(learner_of(config) != part, f"{part} is what this command learns", part, "leave it out")
    what = f"an agent needs at least two functions to choose from, and there is only {''.join(config['function'])}"
    refuse(documents is None and len(config["function"]) == 1, what, "function", "give a list: function=[random,bm25]")
    check_run(config, agent)
    what = f"{config[CHOICES]['objective']} trains several rankers in turn, and an episode has one"
    refuse(
        len(build(config["objective"], trust="composed").stages()) > 1,
        what,
        "objective",
        "learn with another, as objective=sir_v3",
    )
    for key in ("reward", "state", "validation_sample"):
        build(config[key], key, trust="composed")
    learners, copies = build(config["agent"], "agent", trust="composed").learners, config["copies"]
    what = f"agent.learners is {learners}, and there are {copies} copies"
    refuse(learners > copies, what, remedy=f"choose copies={learners}, or fewer learners")
    if config.get("until") is not None:
        until = build(config["until"], "until", trust="composed")
        until.check_random(-(-config["random_baseline"] // copies) * copies)  # each copy has equally many
        first = until.first
        what = f"until=converged compares episodes after {first}, and learning ends after {config['episodes']}"
        refuse(
            first > config["episodes"], what, "episodes", f"give {first} or more, or lower until.after and until.window"
        )
    check_decision_every(config["decision_every"], actions_of(config))
    check_shares(config["copies"], config["workers"])
    if documents is not None:
        build(config["actions"]["imitate"], "actions.imitate", trust="composed")
        check_candidates(config, documents)


def check_shares(copies: int, workers: int | None) -> None:
    """Refuse copies that do not divide evenly over workers."""
    refuse(
        workers and copies % workers,
        f"{copies} copies do not divide evenly over {workers} workers",
        "copies",
        "choose a multiple",
    )


def check_pooling(config: dict[str, Any]) -> None:
    """Refuse a pool with several sources: runs and judgements, or a file that names them."""
    refuse(
        config["pools"] is not None and (config["runs"] is not None or config["qrels"] is not None),
        "pools= excludes runs= and qrels=",
        remedy="write them into the file that pools= names",
    )
    refuse(
        config["pools"] is None and config["runs"] is None and config["qrels"] is not None,
        "qrels= is given without runs=",
        remedy="give runs=FOLDER",
    )
