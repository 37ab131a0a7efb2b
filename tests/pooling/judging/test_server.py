"""The page's requests over a real socket."""

import csv
import http.client
import io
import json
import os
import re
import shutil
import socket
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import polars as pl
import pytest

from pyrite.pooling.across_topics import AcrossTopics
from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.judging.access import links_of, secret_of
from pyrite.pooling.judging.documents import write_texts
from pyrite.pooling.judging.opening import Judging, open_judging
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.server import LONGEST_BODY
from pyrite.pooling.judging.store import Event
from pyrite.pooling.judging.topics import TopicText
from pyrite.pooling.pool import Pool
from pyrite.pooling.simulation import Method
from pyrite.ranking.errors import BadInput

EVIL = '<script>window.broken = 1</script><img src=x onerror="window.broken = 1"> tunnels & "moles"'


class Client:
    """A browser of a kind: it keeps cookies and sends what it is told."""

    def __init__(self, port: int) -> None:
        self.port, self.cookies = port, {}

    def send(
        self, method: str, path: str, content: Any = None, **headers: str | None
    ) -> tuple[int, http.client.HTTPMessage, Any]:
        host = f"127.0.0.1:{self.port}"
        sent: dict[str, str | None] = {"host": host}
        if method == "POST":
            sent |= {"origin": f"http://{host}", "content-type": "application/json"}
        sent |= {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        body = content if isinstance(content, bytes) else json.dumps({} if content is None else content).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.putrequest(method, path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if method == "POST":
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body if method == "POST" else None)
        answer = connection.getresponse()
        for cookie in answer.headers.get_all("set-cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        text = answer.read().decode()
        connection.close()
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.status, answer.headers, json.loads(text) if is_json else text

    def post(self, path: str, content: Any = None, **headers: str | None) -> tuple[int, Any]:
        status, _, answer = self.send("POST", path, content, **headers)
        return status, answer

    def judge(self, document: str, grade: int | None, request: str, **more: Any) -> tuple[int, Any]:
        """Judge a document of topic 1."""
        return self.post("/judge", {"topic": "1", "document": document, "grade": grade, "request": request, **more})


class Served:
    def __init__(self, judging: Judging, port: int) -> None:
        self.judging, self.port = judging, port

    def client(self, name: str | None = None, owner: bool = False) -> Client:
        client = Client(self.port)
        link = next(each for each in self.judging.links if each.owner == owner)
        assert client.send("GET", f"/?token={link.token}")[0] == 200
        if name is not None:
            assert client.post("/sign-in", {"name": name})[0] == 200
        return client


Serve = Callable[..., Served]


@pytest.fixture
def pool(random_pool) -> Pool:
    return random_pool(np.random.default_rng(3), topics=2)


@pytest.fixture
def serve(tmp_path, pool, listen) -> Iterator[Serve]:
    stores = []

    def start(options: Options | None = None, method: Method | None = None, **more: Any) -> Served:
        names = pool.topics[0].documents.to_list()
        documents = more.pop("documents", pl.DataFrame({"id": names[1:], "text": [EVIL] * (len(names) - 1)}))
        topics = {"1": TopicText("Tunnels of moles", "Who digs <b>tunnels</b>?", ""), "2": TopicText("Bats")}
        method = method or Bandit(MaxMean())
        of = {"pool": "tested"}
        judging = open_judging(tmp_path / "out", pool, method, documents, topics, options, of=of, **more)
        stores.append(judging.store)
        return Served(judging, listen(judging.app))

    yield start
    for store in stores:
        store.close()


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(serve):
    served = serve()
    client = Client(served.port)
    status, headers, page = client.send("GET", f"/?token={served.judging.links[1].token}")
    assert status == 200
    assert 'http-equiv="refresh" content="0; url=./"' in page
    cookie = headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    status, headers, page = client.send("GET", "/")
    assert (status, "<title>Relevance judgements</title>" in page) == (200, True)
    assert "default-src 'none'; script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_messages_are_outside_the_parts_that_are_hidden(serve):
    # Before sign-in and while the first answer is awaited, only what is directly in the body is visible.
    page = serve().client().send("GET", "/")[2]
    visible = page.partition("<body>")[2].partition('<main id="sign-in"')[0]
    assert re.findall(r'^<(noscript|\w+ id="\w+")', visible, re.M) == ["noscript", 'p id="problem"', 'p id="loading"']


def contrast(one: str, other: str) -> float:
    """The contrast of two colours (#rrggbb) by WCAG 2, from 1 to 21."""

    def luminance(colour: str) -> float:
        shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def mixed(front: str, back: str, opacity: float) -> str:
    """A colour over another."""
    pairs = [(int(front[place : place + 2], 16), int(back[place : place + 2], 16)) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(opacity * one + (1 - opacity) * other):02x}" for one, other in pairs)


def test_colours_can_be_told_apart_by_day_and_by_night(serve):
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    style = serve().client().send("GET", "/judge.css")[2]
    # The keys are printed with an opacity of .9 on the colour of a button, a text that waits with .7.
    texts = [
        ("ink", "ground", 1), ("ink", "paper", 0.7), ("quiet", "ground", 1), ("quiet", "paper", 1), ("ink", "mark", 1),
        ("accent", "paper", 1), ("accent-ink", "accent", 0.9), ("problem", "problem-ground", 1),
        ("problem", "paper", 1),
    ]  # fmt: skip
    assert re.findall(r"^(?:kbd|main\[aria-busy=true\] article) .*opacity: (\.\d+)", style, re.M) == [".9", ".7"]
    themes = re.findall(r":root \{(.*?)\}", style, re.S)
    assert len(themes) == 2
    for theme in themes:
        named = re.findall(r"--([\w-]+): #(\w+)", theme)
        colours = {
            name: f"#{value if len(value) == 6 else ''.join(sign * 2 for sign in value)}" for name, value in named
        }
        for front, back, opacity in texts:
            assert contrast(mixed(colours[front], colours[back], opacity), colours[back]) >= 4.5, (front, back)
        for ground in ("paper", "ground"):  # the edge of a field
            assert contrast(colours["edge"], colours[ground]) >= 3


def test_nothing_is_there_or_done_without_the_token(serve):
    served = serve()
    for path in ("/", "/?token=", "/?token=wrong", "/?token=%ff", "/judge.js", "/qrels.txt", "/nothing"):
        status, headers, text = Client(served.port).send("GET", path)
        assert (status, "Open your link" in text, "set-cookie" in headers) == (403, True, False), path
        assert "accept the cookie" in text  # without which the link leads here again
    client = served.client()
    assert client.post("/next") == (401, {"assessors": None, "owner": False})  # nor without a name
    client.cookies = dict.fromkeys(client.cookies, "wrong")
    for path in ("/next", "/judge", "/sign-in", "/undo", "/leave"):
        assert client.post(path, {"name": "ada"})[0] == 403
    assert not served.judging.session.state.assessors


def test_only_the_page_itself_may_change_anything(serve):
    served = serve(hosts=["judging.example"])
    client = served.client("ada")
    requests: list[tuple[dict[str, str | None], int]] = [
        ({}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "same-origin", "origin": None}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": None}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none", "origin": None}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "[::1"}, 421),
        ({"host": "localhost:99", "origin": "http://localhost:99"}, 200),
        ({"host": "judging.example", "origin": "https://judging.example"}, 200),
        ({"content_type": "text/plain"}, 400),
    ]
    for headers, status in requests:
        before = len(served.judging.store.events())
        topic = "2" if client.post("/next")[1]["turned"] != "2" else "1"
        assert client.post("/turn", {"topic": topic}, **headers)[0] == status, headers
        assert (len(served.judging.store.events()) > before) == (status == 200), headers


