"""The Grafana dashboard: its queries name metrics that there are, and return data from a real Prometheus."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cluster.telemetry.catalogue import CATALOGUE

DASHBOARD = Path(__file__).parents[3] / "cluster" / "telemetry" / "dashboards" / "pyrite.json"
NAMES = {
    f"ray_{metric.name}{ending}": metric
    for metric in CATALOGUE.values()
    for ending in (("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",))
}
"""Every series, as Prometheus calls it."""
PATIENCE = 120.0
"""Seconds that data may take to arrive: rates take two readings of what processes report."""


@dataclass(frozen=True)
class Query:
    """A query of a panel, in PromQL with the dashboard's variables."""

    row: str
    panel: str
    expression: str

    @property
    def series(self) -> set[str]:
        """Names of the series that it reads."""
        return set(re.findall(r"\bray_pyrite_\w+", self.expression))

    @property
    def of_all(self) -> str:
        """The expression for all studies, over a minute."""
        return self.expression.replace("$window", "1m").replace("$study", ".*")


def queries() -> list[Query]:
    """Every query of the dashboard, in its order."""
    row, found = "", []
    for panel in json.loads(DASHBOARD.read_bytes())["panels"]:
        row = panel["title"] if panel["type"] == "row" else row
        found += [Query(row, panel["title"], target["expr"]) for target in panel.get("targets", [])]
    return found


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.panel)
def test_a_query_reads_what_there_is(query):
    assert query.row
    assert query.series
    assert query.series <= NAMES.keys()
    tags = {tag for name in query.series for tag in NAMES[name].tags} | {"le"}
    assert set(re.findall(r"(\w+)=~?\"", query.expression)) <= tags
    by = re.search(r"by \(([\w, ]+)\)", query.expression)
    assert by is None or {tag.strip() for tag in by[1].split(",")} <= tags
    assert "$" not in query.of_all
    for name in query.series:
        assert (NAMES[name].kind == "gauge") == ("rate(" not in query.expression)


def test_the_dashboard_shows_every_metric_and_is_one_that_grafana_takes():
    assert {NAMES[name].name for query in queries() for name in query.series} == set(CATALOGUE)
    dashboard = json.loads(DASHBOARD.read_bytes())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert set(variables) == {"datasource", "study", "window"}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    places = set()
    for panel in panels:
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not places & cells
        places |= cells
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert panel["description"]


@dataclass(frozen=True)
class Prometheus:
    """Debian's Prometheus, which reads a Ray session."""

    url: str

    def count(self, expression: str) -> int:
        """How many series a query returned within the last ten minutes."""
        now = time.time()
        asked = urllib.parse.urlencode({"query": expression, "start": now - 600, "end": now, "step": 5})
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{asked}", timeout=30) as answer:
            return len(json.load(answer)["data"]["result"])

    def value(self, expression: str) -> float:
        """What a query returns now, 0 where it returns nothing."""
        asked = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=30) as answer:
            found = json.load(answer)["data"]["result"]
        return float(found[0]["value"][1]) if found else 0.0


@contextmanager
def prometheus(config: Path, folder: Path) -> Iterator[Prometheus]:
    """Prometheus with the configuration that Ray has written, as docs/guide/watching.md starts it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            "prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={folder}",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        wait(lambda: server.count("vector(1)"))
        yield server
    finally:
        process.terminate()
        process.wait(30)


def wait(come: Any) -> None:
    """Ask until something has come."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if come():
                return
        time.sleep(0.5)
    raise AssertionError("it never came")


class Session:
    """A Ray session in a process of its own (`a_session.py`)."""

    def __init__(self, place: str) -> None:
        file = str(Path(__file__).parents[1] / "a_session.py")
        environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        environment["PYTHONPATH"] = str(Path(__file__).parents[3])
        self.process = subprocess.Popen(
            [sys.executable, file, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=environment,
        )  # fmt: skip
        self.folder = Path(self._hear("SESSION"))

    @property
    def config(self) -> Path:
        """What Ray's dashboard writes for Prometheus, some time after it has started."""
        return self.folder / "metrics" / "prometheus" / "prometheus.yml"

    def _hear(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError("the session has ended")

    def order(self, word: str, *arguments: str, value: float = 0.0) -> str:
        """Have it do something, and wait for the word that it is done."""
        self.process.stdin.write(json.dumps({"command": arguments, "value": value}) + "\n")
        self.process.stdin.flush()
        return self._hear(word)


@pytest.fixture
def session() -> Iterator[Session]:
    if shutil.which("prometheus") is None:
        pytest.skip("needs Debian's prometheus: apt-get install prometheus")
    place = tempfile.mkdtemp(prefix="pyrite", dir="/tmp")  # Ray's sockets need a short path
    session = Session(place)
    try:
        wait(session.config.is_file)
        # As often as it reports: nobody who tests wants to wait for the tens of seconds that are Ray's.
        session.config.write_text(session.config.read_text().replace("scrape_interval: 10s", "scrape_interval: 1s"))
        yield session
    finally:
        session.process.stdin.close()
        session.process.wait(60)
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.nightly
def test_every_query_returns_data_from_a_real_prometheus(session, base, tmp_path):
    """Of a study, and of one number of each metric that a study does not have."""
    with prometheus(session.config, tmp_path / "prometheus") as server:
        given = ["ranker=feed_forward", "objective=softmax", "policy=fixed", "function=bm25", "selector=uniform"]
        given += ["seeds=2", "concurrent=1", f"out={tmp_path / 'watched'}"]
        assert session.order("ENDED", "study", *base, *given) == "0"
        asked = 'sum(ray_pyrite_training_steps_total{study="watched", method="feed_forward bm25 uniform softmax"})'
        wait(lambda: server.value(asked))
        made = int(pl.read_parquet(tmp_path / "watched" / "trials.parquet")["steps"].sum())
        assert 0 < server.value(asked) <= made
        assert server.count('ray_pyrite_host_copies{host="made up"}') == 0

        def all_return_data() -> bool:
            session.order("TOLD", value=1.0)
            return all(server.count(query.of_all) for query in queries())

        wait(all_return_data)
