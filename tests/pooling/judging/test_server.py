"""The page's requests over a real socket."""

from __future__ import annotations

import http.client
import json
import socket
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import uvicorn

from pooling.across_topics import AcrossTopics
from pooling.adjudicators.bandit.bandit import Bandit
from pooling.adjudicators.max_mean import MaxMean
from pooling.judging.access import LONGEST_BODY, token_of
from pooling.judging.opening import Judging, open_judging
from pooling.judging.options import Options
from pooling.judging.topics import TopicText
from pooling.pool import Pool
from pooling.simulation import Method

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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
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


class Served:
    def __init__(self, judging: Judging, port: int) -> None:
        self.judging, self.port = judging, port

    def client(self, name: str | None = None) -> Client:
        client = Client(self.port)
        assert client.send("GET", f"/?token={self.judging.token}")[0] == 200
        if name is not None:
            assert client.post("/sign-in", {"name": name})[0] == 200
        return client


Serve = Callable[..., Served]


@pytest.fixture
def pool(random_pool: Callable[..., Pool]) -> Pool:
    return random_pool(np.random.default_rng(3), topics=2)


@pytest.fixture
def serve(tmp_path: Path, pool: Pool) -> Iterator[Serve]:
    running = []

    def start(options: Options | None = None, method: Method | None = None, **more: Any) -> Served:
        names = pool.topics[0].documents.to_list()
        documents = pl.DataFrame({"id": names[1:], "text": [EVIL] * (len(names) - 1)})
        topics = {"1": TopicText("Tunnels of moles", "Who digs <b>tunnels</b>?", ""), "2": TopicText("Bats")}
        judging = open_judging(
            tmp_path / "out",
            pool,
            method or Bandit(MaxMean()),
            documents,
            topics,
            options,
            of={"pool": "tested"},
            **more,
        )
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(judging.app, log_level="warning", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        running.append((server, thread, judging))
        return Served(judging, listening.getsockname()[1])

    yield start
    for server, thread, judging in running:
        server.should_exit = True
        thread.join()
        judging.store.close()


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(serve: Serve) -> None:
    served = serve()
    client = Client(served.port)
    status, headers, page = client.send("GET", f"/?token={served.judging.token}")
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


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=wrong", "/?token=%ff", "/judge.js", "/qrels.txt", "/nothing"]
)
def test_nothing_is_there_without_the_token(serve: Serve, path: str) -> None:
    status, headers, text = Client(serve().port).send("GET", path)
    assert (status, "holds the token" in text) == (403, True)
    assert "set-cookie" not in headers


@pytest.mark.parametrize("path", ["/next", "/judge", "/sign-in", "/undo", "/leave"])
def test_nothing_is_done_without_the_token(serve: Serve, path: str) -> None:
    served = serve()
    client = Client(served.port)
    client.cookies = {next(iter(served.client().cookies)): "wrong"}
    assert client.post(path, {"name": "ada"})[0] == 403
    assert not served.judging.session.state.assessors


@pytest.mark.parametrize(
    ("headers", "status"),
    [
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
    ],
)
def test_only_the_page_itself_may_change_anything(serve: Serve, headers: dict[str, str | None], status: int) -> None:
    served = serve(hosts=["judging.example"])
    client = served.client("ada")
    before = len(served.judging.store.events())
    assert client.post("/turn", {"topic": "2"}, **headers)[0] == status
    assert (len(served.judging.store.events()) > before) == (status == 200)


@pytest.mark.parametrize("content", [b"", b"[", b"[]", b'"x"', b"\xff", b"[" * 20_000])
def test_requests_that_are_no_json_objects(serve: Serve, content: bytes) -> None:
    status, answer = serve().client("ada").post("/next", content)
    assert (status, answer["message"]) == (400, "Requests are JSON objects.")


CLOSED = -1
"""A server that refuses what it has not read to the end closes the connection, which may overtake its answer."""


