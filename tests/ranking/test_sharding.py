"""Weights that two processes split: rank 0 is this process, rank 1 is started beside it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from pyrite.cluster.output.result_store import SavedState
from pyrite.cluster.output.storage import Storage
from pyrite.cluster.runs.states import Share
from pyrite.cluster.training.all_reduce import AllReduce, ReduceScatter
from pyrite.cluster.training.attach import SharedEvaluation, SharedIndex
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import RandomCandidates
from pyrite.ranking.objectives.self_involvement import JointSIR
from pyrite.ranking.objectives.softmax import SoftmaxLikelihood
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.cross_encoder import CrossEncoder
from pyrite.ranking.rankers.decoder import Decoder
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.late_interaction import LateInteraction
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.sharded_state import ROWS, SIZE, gathered, merge_state, rows_of
from pyrite.ranking.sharding import Sharding, check_sharded
from pyrite.ranking.sources import Sources
from pyrite.ranking.training import RankerTraining
from tests.examples import NIGHTLY
from tests.ranking.trained import generator
from tests.two_processes import LIMIT, in_two_processes

SHORT: dict[str, Any] = {"max_query": 8, "max_document": 12, "budget": 40}
STEPS = 4


@dataclass(frozen=True)
class Case:
    """A training that both ways of sharing out have to agree on.

    Args:
        make: makes the ranker.
        checkpoint: that it begins with.
        options: of the training.
        objective: of it.
        steps: how many are compared.
    """

    make: Callable[..., Ranker]
    checkpoint: str
    ranker: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    objective: Any = field(default_factory=SoftmaxLikelihood)
    steps: int = STEPS

    def encode(self, sources: Sources) -> EncodedCollection:
        tokens = self.make.tokenization(checkpoint=self.checkpoint, **SHORT).encode(sources.collection)
        return replace(sources.encoded, documents=tokens.documents, queries=tokens.queries)

    def training(self, sources: Sources, encoded: EncodedCollection, how: str) -> RankerTraining:
        """The training, `alone`, with weights that are `whole` on each worker, or `split`."""
        ranker = self.make(generator(), self.checkpoint, **(SHORT | self.ranker))
        if how == "split":
            Sharding(ranker, torch.device("cpu"))
        training = self.of(ranker, sources, encoded)
        if how != "alone":
            training.gradient_sync = ReduceScatter() if how == "split" else AllReduce()
            training.evaluations = {"": SharedEvaluation(training.validation)}
        return training

    def of(self, ranker: Ranker, sources: Sources, encoded: EncodedCollection) -> RankerTraining:
        """The training of a ranker, which is evaluated on an odd number of queries."""
        candidates = RandomCandidates(8).candidates(sources, np.array([4, 5, 6]))
        return RankerTraining(
            ranker, self.objective, encoded, np.arange(4), Evaluation(encoded, candidates, ["AP@8"]),
            partial(torch.optim.AdamW, lr=0.01, eps=0.1), np.random.default_rng(3),
            **({"batch_size": 2, "clip_norm": 0.5, "patience": 9} | self.options),
        )  # fmt: skip


def advance(training: RankerTraining, steps: int) -> list[Any]:
    """What some steps showed, a validation where an epoch ends."""
    rng = np.random.default_rng(training.step)
    shown: list[Any] = []
    for _ in range(steps):
        if training.epoch_over:
            shown.append(training.validate())
        batch = training.next_batch()
        result = training.update(batch, rng.integers(-1, 12, (len(batch), 2)).astype(np.int32))
        shown += [result.loss, result.gradient_norm, result.scores]
    return shown


def weights(training: RankerTraining) -> dict[str, NDArray[np.float32]]:
    return {name: each.numpy().copy() for name, each in gathered(training.ranker.state_dict()).items()}


def held(training: RankerTraining) -> list[int]:
    """Numbers that this process holds: weights, gradients, and what the optimizer remembers."""
    parameters = list(training.ranker.parameters())
    moments = [each["exp_avg"] for each in training.optimizer.state.values()]
    gradients = [each.grad for each in parameters if each.grad is not None]

    def local(tensors: list[Any]) -> int:
        """Of which several may be views of one storage."""
        own = [getattr(each, "to_local", lambda whole=each: whole)().untyped_storage() for each in tensors]
        return sum({each.data_ptr(): each.nbytes() // 4 for each in own}.values())

    best = training.stopping.best_weights() or {}
    return [local(each) for each in (parameters, gradients, moments, list(best.values()))]


def compared(case: Case, sources: Sources) -> dict[str, Any]:
    encoded = case.encode(sources)
    found: dict[str, Any] = {}
    for how in ("whole", "split"):
        training = case.training(sources, encoded, how)
        found[how] = (advance(training, case.steps), weights(training), held(training))
    return found


def kept(case: Case, sources: Sources, folder: str) -> dict[str, Any]:
    """A state of two workers, and what they went on to."""
    encoded, share = case.encode(sources), Share(dist.get_rank(), 2, True)
    store = SavedState(Storage(folder), "run", {})
    first = case.training(sources, encoded, "split")
    advance(first, 4)
    share.save(store, {"training": first.state_dict()})
    before = sorted(store.storage.names("states"))
    share.save(store, {"training": first.state_dict()})
    dist.barrier()
    after = sorted(store.storage.names("states"))
    whole = advance(first, 2)
    second = case.training(sources, encoded, "split")
    second.load_state_dict(share.load(store)["training"])
    return {"whole": whole, "again": advance(second, 2), "files": (before, after)}


def taken_over(case: Case, sources: Sources, folder: str) -> list[Any]:
    """What two workers go on to from the state of one."""
    training = case.training(sources, case.encode(sources), "split")
    state = Share(dist.get_rank(), 2, True).load(SavedState(Storage(folder), "alone", {}))
    training.load_state_dict(state["training"])
    return advance(training, 2)


def overflown(case: Case, sources: Sources) -> tuple[float, bool, int]:
    """What an infinite gradient in rows of the second worker alone does to both: no step, and a lower scale."""
    training = case.training(sources, case.encode(sources), "split")
    optimization = training.optimization
    optimization.scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    before = weights(training)
    weight = next(each for each in training.ranker.parameters() if each.dim() == 2)
    if dist.get_rank() == 1:
        handle = weight.register_post_accumulate_grad_hook(lambda each: each.grad.to_local().fill_(torch.inf))
    batch = training.next_batch()
    training.update(batch, np.ones((len(batch), 1), np.int32))
    if dist.get_rank() == 1:
        handle.remove()
    after = weights(training)
    same = all((before[name] == after[name]).all() for name in before)
    return optimization.scaler.get_scale(), same, len(before)


class Published:
    """An index that remembers what was published."""

    def publish(self, weights: Any, step: int) -> None:
        self.weights = {name: each.numpy().copy() for name, each in weights.items()}


def published(case: Case, sources: Sources) -> tuple[Any, Any]:
    """What an index on the first worker is given of weights that are split, and what they are."""
    training, index = case.training(sources, case.encode(sources), "split"), Published()
    SharedIndex(index).publish(training.ranker.state_dict(), 0)
    return getattr(index, "weights", None), weights(training)


def work(sources: Sources, cases: dict[str, Case], folder: str) -> dict[str, Any]:
    return {
        **{name: compared(case, sources) for name, case in cases.items()},
        "state": kept(cases["bi_encoder"], sources, folder),
        "alone": taken_over(cases["bi_encoder"], sources, folder),
        "index": published(cases["bi_encoder"], sources),
        "overflow": overflown(cases["bi_encoder"], sources),
    }


@pytest.fixture(scope="module")
def sources(tiny, tiny_encoded, tiny_vectors) -> Sources:
    return Sources(tiny, tiny_encoded, tiny_vectors)


LONGER = ("chunks", "decoder", "two_towers", "levels", "checkpointed", "late_interaction")
"""Cases of which the others have each part."""


@pytest.fixture(scope="module")
def cases(made_up, decoder_checkpoint) -> dict[str, Case]:
    bert = made_up()
    every = {
        "bi_encoder": Case(BiEncoder, bert),
        "two_towers": Case(BiEncoder, bert, {"tied": False}, {"accumulate": 2}),
        "chunks": Case(BiEncoder, bert, {"budget": None}, {"chunk": 2}),
        "levels": Case(BiEncoder, bert, {"pooling": "cls"}, {"accumulate": 2}, JointSIR([2], passes="level")),
        "checkpointed": Case(CrossEncoder, bert, {"gradient_checkpointing": True}, {"accumulate": 2}),
        "late_interaction": Case(LateInteraction, bert, {"dimension": 5}, {"chunk": 3}),
        "decoder": Case(Decoder, decoder_checkpoint(headed=True)),
        "bfloat16": Case(BiEncoder, bert, {"precision": "bfloat16"}, steps=1),
    }
    return {name: case for name, case in every.items() if NIGHTLY or name not in LONGER}


@pytest.fixture(scope="module")
def alone(cases, sources, tmp_path_factory) -> tuple[str, list[Any]]:
    """A folder with the state of one process, and what it went on to."""
    folder, case = str(tmp_path_factory.mktemp("states")), cases["bi_encoder"]
    training = case.training(sources, case.encode(sources), "alone")
    advance(training, 4)
    Share().save(SavedState(Storage(folder), "alone", {}), {"training": training.state_dict()})
    return folder, advance(training, 2)


@pytest.fixture(scope="module")
def both(sources, cases, alone, tmp_path_factory) -> list[dict[str, Any]]:
    """What each of two workers saw."""
    sources = Sources(sources.collection, sources.encoded, sources.vectors)  # one that can be handed to a process
    return in_two_processes(tmp_path_factory.mktemp("group"), work, sources, cases, alone[0])


NAMES = ["bi_encoder", *(pytest.param(name, marks=pytest.mark.nightly) for name in LONGER)]


def assert_alike(one: list[Any], other: list[Any], tolerance: float = 2e-5) -> None:
    assert len(one) == len(other) > 0
    for its, value in zip(other, one, strict=True):
        np.testing.assert_allclose(its, value, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_workers_that_split_the_weights_take_the_steps_of_those_that_do_not(both, name):
    for worker in both:
        assert_alike(worker[name]["whole"][0], worker[name]["split"][0])
    whole, split = both[0][name]["whole"][1], both[0][name]["split"][1]
    assert whole.keys() == split.keys()
    for key, weight in whole.items():
        np.testing.assert_allclose(split[key], weight, atol=2e-5)
    # It learned, and in the last batch of an epoch, of one example, the first worker had no rows.
    assert {len(each) for each in both[0][name]["whole"][0] if isinstance(each, np.ndarray)} >= {1, 2}


def test_half_precision_differs_by_its_own_rounding(both):
    """Of weights that are gathered as bfloat16, between whose blocks states are in it too."""
    for worker in both:
        whole, split = (worker["bfloat16"][how][0] for how in ("whole", "split"))
        assert split[0] == pytest.approx(whole[0], rel=0.1)
        np.testing.assert_allclose(split[2], whole[2], atol=0.5)
        assert not np.array_equal(split[2], whole[2])
        assert all(np.isfinite(each).all() for each in split)


@pytest.mark.parametrize("name", NAMES)
def test_each_worker_holds_its_half(both, name):
    for kind, whole in enumerate(both[0][name]["whole"][2]):
        shares = [worker[name]["split"][2][kind] for worker in both]
        assert sum(shares) >= whole > 0
        assert max(shares) < 0.53 * whole  # weights of an odd number of rows are filled up


def test_a_state_goes_on_as_it_would_have(both):
    for worker in both:
        assert_alike(worker["state"]["whole"], worker["state"]["again"], 0)
    first, second = both[0]["state"]["files"]
    # One file each, and none of the state before.
    assert [len(each) for each in (first, second)] == [3, 3]
    assert len(set(first) & set(second)) == 2


def test_two_workers_go_on_from_the_state_of_one(both, alone):
    for worker in both:
        assert_alike(alone[1], worker["alone"])


def test_one_process_goes_on_from_the_state_of_two(both, cases, sources, alone):
    training = cases["bi_encoder"].training(sources, cases["bi_encoder"].encode(sources), "alone")
    state = Share().load(SavedState(Storage(alone[0]), "run", {}))  # as workers see it that are not the first
    training.load_state_dict(state["training"])
    assert_alike(both[0]["state"]["whole"], advance(training, 2))


def test_what_a_worker_kept_is_there_and_whole_or_nothing_is_read(both, alone, tmp_path):
    store = SavedState(Storage(alone[0]), "run", {})
    (shard,) = (Path(alone[0]) / "states").glob("run-*-shard-*")
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BadInput, match=r"are damaged: those of worker 2 of 2.*; delete states/"):
        Share().load(store)
    shard.unlink()
    with pytest.raises(BadInput, match=r"are missing: those of worker 2 of 2.*; delete states/"):
        Share().load(store)
    shard.write_bytes(content)
    assert Share().load(store) is not None
    store.delete()
    assert store.storage.names("states") == [f"{SavedState(store.storage, 'alone', {}).file.removeprefix('states/')}"]


def test_an_overflow_in_one_workers_rows_skips_the_step_of_all(both):
    for rank, worker in enumerate(both):
        scale, same, count = worker["overflow"]
        assert scale == 8.0
        assert same
        assert (count > 0) == (rank == 0)


def test_an_index_is_given_whole_weights(both, cases):
    given, known = both[0]["index"]
    plain = cases["bi_encoder"].make(generator(), cases["bi_encoder"].checkpoint, **SHORT).state_dict()
    assert given.keys() == known.keys() == plain.keys()
    for name, weight in plain.items():
        np.testing.assert_array_equal(given[name], weight.numpy())
    assert both[1]["index"] == (None, {})


@pytest.mark.parametrize(("saved", "readers"), [(1, 3), (2, 1), (2, 3), (3, 2), (5, 4)])
def test_rows_of_any_number_of_workers_are_put_together_for_any_other(saved, readers):
    tensors = [torch.arange(14.0).view(7, 2), torch.arange(3.0)]

    def own(rank: int, workers: int) -> list[torch.Tensor]:
        return [each[rows_of(len(each), rank, workers)] for each in tensors]

    stored = [{ROWS: rows, SIZE: list(each.shape)} for rows, each in zip(own(0, saved), tensors, strict=True)]
    state = {"weights": {"a": stored[0]}, "steps": [3, stored[1]]}
    for rank in range(readers):
        read = merge_state(state, iter([own(other, saved) for other in range(1, saved)]), rank, readers)
        assert read["steps"][0] == 3
        for found, wanted in zip([read["weights"]["a"], read["steps"][1]], own(rank, readers), strict=True):
            assert torch.equal(found if readers == 1 else found.rows, wanted)
    if saved > 1:
        with pytest.raises(ValueError, match="rows are missing"):
            merge_state(state, iter([]), 0, 1)


def test_what_can_not_be_split_is_refused_in_one_line(made_up, sources):
    plain = FeedForward(sources.vectors.table, generator(), "tiny")
    compiled = BiEncoder(generator(), made_up(), **SHORT, compiled=True)
    for ranker, says in (
        (plain, "the weights of FeedForward are not split.*; choose bi_encoder"),
        (compiled, "ranker.compiled is not for a ranker.*; leave ranker.compiled"),
    ):
        with pytest.raises(BadInput, match=f"^resources.shard: {says}"):
            check_sharded(ranker)
    check_sharded(BiEncoder(generator(), made_up(), **SHORT))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_one_worker_on_a_gpu_takes_the_steps_of_a_process(precision, cases, sources, cuda, tmp_path):
    """By nccl, which joins no two workers on one GPU: the collectives are real ones, of one worker."""
    case = cases["bi_encoder"]
    encoded, device = case.encode(sources), torch.device(cuda)
    shown = []
    dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1, timeout=LIMIT)
    try:
        for how in ("alone", "split"):
            ranker = case.make(generator(), case.checkpoint, **SHORT, precision=precision)
            if how == "split":
                Sharding(ranker, device)
                assert next(ranker.parameters()).device.type == "cuda"
            training = case.of(ranker.to(device), sources, encoded)
            shown.append(advance(training, STEPS))
    finally:
        dist.destroy_process_group()
    assert np.isfinite(shown[1][0])
    np.testing.assert_allclose(shown[1][2], shown[0][2], atol=1e-3 if precision == "float32" else 0.5)