def test_requests_that_are_no_json_objects(serve):
    client = serve().client("ada")
    for content in (b"", b"[", b"[]", b'"x"', b"\xff", b"[" * 20_000):
        status, answer = client.post("/next", content)
        assert (status, answer["message"]) == (400, "Requests are JSON objects.")


CLOSED = -1
"""A server that refuses what it has not read to the end closes the connection, which may overtake its answer."""


def status_of(client: Client, path: str, content: Any, **headers: str | None) -> int:
    try:
        return client.post(path, content, **headers)[0]
    except (ConnectionError, http.client.HTTPException):
        return CLOSED


def test_requests_that_are_too_long_or_name_no_host(serve):
    served = serve()
    client = served.client("ada")
    before = len(served.judging.store.events())
    assert status_of(client, "/next", b" " * (LONGEST_BODY + 1)) in (413, CLOSED)
    assert status_of(client, "/turn", {"topic": "2"}, host=None) in (400, CLOSED)
    assert len(served.judging.store.events()) == before


def test_judgements_that_lack_something_or_have_a_bad_note(serve):
    served = serve()
    client = served.client("ada")
    state = client.post("/next")[1]
    good = {"topic": state["topic"]["name"], "document": state["document"]["name"], "grade": 1, "request": "r"}
    for wrong in (
        {"grade": None}, {"grade": True}, {"grade": "1"}, {"grade": 9}, {"document": 5}, {"document": ""},
        {"topic": ["1"]}, {"request": None}, {"request": "x" * 2000},
        {"note": 5}, {"note": None}, {"note": "x" * 3000}, {"note": "a\x00b"},
    ):  # fmt: skip
        status, answer = client.post("/judge", good | wrong)
        assert (status, set(answer)) == (400, {"message"}), wrong
    assert not served.judging.session.state.judgements


