"""What is told to Ray, and how often."""

import contextlib
import io
import json
import math
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
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
import ray
from rich.console import Console

from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.local import LocalExecutor
from pyrite.cluster.executors.task import Task
from pyrite.cluster.index.actor import IndexMetrics
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.output.throttle import Throttle, poll
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.execute import execute_run, run
from pyrite.cluster.telemetry import metrics as instruments
from pyrite.cluster.telemetry import training_metrics
from pyrite.cluster.telemetry.catalogue import CATALOGUE
from pyrite.cluster.telemetry.live_table import LiveTable, duration, spark
from pyrite.cluster.telemetry.metrics import ThrottledCounter, own_name, record, unique
from pyrite.cluster.telemetry.run_watch import RunWatch
from pyrite.cluster.telemetry.tracking.tracking import tracked
from pyrite.cluster.telemetry.training_metrics import LearningMetrics, TrainingMetrics, pairs, run_tags

ROOT = Path(__file__).resolve().parents[3]
Told = list[tuple[str, float, dict[str, str]]]


@pytest.fixture
def told(monkeypatch) -> Told:
    """What this process tells, as if Ray heard it."""
    heard: Told = []
    for module in (instruments, training_metrics):
        monkeypatch.setattr(module, "connected", lambda: True)
    monkeypatch.setattr(instruments, "instrument", lambda name: lambda value, tags: heard.append((name, value, tags)))
    return heard


def total(told: Told, name: str) -> float:
    return sum(value for known, value, _ in told if known == name)


