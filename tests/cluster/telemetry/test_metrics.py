"""What is told to Ray, and how often."""

import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from rich.console import Console

from cluster.config.compose import compose
from cluster.executors.local import LocalExecutor
from cluster.executors.task import Task
from cluster.index.actor import IndexMetrics
from cluster.output.storage import Storage
from cluster.output.throttle import Throttle, poll
from cluster.rollouts.ranker_host import HostMetrics
from cluster.runs.artifacts import Artifacts
from cluster.runs.execute import run
from cluster.runs.results import execute_run
from cluster.telemetry import metrics as instruments
from cluster.telemetry import training_metrics
from cluster.telemetry.catalogue import CATALOGUE
from cluster.telemetry.live_table import LiveTable
from cluster.telemetry.metrics import ThrottledCounter, own_name, record, unique
from cluster.telemetry.run_watch import RunWatch
from cluster.telemetry.tracking.tracking import tracked
from cluster.telemetry.training_metrics import LearningMetrics, TrainingMetrics, pairs, run_tags

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
        "import sys\nfrom cluster.telemetry.metrics import ThrottledCounter, record\n"
        "record('pyrite_host_copies', 3, {'host': 'a'})\nThrottledCounter('pyrite_pool_judgements_total', {}).add(5)\n"
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


def test_the_method_of_a_run_and_its_pairs_after_steps():
    config = compose(["policy=random", "function=[random,bm25]", "selector=dynamic"])
    method = run_tags("s3://bucket/outputs/s", config)
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


def test_a_study_tells_its_trials_by_state(told, tmp_path):
    tasks = [Task("one", lambda: {"best": 0.5}), Task("two", lambda: {"best": 0.5})]
    storage, console = Storage(str(tmp_path / "states")), Console(quiet=True)
    with tracked([], storage, console, "study", False) as tracking, LiveTable(console, 2, 0, "AP") as shown:
        watch = RunWatch(shown, "states", tracking)
        for done in LocalExecutor().run(tasks, watch=watch):
            assert done.error is None
        watch.record_states()
    states = [(tags, value) for name, value, tags in told if name == "pyrite_study_trials"]
    assert all(tags["study"] == "states" for tags, _ in states)
    found = {tags["state"]: value for tags, value in states}
    assert found == {"waiting": 0, "running": 0, "done": 2, "failed": 0, "stopped": 0}
    table = LiveTable(Console(file=io.StringIO()), total=5, done=1, measure="AP")
    table.retried = 2
    metrics = RunWatch(table, "s", tracking, every=1e9)
    told.clear()
    for _ in range(100):
        metrics.tick()
    assert [value for _, value, _ in told] == [4, 0, 1, 0, 0]
    table.retried = 3
    metrics.record_states()
    assert total(told, "pyrite_study_retries_total") == 1


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


def test_an_index_and_a_host_tell_seldom(told):
    index = IndexMetrics({"run": "r", "function": "dense"}, every=1e9)
    host = HostMetrics("host-0", every=1e9)
    host.environments = 8
    for step in range(100):
        index.answered(32, 1, step)
        index.guarded(step)
        with host.busy():
            pass
    index.built(3.0)
    of_host, of_index = ["busy_seconds_total", "copies"], ["age_steps", "build_seconds", "guarded_documents_total"]
    of_index += ["queries_total", "version_number"]
    names = [*(f"pyrite_host_{name}" for name in of_host), *(f"pyrite_index_{name}" for name in of_index)]
    assert sorted(name for name, _, _ in told) == names
    assert all(set(tags) == set(CATALOGUE[name].tags) for name, _, tags in told)