def test_named_assessors_are_offered(serve):
    client = serve(Options(assessors=["ada", "Günther"])).client(owner=True)
    assert client.post("/next") == (401, {"assessors": ["ada", "Günther"], "owner": True})
    assert client.post("/sign-in", {"name": "edsger"})[0] == 400
    assert client.post("/sign-in", {"name": "Günther"})[1]["assessor"] == "Günther"
    assert client.post("/next")[1]["assessor"] == "Günther"
    assert client.post("/leave") == (401, {"assessors": ["ada", "Günther"], "owner": True})


def test_grades_without_names_are_told_apart(serve):
    state = serve(Options(grades=(0, 1, 2))).client("ada").post("/next")[1]
    assert [each["name"] for each in state["grades"]] == ["not relevant", "relevant, grade 1", "relevant, grade 2"]


def test_a_judgement_brings_the_next_document(serve):
    served = serve()
    client = served.client("ada")
    state = client.post("/next")[1]
    assert state["topics"][0] | {"limit": 0} == {
        "name": "1", "title": "Tunnels of moles", "judged": 0, "limit": 0, "left": True, "may_stop": False,
    }  # fmt: skip
    assert state["topic"]["description"] == "Who digs <b>tunnels</b>?"
    assert [each["name"] for each in state["grades"]] == ["not relevant", "relevant"]
    assert not state["undo"]
    name = state["document"]["name"]
    status, after = client.judge(name, 1, "first")
    assert status == 200
    assert after["document"]["name"] != name
    assert after["topics"][0]["judged"] == 1
    assert after["topic"]["figures"] == {"judged": 1, "found": 1, "pooled": [1, 1], "curve": [[1, 1]]}
    assert after["undo"]
    assert client.judge(name, 1, "first") == (200, after)  # the answer was lost, and the page asked again
    status, answer = client.judge(name, 1, "second")
    assert (status, answer["state"]) == (409, after)
    assert "no longer yours" in answer["message"]
    assert client.post("/undo", {"request": "third"})[1]["document"] == state["document"]
    assert served.client(owner=True).send("GET", "/qrels.txt")[2] == ""


def test_texts_come_in_pieces_that_are_not_markup(serve, pool):
    served = serve()
    client = served.client("ada")
    seen = {}
    for turn in range(pool.topics[0].pool.size):
        document = client.post("/next")[1]["document"]
        seen[document["name"]] = document["pieces"]
        client.judge(document["name"], 0, str(turn))
    without = pool.topics[0].documents[0]
    assert seen.pop(without) is None
    assert served.judging.notes["pooled documents that the collection lacks"] == len(
        {name for topic in pool.topics for name in topic.documents} - set(pool.topics[0].documents[1:])
    )
    for pieces in seen.values():
        assert "".join(text for text, _ in pieces) == EVIL
        assert [text for text, marked in pieces if marked] == ["tunnels", "moles"]


def test_lines_break_where_the_text_breaks_them(serve, pool):
    # A browser shows a carriage return and a form feed as nothing: the words around them would be one.
    text = "moles\rdig\r\ntunnels\fin\u2028soil"
    documents = pl.DataFrame({"id": pool.topics[0].documents, "text": [text] * pool.topics[0].pool.size})
    client = serve(documents=documents).client("ada")
    document = client.post("/next")[1]["document"]
    assert "".join(piece for piece, _ in document["pieces"]) == "moles\ndig\r\ntunnels\nin\nsoil"
    rest = client.post("/rest", {"topic": "1", "document": document["name"], "start": 6})[1]
    assert "".join(piece for piece, _ in rest["pieces"]) == "dig\r\ntunnels\nin\nsoil"


def test_a_document_without_a_visible_character_is_said_to_have_no_text(serve, pool):
    names = pool.topics[0].documents
    served = serve(documents=pl.DataFrame({"id": names, "text": ["\u200b\ufeff"] * len(names)}))
    assert served.client("ada").post("/next")[1]["document"]["pieces"] is None
    assert served.judging.notes["pooled documents with nothing to read in them"] == len(names)