def test_names_units_and_tags_are_stated_told_and_documented():
    for metric in CATALOGUE.values():
        assert re.fullmatch(r"pyrite(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        unit = metric.name.removesuffix("_total").rpartition("_")[2]
        assert unit in ("value", "ratio") or unit == metric.unit
        assert metric.tags
        assert metric.description.isascii()
    code = "".join(path.read_text() for path in (ROOT / "cluster").rglob("*.py") if path.name != "catalogue.py")
    assert set(re.findall(r'"(pyrite_[a-z_]+)"', code)) == set(CATALOGUE)
    page = (ROOT / "docs" / "guide" / "watching.md").read_text()
    for metric in CATALOGUE.values():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{metric.name}`"))
        tags = ", ".join(f"`{tag}`" for tag in metric.tags)
        assert [cell.strip() for cell in row.split("|")][2:5] == [metric.kind, metric.unit, tags]


def test_without_ray_nothing_is_told_and_ray_is_not_loaded():
    code = (
        "import sys\nfrom pyrite.cluster.telemetry.metrics import ThrottledCounter, record\n"
        "record('pyrite_index_version_number', 3, {'run': 'a'})\n"
        "ThrottledCounter('pyrite_pool_judgements_total', {}).add(5)\n"
        "print('LOADED', 'ray' in sys.modules)"
    )
    assert "LOADED False" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


def test_a_count_is_told_seldom_and_whole_and_what_is_no_number_never(told):
    count = ThrottledCounter("pyrite_pool_judgements_total", {"study": "s", "method": "m"}, every=1e9)
    for _ in range(1000):
        count.add(2)
    assert [value for _, value, _ in told] == [2]
    count.flush()
    assert total(told, "pyrite_pool_judgements_total") == 2000
    assert len(told) == 2
    throttle, always = Throttle(1e9), Throttle(0)
    assert [throttle.due() for _ in range(3)] == [True, False, False]
    assert always.due()
    assert always.due()
    told.clear()
    tags = {"study": "s", "method": "m"}
    record("pyrite_training_loss_value", float("nan"), tags)
    record("pyrite_training_steps_total", 0, tags)
    assert not told
    record("pyrite_training_loss_value", 0.0, {"study": "étude", "method": "m"})
    assert told == [("pyrite_training_loss_value", 0.0, {"study": "\\xe9tude", "method": "m"})]


def test_looking_goes_on_until_the_end():
    seen: list[int] = []

    def interrupted() -> None:
        with poll(lambda: seen.append(1), every=0.001):
            while len(seen) < 3:
                pass
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    ended = len(seen)
    assert ended >= 4
    with poll(lambda: seen.append(1), every=1e9):
        pass
    assert len(seen) == ended + 1


def test_a_run_tells_its_steps_and_pairs_but_not_at_each_step(base, told, tmp_path, monkeypatch):
    # However slow the machine, the seconds between two records do not pass.
    monkeypatch.setattr(training_metrics.watched.__wrapped__, "__defaults__", (1e9,))
    calls, artifacts = [], Artifacts()
    method = [*base, "policy=fixed", "function=bm25", "selector=uniform", "training.max_epochs=2"]
    for size in (1, 8):
        told.clear()
        config = compose([*method, f"training.batch_size={size}"])
        keys, parts = artifacts.keys(config), artifacts.parts(config)
        outcome = execute_run("one", config, keys, parts, Storage(f"{tmp_path}/{size}"), lambda progress: None, run)
        assert total(told, "pyrite_training_steps_total") == outcome.steps
        examples = 24  # three queries of five are trained on, a document each
        assert total(told, "pyrite_training_pairs_total") == examples * len(outcome.losses[0])
        last = {name: value for name, value, _ in told}
        assert last["pyrite_training_loss_value"] == outcome.losses[0][-1]
        assert last["pyrite_training_validation_value"] == outcome.validations[0][-1]
        for name, _, tags in told:
            assert set(tags) == set(CATALOGUE[name].tags)
            assert tags["study"] == str(size)
            assert tags["method"] == "feed_forward bm25 uniform softmax"
        calls.append(len(told))
    assert calls[0] == calls[1]  # eight times the steps


def test_the_method_of_a_run_and_its_pairs_after_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_tags(".", compose([]))["study"] == tmp_path.name
    method = run_tags("s3://bucket/outputs/s", compose(["policy=random", "function=[random,bm25]", "selector=dynamic"]))
    assert method == {"study": "s", "method": "feed_forward random(random+bm25) dynamic softmax"}
    training: Any = SimpleNamespace(steps_per_epoch=3, examples=range(20), batch_size=8)
    assert [pairs(training, step) for step in range(7)] == [0, 8, 16, 20, 28, 36, 40]


def test_what_was_done_before_an_interrupt_is_not_counted_again_and_stages_are(told):
    def at(step: int) -> Any:
        return SimpleNamespace(
            step=step, steps_per_epoch=3, examples=range(24), batch_size=8, running_loss=0.5, validations=[]
        )

    staged: Any = SimpleNamespace(training=at(7))
    look = TrainingMetrics(staged, {"study": "s", "method": "m"}, "AP@10")
    look()
    assert total(told, "pyrite_training_steps_total") == 0
    staged.training.step = 9
    before, staged.training = staged.training, at(4)
    before.step = 12
    look()
    assert total(told, "pyrite_training_steps_total") == 5 + 4
    assert total(told, "pyrite_training_pairs_total") == 8 * 9


def watched(folder: Path, tasks: list[Task], retries: int = 0) -> tuple[RunWatch, list[Exception | None]]:
    """Run tasks of a study, and return what watched them and their errors."""
    storage, console = Storage(str(folder)), Console(quiet=True)
    with tracked([], storage, console, "study", False) as tracking:
        watch = RunWatch(LiveTable(console, len(tasks), 0, "AP"), tracking)
        return watch, [done.error for done in LocalExecutor().run(tasks, watch=watch, retries=retries)]


def test_a_study_tells_its_trials_by_state(told, tmp_path):
    tasks = [Task("one", lambda: {"best": 0.5}), Task("two", lambda: {"best": 0.5})]
    watch, errors = watched(tmp_path / "states", tasks)
    watch.record_states()
    assert errors == [None, None]
    states = [(tags, value) for name, value, tags in told if name == "pyrite_study_trials"]
    assert all(tags["study"] == "states" for tags, _ in states)
    found = {tags["state"]: value for tags, value in states}
    assert found == {"waiting": 0, "running": 0, "done": 2, "failed": 0, "stopped": 0}
    table = LiveTable(Console(file=io.StringIO()), total=5, done=1, measure="AP")
    table.retried = 2
    metrics = RunWatch(table, watch.tracking, every=1e9)
    told.clear()
    for _ in range(100):
        metrics.tick()
    assert [value for _, value, _ in told] == [4, 0, 1, 0, 0]
    table.retried = 3
    metrics.record_states()
    assert total(told, "pyrite_study_retries_total") == 1


def test_the_traceback_of_a_run_that_fails_is_logged_once_and_each_new_start_in_a_line(tmp_path, caplog):
    def fails() -> None:
        raise ValueError("too wide")

    watch, [error] = watched(tmp_path, [Task("one", fails)], retries=2)
    assert str(error) == "too wide"
    again = "ValueError: too wide; run one starts again"
    assert [record.getMessage() for record in caplog.records[:2]] == [again, again]
    assert caplog.text.count("Traceback") == 1
    assert watch.errors == {"one": "ValueError: too wide"}


def episode(agent: str, reward: float, **shares: float) -> dict[str, Any]:
    shown = {f"share:{name}": share for name, share in shares.items()}
    return {"agent": agent, "return": reward, "validation": reward / 2, "steps": 10, **shown}


def test_a_learning_tells_reward_and_shares(told):
    rows = [episode("random", 0.0, bm25=0.5, random=0.5), episode("learned", 9.0)]
    metrics = LearningMetrics("agent", known=1, every=1e9)
    metrics.record(rows)
    rows += [episode("learned", 1.0, bm25=1.0, random=0.0) for _ in range(32)]
    metrics.record(rows)
    assert total(told, "pyrite_learning_episodes_total") == 1
    told.clear()
    metrics.record(rows, last=True)
    assert all(set(tags) == set(CATALOGUE[name].tags) for name, _, tags in told)
    assert total(told, "pyrite_learning_episodes_total") == 32
    assert total(told, "pyrite_learning_steps_total") == 320
    shown = {(name, tags["agent"], tags.get("action")): value for name, value, tags in told}
    assert shown["pyrite_learning_return_value", "learned", None] == 1.0
    assert shown["pyrite_learning_return_value", "random", None] == 0.0
    assert shown["pyrite_learning_validation_value", "learned", None] == 0.5
    assert shown["pyrite_learning_action_ratio", "learned", "bm25"] == 1.0
    assert shown["pyrite_learning_action_ratio", "random", "bm25"] == 0.5


@pytest.mark.nightly
def test_an_actor_is_called_by_its_name(ray_session):
    @ray.remote(num_cpus=0)
    class Named:
        def name(self) -> str:
            return own_name("none")

    assert own_name("index") == "index"
    assert unique("a") != unique("a")
    named, nameless = Named.options(name="a-host").remote(), Named.remote()
    assert ray.get([named.name.remote(), nameless.name.remote()]) == ["a-host", "none"]


def test_an_index_tells_seldom(told):
    index = IndexMetrics({"run": "r", "function": "dense"}, every=1e9)
    for step in range(100):
        index.answered(32, 1, step)
        index.guarded(step)
    index.built(3.0)
    names = "index_age_steps index_build_seconds index_guarded_documents_total index_queries_total index_version_number"
    assert sorted(name for name, _, _ in told) == [f"pyrite_{name}" for name in names.split()]
    assert all(set(tags) == set(CATALOGUE[name].tags) for name, _, tags in told)


@pytest.mark.parametrize("width", [70, 100])
def test_a_frame_fits_and_says_what_matters(width):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    table = LiveTable(console, total=5, done=1, measure="AP@100")
    for name in ("good", "bad", "diverged", "waiting"):
        table.start(name)
    for epoch, value in enumerate((0.1, 0.2, math.nan), 1):
        table.progress("diverged", {"epoch": epoch, "max_epochs": 9, "validation": value})
    table.end("good", 0.5)
    table.end("bad", 0.25)
    console.print(table.render())
    shown = console.file.getvalue()
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert "3/5 runs" in shown
    assert any("best" in line and "good" in line and "0.5000" in line for line in lines)
    assert any("worst" in line and "bad" in line for line in lines)
    assert "nan" not in next(line for line in lines if line.startswith("waiting"))


def test_runs_that_failed_and_the_time_left_are_counted(monkeypatch):
    table = LiveTable(Console(file=io.StringIO()), total=2, done=0, measure="AP")
    table.start("a")
    table.retried += 1
    table.start("a")
    table.end("a", status="failed")
    assert "1 failed" in table.outlook()
    assert "1 retried" in table.outlook()
    assert table.states == {"waiting": 1, "running": 0, "done": 0, "failed": 1, "stopped": 0}
    monkeypatch.setattr("pyrite.cluster.telemetry.live_table.time", SimpleNamespace(monotonic=lambda: now))
    now = 0.0
    table = LiveTable(Console(file=io.StringIO()), total=4, done=0, measure="AP")
    now = 100.0  # texts and lists
    table.start("a")
    now = 110.0
    table.end("a", 0.5)
    assert "about 30 s left" in table.outlook()


def test_a_notebook_shows_the_table_in_one_cell(monkeypatch):
    shown: list[str] = []

    class Cell:
        def __init__(self, content: dict[str, str]) -> None:
            self.update(content)

        def update(self, content: dict[str, str], raw: bool = True) -> None:
            shown.append(content["text/plain"])

    display = SimpleNamespace(display=lambda content, raw, display_id: Cell(content))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setattr("pyrite.cluster.telemetry.live_table.Throttle", lambda every: Throttle(1e9))  # due once
    with LiveTable(Console(force_jupyter=True, file=io.StringIO()), 2, 0, "AP@10") as table:
        table.start("one")
        for _ in range(100):
            table.progress("one", {"epoch": 1, "max_epochs": 2, "validation": 0.25})
        table.end("one", 0.25)
    assert len(shown) == 3
    assert "0/2 runs" in shown[0]
    assert "best   one" in shown[-1]
    assert "1/2 runs" in shown[-1]


def test_without_a_terminal_progress_is_a_line_when_there_is_some():
    written = io.StringIO()
    with LiveTable(Console(file=written, width=200), total=5, done=1, measure="AP") as table:
        table.print_line()
        assert written.getvalue() == ""  # nothing is new
        table.end("one", 0.4)
        table.print_line()
        table.print_line()
    (line,) = written.getvalue().splitlines()
    assert line.startswith("2 of 5 runs, ")
    assert line.endswith(" left")


def test_durations_and_sparks_by_hand():
    assert spark([0.0, 1.0, math.nan]) == "▁█"
    assert spark([1.0]) == ""
    written = [duration(seconds) for seconds in (0, 45, 89.4, 90, 200, 7500)]
    assert written == ["0 s", "45 s", "89 s", "2 min", "3 min", "2 h 5 min"]


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
        """What a query returns now, 0 if it returns nothing."""
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
        assert 0 < server.value(asked) <= int(pl.read_parquet(tmp_path / "watched" / "trials.parquet")["steps"].sum())
        assert server.count('ray_pyrite_index_version_number{run="made up"}') == 0

        def all_return_data() -> bool:
            session.order("TOLD", value=1.0)
            return all(server.count(query.of_all) for query in queries())

        wait(all_return_data)
