"""Two processes that train one ranker."""

import os
import signal
import sys
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from safetensors.torch import load
from torch import nn

from pyrite.cluster.config.compose import compose
from pyrite.cluster.executors.resources import WAITING, Resources, at_once, check_demand, demand, workers_bundles
from pyrite.cluster.output.result_store import SavedState
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.artifacts import Artifacts
from pyrite.cluster.runs.execute import execute_run, run
from pyrite.cluster.runs.outcome import Outcome
from pyrite.cluster.runs.progress import Progress
from pyrite.cluster.training import all_reduce
from pyrite.cluster.training.all_reduce import AllReduce, share_of
from pyrite.cluster.training.attach import SharedEvaluation, SharedIndex
from pyrite.cluster.training.study_runs import launcher
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import Bm25Candidates, Candidates
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import RankerTraining
from pyrite.sampling.retrieval.live_index import Answer
from tests.made_up import TOPICS, WORDS
from tests.ranking.checkpoints import write_checkpoint
from tests.ranking.trained import equal, in_training
from tests.two_processes import in_two_processes

STEPS = 24


class Drawn:
    """Two documents by chance for each query; a few are none."""

    def __init__(self, documents: int) -> None:
        self.documents, self.rng = documents, np.random.default_rng(3)

    def negatives(self, batch: Any, training: RankerTraining) -> NDArray[np.int32]:
        return self.rng.integers(-1, self.documents, (len(batch), 2)).astype(np.int32)


class Counted:
    """An index whose answers depend on how often it was asked, as those of one that is built meanwhile do."""

    def __init__(self) -> None:
        self.asked = 0
        self.steps: list[int] = []

    def publish(self, weights: Any, step: int) -> None:
        self.steps.append(step)

    def search(self, queries: Any, depth: int, step: int, vectors: Any = None) -> Answer:
        self.asked += 1
        return Answer(np.full((len(queries), depth), self.asked, np.int32), np.zeros((1, 1), np.float32), 7, step)

    def scores(self, queries: Any, documents: Any, vectors: Any = None) -> NDArray[np.float32]:
        self.asked += 1
        return np.full(documents.shape, self.asked, np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def load_state_dict(self, state: Any) -> None:
        self.asked = state["asked"]


def trained(sources: Sources, candidates: Candidates, accumulate: int, together: bool) -> dict[str, Any]:
    """What 24 steps on batches of two and, at the end of an epoch, one example show."""
    ranker = FeedForward("tiny").start(RankerInputs(torch.Generator().manual_seed(4), sources.vectors.table))
    examples = np.flatnonzero(sources.encoded.split == 0)
    validation = Evaluation(sources.encoded, candidates, ["AP@10", "RR@10"])
    own = {"queries": examples, "validation": validation, "batch_size": 2, "accumulate": accumulate}
    training = in_training(ranker, sources.encoded, sources, lr=0.5, seed=2, **own, max_epochs=100, patience=100)
    if together:
        training.gradient_sync = AllReduce()
        training.evaluations = {"": SharedEvaluation(training.validation)}
    source = Drawn(len(sources.encoded.documents))
    shown: list[Any] = []
    now: list[float] = []
    for _ in range(STEPS):
        if training.epoch_over:
            training.validate()
        batch = training.next_batch()
        step = training.update(batch, source.negatives(batch, training))
        shown.append((step.loss, step.gradient_norm, step.scores))
        now.append(training.loss_now())
    measured = training.validation(training.ranker)
    learned = {"now": now, "weights": weights(training)}
    return {"steps": shown, **learned, "validations": training.validations, "measured": measured}


def weights(training: RankerTraining) -> dict[str, NDArray[np.float32]]:
    return {name: tensor.numpy().copy() for name, tensor in training.ranker.state_dict().items()}


def broken(sources: Sources, candidates: Candidates) -> bool:
    """Whether a ranker that scores a document nan is noticed, also by the worker whose queries do not show it."""
    ranker = FeedForward("tiny").start(RankerInputs(torch.Generator().manual_seed(4), sources.vectors.table))
    mine = share_of(dist.get_rank(), 2, len(candidates.queries))
    evaluation = SharedEvaluation(Evaluation(sources.encoded, candidates, ["AP@10"]))
    assert mine.stop > mine.start
    if dist.get_rank() == 1:
        with torch.no_grad():
            ranker.vectors.fill_(torch.nan)
    try:
        evaluation(ranker)
    except FloatingPointError:
        return True
    return False


def shared_index() -> tuple[Any, ...]:
    own = Counted()
    index = SharedIndex(own)
    index.publish({}, 5)
    queries = np.array([3, 1])
    answer = index.search(queries, 2, 9)
    scores = index.scores(queries, answer.documents)
    index.load_state_dict({"asked": 40})
    again = index.search(queries, 1, 9)
    return own.steps, own.asked, answer.documents.tolist(), answer.step, scores.tolist(), again.documents.tolist()


def exchanged(rows: bool) -> dict[str, Any]:
    """Exchange gradients of two types, of which the second worker has some, or none (`rows`)."""
    first = dist.get_rank() == 0
    lower, upper = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(2))
    double = nn.Parameter(torch.ones(4, dtype=torch.float64))
    firsts, nobodys, table = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1)), nn.Embedding(4, 2, sparse=True)
    nn.init.ones_(table.weight)
    table.weight.by_rows = True
    parameters = [nobodys, table.weight, lower, double, firsts, upper]
    sync = AllReduce()
    sync.rows(2)
    sizes: list[int] = []
    whole, reduce = all_reduce.BUCKET, dist.all_reduce

    def noted(tensor: torch.Tensor, **options: Any) -> Any:
        sizes.append(tensor.numel())
        return reduce(tensor, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_reduce, "BUCKET", 5)
        patch.setattr(dist, "all_reduce", noted)
        if first or rows:
            loss = (table(torch.tensor([1 if first else 3])).sum() * lower[0, 0] * double[0]).float()
            loss = loss * (upper.sum() + (firsts[0] if first else 0))
            with sync.last_backward(parameters):
                loss.backward()
        early = list(sizes)
        sync.join(parameters, torch.ones(()), torch.zeros(1, 1))
    assert whole == all_reduce.BUCKET
    gradients = {"upper": upper, "firsts": firsts, "double": double, "lower": lower, "table": table.weight}
    assert nobodys.grad is None
    assert table.weight.grad.is_sparse
    told = {name: each.grad.to_dense().flatten().tolist() for name, each in gradients.items() if each.grad is not None}
    return told | {"early": early, "sizes": sizes}


