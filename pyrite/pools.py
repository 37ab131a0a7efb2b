"""Describes a pool of TREC runs: simulates orders of judging over it, chooses the next document, or serves the page.

>>> from pyrite import MM, MTF
>>> MM().name, MTF().name
('mm', 'mtf')
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

from rich.console import Console

from pyrite.data import Collection, as_collection
from pyrite.parts import Part, is_whole, path_text, written
from pyrite.ranking.errors import BadInput
from pyrite.results import PoolResult
from pyrite.running import run, settings

Path = str | os.PathLike[str]
FILES = "write a file (pyrite.ranking.trec_files.write_run and write_qrels), and give its path"


class Method(Part):
    """Base of the orders of judging. An `Adjudicator` of your own is one too.

    >>> Method.named("hedge")
    Method.named('hedge')
    """

    group = "method"

    @classmethod
    def named(cls, name: str, **options: Any) -> Method:
        """Return the method that `pyrite pool method=NAME` takes, with options of its own."""
        kind = type("Method", (cls,), {"__repr__": lambda self: f"Method.named({name!r})"}, name=name)
        method: Method = kind(**options)
        return method

    @property
    def label(self) -> str:
        """The name in tables."""
        return self.name or str(self.target).rpartition(".")[2].lower()


class MTF(Method, name="mtf"):
    """MoveToFront: reads a run on until it supplies a document that is not relevant (Cormack et al. 1998).

    >>> MTF()
    MTF()
    """


class MM(Method, name="mm"):
    """MaxMean: reads the run with the highest share of relevant documents (Losada et al. 2016).

    >>> MM()
    MM()
    """


class Hedge(Method, name="hedge"):
    """Hedge: weighs runs by the loss of what they ranked high (Aslam et al. 2003).

    >>> Hedge()
    Hedge()
    """


class PosteriorFusion(Method, name="posterior_fusion"):
    """Fuses the runs' ranks, each run weighted by its share of relevant documents so far.

    >>> PosteriorFusion()
    PosteriorFusion()
    """


class SharedFusion(Method, name="shared_fusion"):
    """Posterior fusion whose topics inform each other about the runs.

    >>> SharedFusion()
    SharedFusion(texts=None)

    Args:
        options: options of the method; `texts={}` adds the regression over texts, which needs a collection.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"texts": None} | options)


class Pooled(NamedTuple):
    """A document of a topic's pool.

    >>> Pooled("401", "FT911-1")
    Pooled(topic='401', document='FT911-1')

    Args:
        topic, document: their ids.
    """

    topic: str
    document: str