def status_of(client: Client, path: str, content: Any, **headers: str | None) -> int:
    try:
        return client.post(path, content, **headers)[0]
    except (ConnectionError, http.client.HTTPException):
        return CLOSED


def test_requests_that_are_too_long(serve: Serve) -> None:
    assert status_of(serve().client("ada"), "/next", b" " * (LONGEST_BODY + 1)) in (413, CLOSED)


def test_requests_that_name_no_host(serve: Serve) -> None:
    served = serve()
    client = served.client("ada")
    before = len(served.judging.store.events())
    assert status_of(client, "/turn", {"topic": "2"}, host=None) in (400, CLOSED)
    assert len(served.judging.store.events()) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"grade": None}, {"grade": True}, {"grade": "1"}, {"grade": 9}, {"document": 5}, {"document": ""},
        {"topic": ["1"]}, {"request": None}, {"request": "x" * 2000},
    ],
)  # fmt: skip
def test_judgements_that_lack_something(serve: Serve, wrong: dict[str, Any]) -> None:
    served = serve()
    client = served.client("ada")
    state = client.post("/next")[1]
    good = {"topic": state["topic"]["name"], "document": state["document"]["name"], "grade": 1, "request": "r"}
    status, answer = client.post("/judge", good | wrong)
    assert status == 400
    assert set(answer) == {"message"}
    assert not served.judging.session.state.judgements


def test_who_has_not_signed_in_is_asked_to(serve: Serve) -> None:
    assert serve().client().post("/next") == (401, {"assessors": None})


def test_named_assessors_are_offered(serve: Serve) -> None:
    client = serve(Options(assessors=["ada", "Günther"])).client()
    assert client.post("/next") == (401, {"assessors": ["ada", "Günther"]})
    assert client.post("/sign-in", {"name": "edsger"})[0] == 400
    assert client.post("/sign-in", {"name": "Günther"})[1]["assessor"] == "Günther"
    assert client.post("/next")[1]["assessor"] == "Günther"
    assert client.post("/leave") == (401, {"assessors": ["ada", "Günther"]})


def test_a_judgement_brings_the_next_document(serve: Serve) -> None:
    served = serve()
    client = served.client("ada")
    state = client.post("/next")[1]
    assert state["topics"][0] | {"limit": 0} == {
        "name": "1", "title": "Tunnels of moles", "judged": 0, "relevant": 0, "limit": 0, "left": True,
    }  # fmt: skip
    assert state["topic"]["description"] == "Who digs <b>tunnels</b>?"
    assert [each["name"] for each in state["grades"]] == ["not relevant", "relevant"]
    assert not state["undo"]
    asked = {"topic": "1", "document": state["document"]["name"], "grade": 1, "request": "first"}
    status, after = client.post("/judge", asked)
    assert status == 200
    assert after["document"]["name"] != state["document"]["name"]
    assert after["topics"][0]["judged"] == after["topics"][0]["relevant"] == 1
    assert after["topic"]["curve"] == [1]
    assert after["undo"]
    assert client.post("/judge", asked) == (200, after)  # the answer was lost, and the page asked again
    status, answer = client.post("/judge", asked | {"request": "second"})
    assert (status, answer["state"]) == (409, after)
    assert "no longer yours" in answer["message"]
    assert client.post("/undo", {"request": "third"})[1]["document"] == state["document"]
    assert client.send("GET", "/qrels.txt")[2] == ""


def test_texts_come_in_pieces_that_are_not_markup(serve: Serve, pool: Pool) -> None:
    served = serve()
    client = served.client("ada")
    seen = {}
    for turn in range(pool.topics[0].pool.size):
        document = client.post("/next")[1]["document"]
        seen[document["name"]] = document["pieces"]
        client.post("/judge", {"topic": "1", "document": document["name"], "grade": 0, "request": str(turn)})
    without = pool.topics[0].documents[0]
    assert seen.pop(without) is None
    assert served.judging.notes["pooled documents that the collection lacks"] == len(
        {name for topic in pool.topics for name in topic.documents} - set(pool.topics[0].documents[1:])
    )
    for pieces in seen.values():
        assert "".join(text for text, _ in pieces) == EVIL
        assert [text for text, marked in pieces if marked] == ["tunnels", "moles"]