def test_a_missing_text_does_not_wait_for_the_index_of_the_search(serve):
    def unread() -> list[pl.DataFrame]:
        raise AssertionError("the collection is read")

    client = serve(collection=unread, documents=pl.DataFrame({"id": ["other"], "text": ["other"]})).client("ada")
    document = client.post("/next")[1]["document"]
    assert document["pieces"] is None
    assert client.judge(document["name"], 0, "a")[0] == 200
    (judged,) = client.post("/judged")[1]["judgements"]
    assert client.post("/document", {"judgement": judged["id"]})[1]["pieces"] is None


def test_a_document_that_was_found_has_its_text_after_a_restart(serve):
    read = []

    def collection() -> list[pl.DataFrame]:
        read.append(1)
        return [pl.DataFrame({"id": ["far", "near"], "text": ["Moles afar", "Bats nearby"]})]

    served = serve(collection=collection)
    assert not read  # the index is built at the first search
    client = served.client("ada")
    assert [each["document"] for each in client.post("/search", {"query": "mole"})[1]["found"]] == ["far"]
    assert client.post("/take", {"topic": "1", "document": "far"})[1]["document"]["name"] == "far"
    assert client.post("/take", {"topic": "1", "document": "nowhere"})[0] == 400
    served.judging.store.close()
    document = serve(collection=collection).client("ada").post("/next")[1]["document"]
    assert document["pieces"] == [["Moles", True], [" afar", False]]
    assert len(read) == 2  # once for the search, and once at the restart


def test_the_index_of_the_search_is_built_while_others_judge(serve):
    building, built = threading.Event(), threading.Event()

    def collection() -> list[pl.DataFrame]:
        building.set()
        assert built.wait(60)
        return [pl.DataFrame({"id": ["far"], "text": ["Moles afar"]})]

    served = serve(collection=collection)
    ada, grace = served.client("ada"), served.client("grace")
    taken: list[int] = []
    thread = threading.Thread(
        target=lambda: taken.append(ada.post("/take", {"topic": "1", "document": "far"})[0]), daemon=True
    )
    thread.start()
    assert building.wait(60)
    state = grace.post("/next")[1]  # would wait for ever
    assert grace.judge(state["document"]["name"], 1, "g", topic=state["topic"]["name"])[0] == 200
    built.set()
    thread.join(60)
    assert taken == [200]


def test_the_method_is_ready_before_anyone_signs_in(serve):
    method, steps = Bandit(MaxMean()), []

    def recorded(name: str) -> Callable[..., Any]:
        step = getattr(method, name)

        def record(*state: Any) -> Any:
            steps.append(name)
            return step(*state)

        return record

    method.choose, method.learn = recorded("choose"), recorded("learn")
    served = serve(method=method)
    assert {"choose", "learn"} == set(steps)
    assert not served.judging.session.state.assignments[0]  # and none of it counts
    before = len(steps)
    first = served.client("ada").post("/next")[1]["document"]["name"]
    assert len(steps) > before
    served.judging.store.close()
    assert serve().client("ada").post("/next")[1]["document"]["name"] == first


def test_a_note_that_was_taken_back_is_there_to_be_saved_again(serve):
    client = serve().client("ada")
    document = client.post("/next")[1]["document"]
    assert document["note"] == ""
    assert client.judge(document["name"], 1, "a", note="moles, nuts")[1]["document"]["note"] == ""
    assert client.post("/undo", {"request": "b"})[1]["document"] == document | {"note": "moles, nuts"}
    client.judge(document["name"], 1, "c")  # the assessor deleted it
    assert client.post("/undo", {"request": "d"})[1]["document"]["note"] == ""


def test_a_method_may_choose_the_topic(serve):
    client = serve(method=AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean()), least=2)).client("ada")
    state = client.post("/next")[1]
    assert (state["by_method"], state["turned"]) == (True, None)
    topics = []
    for turn in range(4):
        topics.append(state["topic"]["name"])
        state = client.judge(state["document"]["name"], 0, str(turn), topic=topics[-1])[1]
    assert topics == ["1", "2", "1", "2"]
    state = client.post("/turn", {"topic": "2"})[1]
    assert (state["turned"], state["topic"]["name"]) == ("2", "2")
    assert client.post("/turn", {"topic": None})[1]["turned"] is None
    assert client.post("/turn", {"topic": "3"})[0] == 400


