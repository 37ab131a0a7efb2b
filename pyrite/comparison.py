"""Describes a study with objects: data, rankers, ways of choosing negatives, seeds.

>>> import pyrite
>>> from pyrite import BM25, InBatch, Static
>>> study = pyrite.Study(
...     pyrite.Collection.pydocs(),
...     rankers=[Static()],
...     negatives={"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)},
...     seeds=3, baseline="in-batch", scale="tiny",
... )
>>> print(study.command)  # doctest: +ELLIPSIS
pyrite study collection=pydocs scale=tiny seeds=3 'methods=[{label:in-batch,...}]' baseline=in-batch

`study.run()` runs it, here or on a Ray cluster, and returns the same result as the command.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Literal

from rich.console import Console

from pyrite.analysis.methods import UNTRAINED
from pyrite.cluster.config.override import key_of
from pyrite.cluster.config.trainer_option import place_of
from pyrite.cluster.config.trust import trusting
from pyrite.cluster.output.manifest import CONFIG
from pyrite.cluster.output.screen import Screen
from pyrite.cluster.output.storage import Storage, new_place
from pyrite.data import Collection, as_collection
from pyrite.models import as_ranker
from pyrite.parts import chosen, first_repeated, given, is_whole, of_kind, of_negatives, override, written
from pyrite.public import Public
from pyrite.ranking.bounds import checked
from pyrite.ranking.errors import BadInput, refuse
from pyrite.results import StudyResult
from pyrite.running import run, settings

if TYPE_CHECKING:
    from pyrite.ranking.collections.reader import Reader


NO_COLLECTION = "is a {}, not a collection"
OF_ARGUMENTS = ("baseline", "methods", "out")
"""Options of a study that only its arguments give; `methods` are `negatives` and `rankers`."""


@checked
@dataclass(frozen=True)
class Ray:
    """Runs a study on a Ray cluster.

    >>> Ray("auto").overrides()
    ['address=auto', 'local=false']

    Args:
        address: the address of the cluster, as `head:6379` or `auto`. None takes RAY_ADDRESS, or starts a local Ray.
    """

    address: str | None = None

    def overrides(self) -> list[str]:
        """Return the overrides that run a verb there."""
        return [*given("address", self.address), "local=false"]


class Study(Public):
    """A comparison of ways of choosing negatives over rankers and seeds.

    >>> from pyrite import BM25, Collection, InBatch, Study
    >>> study = Study(Collection.pydocs(), {"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)}, seeds=3)
    >>> print(study.command)  # doctest: +ELLIPSIS
    pyrite study collection=pydocs seeds=3 'methods=[{label:in-batch,...}]'

    Arguments that are left out keep the defaults of `pyrite study`. The same study from the command line is
    `study.command`, and has the same runs with the same numbers.

    Args:
        data: the collection, its path, a table of pairs (see `Collection.from_pairs`), or a `Reader` of your own.
        negatives: what is compared, by the label that tables show: a function (`BM25(1)`), a sum of functions
            (`InBatch() + BM25(1)`), a policy (`Schedule(Random(), BM25())`), or a class of your own.
        rankers: the rankers, each with all of the negatives; a ranker class of your own is one too. None trains
            `Static()`.
        objective: the training objective.
        seeds: the number of seeds, or the seeds themselves.
        baseline: the label of the method that the others are compared with, or "before training".
        measure: the measure that validates, stops and leads the tables, as `nDCG@10`.
        search: what rankers rank in evaluation: `all` passages, BM25's candidates, or random ones; several as a list.
        scale: `tiny`, `small`, `medium`, `full` or `paper`.
        trainer: what trains instead of Pyrite's rankers: a function `train(data, seed, folder)`
            (`pyrite.torch.TrainingData`) of a script or module, or a command. Its further arguments are options, as
            `{"trainer.lr": 1e-5}`.
        out: the folder or URI of the results. None makes a new folder under `outputs/`.
        options: further overrides of runs or of the study, by key, as `{"training.max_epochs": 3}`; none that an
            argument gives.

    Raises:
        BadInput: if an argument has the wrong type, or no method has the label. Values are checked by `run`, before any
            work.
    """

    def __init__(
        self,
        data: Collection | Reader | str | os.PathLike[str] | Iterable[object],
        negatives: Mapping[str, object],
        rankers: Sequence[object] = (),
        *,
        objective: object = None,
        seeds: int | Sequence[int] | None = None,
        baseline: str | None = None,
        measure: str | None = None,
        search: str | Sequence[str] | None = None,
        scale: Literal["tiny", "small", "medium", "full", "paper"] | None = None,
        trainer: Callable[..., object] | str | None = None,
        out: str | os.PathLike[str] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        remedy = "give a path, a table of pairs, or a pyrite.Collection"
        collection: Collection = of_kind(as_collection(data), Collection, "data", remedy, NO_COLLECTION)
        remedy = "give them by label, as {'in-batch': InBatch(), …}"
        negatives = of_kind(negatives, Mapping, "negatives", remedy, "is a {}, and methods need labels")
        of_kind(rankers, Sequence, "rankers", "give a list, as [Static()]", "is a {}, no list")
        nothing = [str(label) for label, each in negatives.items() if each is None]
        refuse(nothing, "{} has no negatives", "negatives", "give a function, as InBatch(), or leave the label out")
        refuse(not negatives, "a study needs negatives to compare", remedy="give negatives={'in-batch': InBatch(), …}")
        negatives = {str(label): each for label, each in negatives.items()}
        if baseline is not None and str(baseline) not in (*negatives, UNTRAINED):
            raise BadInput(f"no negatives are called {baseline!r}", "baseline", f"choose one of {', '.join(negatives)}")
        self.out = None if out is None else os.fspath(out)
        self._storage: Storage | None = None
        self._overrides = collection.overrides()
        self._overrides += settings(objective=objective, measure=measure, search=search, scale=scale)
        self._overrides += _seeds(seeds)
        self._trainer = [] if trainer is None else override("trainer.run", place_of(trainer))
        self._overrides += self._trainer
        of_options = settings(options=options)
        _refuse_twice(options or {}, self._overrides)
        self._overrides += of_options
        self._overrides.append(f"methods={written(self._methods(negatives, rankers))}")
        self._overrides += given("baseline", baseline and _literal(baseline))

    @staticmethod
    def _methods(negatives: Mapping[str, object], rankers: Sequence[object]) -> list[dict[str, object]]:
        """Return the label and the overrides of each method; with several rankers, one line per ranker."""
        of_rankers = [chosen("ranker", as_ranker(ranker)) for ranker in rankers] or [[]]
        methods: list[dict[str, object]] = []
        for label, each in negatives.items():
            lines = [[*ranker, *of_negatives(each)] for ranker in of_rankers]
            methods.append({"label": _literal(label), "overrides": lines if len(lines) > 1 else lines[0]})
        return methods

    def overrides(self) -> list[str]:
        """Return the overrides of the command line."""
        return [*self._overrides, *given("out", self.out)]

    @property
    def command(self) -> str:
        """The command that runs the same study."""
        return shlex.join(["pyrite", "study", *self.overrides()])

    def run(self, on: Ray | None = None, *, console: Console | None = None) -> StudyResult:
        """Run the study, or what is left of it if this object ran before, and return its result.

        A study that another program began in the folder `out` is continued by `StudyResult.restore`.

        Args:
            on: the cluster to run on. None runs here, with a local Ray if that is quicker.
            console: receives progress and the table. None prints to the terminal or notebook.
        """
        if self.out is None:
            self.out = new_place("study")  # so that it is known if the study is interrupted
        on = of_kind(on, (Ray, NoneType), "on", f"give pyrite.Ray({on!r})")
        place = on.overrides() if on else []
        if self._storage is not None and self._storage.read(CONFIG) is not None:
            return self._continue(self._storage, place, console)
        storage = Storage(self.out)
        self._storage = None if storage.read(CONFIG) is not None else storage  # None: results of another study
        folder, failed = run("study", [*self.overrides(), *place], None, console or Screen(), objects=True)
        return StudyResult(folder, failed)

    def more_seeds(self, count: int, *, console: Console | None = None) -> StudyResult:
        """Add seeds to a study that was run, and run them.

        Args:
            count: the number of seeds to add.
            console: receives progress and the table. None prints to the terminal or notebook.

        Raises:
            BadInput: if the study was not run yet.
        """
        if self.out is None:
            raise BadInput("the study was not run yet", remedy="call run() first")
        refuse(not is_whole(count, 1), f"count is {count!r}", remedy="choose a whole number from 1 up")
        storage = self._storage or Storage(self.out)
        seeds = StudyResult(storage.shown()).trials["seed"].n_unique() + int(count)
        return self._continue(storage, [f"seeds={seeds}"], console)

    def _continue(self, storage: Storage, overrides: list[str], console: Console | None) -> StudyResult:
        folder = storage.shown()  # the working folder may be another one now
        own = re.findall(r"_target_[=:]([\w.]+)", " ".join(self._overrides))
        with trusting(own):  # classes that the study was given as objects
            return StudyResult(*run("study", [*overrides, *self._trainer], folder, console or Screen(), objects=True))

    def __repr__(self) -> str:
        return f"Study({self.command})"


def _refuse_twice(options: Mapping[str, object], written_already: Sequence[str]) -> None:
    """Refuse options that are arguments of a study; `measures` may be more than the one of `measure`."""
    given_already = {*OF_ARGUMENTS, *map(key_of, written_already)} - {"measures"}
    twice = [key for key in options if key in given_already]
    refuse(twice, "{} is what an argument of Study gives", "options", "leave it out of them, and give the argument")


def _literal(label: object) -> str:
    """Return a label as Hydra's grammar writes it if `${` in it is no reference to an option."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", str(label))


def _seeds(seeds: object) -> list[str]:
    """Return the overrides of a number of seeds, or of the seeds themselves."""
    if seeds is None:
        return []
    numbers = list(seeds) if isinstance(seeds, Iterable) and not isinstance(seeds, str) else [seeds]
    refuse(
        not numbers or not all(map(is_whole, numbers)),
        f"seeds is {seeds!r}",
        remedy="give a number, or a list of whole numbers",
    )
    twice = first_repeated(numbers)
    refuse(twice is not None, f"seeds has {twice} twice", remedy="remove one of them")
    return override("seeds", seeds) if is_whole(seeds) else [f"seed={','.join(map(str, numbers))}"]
