"""Sends the judging page what no browser sends: every answer is right or a refusal, and no judgement is lost."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrite.pooling.adjudicators.bandit.bandit import Bandit
from pyrite.pooling.adjudicators.max_mean import MaxMean
from pyrite.pooling.judging.log_check import check_log
from pyrite.pooling.judging.opening import Judging, open_judging
from pyrite.pooling.judging.options import Options
from pyrite.pooling.judging.store import read
from pyrite.pooling.judging.topics import TopicText
from tests.pooling.judging.test_server import Client, Served

PATHS = [
    "/", "/next", "/judge", "/correct", "/skip", "/undo", "/turn", "/take", "/judged", "/document", "/rest", "/search",
    "/overview", "/resolve", "/sign-in", "/leave", "/qrels.txt", "/disagreements.tsv", "/judgements.csv", "/judge.js",
    "/../secret", "/%00", "/?token=%ff", "/nothing",
]  # fmt: skip
FIELDS = ["topic", "document", "grade", "request", "note", "judgement", "start", "query", "name", "step", "before",
          "cannot_judge"]  # fmt: skip
TEXTS = st.one_of(st.text(max_size=30), st.sampled_from(["1", "d000", "r", "=1+1", "\ud800", "\x00", "x" * 200_000]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**40), 10**40), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
BODIES = st.one_of(
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6).map(lambda body: json.dumps(body).encode()),
    st.binary(max_size=200),
    st.sampled_from([b"", b"[" * 100_000, b'{"grade": NaN}', b'{"topic": ' + b"9" * 6000 + b"}"]),
)
HEADERS = st.dictionaries(
    st.sampled_from(["origin", "host", "content_type", "sec_fetch_site", "cookie", "x_forwarded_proto"]),
    st.one_of(
        st.none(),
        st.sampled_from(["null", "http://[", "evil.example", "same-origin", "cross-site", "a=b; ;=; x", "https,http"]),
        st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=20),
    ),
    max_size=2,
)
REQUESTS = st.tuples(st.sampled_from(["GET", "POST", "POST", "POST", "PUT", "HEAD"]), st.sampled_from(PATHS), BODIES,
                     HEADERS)  # fmt: skip


@pytest.fixture
def served(tmp_path, random_pool, listen) -> Any:
    pool = random_pool(np.random.default_rng(3), topics=2)
    names = pool.topics[0].documents.to_list()
    documents = pl.DataFrame({"id": names, "text": ["moles dig"] * len(names)})
    judging: Judging = open_judging(
        tmp_path / "out", pool, Bandit(MaxMean()), documents, {"1": TopicText("Moles")}, Options(double=0.5),
        of={"pool": "fuzz"}, collection=lambda: [documents],
    )  # fmt: skip
    yield Served(judging, listen(judging.app))
    judging.store.close()


def bombarded(served: Served, examples: int, folder: Any) -> None:
    visitors = [served.client("ada"), served.client(owner=True), Client(served.port)]
    judge, acknowledged = served.client("judge"), dict[tuple[str, str], int]()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(REQUESTS, min_size=5, max_size=5), st.integers(0, 2), st.integers(0, 1))
    def bombard(requests: list[Any], visitor: int, grade: int) -> None:
        for method, path, body, headers in requests:
            sender = Client(served.port)
            sender.cookies = dict(visitors[visitor].cookies)
            try:
                status, answered, _ = sender.send(method, path, body, **headers)
            except (ValueError, UnicodeError):  # the client of this test can't send such a header
                continue
            assert status < 500 or status == 503, (status, method, path, body[:200], headers)
            assert answered["x-content-type-options"] == "nosniff"
        state = judge.post("/next")[1]
        if document := state["document"]:
            topic = state["topic"]["name"]
            sent = {"topic": topic, "document": document["name"], "grade": grade, "request": f"j{len(acknowledged)}"}
            assert judge.post("/judge", sent)[0] == 200
            acknowledged[topic, document["name"]] = grade

    bombard()
    assert acknowledged
    stored = read(folder).judgements.filter(pl.col("assessor") == "judge").select("topic", "document", "grade").rows()
    assert {(topic, document): grade for topic, document, grade in stored} == acknowledged
    check_log(served.judging.store.events(), (0, 1), folder)
    assert served.judging.store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_few_malformed_requests(served, tmp_path):
    bombarded(served, 12, tmp_path / "out")


@pytest.mark.nightly
def test_thousands_of_malformed_requests(served, tmp_path):
    bombarded(served, 800, tmp_path / "out")
