"""Declares the options of `pyrite judge`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pyrite.cluster.config.schema.kinds import Count, Name, Names, Natural, PartConfig, Parts
from pyrite.cluster.config.schema.pool import RunListsConfig


class JudgeConfig(RunListsConfig):
    collection: PartConfig
    """The texts of the documents: collection=beir collection.path=FOLDER."""
    method: Parts
    """The order of judging; method=shared also chooses the topic."""
    runs: str | list[str]
    """A folder of TREC runs, or a list of files."""
    topics: str | Names | None = None
    """TREC topics, JSON lines or lines of id, tab, text. null: the collection's queries; or the names of those that are
    judged, e.g. [301,302]."""
    qrels: str | None = None
    """Judgements made before: they are taken over and not asked for again."""
    grades: Annotated[list[int], Field(min_length=2)] | None = None
    """Grades that assessors may give; 0 to 9 are given by their keys. null: those of the labels, or [0,1]."""
    labels: list[str] | dict[int, str] | None = None
    """Words for the grades: [not,partly,fully] for 0, 1 and 2 (or for `grades`, in their order), or
    {0:not,1:partly,3:fully}."""
    duplicates: Literal["merge", "near", "keep"] = "merge"
    """Documents of a topic with the same text (but for case and blanks). merge: one is shown, whose judgement is that
    of all; near: also those that share nine tenths of their runs of three words; keep: each is shown."""
    budget: Count | str | None = None
    """Documents to judge of each topic, or a file of lines of topic, tab, number. null: the whole pool."""
    double: Annotated[int | float, Field(ge=0)] = 0
    """Documents of each topic that a second assessor judges too; a share as 0.1."""
    judges: Annotated[int, Field(ge=2)] = 2
    """Assessors of each of these documents, including the first one."""
    gold: str | None = None
    """Qrels of pooled documents that every assessor is tested with; the rest of the judging leaves them out."""
    burn_in: Natural = 5
    """The number of these that an assessor begins with, and is shown the known grade of."""
    gold_every: Count = 20
    """Judgements after which one more comes, unannounced."""
    guidelines: list[str] | None = None
    """What each grade means, in their order, e.g. ['not about it','touches it','answers it']."""
    rationale: bool = False
    """Assessors may mark the passage that decided; it is saved with the grade."""
    search: bool = True
    """Assessors may search the whole collection, and judge what they find."""
    resolve: Literal["highest", "first", "last"] = "highest"
    """The grade that counts then: highest, first or last."""
    assessors: list[str] | None = None
    """The names of those who may judge, e.g. [ada,grace], each by a separate link. null: anyone with the link."""
    owners: str | None = None
    """Owners of topics: first (the assessor of its first document), or a file of lines of topic, tab, assessor."""
    recall: float | None = 0.9
    """The share of a topic's relevant documents at which the page says that they are found. null: never."""
    confidence: float = 0.95
    """The confidence of that."""
    seed: Natural = 0
    """The seed of the method."""
    stemming: str | None = "english"
    """The language of the Snowball stemmer for the words that are marked. null: words as they are."""
    out: Name | None = None
    """The folder of the judgements, on this machine. null: outputs/judging."""
    resume: Literal["auto"] | None = None
    """auto: start, or continue with what out= holds; the command is given again as it was."""
    title: str = "Relevance judgements"
    """The title of the page."""
    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 lets other machines in."""
    url: str | None = None
    """The URL at which assessors reach the page, e.g. https://judging.example.org; for the links."""
    hosts: list[str] = []
    """Names besides localhost by which the page is reached, e.g. behind a proxy."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    """The port. 0: any that is free."""
    open_browser: bool = False
    """Open the page in this machine's browser."""
