"""Describes a pool of TREC runs: simulates orders of judging over it, chooses the next document, or serves the page.

>>> from pyrite import MM, MTF, Pool
>>> Pool("runs").overrides(MM(), MTF())
['runs=runs', 'method=[mm,mtf]']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import polars as pl
from rich.console import Console

from pyrite.cluster.config.compose import compose
from pyrite.cluster.output.screen import Screen
from pyrite.cluster.plan.pool_methods import split, variants
from pyrite.cluster.pools.sources import open_pools
from pyrite.data import Collection, as_collection
from pyrite.parts import is_whole, label_of, of_kind, of_methods, part_of, path_text, written
from pyrite.pooling.adjudicators.posterior_fusion import PosteriorFusion
from pyrite.pooling.campaign import Campaign
from pyrite.pooling.sentinels import NO_GRADE
from pyrite.pooling.simulation import needs_of
from pyrite.public import Public
from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.trec_files import read_qrels
from pyrite.results import PoolResult
from pyrite.running import run, settings

Path = str | os.PathLike[str]
FILES = "write a file (pyrite.ranking.trec_files.write_run and write_qrels), and give its path"


class Pooled(NamedTuple):
    """A document of a topic's pool.

    >>> Pooled("401", "FT911-1")
    Pooled(topic='401', document='FT911-1')

    Args:
        topic, document: their ids.
    """

    topic: str
    document: str


class Pool(Public):
    """The documents that runs offer for judging.

    >>> pool = Pool("runs", "qrels.txt", depth=10)
    >>> pool.overrides()
    ['runs=runs', 'qrels=qrels.txt', 'depth=10']

    Args:
        runs: a folder of TREC runs, or files.
        qrels: their judgements, required by `simulate`; `next` does not hand out what they judge.
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
        refuse(not is_whole(seed, 0), f"seed is {seed!r}", remedy="choose a whole number from 0 up")
        self.method, self.seed, self.options = method or PosteriorFusion(), int(seed), options

    def overrides(self, *methods: object) -> list[str]:
        """Return the overrides of `pyrite pool` with some methods, each of another name."""
        texts = [f"runs={written(self.runs)}", *settings(qrels=self.qrels, options=self.options)]
        return [*texts, *(of_methods(*methods) if methods else [])]

    def __repr__(self) -> str:
        qrels = "" if self.qrels is None else f", {self.qrels!r}"
        return f"Pool({self.runs!r}{qrels}, method={self.method!r})"

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
        of_kind(methods, Sequence, "methods", "give a list, as [MM(), MTF()]", "is a {}, no list")
        refuse(not methods, "is []", "methods", "name at least one, as [MM()]")
        texts = [*self.overrides(*methods), *settings(seeds=seeds, budgets=budgets, out=out and os.fspath(out))]
        return PoolResult(*run("pool", texts, None, console or Screen()))

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
        named = label_of(
            "method", part_of("method", self.method)
        )  # the page follows one; the user's own replaces the default
        one = f"method={named}" if named else "~method"
        texts = [one if text == f"method=[{named}]" else text for text in texts]
        texts += settings(seed=self.seed, out=os.fspath(out), topics=topics and os.fspath(topics), options=options)
        judge(texts, console or Screen())

    def next(self, topic: str | None = None) -> Pooled | None:
        """Return the next document to judge, which was not handed out yet; None if none is left.

        Documents that `qrels` judges are known: they are learned at the start, and not handed out.

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
        refuse(document is None, "there is no document to judge", remedy="`next` returns None if none is left")
        try:
            topic, name = document
        except (TypeError, ValueError):
            raise BadInput(f"{document!r} is no document", remedy="give a topic and its document") from None
        topic, name = str(topic), str(name)
        if not isinstance(grade, Real) or not float(grade).is_integer():
            raise BadInput(f"grade is {grade!r}", f"topic {topic}, document {name}", "give a whole number")
        refuse(
            grade == NO_GRADE,
            f"grade is {NO_GRADE}, which means pooled and not judged",
            f"topic {topic}, document {name}",
            "don't judge the document, or give another grade",
        )
        number = self._number(topic)
        row = self._campaign.pool.topics[number].documents.index_of(name)
        if row is None:
            raise BadInput(f"topic {topic} has no document {name!r} in this pool")
        try:
            self._campaign.judge(number, row, int(grade))
        except ValueError:
            raise BadInput(f"document {name!r} of topic {topic} was judged before") from None

    def _number(self, topic: str) -> int:
        names, topic = [each.name for each in self._campaign.pool.topics], str(topic)
        refuse(topic not in names, f"there is no topic {topic!r}", remedy=f"choose one of {', '.join(names[:10])}")
        return names.index(topic)

    @cached_property
    def _campaign(self) -> Any:

        names, options, others = split(self.overrides(self.method))
        (variant,) = variants(names, options, [])
        method = variant.build()
        config = compose(others, "pool")
        (opened,) = open_pools(config, lambda *_: None, "texts" in needs_of(method), judged=False)
        known = self._known(opened.pool, config)
        highest = max([opened.pool.highest, *(grade for *_, grade in known)])
        campaign = Campaign(replace(opened.pool, highest=highest), method, self.seed)
        for topic, document, grade in known:
            campaign.judge(topic, document, grade)
        return campaign

    def _known(self, pool: Any, config: Mapping[str, Any]) -> list[tuple[int, int, int]]:
        """Return the numbers of topic and document, and the grade, of each judgement that `qrels` has of the pool."""
        if self.qrels is None:
            return []

        rows = read_qrels(self.qrels, config["encoding"], Faults(config["strict"]), config["qrels_repeated"])
        numbers = [
            pl.DataFrame({"query": topic.name, "document": topic.documents})
            .with_row_index("row")
            .with_columns(topic=number)
            for number, topic in enumerate(pool.topics)
        ]
        found = pl.concat(numbers).join(rows.filter(pl.col("grade") != NO_GRADE), on=["query", "document"])
        return found.sort("topic", "row").select("topic", "row", "grade").rows()
