"""`pyrite judge` on what people bring: the whole command, its page over HTTP, and its export read back."""

import csv
import io
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import uvicorn
from rich.console import Console

from cluster.commands.judge import judge, write_qrels
from ranking.errors import BadInput
from ranking.trec_files import read_qrels
from tests.made_up import write_texts

TRAIL = "/".join(["https://example.org"] * 300)
IDS = [
    '=HYPERLINK("http://evil.example","x")', "+1", "@SUM(A1)", "-2", 'a"b', "it's", "a,b;c", "a/../b", "%2e%2e%00",
    "http://x/y?z=1&w=2#f", "<img/src=x>", "0007", "1e5", "true", "\\n", "\u00fc\u4e2d\U0001f600", "e\u0301", TRAIL,
]  # fmt: skip
Texts = Mapping[str, str]


class Page:
    """A browser that is signed in."""

    def __init__(self, address: str, token: str, name: str = "ada") -> None:
        self._address, self._session = address, requests.Session()
        self._session.get(f"{address}/?token={token}", timeout=120).raise_for_status()
        self.state = self.post("sign-in", name=name)

    def post(self, path: str, **content: Any) -> dict[str, Any]:
        url, headers = f"{self._address}/{path}", {"Origin": self._address}
        answer = self._session.post(url, json=content, headers=headers, timeout=120)
        self.read = answer.content
        return answer.json() if answer.ok else answer.json() | {"status": answer.status_code}

    def act(self, path: str, **content: Any) -> dict[str, Any]:
        """Do something with the document on the screen, and return the next."""
        place = {"topic": self.state["topic"]["name"], "document": self.state["document"]["name"]}
        self.state = self.post(path, **place, request=uuid.uuid4().hex, **content)
        return self.state


class Campaign:
    """Files of a campaign, and the command that judges them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch, self.printed = folder, monkeypatch, ""
        self.given = [f"runs={folder / 'runs'}", "collection=beir", f"collection.path={folder / 'corpus'}"]

    def write(self, documents: Texts, runs: Mapping[str, Mapping[str, list[str]]], topics: Texts) -> None:
        entries = [[{"_id": name, "text": text} for name, text in texts.items()] for texts in (documents, topics)]
        write_texts(self.folder / "corpus", *entries, {})
        (self.folder / "runs").mkdir(exist_ok=True)
        for run, lists in runs.items():
            rows = [
                f"{topic} Q0 {document} {rank} {1000 - rank} {run}\n"
                for topic, documents in lists.items()
                for rank, document in enumerate(documents, 1)
            ]
            (self.folder / "runs" / run).write_text("".join(rows), encoding="utf-8")

    @contextmanager
    def page(self, *more: str, resume: bool = False) -> Iterator[Page]:
        """Run the command while its page is used."""
        console, out = Console(file=io.StringIO(), width=500), self.folder / "out"
        ready = threading.Event()
        served: list[Any] = []

        def run(app: Any, listening: Any) -> None:
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
            served.append(server)
            ready.set()
            server.run(sockets=[listening])

        def command() -> None:
            try:
                given = list(more) if resume else [f"out={out}", "method=rank", *self.given, *more]
                judge([*given, "port=0"], console, str(out) if resume else None)
            except BaseException as error:
                served.append(error)
                ready.set()

        with self._patch.context() as patched:
            patched.setattr("cluster.commands.judge.run", run)
            thread = threading.Thread(target=command)
            thread.start()
            ready.wait(120)
            [server] = served
            if isinstance(server, BaseException):
                thread.join()
                raise server
            self.printed = console.file.getvalue()
            link = re.search(r"link for assessors: (\S+)/\?token=(\S+)", self.printed)
            try:
                yield Page(link[1], link[2])
            finally:
                server.should_exit = True
                thread.join()

    def exported(self) -> list[tuple[str, str, int]]:
        """Return the exported judgements, as our reader and trec_eval's read them."""
        path, console = self.folder / "qrels.txt", Console(file=io.StringIO())
        write_qrels([f"out={self.folder / 'out'}"], str(path), console)
        write_qrels([f"out={self.folder / 'out'}"], str(path.with_suffix(".csv")), console)
        rows = read_qrels(path).rows()
        pytrec_eval = pytest.importorskip("pytrec_eval")
        with path.open(encoding="utf-8") as file:
            known = pytrec_eval.parse_qrel(file)
        assert known == {topic: {d: grade for t, d, grade in rows if t == topic} for topic, _, _ in rows}
        return [(str(topic), str(document), int(grade)) for topic, document, grade in rows]