def test_a_method_may_choose_the_topic(serve: Serve) -> None:
    client = serve(method=AcrossTopics(Bandit(MaxMean()), Bandit(MaxMean()), least=2)).client("ada")
    state = client.post("/next")[1]
    assert (state["by_method"], state["turned"]) == (True, None)
    topics = []
    for turn in range(4):
        topics.append(state["topic"]["name"])
        asked = {"topic": topics[-1], "document": state["document"]["name"], "grade": 0, "request": str(turn)}
        state = client.post("/judge", asked)[1]
    assert topics == ["1", "2", "1", "2"]
    state = client.post("/turn", {"topic": "2"})[1]
    assert (state["turned"], state["topic"]["name"]) == ("2", "2")
    assert client.post("/turn", {"topic": None})[1]["turned"] is None
    assert client.post("/turn", {"topic": "3"})[0] == 400


def test_judgements_made_before_are_shown(serve: Serve, pool: Pool) -> None:
    names = pool.topics[0].documents
    qrels = pl.DataFrame({"query": ["1", "1"], "document": [names[2], names[3]], "grade": [1, 0]})
    served = serve(Options(budget=500), qrels=qrels)
    state = served.client("ada").post("/next")[1]
    assert state["topic"]["known"] == {"judged": 2, "relevant": 1}
    assert state["topics"][0]["limit"] == pool.topics[0].pool.size - 2
    assert state["total"] == {"judged": 0, "limit": pool.size - 2}


def test_downloads(serve: Serve) -> None:
    served = serve(Options(double=1.0, budget=1))
    one, other = served.client("ada"), served.client("grace")
    name = one.post("/next")[1]["document"]["name"]
    other.post("/turn", {"topic": "1"})
    one.post("/judge", {"topic": "1", "document": name, "grade": 0, "request": "a"})
    state = other.post("/next")[1]
    assert state["document"]["name"] == name
    status, state = other.post("/judge", {"topic": "1", "document": name, "grade": 1, "request": "b"})
    assert state["agreement"] == [
        {"assessors": ["ada", "grace"], "documents": 1, "equal": 0, "kappa": 0.0, "kappa_relevance": 0.0}
    ]
    status, headers, text = one.send("GET", "/qrels.txt")
    assert (status, text) == (200, f"1 0 {name} 1\n")
    assert headers["content-disposition"] == 'attachment; filename="qrels.txt"'
    assert one.send("GET", "/disagreements.tsv")[2].splitlines()[1:] == [f"1\t{name}\t1\tada\t0\tgrace\t1"]


def test_what_could_not_be_saved_is_not_done(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve()
    client = served.client("ada")
    name = client.post("/next")[1]["document"]["name"]
    asked = {"topic": "1", "document": name, "grade": 1, "request": "r"}

    def full(*events: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(served.judging.store, "append", full)
        status, answer = client.post("/judge", asked)
    assert (status, "disk full" in answer["message"]) == (503, True)
    assert not served.judging.session.state.judgements
    assert client.post("/next")[1]["document"]["name"] == name
    assert client.post("/judge", asked)[1]["topics"][0]["judged"] == 1


def test_the_token_is_the_owners_alone_and_stays(tmp_path: Path) -> None:
    token = token_of(tmp_path / "new")
    path = tmp_path / "new" / "token"
    assert len(token) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert token_of(tmp_path / "new") == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("")  # killed before it was written
    assert len(token_of(tmp_path / "new")) >= 43
    assert token_of(tmp_path / "other") != token