def test_judgements_made_before_are_shown(serve, pool):
    names = pool.topics[0].documents
    qrels = pl.DataFrame({"query": ["1", "1"], "document": [names[2], names[3]], "grade": [1, 0]})
    served = serve(Options(budget=500), qrels=qrels)
    state = served.client("ada").post("/next")[1]
    assert state["topic"]["known"] == {"judged": 2, "relevant": 1}
    assert state["topics"][0]["limit"] == pool.topics[0].pool.size - 2
    assert state["total"] == {"judged": 0, "limit": pool.size - 2}


def test_downloads_and_overview_are_the_owners(serve):
    served = serve(Options(double=1.0, budget=1))
    one, other = served.client("ada"), served.client("grace")
    name = one.post("/next")[1]["document"]["name"]
    other.post("/turn", {"topic": "1"})
    one.judge(name, 0, "a", note="=no; moles")
    assert other.post("/next")[1]["document"]["name"] == name
    assert other.judge(name, 1, "b")[0] == 200
    owner = served.client(owner=True)
    status, headers, text = owner.send("GET", "/qrels.txt")
    assert (status, text) == (200, f"1 0 {name} 1\n")
    assert headers["content-disposition"] == 'attachment; filename="qrels.txt"'
    assert owner.send("GET", "/disagreements.tsv")[2].splitlines()[1:] == [f"1\t{name}\t1\tada\t0\tgrace\t1"]
    rows = list(csv.DictReader(io.StringIO(owner.send("GET", "/judgements.csv")[2])))
    assert [(row["document"], row["grade"], row["assessor"], row["note"]) for row in rows] == [
        (name, "0", "ada", "'=no; moles"), (name, "1", "grace", ""),
    ]  # fmt: skip
    shown = owner.post("/overview")[1]
    assert shown["agreement"] == [
        {"assessors": ["ada", "grace"], "documents": 1, "equal": 0, "kappa": 0.0, "kappa_relevance": 0.0}
    ]
    assert [(each["name"], each["judged"], each["listed"]) for each in shown["assessors"]] == [
        ("ada", 1, True), ("grace", 1, True),
    ]  # fmt: skip
    decision = {"topic": "1", "document": name, "grade": 0, "request": "c"}
    assert served.client("ada", owner=True).post("/resolve", decision)[0] == 200  # an owner who judges, too
    assert [each.assessor for each in served.judging.store.events() if each.kind == "resolve"] == ["owner"]
    for client in (one, other):
        assert client.post("/overview")[0] == 403
        for path in ("/qrels.txt", "/disagreements.tsv", "/judgements.csv"):
            status, _, text = client.send("GET", path)
            assert (status, name in text) == (403, False)


def test_second_judgements_are_blind(serve):
    served = serve(Options(double=1.0))
    ada, grace = served.client("ada"), served.client("grace")
    grace.post("/turn", {"topic": "1"})
    for turn in range(4):
        ada.judge(ada.post("/next")[1]["document"]["name"], 1, f"a{turn}")
    shown = grace.post("/next")[1]
    assert shown["topics"][0]["judged"] == 4
    assert shown["blind"]
    assert shown["topic"]["figures"] == {"judged": 0, "found": 0, "pooled": [0, 0], "curve": []}
    assert set(shown["topic"]["recall"]) == {"may_stop", "target", "sure"}
    others = served.client("ada", owner=True).post("/next")[1]
    assert others["topic"]["figures"]["found"] == 4
    assert others["topic"]["recall"]["most"] > 0
    assert grace.post("/judged", {})[1] == {"judgements": [], "more": False}


def test_each_assessor_has_a_link_that_ends_with_the_place_on_the_list(tmp_path, serve):
    served = serve(Options(assessors=["ada", "grace"]))
    assert [each[:2] for each in served.judging.links] == [(True, None), (False, "ada"), (False, "grace")]
    tokens = {each.assessor: each.token for each in served.judging.links}
    ada = Client(served.port)
    ada.send("GET", f"/?token={tokens['ada']}")
    state = ada.post("/next")[1]  # without signing in
    assert state["assessor"] == "ada"
    assert ada.post("/sign-in", {"name": "grace"})[0] == 400
    ada.cookies |= {name.replace("pyrite", "assessor"): "grace" for name in ada.cookies}
    assert ada.post("/next")[1]["assessor"] == "ada"
    assert ada.post("/leave") == (401, {"assessors": ["ada"], "owner": False})
    assert ada.post("/next")[1]["document"] == state["document"]
    # The secret and the name make the link: it is the same at the next start, and no longer one off the list.
    secret = secret_of(tmp_path / "out")
    assert links_of(secret, ["grace", "ada"])[2].token == tokens["ada"]
    for assessors in (["grace"], None):
        ways = [each for link in links_of(secret, assessors) for each in (link.token, link.cookie)]
        assert tokens["ada"] not in ways
        assert served.judging.links[1].cookie not in ways
    assert len({link.token for link in served.judging.links}) == 3