def twice() -> bool:
    """Whether a gradient that comes in two parts, of which only the first would be exchanged, is refused."""
    weight = nn.Parameter(torch.ones(2))
    with AllReduce().last_backward([weight]):
        weight.sum().backward()
        with pytest.raises(RuntimeError, match="came in two parts"):
            weight.sum().backward()
    return True


def work(sources: Sources, candidates: Candidates) -> dict[str, Any]:
    return {
        "plain": trained(sources, candidates, 1, True),
        "accumulated": trained(sources, candidates, 2, True),
        "broken": broken(sources, candidates),
        "index": shared_index(),
        "both": exchanged(rows=True),
        "one": exchanged(rows=False),
        "twice": twice(),
    }


@pytest.fixture(scope="module")
def given(tiny, tiny_encoded, tiny_vectors) -> tuple[Sources, Candidates]:
    """What workers train with and measure by; the sources can be handed to a process."""
    sources = Sources(tiny, tiny_encoded, tiny_vectors)
    candidates = Bm25Candidates(depth=6).candidates(sources, np.flatnonzero(tiny_encoded.split >= 1))
    return Sources(tiny, tiny_encoded, tiny_vectors), candidates


@pytest.fixture(scope="module")
def both(given, tmp_path_factory) -> list[dict[str, Any]]:
    """What each of two workers saw."""
    return in_two_processes(tmp_path_factory.mktemp("group"), work, *given)


@pytest.mark.parametrize(("kind", "accumulate"), [("plain", 1), ("accumulated", 2)])
def test_two_workers_with_half_the_batch_take_the_steps_of_one(given, both, kind, accumulate):
    alone = trained(*given, accumulate, False)
    assert len(alone["steps"]) == STEPS
    for worker in both:
        steps = zip(alone["steps"], worker[kind]["steps"], strict=True)
        for (loss, norm, scores), (its_loss, its_norm, its_scores) in steps:
            assert its_loss == pytest.approx(loss, abs=1e-6)
            assert its_norm == pytest.approx(norm, rel=1e-4, abs=1e-6)
            np.testing.assert_allclose(its_scores, scores, atol=1e-5)
        assert worker[kind]["now"] == pytest.approx(alone["now"], abs=1e-6)
        for name, tensor in alone["weights"].items():
            np.testing.assert_allclose(worker[kind]["weights"][name], tensor, atol=1e-5)
        assert worker[kind]["validations"] == pytest.approx(alone["validations"], abs=1e-9)
        for measure, values in alone["measured"].items():
            np.testing.assert_allclose(worker[kind]["measured"][measure], values, atol=1e-9)
    # It has learned something, and in a batch of one the first worker had no rows.
    assert alone["steps"][-1][0] != pytest.approx(alone["steps"][0][0], abs=1e-3)
    assert any(len(scores) == 1 for _, _, scores in alone["steps"])