class Pool:
    """The documents that runs offer for judging.

    >>> pool = Pool("runs", "qrels.txt", depth=10)
    >>> pool.overrides()
    ['runs=runs', 'qrels=qrels.txt', 'depth=10']

    Args:
        runs: a folder of TREC runs, or files.
        qrels: their judgements, required by `simulate`.
        method: the order that `next` follows.
        seed: the seed of its random choices.
        options: further options of `pyrite pool`, as `depth=50`.
    """

    def __init__(
        self,
        runs: Path | Iterable[Path],
        qrels: Path | None = None,
        *,
        method: object = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.runs: str | list[str]
        if isinstance(runs, str | os.PathLike | Mapping):
            self.runs = path_text(runs, "runs", FILES)  # type: ignore[arg-type]  # refuses a mapping
        else:
            paths = [path_text(path, "runs", FILES) for path in (runs if isinstance(runs, Iterable) else [runs])]
            self.runs = paths if isinstance(runs, list | tuple) else sorted(paths)  # of glob, in no certain order
        self.qrels = None if qrels is None else path_text(qrels, "qrels", FILES)
        if not is_whole(seed, 0):
            raise BadInput(f"seed is {seed!r}", remedy="choose a whole number from 0 up")
        self.method, self.seed, self.options = method or PosteriorFusion(), int(seed), options

    def overrides(self, *methods: object) -> list[str]:
        """Return the overrides of `pyrite pool` with some methods, each of another name."""
        chosen = [Method.of("method", method) for method in methods]
        labels = [method.label for method in chosen]
        if twice := [label for label in labels if labels.count(label) > 1]:
            remedy = (
                f"simulate one after the other, or sweep an option on the command line, as method.{twice[0]}.KEY=A,B"
            )
            raise BadInput(f"two methods are called {twice[0]}", "methods", remedy)
        named = [method.name for method in chosen if method.name]
        texts = [f"runs={written(self.runs)}"]
        texts += settings(qrels=self.qrels, options=self.options)
        texts += [f"method=[{','.join(named)}]"] * bool(chosen)
        return [*texts, *(text for method in chosen for text in method.under(f"method.{method.label}"))]

    def simulate(
        self,
        methods: Sequence[object],
        *,
        seeds: int = 10,
        budgets: Sequence[int] | None = None,
        out: Path | None = None,
        console: Console | None = None,
    ) -> PoolResult:
        """Judge the pool in simulation, in the order of each method, as `pyrite pool` does.

        Args:
            methods: the methods.
            seeds: the number of simulations of each.
            budgets: numbers of judgements per topic to report. None chooses them.
            out: the folder of the results. None makes a new one.
            console: receives progress and the table. None prints to the terminal or notebook.

        Raises:
            BadInput: if there are no judgements, or an option is wrong.
        """
        if isinstance(methods, str) or not isinstance(methods, Sequence):
            raise BadInput(f"{methods!r} is no list", "methods", "give a list, as [MM(), MTF()]")
        texts = [*self.overrides(*methods), *settings(seeds=seeds, budgets=budgets, out=out and os.fspath(out))]
        return PoolResult(*run("pool", texts, None, console or Console(highlight=False)))

    def serve(
        self,
        data: Collection | Path,
        *,
        topics: Path | None = None,
        out: Path = "outputs/judging",
        options: Mapping[str, object] | None = None,
        console: Console | None = None,
    ) -> None:
        """Serve the page on which people judge the pool, as `pyrite judge` does, until it is interrupted.

        Args:
            data: the collection that has the documents' texts, or its path.
            topics: a file of TREC topics. None takes the collection's queries.
            out: the folder of the judgements. One that has some continues with them.
            options: further overrides of `pyrite judge` by key, as `{"grades": [0, 1, 2]}`.
            console: receives the links. None prints to the terminal or notebook.

        Raises:
            BadInput: if an option is wrong, the folder holds other judgements, or the port is in use.
        """
        from pyrite.cluster.commands.judge import judge

        texts = [*as_collection(data).overrides(), *self.overrides(self.method)]
        named = Method.of("method", self.method).name  # the page follows one; the user's own replaces the default
        one = f"method={named}" if named else "~method"
        texts = [one if text == f"method=[{named}]" else text for text in texts]
        texts += settings(seed=self.seed, out=os.fspath(out), topics=topics and os.fspath(topics), options=options)
        judge(texts, console or Console(highlight=False))

    def next(self, topic: str | None = None) -> Pooled | None:
        """Return the next document to judge, which was not handed out yet; None if none is left.

        Args:
            topic: the topic. None takes the topics in the order of the method.

        Raises:
            BadInput: if there is no such topic.
        """
        chosen = self._campaign.next(None if topic is None else self._number(topic))
        if chosen is None:
            return None
        found = self._campaign.pool.topics[chosen[0]]
        return Pooled(found.name, found.documents[chosen[1]])

    def judge(self, document: Pooled | tuple[str, str], grade: int) -> None:
        """Learn the grade of a document, handed out by `next` or judged elsewhere.

        Args:
            document: the document, or its topic and id.
            grade: a whole number; above 0 is relevant, unless the option `relevant_from` is another number.

        Raises:
            BadInput: if the pool does not have it, it was judged before, or the grade is no whole number.
        """
        if document is None:
            raise BadInput("there is no document to judge", remedy="`next` returns None if none is left")
        try:
            topic, name = document
        except (TypeError, ValueError):
            raise BadInput(f"{document!r} is no document", remedy="give a topic and its document") from None
        topic, name = str(topic), str(name)
        if not isinstance(grade, Real) or not float(grade).is_integer():
            raise BadInput(f"grade is {grade!r}", f"topic {topic}, document {name}", "give a whole number")
        number = self._number(topic)
        row = self._campaign.pool.topics[number].documents.index_of(name)
        if row is None:
            raise BadInput(f"topic {topic} has no document {name!r} in this pool")
        try:
            self._campaign.judge(number, row, int(grade))
        except ValueError as error:
            raise BadInput(f"topic {topic}, document {name}: {error}") from None

    def _number(self, topic: str) -> int:
        names, topic = [each.name for each in self._campaign.pool.topics], str(topic)
        if topic not in names:
            raise BadInput(f"there is no topic {topic!r}", remedy=f"choose one of {', '.join(names[:10])}")
        return names.index(topic)

    @cached_property
    def _campaign(self) -> Any:
        from pyrite.cluster.config.compose import compose
        from pyrite.cluster.plan.pool_methods import split, variants
        from pyrite.cluster.pools.sources import open_pools
        from pyrite.pooling.campaign import Campaign
        from pyrite.pooling.simulation import needs_of

        names, options, others = split(self.overrides(self.method))
        (variant,) = variants(names, options, [])
        method = variant.build()
        (opened,) = open_pools(compose(others, "pool"), lambda *_: None, "texts" in needs_of(method), judged=False)
        return Campaign(opened.pool, method, self.seed)