def test_who_was_taken_off_the_list_judges_no_more(serve):
    served = serve(Options(assessors=["ada", "grace"]))
    owner = served.client("ada", owner=True)
    document = owner.post("/next")[1]["document"]["name"]
    served.judging.session.assessors = ["grace"]
    asked = {"topic": "1", "document": document, "grade": 1, "request": "late"}
    for path in ("/next", "/judge", "/skip", "/undo", "/turn", "/judged", "/correct"):
        assert owner.post(path, asked)[0] == 401
    assert not served.judging.session.state.judgements


def test_cookies_hold_no_token_and_are_secure_behind_tls(serve):
    plain = serve()

    def is_secure(served: Served, **headers: str) -> bool:
        client, token = Client(served.port), served.judging.links[0].token
        _, answer, _ = client.send("GET", f"/?token={token}", **headers)
        assert token not in answer["set-cookie"]
        assert client.send("GET", f"/?token={next(iter(client.cookies.values()))}")[0] == 403  # nor is it a token
        _, signed_in, _ = client.send("POST", "/sign-in", {"name": "ada"}, **headers)
        secure = ["secure" in each["set-cookie"].lower() for each in (answer, signed_in)]
        assert secure[0] == secure[1]
        return secure[0]

    assert not is_secure(plain)
    assert not is_secure(plain, x_forwarded_proto="http")
    assert is_secure(plain, x_forwarded_proto="https")
    plain.judging.store.close()
    assert is_secure(serve(encrypted=True))


def test_ones_own_judgements_are_listed_and_corrected_in_place(serve):
    served = serve()
    ada, grace = served.client("ada"), served.client("grace")
    documents = []
    for turn in range(3):
        documents.append(ada.post("/next")[1]["document"]["name"])
        ada.judge(documents[-1], 0, f"a{turn}", note=f"n{turn} ")
    on_screen = ada.post("/next")[1]["document"]
    listed = ada.post("/judged")[1]
    assert not listed["more"]
    assert [(each["document"], each["grade"], each["note"]) for each in listed["judgements"]] == [
        (documents[2], 0, "n2"), (documents[1], 0, "n1"), (documents[0], 0, "n0"),
    ]  # fmt: skip
    first = listed["judgements"][-1]
    earlier = ada.post("/judged", {"before": listed["judgements"][0]["id"], "topic": "1"})[1]
    assert earlier["judgements"] == listed["judgements"][1:]
    assert ada.post("/judged", {"topic": "2"})[1]["judgements"] == []
    asked = {"judgement": first["id"], "grade": 1, "note": "on reflection", "request": "c"}
    state = ada.post("/correct", asked)[1]
    assert state["document"] == on_screen
    assert state["topic"]["figures"] == {"judged": 3, "found": 1, "pooled": [3, 1], "curve": [[1, 1]]}
    assert ada.post("/correct", asked)[0] == 200  # whose answer was lost
    assert ada.post("/correct", asked | {"grade": 0})[0] == 400
    again = ada.post("/judged")[1]["judgements"][-1]
    assert (again["id"], again["grade"], again["note"]) == (first["id"], 1, "on reflection")
    assert ada.post("/document", {"judgement": first["id"]})[1]["name"] == documents[0]
    for path in ("/document", "/correct"):  # others' are not to be had
        status, answer = grace.post(path, asked | {"request": "g"})
        assert (status, answer["message"]) == (400, "This judgement was taken back.")
    lines = served.client(owner=True).send("GET", "/qrels.txt")[2].splitlines()
    assert sorted(lines) == sorted(f"1 0 {name} {int(name == documents[0])}" for name in documents)