@pytest.fixture
def campaign(tmp_path, monkeypatch) -> Campaign:
    made, documents = Campaign(tmp_path, monkeypatch), {f"D{n}": f"wind text {n}" for n in range(4)}
    made.write(documents, {"a": {"301": [*documents]}}, {"301": "wind"})
    return made


def test_every_id_is_judged_skipped_and_exported(campaign):
    campaign.write(dict.fromkeys(IDS, "wind"), {"a": {"301": IDS}}, {"301": "wind"})
    with campaign.page() as page:
        assert page.act("skip")["document"]["name"] == IDS[1]
        for number in range(len(IDS)):
            assert page.state["document"]["pieces"] == [["wind", True]]
            page.act("judge", grade=number % 2, note="=1+1")
        assert page.state["document"] is None
    rows = campaign.exported()
    assert {document for _, document, _ in rows} == set(IDS)
    assert {topic for topic, _, _ in rows} == {"301"}
    with (campaign.folder / "qrels.csv").open(newline="") as file:
        cells = [cell for row in list(csv.reader(file))[1:] for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_a_grade_below_zero_is_given_and_read(campaign):
    with campaign.page("grades=[-2,0,1,2]") as page:
        for grade in (-2, 0, 1, 2):
            page.act("judge", grade=grade)
    assert campaign.exported() == [("301", f"D{n}", grade) for n, grade in enumerate((-2, 0, 1, 2))]


def test_documents_of_minus_one_are_asked_for(campaign):
    (campaign.folder / "old").write_text("301 0 D1 -1\n301 0 D2 1\n301 0 D2 0\n")
    asked = []
    with campaign.page(f"qrels={campaign.folder / 'old'}") as page:
        while page.state["document"] is not None:
            asked.append(page.state["document"]["name"])
            page.act("judge", grade=0)
    assert asked == ["D0", "D1", "D3"]
    assert "judgements of -1 (pooled, not judged), which are not taken over: 1" in campaign.printed
    assert campaign.exported() == [("301", "D0", 0), ("301", "D1", 0), ("301", "D2", 1), ("301", "D3", 0)]


def test_topics_without_a_run_or_a_text_are_named(campaign):
    runs = {"a": {"301": ["D0", "D1"], "302": ["D1"]}}
    campaign.write({"D0": "wind", "D1": "\u2028"}, runs, {"301": "wind"})
    (campaign.folder / "topics").write_text("301\twind\n303\twater\n304\tair\n301\tice\nbroken\n")
    (campaign.folder / "old").write_text("301 0 D1 1\n305 0 D1 1\n")
    given = [f"topics={campaign.folder / 'topics'}", f"qrels={campaign.folder / 'old'}"]
    with pytest.raises(BadInput, match=r"topics:4: duplicate id"), campaign.page(*given):
        pass
    with campaign.page(*given, "strict=false") as page:
        assert [topic["name"] for topic in page.state["topics"]] == ["301", "302"]
    assert "topics without a text: 1" in campaign.printed
    assert "topics that no run has: 2 (303, 304)" in campaign.printed
    assert "duplicate id: 1\nbroken line: 1" in campaign.printed
    assert "judgements of topics that no run has, which are not taken over: 1" in campaign.printed


def test_ids_with_blanks_are_refused_where_they_can_be_chosen(campaign):
    documents = {"two words": "zebra wind", "D0": "wind", "more": "zebra"}
    campaign.write(documents, {"a": {"301": ["D0"]}}, {"301": "wind"})
    with campaign.page() as page:
        assert {line["document"] for line in page.post("search", query="zebra")["found"]} == {"two words", "more"}
        for document, says in (("two words", "has a blank in it"), ("D9", "no such document")):
            assert says in page.post("take", topic="301", document=document)["message"]
        page.state = page.post("take", topic="301", document="more")
        page.act("judge", grade=1)
    assert campaign.exported() == [("301", "more", 1)]


def test_a_document_of_ten_megabytes_comes_in_parts(campaign):
    long = "wind <script>alert(1)</script> " * 330_000
    campaign.write({"D0": long, "D1": "x"}, {"a": {"301": ["D0", "D1"]}}, {"301": "wind"})
    with campaign.page() as page:
        assert len(page.read) < 1_000_000
        document = page.state["document"]
        assert document["more"] > 10_000_000
        part = page.post("rest", topic="301", document="D0", start=len(long) - 9)
        assert "".join(text for text, _ in part["pieces"]) == long[-9:]
        assert part["more"] == 0
        assert page.act("judge", grade=1)["document"]["name"] == "D1"


@pytest.mark.parametrize("empty", ["", " \n"])
def test_an_empty_document_is_shown_as_one_without_a_text(campaign, empty):
    campaign.write({"D0": empty, "D1": "x"}, {"a": {"301": ["D0", "D1"]}}, {"301": "wind"})
    with campaign.page() as page:
        assert page.state["document"]["name"] == "D0"
        assert page.state["document"]["pieces"] is None
        assert page.act("judge", grade=0)["document"]["pieces"] == [["x", False]]


@pytest.mark.parametrize("escaped", [r"\ud800", r"\udc00 wind", r"\ud83d", r"\u0000", r"\ufeff"])
def test_texts_that_no_file_could_hold_are_cleaned_or_refused(campaign, escaped):
    corpus = campaign.folder / "corpus" / "corpus.jsonl"
    corpus.write_text(f'{{"_id": "D0", "title": "", "text": "wind {escaped} end"}}\n')
    refused = None
    try:
        with campaign.page() as page:
            shown = "".join(text for text, _ in page.state["document"]["pieces"])
            assert (shown.startswith("wind"), shown.endswith("end")) == (True, True)
            assert page.act("judge", grade=1, note="a \ud800 note").get("status") is None
    except BadInput as error:
        refused = str(error)
    assert "corpus.jsonl:1" in refused if refused else campaign.exported() == [("301", "D0", 1)]


def test_an_answer_does_not_grow_with_the_topics(campaign):
    names = [str(number) for number in range(600)]
    campaign.write({"D0": "wind"}, {"a": {name: ["D0"] for name in names}}, dict.fromkeys(names, "wind" * 9))
    with campaign.page("method=docid") as page:
        page.act("judge", grade=1)
        assert len(page.read) < 40_000
        assert page.state["topic_count"] == 600


def test_a_campaign_grows_and_keeps_all(campaign):
    with campaign.page("depth=2", "budget=20") as page:
        page.act("judge", grade=1, note="kept")
        page.act("skip")
    with pytest.raises(BadInput, match=r"the depth was 2, and may only rise"), campaign.page("depth=1", resume=True):
        pass
    campaign.write(
        {f"D{n}": f"wind text {n}" for n in range(6)}, {"b": {"301": ["D4", "D1"], "302": ["D5"]}},
        {"301": "wind", "302": "air"},
    )  # fmt: skip
    with campaign.page("depth=3", f"runs={campaign.folder / 'runs' / 'b'}", resume=True) as page:
        assert "continuing after 1 judgement" in campaign.printed
        assert [topic["name"] for topic in page.state["topics"]] == ["301", "302"]
        [kept] = page.post("judged")["judgements"]
        assert (kept["document"], kept["grade"], kept["note"]) == ("D0", 1, "kept")
        asked = []
        while page.state["topic"]["name"] == "301" and page.state["document"] is not None:
            asked.append(page.state["document"]["name"])
            page.act("judge", grade=0)
        assert asked == ["D1", "D4", "D2"]  # D1 was on the screen again
    assert campaign.exported() == [("301", f"D{n}", int(n == 0)) for n in (0, 1, 2, 4)]