def test_the_workers_stay_equal_to_the_bit_and_share_what_they_can_not_score_and_an_index(both):
    first, second = both[0]["plain"], both[1]["plain"]
    assert equal(first["weights"], second["weights"])
    assert first["now"] == second["now"]
    assert [loss for loss, *_ in first["steps"]] == [loss for loss, *_ in second["steps"]]
    assert [worker["broken"] for worker in both] == [True, True]
    heard = [[1, 1], [1, 1]], 9, [[2.0, 2.0], [2.0, 2.0]], [[41], [41]]
    assert both[0]["index"] == ([5], 41, *heard)
    assert both[1]["index"] == ([], 0, *heard)


def test_gradients_of_any_type_and_size_add_up_while_they_come(both):
    # Of the loss Σ row · lower₀ · double₀ · (Σ upper + firsts): on the second worker without the last.
    for worker in both:
        told = worker["both"]
        assert told["upper"] == [4.0, 4.0]
        assert told["firsts"] == [2.0]
        assert told["double"] == [10.0, 0.0, 0.0, 0.0]
        assert told["lower"] == [10.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert told["table"] == [0.0, 0.0, 3.0, 3.0, 0.0, 0.0, 2.0, 2.0]
        # From the output down: both of float32, float64, two that fill a bucket each, what none has, and the scores.
        assert told["sizes"] == [3, 4, 6, 8, 1, 1 + 6 + 2]
    # While the backward pass went on; the second worker waits to the end for what it lacks.
    assert [worker["both"]["early"] for worker in both] == [[3, 4, 6, 8], []]
    assert both[0]["one"]["upper"] == both[1]["one"]["upper"] == [2.0, 2.0]
    assert both[1]["one"]["table"] == [0.0, 0.0, 3.0, 3.0, 0.0, 0.0, 0.0, 0.0]
    assert [worker["twice"] for worker in both] == [True, True]


@pytest.mark.parametrize(("workers", "size"), [(1, 5), (2, 5), (3, 2), (4, 32), (5, 0)])
def test_rows_are_shared_out_evenly_and_in_order(workers, size):
    shares = [share_of(rank, workers, size) for rank in range(workers)]
    assert [row for share in shares for row in range(size)[share]] == list(range(size))
    counts = [share.stop - share.start for share in shares]
    assert max(counts) - min(counts) <= 1


SGD = {"_target_": "torch.optim.SGD", "_partial_": True, "lr": 0.5}
"""Adam makes whole steps of gradients that are zero but for rounding, and rounding is what workers differ by."""


class Fatal(SavedState):
    """A state whose second keeping kills the process, once."""

    def save(self, state: bytes) -> None:
        super().save(state)
        kept = len(self.storage.names("kept"))
        self.storage.write(f"kept/{kept}", b"")
        if kept == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def prepared(overrides: list[str], epochs: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    config = compose([*overrides, f"training.max_epochs={epochs}", f"training.patience={epochs}", "selector=top"])
    config["optimizer"] = SGD
    artifacts = Artifacts()
    return config, artifacts.parts(config), artifacts.keys(config)


def assert_close(one: Outcome, other: Outcome) -> None:
    np.testing.assert_allclose(one.losses, other.losses, atol=1e-6)
    np.testing.assert_allclose(one.validations, other.validations, atol=1e-9)
    assert (one.epochs, one.best_epoch, one.steps) == (other.epochs, other.best_epoch, other.steps)
    for origin, values in other.values.items():
        assert one.queries[origin].tolist() == other.queries[origin].tolist()
        for measure, by_query in values.items():
            np.testing.assert_allclose(one.values[origin][measure], by_query, atol=1e-9)
    counts = ("function", "batches", "negatives", "missing")
    for row, its in zip(one.sampler, other.sampler, strict=True):
        assert [row[key] for key in counts] == [its[key] for key in counts]


def test_a_killed_worker_changes_nothing_and_any_number_of_workers_goes_on(base, ray_session, kills, tmp_path):
    from ray import cloudpickle

    from pyrite.cluster.training.workers import run_on_workers

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    config, parts, keys = prepared(base, 6)
    whole = run(config, parts)
    store = Fatal(Storage(str(tmp_path)), "shared", keys)
    told: list[int] = []

    def stop(progress: Progress) -> None:
        if not progress.batches:
            told.append(progress.epoch)
        if told[-1:] == [5]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on_workers(config | {"resources": config["resources"] | {"workers": 2}}, parts, stop, store, 0)
    # The state of epoch 2 was kept, its worker killed, and both went on from it.
    assert told == [1, 2, 3, 4, 5]
    assert len(store.storage.names("kept")) >= 4
    assert_close(run(config, parts, store=store), whole)


@pytest.mark.nightly
def test_workers_go_on_from_the_state_of_one_process(base, ray_session, tmp_path):
    from pyrite.cluster.training.workers import run_on_workers

    words = [*WORDS, *TOPICS, *(f"thing{number}" for number in range(20))]
    checkpoint = write_checkpoint(tmp_path / "bert", "bert", words)
    options = ["ranker=bi_encoder", f"ranker.checkpoint={checkpoint}", "ranker.layers=2", "weights=true"]
    base = [text for text in base if not text.startswith("ranker.")]
    config, parts, keys = prepared([*base, *options], 3)
    whole = run(config, parts)
    store = SavedState(Storage(str(tmp_path)), "shared", keys)

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, parts, stop, store, 0)
    told = set[int]()
    shared = config | {"resources": config["resources"] | {"workers": 2}}
    outcome = run_on_workers(shared, parts, lambda progress: told.add(progress.epoch), store, 0)
    assert told - {1} == {2, 3}
    assert_close(outcome, whole)
    assert outcome.weights.keys() == whole.weights.keys()
    read = [load(each["model.safetensors"]) for each in (outcome.weights, whole.weights)]
    for name, weight in read[1].items():
        np.testing.assert_allclose(read[0][name].numpy(), weight.numpy(), atol=1e-5)
    assert len(store.storage.names("states")) == 1
    store.delete()
    assert not store.storage.names("states")


def test_bad_input_of_a_worker_ends_the_run_at_once(base, ray_session, kills, tmp_path):
    config, parts, keys = prepared(base, 2)
    shared = config | {"resources": config["resources"] | {"workers": 2}}
    shared |= {"measures": ["AP@never"], "save_every": 0}
    (tmp_path / "states").write_text("in the way of the folder")
    with pytest.raises(BadInput):
        execute_run("bad", shared, keys, parts, Storage(str(tmp_path)), lambda progress: None, launcher(shared))


ASKED = {"cpu": 2, "gpu": 0.5, "memory": None, "workers": 1, "least": None, "placement": "pack", "custom": None}


def test_what_runs_take():
    four = ASKED | {"workers": 4}
    assert Resources.of_run(ASKED).bundle() == {"CPU": 2, "GPU": 0.5}
    assert Resources.of_run(four) == Resources(cpu=0, memory=WAITING)
    assert demand(four) == {"CPU": 8, "GPU": 2.0}
    workers = workers_bundles(four)
    assert at_once([workers], [{"CPU": 17, "GPU": 8}]) == 2
    assert at_once([workers, [{"CPU": 9}]], [{"CPU": 17, "GPU": 8}]) == 1
    assert at_once([workers], [{"CPU": 17, "GPU": 2}]) == 1
    assert at_once([workers], [{"CPU": 9, "GPU": 8}, {"CPU": 7, "GPU": 8}]) == 1  # sixteen, seven of them on one node
    check_demand(four, {"CPU": 8, "GPU": 2})
    with pytest.raises(BadInput, match=r"resources.cpu: a run asks for 8 and this machine has 7; choose fewer"):
        check_demand(four, {"CPU": 7, "GPU": 2})
    with pytest.raises(BadInput, match=r"resources.gpu: a run asks for 0.5 and this machine has 0$"):
        check_demand(ASKED, {"CPU": 7})
    assert Resources.of_run(ASKED | {"memory": 1.5}).bundle() == {"CPU": 2, "GPU": 0.5, "memory": 1.5e9}
    with pytest.raises(BadInput, match=r"resources.memory: a run asks for 6 and this machine has 4; choose fewer"):
        check_demand(four | {"memory": 1.5}, {"CPU": 8, "GPU": 2, "memory": 4e9})