def test_what_an_assessor_cannot_judge_goes_to_another(serve):
    served = serve()
    ada, grace = served.client("ada"), served.client("grace")
    grace.post("/turn", {"topic": "1"})
    waiting = grace.post("/next")[1]["document"]
    document = ada.post("/next")[1]["document"]["name"]
    state = ada.judge(document, None, "a", cannot_judge=True, note="Klingon")[1]
    assert state["topics"][0]["judged"] == 0
    assert state["topic"]["unjudgeable"] == 1
    assert state["undo"]
    owner = served.client(owner=True)
    shown = owner.post("/overview")[1]
    assert shown["unjudgeable"] == [{"topic": "1", "document": document}]
    assert shown["unjudgeable_count"] == 1  # the list ends after some
    grace.judge(waiting["name"], 0, "g")
    state = grace.post("/next")[1]
    assert state["document"]["name"] == document
    state = grace.judge(document, 1, "h")[1]
    assert state["topic"]["unjudgeable"] == 0
    assert owner.send("GET", "/qrels.txt")[2].splitlines().count(f"1 0 {document} 1") == 1
    rows = list(csv.DictReader(io.StringIO(owner.send("GET", "/judgements.csv")[2])))
    assert [row["grade"] for row in rows if row["document"] == document] == ["", "1"]


@pytest.mark.parametrize("written", [False, True])
def test_a_write_that_fails_is_not_done_or_not_done_twice(serve, monkeypatch, written):
    served = serve()
    client, store = served.client("ada"), served.judging.store
    name = client.post("/next")[1]["document"]["name"]
    append = store.append

    def fails(*events: Event) -> None:
        if written:
            append(*events)
        raise sqlite3.OperationalError("disk I/O error" if written else "database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(store, "append", fails)
        status, answer = client.judge(name, 1, "r")
    assert status == 503
    if not written:
        assert "disk full" in answer["message"]
        assert not served.judging.session.state.judgements
        assert client.post("/next")[1]["document"]["name"] == name
    assert client.judge(name, 1, "r")[0] == 200  # the page tries again
    state = client.post("/next")[1]
    assert state["topics"][0]["judged"] == 1
    assert state["document"]["name"] != name
    assert len([event for event in store.events() if event.kind == "judge"]) == 1
    assert served.judging.session.state.last == store.events()[-1].id


def test_the_secret_is_the_owners_alone_and_stays(tmp_path):
    secret = secret_of(tmp_path / "new")
    path = tmp_path / "new" / "secret"
    assert len(secret) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    path.parent.chmod(0o755)  # a folder that was there is the user's to open up
    assert secret_of(tmp_path / "new") == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    path.write_text("")  # killed before it was written
    assert len(secret_of(tmp_path / "new")) >= 43
    assert secret_of(tmp_path / "other") != secret


def test_a_secret_that_came_with_a_folder_is_replaced(tmp_path, caplog):
    """The folder's author knows it, and so all links."""
    secret = secret_of(tmp_path / "made")
    shutil.copytree(tmp_path / "made", tmp_path / "received")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "secret").write_text("known-to-the-stranger\n")
    for name in ("received", "old"):
        new = secret_of(tmp_path / name)
        assert new not in (secret, b"known-to-the-stranger")
        assert secret_of(tmp_path / name) == new
    assert [record.getMessage().endswith("all links are new") for record in caplog.records] == [True, True]
    assert secret_of(tmp_path / "made") == secret


def test_all_files_of_the_folder_are_the_owners_alone(tmp_path, serve):
    before = os.umask(0o000)  # whatever the user's own says
    try:
        served = serve()
        served.client("ada").post("/next")
        write_texts(tmp_path / "out" / "documents.arrow", [])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert set(modes) - {"server.lock-journal"} == {
        "judgements.sqlite", "judgements.sqlite-wal", "judgements.sqlite-shm", "server.lock", "secret",
        "documents.arrow",
    }  # fmt: skip
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("document", ["INVENTED-DOC-42", "x" * 900_000, "é" * 60_000, "=cmd()"])
@pytest.mark.parametrize("search", [True, False])
def test_no_assessor_invents_a_document(serve, document, search):
    names = pl.DataFrame({"id": ["far"], "text": ["Moles afar"]})
    served = serve(collection=(lambda: [names]) if search else None)
    ada = served.client("ada")
    assert ada.post("/take", {"topic": "1", "document": document})[0] == 400
    assert ada.judge(document, 1, "r1")[0] in (400, 409)
    assert document not in served.client(owner=True).send("GET", "/qrels.txt")[2]


def test_a_document_of_the_pool_is_taken_without_a_search(serve, pool):
    document = pool.topics[0].documents[3]
    assert serve().client("ada").post("/take", {"topic": "1", "document": document})[1]["document"]["name"] == document


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://a]b[", "null", "\xff"])
def test_an_origin_that_cannot_be_read_is_refused(serve, origin):
    ada = serve().client("ada")
    status, headers, _ = ada.send("POST", "/next", origin=origin)
    assert status == 403
    assert headers["content-security-policy"].startswith("default-src 'none'")


