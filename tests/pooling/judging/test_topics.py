"""Topics in the forms that collections have, and the documents that a page shows."""

import gzip

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.pooling.judging.documents import Marking, PooledDocuments, pooled, read_texts, readable, write_texts
from pyrite.pooling.judging.topics import TopicText, read_topics, topics_of
from pyrite.pooling.pool import Pool
from pyrite.ranking.errors import BadInput

TOPICS = {"301": TopicText("wind water", "Why?", "All of it."), "302": TopicText("moles", "", "")}
FORMS = {
    "XML, number as attribute": '<?xml version="1.0"?>\n<topics task="x">\n<topic number="301">\n'
    "<query>wind\nwater</query><description>Why?</description><narrative>All of it.</narrative></topic>\n"
    '<topic number="302"><query>moles</query></topic></topics>',
    "XML, number as element": "<topics><topic><number>301</number><title>wind water</title><question>Why?</question>"
    "<narr>All of it.</narr></topic><topic><num> 302 </num><title>moles</title></topic></topics>",
    "TREC": "<top><num> Number: 301\n<title> wind water\n<desc> Description:\nWhy?\n<narr> Narrative:\nAll of it.\n"
    "</top>\n<top><num> Number: 302\n<title> moles\n</top>",
    "lines": "301\twind water\tWhy?\tAll of it.\n\n302\tmoles\n",
    "a table with tabs": "qid\tquery\tdescription\tnarrative\n301\twind water\tWhy?\tAll of it.\n302\tmoles\t\t\n",
    "a table with commas": 'query_id,text,desc,narr\n301,wind water,Why?,"All of it."\n302,moles,,\n',
    "JSON lines": '{"_id": "301", "text": "wind water", "description": "Why?", "narrative": "All of it."}\n'
    '{"id": 302, "title": "moles"}\n',
    "a JSON list": '[{"qid": "301", "query": "wind water", "description": "Why?", "narrative": "All of it."},\n'
    ' {"number": 302, "title": "moles", "description": null}]',
    "JSON by id": '{"301": {"title": "wind water", "description": "Why?", "narrative": "All of it."}, "302": "moles"}',
}
TITLES = {
    "roots and entities": '<topic number="{n}"><query>{text}</query><note>a & b&nbsp;c</note></topic>\n',
    "a namespace": '<topics xmlns="http://made.up"><topic><num>Number: {n}</num><title>{text}</title></topic></topics>',
    "an identifier": "<topics><topic lang='en'><identifier>{n}</identifier><title>{text}</title></topic></topics>",
    "a number in the tag": '<top number="{n}">\n<title> {text}\n</top>\n',
    "colons": "{n}:1:{text}\n",
    "semicolons without a header": "{n};{text}\n",
    "JSON in JSON": '{{"topics": [{{"number": {n}, "title": "{text}"}}]}}',
}
"""Forms without description and narrative."""


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_the_same_topics(tmp_path, form):
    (tmp_path / "topics").write_text(FORMS[form])
    assert read_topics(tmp_path / "topics") == TOPICS
    (tmp_path / "packed").write_bytes(gzip.compress(FORMS[form].encode()))
    assert read_topics(tmp_path / "packed") == TOPICS


@pytest.mark.parametrize("form", TITLES)
def test_titles_are_read_in_further_forms(tmp_path, form):
    path = tmp_path / ("topics.csv" if "semicolons" in form else "topics")
    path.write_text(TITLES[form].format(n=7, text="where does the mole sleep"))
    assert read_topics(path)["7"].title == "where does the mole sleep"


