from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from pooling.judging.topics import TopicText, read_topics, topics_of
from ranking.errors import BadInput

TREC = """<top>
<num> Number: 401
<title> moles, <b>tunnels</b>

<desc> Description:
Who digs?

<narr> Narrative:
Any mole &amp; all.
</top>
<top>
<num> 402 </num>
<desc> Bats </desc>
</top>
"""


def test_trec_topics_with_whatever_parts_they_have(tmp_path: Path) -> None:
    path = tmp_path / "topics.gz"
    path.write_bytes(gzip.compress(TREC.encode()))
    assert read_topics(path) == {
        "401": TopicText("moles,", "Who digs?", "Any mole & all."),  # the parser takes <b> for a field
        "402": TopicText("", "Bats", ""),
    }


def test_other_forms_of_topics(tmp_path: Path) -> None:
    path = tmp_path / "topics"
    path.write_text("7\tmoles\n\n8\tbats\tWhich bats?\tAll.\n")
    assert read_topics(path) == {"7": TopicText("moles"), "8": TopicText("bats", "Which bats?", "All.")}
    path.write_text(
        '{"_id": "7", "text": "moles"}\n{"id": 8, "title": "bats", "description": null, "narrative": "All."}\n'
    )
    assert read_topics(path) == {"7": TopicText("moles"), "8": TopicText("bats", "", "All.")}
    path.write_bytes("1\tMäuse\n".encode("latin-1"))
    assert read_topics(path, "latin-1") == {"1": TopicText("Mäuse")}
    assert topics_of(pl.DataFrame({"id": ["1"], "text": ["moles"]})) == {"1": TopicText("moles")}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no topics"), ("no tab in it", ":1: broken line: text outside of <top>"), ("\tx", "broken line"),
        ("1\tmoles\n1\tbats", ":2: duplicate id: another topic"), ("1\ta\tb\tc\td", ":1: broken line: 5 columns"),
        ('{"_id": "1", "text": "x"}\n{', ":2: broken line"), ('{"text": ["x"]}', "is no text"),
        ('{"_id": {}, "text": "x"}', "without a number"), ('{"_id": "1", "text": [5]}', "text of topic 1 is no text"),
        ("<top>\n<title> x\n</top>", "without a number"),
    ],
)  # fmt: skip
def test_topics_that_are_none(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "topics"
    path.write_text(content)
    with pytest.raises(BadInput, match=says):
        read_topics(path)