def test_an_answer_to_a_failure_has_the_headers_too(serve, monkeypatch):
    served = serve()
    ada = served.client("ada")
    monkeypatch.setattr(served.judging.session, "next", lambda assessor: 1 / 0)
    status, headers, answer = ada.send("POST", "/next")
    assert (status, answer["message"]) == (500, "The server failed (ZeroDivisionError: division by zero).")
    assert headers["x-content-type-options"] == "nosniff"
    assert ada.send("GET", "/nothing-here")[1]["x-content-type-options"] == "nosniff"


def test_a_refused_request_gets_its_answer_however_much_it_still_sends(serve):
    port = serve().port
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(b"POST /judge HTTP/1.1\r\nhost: 127.0.0.1\r\nbad header\r\n\r\n" + b"x" * 300_000)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"x-content-type-options: nosniff" in answer.lower()


def test_nobody_signs_in_as_the_owner(serve):
    client = serve().client()
    for name in ("owner", " Owner ", "OWNER"):
        status, answer = client.post("/sign-in", {"name": name})
        assert status == 400
        assert "can't be an assessor's name" in answer["message"]


def test_first_searches_leave_threads_for_judging(serve):
    building, built = threading.Event(), threading.Event()

    def collection() -> list[pl.DataFrame]:
        building.set()
        assert built.wait(60)
        return [pl.DataFrame({"id": ["far"], "text": ["Moles afar"]})]

    served = serve(collection=collection)
    ada, grace = served.client("ada"), served.client("grace")
    found: list[int] = []
    searches = [
        threading.Thread(target=lambda: found.append(ada.post("/search", {"query": "mole"})[0]), daemon=True)
        for _ in range(45)  # more than the server's threads
    ]
    for search in searches:
        search.start()
    assert building.wait(60)
    state = grace.post("/next")[1]  # would wait for ever
    assert grace.judge(state["document"]["name"], 1, "g", topic=state["topic"]["name"])[0] == 200
    built.set()
    for search in searches:
        search.join(60)
    assert found == [200] * 45


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: 127", b"POST /next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
     b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /again HT"],
    ids=["nothing", "half a header", "half a body", "half of a second request"],
)  # fmt: skip
def test_connections_without_a_whole_request_are_closed(serve, monkeypatch, sent):
    monkeypatch.setattr("pyrite.pooling.judging.connection.PATIENCE_S", 0.2)
    with socket.create_connection(("127.0.0.1", serve().port), timeout=60) as half:
        half.sendall(sent)
        while half.recv(1 << 16):  # b"": closed by the server
            pass


def test_what_is_no_http_is_refused_with_the_headers(serve):
    with socket.create_connection(("127.0.0.1", serve().port), timeout=60) as other:
        other.sendall(b"\x16\x03\x01\x02 this is TLS\r\n\r\n")
        answer = b"".join(iter(lambda: other.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Content-Security-Policy: default-src 'none'" in answer


def test_a_body_that_is_no_http_is_refused_once_and_without_a_traceback(serve, capsys):
    served = serve()
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as other:
        other.sendall(b"POST /next HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        answer = b"".join(iter(lambda: other.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    served.client()  # the refused request is over
    assert capsys.readouterr().err.splitlines() == ["WARNING:  Invalid HTTP request received."]


def test_a_log_that_was_edited_is_refused(serve, tmp_path):
    served = serve()
    served.client("ada").post("/next")
    served.judging.store.close()
    with closing(sqlite3.connect(tmp_path / "out" / "judgements.sqlite")) as connection, connection:
        connection.execute(
            "INSERT INTO events (at, kind, assessor, topic, document, grade, by_method) VALUES (1, ?, ?, 1, ?, 77, 0)",
            ("judge", "ada", "nodoc"),
        )
    with pytest.raises(BadInput, match=r"judgements.sqlite: event \d+ has the grade 77, which the scale lacks"):
        serve()


def test_a_damaged_file_is_refused_in_one_line(serve, tmp_path):
    served = serve()
    ada = served.client("ada")
    for number in range(60):
        state = ada.post("/next")[1]
        if state["document"] is None:
            break
        ada.judge(state["document"]["name"], 1, f"r{number}", topic=state["topic"]["name"], note="a note" * 50)
    served.judging.store.close()
    path = tmp_path / "out" / "judgements.sqlite"
    content = bytearray(path.read_bytes())
    content[len(content) // 3 :: 997] = b"\xff" * len(content[len(content) // 3 :: 997])
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"judgements.sqlite: is damaged .*sqlite3 judgements.sqlite .recover"):
        serve()
