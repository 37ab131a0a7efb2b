"""Runs the verbs of the command line from Python, with objects or with overrides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from pyrite.cluster.config.aliases import named_checkpoint
from pyrite.cluster.output.screen import Screen
from pyrite.cluster.output.storage import new_place
from pyrite.cluster.plan.sweep import key_of
from pyrite.data import Collection, about_tables, as_collection
from pyrite.parts import given, of_negatives, overrides_of_negatives, part_given, path_text, written
from pyrite.ranking.bounds import checked
from pyrite.ranking.collections.reader import Reader
from pyrite.ranking.errors import BadInput
from pyrite.results import (
    AuditResult,
    LearningResult,
    MiningResult,
    PoolResult,
    Result,
    StudyResult,
    TrainingResult,
)
from pyrite.running import listed, run, settings
from pyrite.sampling.guard import Guard
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.suppliers import Negatives

Data = Collection | Reader | str | os.PathLike[str] | Iterable[object]
Options = Mapping[str, object]
Folder = str | os.PathLike[str]


@checked
def study(
    overrides: Iterable[str] = (), *, resume: Folder | None = None, console: Console | None = None
) -> StudyResult:
    """Compare ways of choosing negatives, on Ray Tune or in this process, as `pyrite study` does.

    Args:
        overrides: overrides of the runs, with sweeps, and of the study.
        resume: the folder of a study to resume; None starts a new one.
        console: the console for progress and tables; None shows nothing.

    Raises:
        BadInput: if an option or an input is wrong.
    """
    return StudyResult(*run("study", overrides, resume, console))


@checked
def train(
    data: Data = (),
    negatives: object = None,
    ranker: object = None,
    *,
    objective: object = None,
    seed: int | None = None,
    measure: str | None = None,
    search: str | Sequence[str] | None = None,
    scale: str | None = None,
    out: Folder | None = None,
    options: Options | None = None,
    console: Console | None = None,
) -> TrainingResult:
    """Train and evaluate one ranker in this process, as `pyrite train` does. For the arguments see `pyrite.Study`.

    Args:
        data: the collection, its path, a table of pairs (see `pyrite.Collection.from_pairs`), or the overrides of the
            command line instead of all other arguments.
        negatives: where negatives come from.
        ranker: the ranker.
        seed: the seed of the run.
        out: the folder of the results. None makes a new folder under `outputs/`.
        options: further overrides by key, as `{"weights": True}`.
        console: receives progress and tables. None shows nothing.

    Raises:
        BadInput: if an option or an input is wrong.
    """
    method = of_negatives(negatives)
    data = as_collection(data)
    texts = _described(
        data, negatives, method, ranker=ranker, objective=objective, seed=seed, measure=measure, search=search,
        scale=scale, out=_path(out), options=options,
    )  # fmt: skip
    if "out" not in map(key_of, texts):
        texts.append(f"out={written(new_place('train'))}")
    return TrainingResult(*run("train", texts, None, console, isinstance(data, Collection)))


@checked
def learn(
    data: Data = (),
    negatives: object = None,
    ranker: object = None,
    *,
    agent: str | None = None,
    scale: str | None = None,
    out: Folder | None = None,
    options: Options | None = None,
    resume: Folder | None = None,
    console: Console | None = None,
) -> LearningResult:
    """Let an agent learn a policy over retrieval functions, as `pyrite learn` does.

    Args:
        negatives: the functions that the policy chooses among, as `Random() + BM25()`; `TfIdf()`, of whose list the
            agent picks documents with `options={"actions": "documents"}`.
        ranker: the ranker that it watches.
        agent: the name of the agent (`pyrite options agent=NAME`).
        data, scale, out, options, console: see `pyrite.train`.
        resume: the folder of a learning to resume. None starts a new one.
    """
    of_functions = of_negatives(negatives)
    if of_functions[:1] not in ([], ["policy=fixed"]):
        what = f"{negatives!r} is a policy, which an agent learns"
        raise BadInput(what, "negatives", "give Random() + BM25()")
    of_functions = of_functions[1:]
    if (options or {}).get("actions") == "documents" and not _picks(negatives):
        of_functions = [text for text in of_functions if text != "selector=uniform"]  # the agent picks
    data = as_collection(data)
    texts = _described(
        data, negatives, of_functions, ranker=ranker, agent=agent, scale=scale, out=_path(out), options=options
    )
    return LearningResult(*run("learn", texts, resume, console, isinstance(data, Collection)))


@checked
def mine(
    data: Data = (),
    negatives: object = None,
    *,
    guard: Guard | None = None,
    ranker: Folder | TrainingResult | None = None,
    out: Folder | None = None,
    options: Options | None = None,
    resume: Folder | None = None,
    console: Console | None = None,
) -> MiningResult:
    """Mine negatives into a data set, as `pyrite mine` does.

    Args:
        negatives: the functions that supply them, as `BM25(5, pick=Top())`. Without `pick` they are drawn from the
            whole list; the command takes the top of it by default.
        guard: what is left out as probably relevant.
        ranker: a trained run or a checkpoint that scores; required by `Dense` and by selectors that use scores.
        resume: the folder of a mining to resume; None starts a new one.
        data, out, options, console: see `pyrite.train`.
    """
    data = as_collection(data)
    if not isinstance(data, Collection):
        texts = listed(data, negatives=negatives, guard=guard, ranker=ranker, out=out, options=options)
        return MiningResult(*run("mine", texts, resume, console))
    wanted = Negatives.of(negatives if negatives is not None else BM25())
    counts = [function.count for function in wanted.functions]
    overrides = [*data.overrides(), *overrides_of_negatives(wanted)]
    overrides += part_given("guard", guard)
    if len(counts) == 1 and counts[0] is not None:  # `count` is the number of negatives of a single function
        overrides = [text for text in overrides if not text.startswith("negatives.")] + [f"count={counts[0]}"]
    overrides += given("checkpoint", ranker and _folder(ranker))
    overrides += settings(out=_path(out), options=options)
    return MiningResult(*run("mine", overrides, resume, console, objects=True))


@checked
def rank(
    ranker: Folder | TrainingResult,
    data: Data = (),
    *,
    out: Folder | None = None,
    options: Options | None = None,
    console: Console | None = None,
) -> str:
    """Rank a collection by a trained ranker, as `pyrite rank` does.

    Args:
        ranker: a training with `weights=true`, or its folder, weights in it, a saved ranker, or a checkpoint.
        data: the collection, its path, a table of pairs, or overrides of the command line.
        out: the file of the TREC run.
        options, console: see `pyrite.train`.

    Returns:
        The path of the TREC run.
    """
    from pyrite.cluster.commands.rank import rank as write_run

    data = as_collection(data)
    texts = data.overrides() if isinstance(data, Collection) else listed(data)
    texts += settings(out=_path(out), options=options)
    with about_tables():
        return write_run([*texts, named_checkpoint(_folder(ranker))], console or Screen(quiet=True))


@checked
def audit(
    studies: Folder | StudyResult | Sequence[Folder | StudyResult],
    judgements: Folder | None = None,
    *,
    out: Folder = "outputs/audit",
    options: Options | None = None,
    console: Console | None = None,
) -> AuditResult:
    """Draw a sample of the negatives that rankers were shown, or estimate from its judgements how many are relevant.

    Args:
        studies: studies that ran with `sampling.recorded` above 0, or their folders.
        judgements: qrels of the sample. None draws the sample.
        out: the folder, the same for both steps.
        options, console: see `pyrite.train`.

    Raises:
        BadInput: if the studies recorded nothing, or the judgements are of other pairs.
    """
    from pyrite.cluster.commands.audit import audit as run_audit

    several = [studies] if isinstance(studies, str | os.PathLike | Result) else list(studies)
    named = {"studies": [_folder(each) for each in several], "judgements": _path(judgements)}
    texts = settings(out=_path(out), options={**named, **(options or {})})
    run_audit(texts, console or Screen(quiet=True))
    return AuditResult(os.fspath(out))


@checked
def pool(overrides: Iterable[str] = (), *, resume: Folder | None = None, console: Console | None = None) -> PoolResult:
    """Compare orders of judging in simulation, as `pyrite pool` does. For the arguments see `pyrite.study`."""
    return PoolResult(*run("pool", overrides, resume, console))


def _described(data: Data, negatives: object, method: Sequence[str], **arguments: Any) -> list[str]:
    """Return the overrides of a verb's arguments, or the overrides that are given instead of all of them.

    Args:
        negatives: the argument of this name; None if it was not given.
        method: its overrides.
        arguments: those of `settings`.
    """
    data = as_collection(data)
    if isinstance(data, Collection):
        return [*data.overrides(), *method, *settings(**arguments)]
    return listed(data, negatives=negatives, **arguments)


def _picks(negatives: object) -> bool:
    """Return whether a function has a selector."""
    return negatives is not None and any(each.pick is not None for each in Negatives.of(negatives).functions)


def _folder(place: Folder | Result) -> str:
    return place.storage.shown() if isinstance(place, Result) else str(_path(place))


def _path(place: Folder | None) -> str | None:
    remedy = "give a path, or a result; a ranker of a study is saved first, by result.best.ranker.save(PATH)"
    return None if place is None else path_text(place, None, remedy)
