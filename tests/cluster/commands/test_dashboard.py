"""The Grafana dashboard, and Prometheus beside a Ray session."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from cluster.telemetry.catalogue import CATALOGUE
from cluster.telemetry.panels import DASHBOARD, queries
from cluster.telemetry.prometheus import Prometheus, free_port
from cluster.telemetry.ray_folder import TARGETS, RayFolder, find_session
from ranking.errors import BadInput
from tests.cluster.command_line import command

NAMES = {
    f"{metric.scraped}{ending}": metric
    for metric in CATALOGUE.values()
    for ending in (("_bucket", "_count", "_sum") if metric.kind == "histogram" else ("",))
}
"""Every series, as Prometheus calls it."""


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.panel)
def test_a_query_reads_what_there_is(query: Any) -> None:
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


def test_the_dashboard_shows_every_metric() -> None:
    shown = {NAMES[name].name for query in queries() for name in query.series}
    assert shown == set(CATALOGUE)


def test_the_dashboard_is_one_that_grafana_takes() -> None:
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


def test_without_a_session_it_says_what_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("dashboard", "--check", "--session", str(tmp_path / "none")) == 2
    assert "no Ray session runs on this machine; start one with `ray start --head`" in capsys.readouterr().err
    (tmp_path / TARGETS).write_text(json.dumps([{"labels": {"job": "ray"}, "targets": ["127.0.0.1:1"]}]))
    with pytest.raises(BadInput, match="has ended, or runs without its dashboard"):
        find_session(str(tmp_path))


def test_grafana_is_pointed_to_our_prometheus(tmp_path: Path) -> None:
    folder = RayFolder(tmp_path)
    folder.sources.parent.mkdir(parents=True)
    source = {"name": "Prometheus", "url": "http://localhost:9090", "access": "proxy"}
    folder.sources.write_text(yaml.safe_dump({"apiVersion": 1, "datasources": [source]}))
    folder.point_to("http://127.0.0.1:9999")
    assert folder.source == source | {"url": "http://127.0.0.1:9999"}


def test_a_port_that_is_taken_is_refused() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"port {port} is taken"):
            free_port(port)
    assert free_port(port) == port
    assert free_port(None) > 0


def test_what_does_not_answer_is_said() -> None:
    nobody = Prometheus("http://127.0.0.1:1")
    assert not nobody.answers()
    with pytest.raises(BadInput, match="no Prometheus answers"):
        nobody.names(0)


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
        self.folder = RayFolder(Path(self._hear("SESSION")))

    def _hear(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError("the session has ended")

    def order(self, word: str, *arguments: str, value: float = 0.0) -> str:
        """Have it do something, and wait for the word that it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"command": arguments, "value": value}) + "\n")
        self.process.stdin.flush()
        return self._hear(word)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    if shutil.which("prometheus") is None:
        pytest.skip("needs Debian's prometheus: apt-get install prometheus")
    place = tempfile.mkdtemp(prefix="pyrite", dir="/tmp")  # Ray's sockets need a short path
    session = Session(place)
    try:
        for _ in range(600):  # its dashboard writes its files some time after it has started
            try:
                find_session(str(session.folder.path))
                break
            except BadInput:
                time.sleep(0.2)
        # As often as it reports: nobody who tests wants to wait for the tens of seconds that are Ray's.
        config = session.folder.prometheus
        config.write_text(config.read_text().replace("scrape_interval: 10s", "scrape_interval: 1s"))
        yield session
    finally:
        assert session.process.stdin is not None
        session.process.stdin.close()
        session.process.wait(60)
        shutil.rmtree(place, ignore_errors=True)


def test_a_prometheus_reads_a_real_study(
    session: Session, base: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--session", str(session.folder.path)]
    watching = subprocess.Popen(
        [sys.executable, "-m", "cluster", "dashboard", *where, "--port", str(free_port(0))],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert watching.stdout is not None
    try:
        lines = [watching.stdout.readline() for _ in range(4)]
        found = re.match(r"Prometheus: (http://127\.0\.0\.1:\d+) \(process (\d+);", lines[1])
        assert found, lines
        assert "grafana-server" in lines[2]
        assert (session.folder.dashboards / "pyrite.json").read_bytes() == DASHBOARD.read_bytes()
        assert session.folder.source["url"] == found[1]
        assert command("dashboard", *where) == 0
        assert f"Prometheus runs already: {found[1]}" in capsys.readouterr().out

        given = ["policy=fixed", "function=bm25", "selector=uniform", "seeds=2", f"out={tmp_path / 'watched'}"]
        assert session.order("ENDED", "study", *base, *given) == "0"
        assert command("dashboard", "--check", *where) == 0
        shown = capsys.readouterr().out
        assert "asking the Prometheus" in shown
        assert "data" in shown
        assert "nothing, though" not in shown

        server = Prometheus(found[1])
        made = int(pl.read_parquet(tmp_path / "watched" / "trials.parquet")["steps"].sum())
        asked = 'sum(ray_pyrite_training_steps_total{study="watched", method="feed_forward bm25 uniform softmax"})'
        (answer,) = server.get("query", query=asked)["result"]
        assert 0 < float(answer["value"][1]) <= made
    finally:
        watching.send_signal(signal.SIGINT)
        said, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert "Prometheus has ended" in said
    assert not Prometheus(found[1]).answers()
    assert not Path(f"/proc/{found[2]}").exists()


def test_a_check_starts_a_prometheus_where_none_runs_and_every_query_returns_data(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    stop, given_up = threading.Event(), time.monotonic() + 120

    def keep_telling() -> None:
        while not stop.wait(0.5):
            session.order("TOLD", value=1.0)

    teller = threading.Thread(target=keep_telling)
    teller.start()
    try:
        shown = "not told yet"
        while "not told yet" in shown:  # what is told arrives there a little later
            assert time.monotonic() < given_up, shown
            assert command("dashboard", "--check", "--session", str(session.folder.path)) == 0
            shown = capsys.readouterr().out
    finally:
        stop.set()
        teller.join()
    assert "starting Prometheus for as long as it takes" in shown
    assert shown.count("│ data") == len(queries())
    assert not list(session.folder.prometheus.parent.glob("*.url"))
