"""Topics in the forms that collections have."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pooling.judging.topics import TopicText, read_topics
from ranking.errors import BadInput

TOPICS = {"301": TopicText("wind water", "Why?", "All of it."), "302": TopicText("moles", "", "")}
FORMS = {
    "XML, number as attribute": '<?xml version="1.0"?>\n<topics task="x">\n<topic number="301">\n'
    "<query>wind\nwater</query><description>Why?</description><narrative>All of it.</narrative></topic>\n"
    '<topic number="302"><query>moles</query></topic></topics>',
    "XML, number as element": "<topics><topic><number>301</number><title>wind water</title><question>Why?</question>"
    "<narr>All of it.</narr></topic><topic><num> 302 </num><title>moles</title></topic></topics>",
    "TREC": "<top><num> Number: 301\n<title> wind water\n<desc> Description:\nWhy?\n<narr> Narrative:\nAll of it.\n"
    "</top>\n<top><num> Number: 302\n<title> moles\n</top>",
    "lines": "301\twind water\tWhy?\tAll of it.\n302\tmoles\n",
    "a table with tabs": "qid\tquery\tdescription\tnarrative\n301\twind water\tWhy?\tAll of it.\n302\tmoles\t\t\n",
    "a table with commas": 'query_id,text,desc,narr\n301,wind water,Why?,"All of it."\n302,moles,,\n',
    "JSON lines": '{"_id": "301", "text": "wind water", "description": "Why?", "narrative": "All of it."}\n'
    '{"id": 302, "title": "moles"}\n',
    "a JSON list": '[{"qid": "301", "query": "wind water", "description": "Why?", "narrative": "All of it."},\n'
    ' {"number": 302, "title": "moles", "description": null}]',
    "JSON by id": '{"301": {"title": "wind water", "description": "Why?", "narrative": "All of it."}, "302": "moles"}',
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_the_same_topics(tmp_path: Path, form: str) -> None:
    (tmp_path / "topics").write_text(FORMS[form])
    assert read_topics(tmp_path / "topics") == TOPICS
    (tmp_path / "packed").write_bytes(gzip.compress(FORMS[form].encode()))
    assert read_topics(tmp_path / "packed") == TOPICS


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("<topics><topic><query>x</query></topic></topics>", "has no topics with a number"),
        ("<topics><topic number='1'>", "is not XML"),
        ("<topics></topics>", "has no topics with a number"),
        ('[{"id": "1", "text": [5]}]', "the text of topic 1 is no text"),
        ("qid,query\n1,a,b\n", "topics:2: broken line: 3 cells, and 2 in the first row"),
        ("301 wind water\n", "topics:1: broken line: text outside of <top>"),
        ("1\ta\n1\tb\n", "topics:2: duplicate id: another topic is called '1'"),
    ],
)
def test_broken_topics_are_refused_in_one_line(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "topics").write_text(content)
    with pytest.raises(BadInput, match=says):
        read_topics(tmp_path / "topics")
