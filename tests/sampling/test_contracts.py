"""What every policy, retrieval function and selector promises; new parts are found by themselves.

Every class in the folders of `sampling/` and every name in `pyrite.cluster.config.groups` is held to it: no relevant
document, none twice, the same again under the same generator, the same after an interrupt.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pyrite.sampling.policies
import pyrite.sampling.retrieval
import pyrite.sampling.selection
from pyrite.cluster.config.build import build
from pyrite.cluster.config.groups import group_options, option
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.pair_scores import PairScores
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.guard import Guard, negatives_lists
from pyrite.sampling.policies.aligned import Always
from pyrite.sampling.policies.fixed import Fixed
from pyrite.sampling.policies.policy import SamplingPolicy
from pyrite.sampling.retrieval.bm25 import BM25
from pyrite.sampling.retrieval.function import RetrievalFunction
from pyrite.sampling.retrieval.random import Random
from pyrite.sampling.sampler import Sampler
from pyrite.sampling.selection.selector import Selector
from pyrite.sampling.selection.uniform import Uniform
from pyrite.sampling.staged_training import CompressedLists
from tests.classes import classes_in
from tests.ranking.trained import Bag, in_small_batches
from tests.sampling.batches import steps

GROUPS: dict[str, tuple[Any, type]] = {
    "policy": (pyrite.sampling.policies, SamplingPolicy),
    "function": (pyrite.sampling.retrieval, RetrievalFunction),
    "selector": (pyrite.sampling.selection, Selector),
}
SMALL: dict[str, dict[str, Any]] = {"window": {"first": 2}}
"""Options that suit twelve documents, where those of a file do not."""
INSIDE = {CompressedLists, Always}
"""Made while a run goes on, from no configuration."""


def classes(group: str) -> set[type]:
    """The parts in a group's folder that can be made."""
    return {kind for kind in classes_in(*GROUPS[group]) if not kind.__subclasses__() or _named(kind)} - INSIDE


def _named(kind: type) -> bool:
    return any(node["_target_"].endswith(f".{kind.__name__}") for group in GROUPS for _, node in parts(group))


def parts(group: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and contents of a group's parts, but those of agents, which `rl/` tests."""
    for name in group_options()[group]:
        content = option(group, name)
        node = content[name] if group == "function" else content
        if node["_target_"].startswith("pyrite.sampling."):
            yield name, {key: value for key, value in node.items() if key != "defaults"}


@pytest.mark.parametrize("group", GROUPS)
def test_every_class_has_a_file_and_every_file_a_class(group):
    named = {node["_target_"] for _, node in parts(group)}
    assert named == {f"{kind.__module__}.{kind.__qualname__}" for kind in classes(group)}
    for kind in classes(group):
        assert inspect.getdoc(kind)


@pytest.fixture
def given(tmp_path, request) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Fills in what a file leaves to the user."""

    def fill(node: dict[str, Any]) -> dict[str, Any]:
        filled = dict(node)
        if node.get("path") == "???":
            ranked = list(enumerate(["d7", "d5", "d60", "d1", "d9"]))
            lines = [f"q{query} Q0 {document} {rank} {-rank} x" for query in range(1, 9) for rank, document in ranked]
            filled["path"] = str(tmp_path / "run")
            (tmp_path / "run").write_text("\n".join(lines) + "\n")
        if node.get("checkpoint") == "???":
            filled["checkpoint"] = request.getfixturevalue("small_bert")
        assert "???" not in filled.values(), "say here what a new part needs"
        return filled

    return fill


def training_of(sources: Sources) -> RankerTraining:
    """Of a ranker that an index can search, too: five examples, three batches an epoch."""
    teacher = PairScores.of(*(each.ravel() for each in np.indices((4, 12))), np.arange(48.0) % 7, 12)
    return in_small_batches(Bag(len(sources.encoded.idf)), sources, lr=0.1, seed=2, teacher=teacher)


def check(sources: Sources, make: Callable[[], Sampler]) -> None:
    """The same again under the same generator, and after an interrupt at any batch."""
    whole = steps(make(), training_of(sources), 7)
    assert any(document >= 0 for batch in whole for row in batch for document in row)
    assert steps(make(), training_of(sources), 7) == whole
    for cut in (0, 2, 3):
        training, source = training_of(sources), make()
        assert steps(source, training, cut) == whole[:cut]
        for _ in range(2):  # saved again before it goes on: what was loaded is still there
            state = from_bytes(to_bytes({"sampler": source.state_dict(), "training": training.state_dict()}))
            training, source = training_of(sources), make()
            training.load_state_dict(state["training"])
            source.load_state_dict(state["sampler"])
        assert steps(source, training, 7 - cut) == whole[cut:]


def ready(function: RetrievalFunction, sources: Sources) -> RetrievalFunction:
    function.prepare(sources.encoded, negatives_lists(function, sources, Guard())[0])
    return function


def random_and_bm25(sources: Sources) -> dict[str, RetrievalFunction]:
    return {"random": ready(Random(), sources), "bm25": ready(BM25(), sources)}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", [name for name, _ in parts("selector")])
@pytest.mark.parametrize("count", [1, 3])
def test_every_selector(name, count, tiny_sources):
    node = dict(parts("selector"))[name] | SMALL.get(name, {})
    for function in random_and_bm25(tiny_sources).items():
        check(
            tiny_sources,
            lambda f=function: Sampler(
                Fixed(), dict([f]), build(node, trust="composed"), count, np.random.default_rng(1)
            ),
        )


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", [name for name, _ in parts("function")])
def test_every_function(name, tiny_sources, given):
    node = given(dict(parts("function"))[name])

    def make(selector: Selector) -> Sampler:
        function = ready(build(node, trust="composed"), tiny_sources)
        return Sampler(Fixed(), {name: function}, selector, 3, np.random.default_rng(1))

    check(tiny_sources, lambda: make(Uniform()))
    function = ready(build(node, trust="composed"), tiny_sources)
    training = training_of(tiny_sources)
    function.start_run(training)
    batch = training.next_batch()
    for candidates in (
        function.sample(batch, 4, np.random.default_rng(0)),
        function.top(batch, 4, np.random.default_rng(0)),
    ):
        assert candidates.documents.shape == candidates.scores.shape
        assert candidates.documents.shape[0] == len(batch)
        assert candidates.documents.shape[1] <= 4
    longer = function.top(batch, 9, np.random.default_rng(0)).documents
    if np.isfinite(candidates.scores).any():  # it has an order: a longer list begins with a shorter one
        assert longer[:, :4].tolist() == candidates.documents.tolist()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", [name for name, _ in parts("policy")])
def test_every_policy(name, tiny_sources):
    node = dict(parts("policy"))[name]
    several = random_and_bm25(tiny_sources) | {"other": ready(BM25(depth=3), tiny_sources)}
    chosen = several if build(node, trust="composed").chooses else {"bm25": several["bm25"]}

    def make() -> Sampler:
        return Sampler(build(node, trust="composed"), chosen, Uniform(), 4, np.random.default_rng(1))

    check(tiny_sources, make)
    policy, training = build(node, trust="composed"), training_of(tiny_sources)
    policy.set_functions(list(chosen))
    policy.start_run(chosen, training)
    assigned = policy.assign(training.next_batch(), 4, training, np.random.default_rng(0))
    assert assigned.shape == (2, 4)
    given = np.where(assigned == -1, len(chosen), assigned)  # −1 follows where a query has fewer negatives
    assert ((given >= 0) & (given <= len(chosen))).all()
    assert (given[:, 0] < len(chosen)).all()
    assert (np.diff(given, axis=1) >= 0).all()
