"""The loops of a pool's methods, compiled in a second process."""

from typing import Any

import numpy as np
import pytest

from pyrite.cluster.plan.pool_methods import variants
from pyrite.cluster.pools import compiling
from pyrite.cluster.pools.compiling import SecondCompiler, compile_all
from pyrite.pooling.pool import Pool, Topic, topic_pool
from pyrite.pooling.simulation import adjudicator_of, is_compiled, simulate
from tests.cluster.waiting import until

NAMES = ("docid", "mtf", "posterior_fusion")


@pytest.fixture
def nodes() -> dict[str, dict[str, Any]]:
    return {variant.label: dict(variant.node) for variant in variants(NAMES, [], [])}


@pytest.fixture
def methods(nodes) -> dict[str, Any]:
    return {variant.label: variant.build() for variant in variants(NAMES, [], [])}


def a_pool() -> Pool:
    """Two runs of three documents, one relevant."""
    topic = topic_pool(np.array([[0, 1], [2, 1]], np.int32), 3)
    ids = np.array(["a", "b", "c"])
    grades = np.array([0, 1, 0], np.int32)
    return Pool([Topic("1", topic, ids, grades, np.ones(3, bool), 1)], ["x", "y"], ["x", "y"], 2, 1, 1, {})


def test_what_is_compiled_ahead_is_what_a_pool_runs(nodes, methods):
    compile_all(list(nodes.values()))
    for label, method in methods.items():
        assert is_compiled(method), label
        simulate(method, a_pool(), [0])
        assert len(adjudicator_of(method).loop.signatures) == 1, f"{label}: compiled again for other types"


class Process:
    """Keeps the task that it is given."""

    tasks: list[Any] = []

    def run(self, task, shared, report):
        self.tasks.append(task)
        raise ChildProcessError("lost")

    def close(self):
        pass

    kill = close


def test_the_other_process_begins_with_the_last_method_and_may_be_lost(nodes, methods, monkeypatch):
    monkeypatch.setattr(compiling, "WarmProcess", Process)
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    monkeypatch.setattr(compiling, "is_compiled", lambda method: method is methods["docid"])
    SecondCompiler(methods, nodes).close()
    until(lambda: Process.tasks)
    assert Process.tasks[0].arguments["nodes"] == [nodes["posterior_fusion"], nodes["mtf"]]
    assert Process.tasks[0].body == "pyrite.cluster.pools.compiling:compile_all"


@pytest.mark.parametrize(("compiled", "count"), [(2, 8), (0, 1)])
def test_no_process_starts_for_one_loop_or_on_one_core(compiled, count, nodes, methods, monkeypatch):
    known = list(methods.values())[:compiled]
    monkeypatch.setattr(compiling, "WarmProcess", lambda: pytest.fail("a process was started"))
    monkeypatch.setattr(compiling, "cores", lambda: count)
    monkeypatch.setattr(compiling, "is_compiled", lambda method: method in known)
    SecondCompiler(methods, nodes).close()


@pytest.mark.nightly
def test_a_process_fills_the_cache(nodes, methods, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    monkeypatch.setattr(compiling, "is_compiled", lambda method: False)
    compiler = SecondCompiler(methods, nodes)
    names = [adjudicator_of(method).loop.py_func.__qualname__.rpartition(".")[2] for method in methods.values()]
    until(lambda: all(list(tmp_path.rglob(f"*{name}-*.nbi")) for name in names))
    compiler.close()
