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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from cluster.config.trust import trusting
from pyrite.data import Collection
from pyrite.negatives import as_negatives
from pyrite.parts import Part, override, written
from pyrite.results import StudyResult
from pyrite.running import run, settings
from ranking.errors import BadInput


@dataclass(frozen=True)
class Ray:
    """Runs a study on a Ray cluster.

    >>> Ray("auto").overrides()
    ['address=auto', 'local=false']

    Args:
        address: the address of the cluster, as `head:6379` or `auto`. None starts a local Ray.
    """

    address: str | None = None

    def overrides(self) -> list[str]:
        """Return the overrides that run a verb there."""
        return [f"address={written(self.address or 'auto')}", "local=false"]


class Study:
    """A comparison of ways of choosing negatives over rankers and seeds.

    >>> from pyrite import BM25, Collection, InBatch, Study
    >>> study = Study(Collection.pydocs(), {"in-batch": InBatch(), "+1 BM25": InBatch() + BM25(1)}, seeds=3)
    >>> print(study.command)  # doctest: +ELLIPSIS
    pyrite study collection=pydocs seeds=3 'methods=[{label:in-batch,...}]'

    Arguments that are left out keep the defaults of `pyrite study`. The same study from the command line is
    `study.command`, and has the same runs with the same numbers.

    Args:
        data: the collection.
        negatives: what is compared, by the label that tables show: a function (`BM25(1)`), a sum of functions
            (`InBatch() + BM25(1)`), a policy (`Schedule(Random(), BM25())`), or a class of your own.
        rankers: the rankers, each with all of the negatives; a ranker class of your own is one too. None trains
            `Static()`.
        objective: the training objective.
        seeds: the number of seeds, or the seeds themselves.
        baseline: the label of the method that the others are compared with.
        measure: the measure that validates, stops and leads the tables, as `nDCG@10`.
        search: what rankers rank in evaluation: `all` passages, BM25's candidates, or random ones; several as a list.
        scale: `tiny`, `small`, `medium` or `full`.
        out: the folder or URI of the results. None makes a new folder under `outputs/`.
        options: further overrides of runs or of the study, by key, as `{"training.max_epochs": 3}`.

    Raises:
        BadInput: if an argument is not one that the command line would take.
    """

    def __init__(
        self,
        data: Collection,
        negatives: Mapping[str, object],
        rankers: Sequence[object] = (),
        *,
        objective: object = None,
        seeds: int | Sequence[int] | None = None,
        baseline: str | None = None,
        measure: str | None = None,
        search: str | Sequence[str] | None = None,
        scale: Literal["tiny", "small", "medium", "full"] | None = None,
        out: str | os.PathLike[str] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        if not negatives:
            raise BadInput("a study needs negatives to compare", remedy="give negatives={'in-batch': InBatch(), …}")
        if baseline is not None and baseline not in negatives:
            raise BadInput(f"no negatives are called {baseline!r}", "baseline", f"choose one of {', '.join(negatives)}")
        self.out = None if out is None else os.fspath(out)
        self._overrides = [*data.overrides()]
        self._overrides += settings(objective=objective, measure=measure, search=search, scale=scale)
        if isinstance(seeds, str):
            raise BadInput(f"seeds is {seeds!r}", remedy="give a number, or a list of whole numbers")
        if isinstance(seeds, int):
            self._overrides += override("seeds", seeds)
        elif seeds is not None:
            self._overrides.append(f"seed={','.join(map(str, seeds))}")
        self._overrides += settings(options=options)
        self._overrides.append(f"methods={written(self._methods(negatives, rankers))}")
        if baseline is not None:
            self._overrides.append(f"baseline={written(baseline)}")

    @staticmethod
    def _methods(negatives: Mapping[str, object], rankers: Sequence[object]) -> list[dict[str, object]]:
        """Return the label and the overrides of each method; with several rankers, one line per ranker."""
        of_rankers = [Part.of("ranker", ranker).overrides() for ranker in rankers] or [[]]
        methods: list[dict[str, object]] = []
        for label, chosen in negatives.items():
            lines = [[*ranker, *as_negatives(chosen).overrides()] for ranker in of_rankers]
            methods.append({"label": label, "overrides": lines if len(lines) > 1 else lines[0]})
        return methods

    def overrides(self) -> list[str]:
        """Return the overrides of the command line."""
        return [*self._overrides, *([] if self.out is None else override("out", self.out))]

    @property
    def command(self) -> str:
        """The command that runs the same study."""
        return shlex.join(["pyrite", "study", *self.overrides()])

    def run(self, on: Ray | None = None, *, console: Console | None = None) -> StudyResult:
        """Run the study, or what is left of it if it was run before, and return its result.

        Args:
            on: the cluster to run on. None runs here, with a local Ray if that is quicker.
            console: receives progress and the table. None prints to the terminal or notebook.
        """
        shown = console or Console(highlight=False)
        folder, failed = run("study", [*self.overrides(), *(on.overrides() if on else [])], None, shown)
        self.out = folder
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
        seeds = StudyResult(self.out).trials["seed"].n_unique() + count
        shown = console or Console(highlight=False)
        own = re.findall(r"_target_=([\w.]+)", " ".join(self._overrides))
        with trusting(own):  # classes that the study was given as objects
            return StudyResult(*run("study", [f"seeds={seeds}"], self.out, shown))

    def __repr__(self) -> str:
        return f"Study({self.command})"
