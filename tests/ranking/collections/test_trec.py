"""TREC collections: markup, names of files, faults."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pyrite.ranking.collections import lines
from pyrite.ranking.collections.cache import open_collection
from pyrite.ranking.collections.trec import Trec
from pyrite.ranking.errors import BadInput
from tests.examples import few
from tests.made_up import write_files

WriteTrec = Callable[..., Path]

NEWS = """<DOC>
<DOCNO> FT911-1 </DOCNO>
<PROFILE>_AN-BEOA7AAIFT</PROFILE>
<DATE>910514</DATE>
<HEADLINE>
FT  14 MAY 91 / Moles dig
</HEADLINE>
<TEXT>
Tunnels &amp; mounds, <F P=105> everywhere</F> &hyph; said <P>a mole.
</TEXT>
<PUB>The Financial Times</PUB>
</DOC>
<DOC>
<DOCNO>FT911-2</DOCNO>
<TEXT>Bats hang when a < b.</TEXT>
</DOC>
"""
ROBUST_TOPICS = """
<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate
in international criminal activity.

<narr> Narrative:
A relevant document must as a minimum identify &lt;the&gt; organization.

</top>

<top>
<num> Number: 302
<title> Poliomyelitis and Post-Polio
<desc> Description:
Is the disease of Poliomyelitis (polio) under control in the world?
<narr> Narrative:
Relevant documents should contain data.
</top>
"""
OPEN_DOCS = "<DOC>\n<DOCNO>1</DOCNO>\nall the text\nis here\n</DOC>\n<doc><docno>2</docno>and here</doc>\n"
END = NEWS.count("\n") + 1  # the line after the last
TOPICS_END = ROBUST_TOPICS.count("\n") + 1
QRELS = "301 0 FT911-1 1\n302 0 FT911-2 0\n"


@pytest.fixture
def write_trec(tmp_path) -> WriteTrec:
    def write(docs: str = NEWS, topics: str = ROBUST_TOPICS, qrels: str = QRELS, packed: bool = False) -> Path:
        files = {"docs.trec": docs, "topics.301-302.txt": topics, "qrels.txt": qrels}
        return write_files(tmp_path / "tiny", {f"{name}{'.gz' * packed}": text for name, text in files.items()})

    return write


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("block", [7, lines.BLOCK])
def test_news_and_robust_topics(write_trec, cache, monkeypatch, packed, block):
    monkeypatch.setattr(lines, "BLOCK", block)
    collection = open_collection(Trec(write_trec(packed=packed)), cache)
    assert [(id, " ".join(text.split())) for id, text, *_ in collection.documents.iter_rows()] == [
        ("FT911-1", "FT 14 MAY 91 / Moles dig Tunnels & mounds, everywhere said a mole."),
        ("FT911-2", "Bats hang when a < b."),
    ]
    assert collection.queries.select("id", "text", "split").rows() == [
        ("301", "International Organized Crime", None),
        ("302", "Poliomyelitis and Post-Polio", None),
    ]
    assert collection.judgements.rows() == [("301", "FT911-1", 1), ("302", "FT911-2", 0)]


def test_fields_of_topics(write_trec, cache):
    folder = write_trec()
    queries = open_collection(Trec(folder, fields=["title", "narrative"]), cache).queries["text"]
    assert queries[0] == (
        "International Organized Crime A relevant document must as a minimum identify <the> organization."
    )
    queries = open_collection(Trec(folder, fields="description"), cache).queries["text"]
    assert queries[0] == "Identify organizations that participate in international criminal activity."
    with pytest.raises(BadInput, match="topics have no field 'summary'"):
        Trec(folder, fields=["summary"])
    with pytest.raises(BadInput, match="no field"):
        Trec(folder, fields=[])


def test_open_text_and_topics_without_any_closing_tag(write_trec, cache):
    topics = "<top><num>1</num><title>\nONE\n</title>\n</top>\n<top>\n<num> Number: 2\n<title> Topic: two words\n"
    collection = open_collection(Trec(write_trec(OPEN_DOCS, topics, "1 0 1 1\n2 0 2 1\n")), cache)
    assert collection.documents.rows() == [("1", "all the text\nis here", None, None), ("2", "and here", None, None)]
    assert collection.queries["text"].to_list() == ["ONE", "two words"]


def test_web_pages_lose_headers_scripts_and_comments(write_trec, cache):
    page = (
        "<DOC>\n<DOCNO>G1</DOCNO>\n<DOCHDR>\nHTTP/1.1 200 OK\n</DOCHDR>\n<html><head><title>Moles</title>"
        "<script>var x = 1 < 2;</script></head><!-- hidden --><body>dig&nbsp;tunnels</body></html>\n</DOC>\n"
    )
    folder = write_trec(page, qrels="301 0 G1 1\n")
    assert open_collection(Trec(folder), cache).documents["text"][0].split() == ["Moles", "dig", "tunnels"]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("docs", "line", "complaint"),
    [
        (f"{NEWS}<DOC>\nno number\n</DOC>\n", END, "a document without <DOCNO>"),
        (f"{NEWS}<DOC>\n<DOCNO>3</DOCNO>\ncut\n", END, "a document without </DOC>"),
        (f"<DOC>\n<DOCNO>3</DOCNO>\ncut\n{NEWS}", 1, "a document without </DOC>"),
        (f"{NEWS}\nstray text\n", END + 1, "text outside of <doc>"),
        (f"{NEWS}</DOC>\n", END, "</doc> without <doc>"),
    ],
)
def test_broken_documents(write_trec, faulty, docs, line, complaint):
    folder = write_trec(docs)
    collection = faulty(Trec(folder), f"{folder / 'docs.trec'}:{line}", "broken line", complaint)
    assert collection.documents["id"].to_list() == ["FT911-1", "FT911-2"]


@pytest.mark.parametrize(
    ("topic", "kind", "complaint"),
    [
        ("<top>\n<title> no number\n</top>", "broken line", "a topic without a number"),
        ("<top>\n<num> Number: 9\n<desc> no title\n</top>", "broken line", "the topic 9 has no title"),
        ("<top>\n<num> Number: 9\n<title>\n</top>", "broken line", "the topic 9 has no title"),
        ("<top>\n<num> Number: 301\n<title> again\n</top>", "duplicate id", "another query is called '301'"),
    ],
)
def test_broken_topics(write_trec, faulty, topic, kind, complaint):
    folder = write_trec(topics=f"{ROBUST_TOPICS}{topic}\n")
    collection = faulty(Trec(folder), f"{folder / 'topics.301-302.txt'}:{TOPICS_END}", kind, complaint)
    assert collection.queries["id"].to_list() == ["301", "302"]


def test_other_faults_across_files(write_trec, cache):
    empty = "<DOC>\n<DOCNO>3</DOCNO>\n<TEXT> <P> </TEXT>\n</DOC>\n"
    folder = write_trec(f"{NEWS}{empty}{NEWS}", qrels=f"{QRELS}301 0 FT911-9 1\n999 0 FT911-1 1\n1 1\n")
    assert open_collection(Trec(folder), cache, strict=False).skipped == {
        "broken line": 1,
        "empty text": 1,
        "duplicate id": 2,
        "unknown document": 1,
        "unknown query": 1,
    }
    with pytest.raises(BadInput, match=r"docs\.trec:17: duplicate id: another document is called 'FT911-1'"):
        open_collection(Trec(write_trec(f"{NEWS}{NEWS}")), cache)


def test_latin_1(write_trec, cache):
    folder = write_trec()
    (folder / "docs.trec").write_bytes(NEWS.replace("mole.", "môle.").encode("latin-1"))
    with pytest.raises(BadInput, match=r"docs\.trec:9: wrong encoding: .*encoding=latin-1"):
        open_collection(Trec(folder), cache)
    assert "môle." in open_collection(Trec(folder, encoding="latin-1"), cache).documents["text"][0]
    skipping = open_collection(Trec(folder), cache, strict=False)
    assert skipping.skipped == {"wrong encoding": 1}
    assert skipping.documents["text"][0].split() == ["FT", "14", "MAY", "91", "/", "Moles", "dig"]


def test_documents_in_many_files(write_trec, cache, tmp_path):
    folder = write_trec()
    (folder / "docs.trec").unlink()
    disk = folder / "collection" / "disk4"
    disk.mkdir(parents=True)
    first, second = NEWS.split("</DOC>\n")[:2]
    (disk / "ft_1").write_text(f"{first}</DOC>\n")
    (disk / "ft_2.gz").write_bytes(gzip.compress(f"{second}</DOC>\n".encode()))
    (disk / "READMEFT").write_text("not a document")
    (folder / "README.md").write_text("Documents, topics and qrels.")
    found = open_collection(Trec(folder), cache)
    assert found.documents["id"].to_list() == ["FT911-1", "FT911-2"]
    for option in ("collection", "collection/**/ft_*", ["collection/disk4/ft_1", str(disk / "ft_2.gz")]):
        named = open_collection(Trec(folder, documents=option), tmp_path / "another", strict=True)
        assert named.fingerprint == found.fingerprint


def test_names_that_do_not_tell(write_trec, cache):
    folder = write_trec()
    (folder / "topics.extra").write_text("")
    with pytest.raises(BadInput, match=r"2 files look like the topics \(topics\.301-302\.txt, topics\.extra\)"):
        open_collection(Trec(folder), cache)
    assert len(open_collection(Trec(folder, topics="topics.301*"), cache).queries) == 2
    (folder / "docs.trec").rename(folder / "news")
    with pytest.raises(BadInput, match=r"no file looks like the documents; name it: collection\.documents="):
        open_collection(Trec(folder, topics="topics.301*"), cache)
    assert len(open_collection(Trec(folder, documents="news", topics="topics.301*"), cache).documents) == 2
    with pytest.raises(BadInput, match="old: no such file"):
        open_collection(Trec(folder, documents="old"), cache)
    with pytest.raises(BadInput, match="no such folder"):
        open_collection(Trec(folder / "none"), cache)


WORDS = st.lists(st.text("abcXYZé019.,'", min_size=1, max_size=6), min_size=1, max_size=12)


@few(6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.dictionaries(st.text("abcXYZ019-", min_size=1, max_size=8), WORDS, min_size=1, max_size=6),
    topics=st.dictionaries(st.integers(1, 999), WORDS, min_size=1, max_size=6).filter(
        lambda topics: len({" ".join(text).lower() for text in topics.values()}) == len(topics)  # else they are joined
    ),
    closed=st.booleans(),
    block=st.integers(1, 64),
)
def test_any_collection_survives_being_written(write_trec, tmp_path_factory, documents, topics, closed, block):
    end = "</title>\n</top>" if closed else ""
    folder = write_trec(
        "".join(f"<DOC>\n<DOCNO>{id}</DOCNO>\n{chr(10).join(text)}\n</DOC>\n" for id, text in documents.items()),
        "".join(f"<top>\n<num> {number}\n<title> {' '.join(text)} {end}\n" for number, text in topics.items()),
        "".join(f"{number} 0 {id} 1\n" for number in topics for id in documents),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        collection = open_collection(Trec(folder), tmp_path_factory.mktemp("cache"))
    assert {id: text.split() for id, text, *_ in collection.documents.iter_rows()} == documents
    assert {int(id): text.split() for id, text, *_ in collection.queries.iter_rows()} == topics
    assert len(collection.judgements) == len(documents) * len(topics)


def test_vaswani(shared_data, cache):
    collection = open_collection(Trec(shared_data / "vaswani"), cache)
    assert (len(collection.documents), len(collection.queries), len(collection.judgements)) == (11_429, 93, 2_083)
    assert collection.queries["split"].null_count() == 93
    assert collection.documents["id"].to_list() == [str(i) for i in range(1, 11_430)]
