"""Reads topics: title, description and narrative."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from pyrite.ranking.collections.faults import Faults
from pyrite.ranking.collections.topic_files import TEXTS, topic_rows
from pyrite.ranking.errors import refuse


class TopicText(NamedTuple):
    """A topic's texts; any of the three may be empty."""

    title: str = ""
    description: str = ""
    narrative: str = ""


def read_topics(path: str | Path, encoding: str = "utf-8", faults: Faults | None = None) -> dict[str, TopicText]:
    """Read topics by their ids, in any form of `pyrite.ranking.collections.topic_files.topic_rows`.

    Args:
        faults: receives broken lines and ids that come twice, of which the first counts. None raises.
    """
    topics, faults = dict[str, TopicText](), faults or Faults()
    for line, name, texts in topic_rows(Path(path), faults, encoding):
        if name in topics:
            faults.report("duplicate id", f"another topic is called {name!r}", path, line)
            continue
        # The first name that has a text counts; `question` alone is the title.
        fields = (next((field for field in names if texts.get(field)), "") for names in TEXTS.values())
        topics[name] = TopicText(*(texts.pop(field, "") for field in fields))
    refuse(not topics, "no topics in it", path)
    return topics


def topics_of(queries: pl.DataFrame) -> dict[str, TopicText]:
    """Return the queries of a collection: id, text."""
    return {name: TopicText(text) for name, text in queries.select("id", "text").iter_rows()}