def test_tags_entities_and_encodings(tmp_path):
    path = tmp_path / "topics"
    path.write_text("<top>\n<num> 401\n<title> moles, <b>tunnels</b>\n\n<narr> All &amp; any.\n</top>\n")
    assert read_topics(path) == {"401": TopicText("moles,", "", "All & any.")}  # the parser takes <b> for a field
    path.write_text("<top>\n<num> 402 </num>\n<desc> Bats </desc>\n</top>\n")
    assert read_topics(path) == {"402": TopicText("", "Bats", "")}
    path.write_bytes("1\tMäuse\n".encode("latin-1"))
    assert read_topics(path, "latin-1") == {"1": TopicText("Mäuse")}
    assert topics_of(pl.DataFrame({"id": ["1"], "text": ["moles"]})) == {"1": TopicText("moles")}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no topics"),
        ("<topics><topic><query>x</query></topic></topics>", "has no topics with a number"),
        ("<topics></topics>", "has no topics with a number"),
        ("<topics><topic number='1'>", "is not XML"),
        ("<top>\n<title> x\n</top>", "without a number"),
        ('{"_id": {}, "text": "x"}', "without a number"),
        ('[{"id": "1", "text": [5]}]', "the text of topic 1 is no text"),
        ('{"text": ["x"]}', "is no text"),
        ('{"_id": "1", "text": "x"}\n{', ":2: broken line"),
        ("qid,query\n1,a,b\n", "topics:2: broken line: 3 cells, and 2 in the first row"),
        ("1\ta\tb\tc\td", ":1: broken line: 5 columns"),
        ("301 wind water\n", "topics:1: broken line: text outside of <top>"),
        ("\tx", "broken line"),
        ("1\ta\n1\tb\n", "topics:2: duplicate id: another topic is called '1'"),
    ],
)
def test_broken_topics_are_refused_in_one_line(tmp_path, content, says):
    (tmp_path / "topics").write_text(content)
    with pytest.raises(BadInput, match=says):
        read_topics(tmp_path / "topics")


def test_texts_of_the_pool_are_gathered_and_kept(tmp_path, pool_of):
    pool: Pool = pool_of([[[0, 1], [1, 2]]], [[0, 0, 0]])
    frames = [
        pl.DataFrame({"id": ["d001", "x"], "text": ["one", "other"], "category": [None, None]}),
        pl.DataFrame({"id": ["d001", "d002"], "text": ["one again", ""], "category": [None, None]}),
    ]
    path = tmp_path / "new" / "texts.arrow"
    assert read_texts(path) is None
    texts = PooledDocuments(write_texts(path, pooled(frames, pool)))
    assert [texts.text(name) for name in ("d000", "d001", "d002", "x")] == [None, "one", "", None]
    assert texts.missing(pool) == (1, 1)
    again = read_texts(path)
    assert again.select("id", "text").rows() == [("d001", "one"), ("d001", "one again"), ("d002", "")]
    path.write_bytes(b"half")
    assert read_texts(path) is None
    assert [file.name for file in path.parent.iterdir()] == ["texts.arrow"]


@pytest.mark.parametrize(
    ("text", "is_readable"),
    [(None, False), ("", False), (" \n\t\u2003", False), ("\u200b\ufeff\u2060\u00ad\x00", False), ("\u200bx", True),
     ("\U0001f600", True), ("\ufffd", True)],
)  # fmt: skip
def test_a_text_without_a_visible_character_is_no_text(text, is_readable):
    assert readable(text) is is_readable


def marked(query: str, text: str, stemming: str | None = "english") -> list[str]:
    return [piece for piece, is_term in Marking(query, stemming).pieces(text) if is_term]


def test_words_are_marked_by_their_stems():
    text = "The MOLE digs; moles' tunnelling, tunnels_and (Tunnel-vision)! molehill"
    assert marked("moles in the tunnels", text) == ["MOLE", "moles", "tunnelling", "tunnels", "Tunnel"]
    assert marked("moles in the tunnels", text, None) == ["moles", "tunnels"]
    assert marked("who is the who", "who is it") == ["who", "is"]  # stop words alone are all there is to go by
    assert marked("", "who is it") == []
    assert marked("İstanbul ÉCOLE", "istanbul é\u0301cole École") == ["École"]
    with pytest.raises(BadInput, match="no stemmer for 'klingon'"):
        Marking("x", "klingon")


@given(st.text(alphabet=st.sampled_from("aAbB é\u0301_-<>&İß\n9"), max_size=60), st.text(max_size=10))
def test_the_pieces_are_the_text(text, query):
    marking = Marking(f"{query} ab a9", "english")
    pieces = marking.pieces(text)
    assert "".join(piece for piece, _ in pieces) == text
    assert all(piece for piece, _ in pieces)
