"""Training: its steps, when it stops, how often it waits for the device, and an Adam of rows."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pyrite.ranking.batch import MorePositives
from pyrite.ranking.checkpoint import from_bytes, to_bytes
from pyrite.ranking.early_stopping import EarlyStopping
from pyrite.ranking.encoding import EncodedCollection
from pyrite.ranking.errors import BadInput
from pyrite.ranking.evaluation.evaluation import Evaluation
from pyrite.ranking.evaluation.origins import RandomCandidates
from pyrite.ranking.lazy_adam import LazyAdam
from pyrite.ranking.objectives.block import Block
from pyrite.ranking.objectives.contrastive import Contrastive
from pyrite.ranking.objectives.matryoshka import Matryoshka
from pyrite.ranking.objectives.objective import Objective
from pyrite.ranking.objectives.self_involvement import JointSIR
from pyrite.ranking.objectives.softmax import Softmax
from pyrite.ranking.optimization import Optimization, gradient_norm, without_decay
from pyrite.ranking.rankers.bi_encoder import BiEncoder
from pyrite.ranking.rankers.dssm import DSSM
from pyrite.ranking.rankers.feed_forward import FeedForward
from pyrite.ranking.rankers.inputs import RankerInputs
from pyrite.ranking.rankers.late_interaction import LateInteraction
from pyrite.ranking.rankers.match_pyramid import MatchPyramid
from pyrite.ranking.rankers.ranker import Ranker
from pyrite.ranking.rankers.static import Static
from pyrite.ranking.ranks import ranks_in
from pyrite.ranking.schedules import Constant, Cosine, Linear, RateSchedule
from pyrite.ranking.sources import Sources
from pyrite.ranking.texts import Texts
from pyrite.ranking.training import Batch, NegativeSource, RankerTraining, UpdateResult
from tests.ranking.trained import (
    NEGATIVES,
    SHORT,
    Bag,
    equal,
    generator,
    in_small_batches,
    in_training,
    losses,
    weights,
)  # fmt: skip

ADAM = partial(torch.optim.Adam, lr=0.01)
LAZY = partial(LazyAdam, lr=0.05)


class RandomNegatives(NegativeSource):
    """Two documents by chance, now and then none."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.steps: list[UpdateResult] = []

    def negatives(self, batch: Batch, training: RankerTraining) -> np.ndarray:
        return self.rng.integers(-1, 12, (len(batch), 2)).astype(np.int32)

    def observe(self, negatives: np.ndarray, step: UpdateResult) -> None:
        self.steps.append(step)


class Scripted:
    """Stands in for an evaluation and says what it was told to say."""

    def __init__(self, values: list[float]) -> None:
        self.values = iter(values)
        self.candidates = type("Some", (), {"queries": np.arange(1)})

    def __call__(self, ranker: Ranker) -> dict[str, np.ndarray]:
        return {"AP": np.array([next(self.values)])}


def training(sources: Sources, ranker: type[Ranker] = FeedForward, seed: int = 3, **options: Any) -> RankerTraining:
    made = ranker(preset="tiny").start(
        RankerInputs(generator(seed), sources.vectors.filled(np.random.default_rng(seed)))
    )
    return in_small_batches(made, sources, seed=seed, **options)


def assert_same(one: RankerTraining, other: RankerTraining) -> None:
    assert (one.losses, one.validations) == (other.losses, other.validations)
    assert (one.epoch, one.step, one.best_epoch) == (other.epoch, other.step, other.best_epoch)
    assert equal(weights(one.ranker), weights(other.ranker))


@pytest.mark.parametrize("ranker", [FeedForward, MatchPyramid])
def test_one_seed_gives_one_result_to_the_bit(tiny_sources, ranker):
    runs = [training(tiny_sources, ranker) for _ in range(2)]
    for run in runs:
        torch.manual_seed(np.random.default_rng().integers(1000))  # nothing may depend on it, or change it
        state = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        run.fit(RandomNegatives())
        assert torch.equal(torch.random.get_rng_state(), state[0])
        assert np.array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002
    assert_same(*runs)
    other = training(tiny_sources, ranker, seed=4)
    other.fit(RandomNegatives())
    assert other.losses != runs[0].losses


def steps(run: RankerTraining, source: RandomNegatives, count: int) -> None:
    """`count` updates, and the validations between them, as `fit` does them."""
    for _ in range(count):
        batch = run.next_batch()
        run.update(batch, source.negatives(batch, run))
        if run.epoch_over:
            run.validate()


def test_an_epoch_shows_each_example_once_and_then_nothing_more(tiny_sources):
    run, source = training(tiny_sources, batch_size=2, max_epochs=1), RandomNegatives()
    seen: list[tuple[int, int]] = []
    sizes = []
    while not run.epoch_over:
        batch = run.next_batch()
        assert np.array_equal(batch.queries, run.next_batch().queries)
        sizes.append(len(batch))
        seen += zip(batch.queries.tolist(), batch.positives.tolist(), strict=True)
        run.update(batch, source.negatives(batch, run))
    assert sizes == [2, 2, 1]
    assert run.steps_per_epoch == 3
    assert sorted(seen) == [(0, 0), (1, 5), (2, 8), (2, 9), (3, 3)]
    with pytest.raises(ValueError, match="the epoch is over"):
        run.update(run.next_batch(), np.zeros((0, 2), np.int32))
    assert run.step == 3


def test_the_epochs_loss_is_the_mean_over_its_batches(tiny_sources):
    run, source = training(tiny_sources, max_epochs=2), RandomNegatives()
    run.fit(source)
    losses = [step.loss for step in source.steps]
    assert run.losses == [math.fsum(losses[:3]) / 3, math.fsum(losses[3:]) / 3]


def test_early_stopping_waits_patience_epochs_and_puts_the_best_weights_back(tiny_sources):
    run = training(tiny_sources, validation=Scripted([0.2, 0.5, 0.4, 0.5, 0.9]), max_epochs=9, patience=2)
    kept: list[dict[str, Tensor]] = []
    run.fit(RandomNegatives(), lambda now: kept.append(weights(now.ranker)))
    assert run.validations == [0.2, 0.5, 0.4, 0.5]  # an equal value is no better one
    assert (run.epoch, run.best_epoch, run.done) == (4, 2, True)
    assert equal(weights(run.ranker), kept[1])
    assert not equal(kept[1], kept[3])


class Exploding(Objective):
    """Finite for some steps, then not; by its loss or by its gradient."""

    def __init__(self, after: int, by: str) -> None:
        self.left, self.by = after, by

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        self.left -= 1
        if self.left >= 0:
            return scores.mean()
        # √ at 0 is 0 and its slope is infinite.
        return scores.mean() * torch.inf if self.by == "loss" else (scores.sum() * 0).sqrt()

    def probabilities(self, scores: Tensor, present: Tensor) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("by", ["loss", "gradient"])
@pytest.mark.parametrize("after", [0, 4])
def test_divergence_ends_the_training_and_touches_no_weight(tiny_sources, after, by):
    run, source = training(tiny_sources, objective=Exploding(after, by)), RandomNegatives()
    steps(run, source, after)
    before = weights(run.ranker)
    batch = run.next_batch()
    run.update(batch, source.negatives(batch, run))
    assert run.diverged
    assert run.epoch_over
    assert math.isnan(run.validate())
    assert run.done
    assert equal(weights(run.ranker), before)
    assert run.best_epoch == (1 if after else 0)
    other = training(tiny_sources, objective=Exploding(9, by))
    other.load_state_dict(from_bytes(to_bytes(run.state_dict())))
    assert other.done


def test_a_ranker_that_scores_nan_has_diverged(tiny_sources):
    run, source = training(tiny_sources), RandomNegatives()
    steps(run, source, 3)
    assert run.best_epoch == 1
    best = weights(run.ranker)
    batch = run.next_batch()
    run.update(batch, source.negatives(batch, run))
    with torch.no_grad():
        run.ranker.vectors.mul_(torch.nan)
    assert math.isnan(run.validate())
    assert run.done
    run.restore_best()
    assert equal(weights(run.ranker), best)


@pytest.mark.parametrize("ranker", [FeedForward, MatchPyramid])
def test_the_gradient_norm_is_that_of_the_top_layers(tiny_sources, ranker):
    run = training(tiny_sources, ranker, gradient_layers=2)
    batch, negatives = run.next_batch(), np.array([[1, 2], [3, -1]], np.int32)
    shown = np.concatenate([batch.positives[:, None], negatives], axis=1)
    twin = training(tiny_sources, ranker)
    scores = twin.ranker(
        twin.encoded.queries.take(batch.queries), twin.encoded.documents.take(np.maximum(shown, 0).ravel())
    )
    twin.objective.loss(scores, Block(torch.from_numpy(shown >= 0))).backward()
    gradients = [parameter.grad.flatten() for layer in twin.ranker.layers()[-2:] for parameter in layer.parameters()]
    step = run.update(batch, negatives)
    assert step.gradient_norm == pytest.approx(float(torch.cat(gradients).norm()), rel=1e-5)
    np.testing.assert_array_equal(step.scores, scores.detach().numpy())


def test_nothing_to_train_on_or_validate_with_is_bad_input(tiny_sources):
    with pytest.raises(BadInput, match="no training query"):
        training(tiny_sources, queries=np.zeros(0, np.int64))
    nobody = RandomCandidates(8).candidates(tiny_sources, np.zeros(0, np.int64))
    with pytest.raises(BadInput, match="validate"):
        training(tiny_sources, validation=Evaluation(tiny_sources.encoded, nobody, ["AP"]))


def test_scores_and_probabilities_of_now(tiny_sources):
    run = training(tiny_sources)
    queries, documents = np.array([0, 3]), np.array([[0, 1, -1], [2, 3, 4]])
    scores = run.score(queries, documents)
    assert scores[0, 2] == -np.inf
    probabilities = run.probabilities(queries, documents)
    expected = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(probabilities, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
    assert probabilities[0, 2] == 0


def test_a_document_of_two_queries_is_read_once_or_with_each(tiny_sources):
    for apart, read in ((True, 5), (False, 7)):
        run = training(tiny_sources)
        run.ranker.reads_apart = apart
        run.count_documents(np.array([[0, 1, 2, -1], [1, 0, 3, 4]]))
        assert run.documents_read == read


def test_more_training_fits_the_training_data(tiny_sources, tiny_encoded):
    """The one test that it learns: positives end above everything else for all training queries."""
    validation = Evaluation(tiny_encoded, RandomCandidates(12).candidates(tiny_sources, np.arange(4)), ["AP@12"])
    run = training(tiny_sources, validation=validation, lr=0.02, max_epochs=60, patience=60, seed=2)

    class Others(RandomNegatives):
        def negatives(self, batch: Batch, training: RankerTraining) -> np.ndarray:
            drawn = self.rng.integers(0, 12, (len(batch), 6)).astype(np.int32)
            return np.where(tiny_encoded.judgements.relevant().lookup(batch.queries, drawn) > 0, -1, drawn)

    run.fit(Others())
    assert max(run.validations) > 0.95


def test_it_validates_within_an_epoch_too(tiny_sources):
    # Five examples: three batches of two, two and one.
    run = training(tiny_sources, validation=Scripted([0.1, 0.3, 0.2, 0.3]), patience=2, validate_every=2)
    seen: list[tuple[int, int, int]] = []
    run.fit(RandomNegatives(), lambda each: seen.append((each.step, each.epoch, each.position)))
    assert seen == [(2, 0, 4), (3, 1, 0), (5, 1, 4), (6, 2, 0)]
    assert run.validations == [0.1, 0.3, 0.2, 0.3]
    assert (run.best_epoch, len(run.losses)) == (1, 4)


def test_each_origin_is_validated_and_restored_by_itself(tiny_sources):
    near, far = Scripted([0.5, 0.4, 0.3, 0.2]), Scripted([0.1, 0.2, 0.3, 0.2])
    run = training(tiny_sources, validation={"near": near, "far": far}, patience=2)
    seen: list[torch.Tensor] = []
    run.fit(RandomNegatives(), lambda each: seen.append(weights(each.ranker)["upper.0.weight"].clone()))
    assert (run.epoch, run.validations) == (4, [0.5, 0.4, 0.3, 0.2])
    assert torch.equal(weights(run.ranker)["upper.0.weight"], seen[0])
    run.restore_best("far")
    assert torch.equal(weights(run.ranker)["upper.0.weight"], seen[2])
    assert not torch.equal(seen[0], seen[2])


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "optimizer", [partial(torch.optim.SGD, lr=0.1, momentum=0.9), ADAM, partial(torch.optim.AdamW), LAZY]
)
def test_a_saved_training_goes_on_as_if_it_had_never_stopped(tiny_sources, optimizer):
    """From before the first step, from within an epoch, and from its end."""
    states: list[tuple[bytes, bytes]] = []
    source = RandomNegatives()

    def keep(run: RankerTraining) -> None:
        states.append((to_bytes(run.state_dict()), to_bytes(source.rng.bit_generator.state)))

    options = {"validate_every": 2, "schedule": Linear(2), "max_epochs": 3, "patience": 99, "optimizer": optimizer}
    whole = training(tiny_sources, **options)
    keep(whole)
    whole.fit(source, keep, keep)
    assert len(states) == 10  # one before, and those of all steps and epochs
    for state, of_source in states:
        again, other = training(tiny_sources, seed=99, **options), RandomNegatives()  # other weights and order
        again.load_state_dict(from_bytes(state))
        other.rng.bit_generator.state = from_bytes(of_source)
        again.fit(other)
        assert_same(again, whole)


def test_the_learning_rate_follows_its_schedule(tiny_sources):
    run = training(tiny_sources, schedule=Linear(), max_epochs=2)
    rates = []
    run.fit(RandomNegatives(), on_step=lambda each: rates.append(each.optimizer.param_groups[0]["lr"]))
    first = training(tiny_sources).optimizer.param_groups[0]["lr"]
    assert rates == pytest.approx([first * share for share in (1, 5 / 6, 3 / 6, 2 / 6)])


class Forgetful(Bag):
    """Drops words of queries, which nothing declares."""

    def represent_queries(self, queries: Texts) -> torch.Tensor:
        return torch.nn.functional.dropout(super().represent_queries(queries), 0.5, self.training)

    def represent_documents(self, documents: Texts) -> torch.Tensor:
        return super().represent_queries(documents)


@pytest.mark.parametrize("chunk", [None, 3])
def test_the_dropout_of_any_ranker_depends_on_the_seed_alone(chunk, tiny_sources):
    reached = []
    for state, seed in ((1, 3), (2, 3), (1, 4)):
        ranker = Forgetful(len(tiny_sources.encoded.idf))
        torch.manual_seed(state)
        training = in_training(ranker, tiny_sources.encoded, tiny_sources, 0.5, seed, chunk=chunk)
        training.order = np.arange(len(training.examples))
        losses(training, 3)
        reached.append(weights(ranker))
        assert torch.initial_seed() == state, "torch's own generator was seeded"
    assert equal(reached[0], reached[1])
    assert not equal(reached[0], reached[2])


def test_fewer_examples_are_some_of_more(tiny_sources):
    def pairs(most: int | None) -> set[tuple[int, int]]:
        examples = training(tiny_sources, most_examples=most).examples
        return set(zip(examples.queries.tolist(), examples.positives.tolist(), strict=True))

    every = pairs(None)
    assert len(every) == 5
    for most in range(1, 6):
        assert len(pairs(most)) == most
        assert pairs(most) <= pairs(min(most + 1, 5))
    assert pairs(9) == every


def test_biases_keep_the_other_options_of_their_group():
    weight, bias = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))
    group = {"params": [weight, bias], "lr": 0.01, "betas": (0.5, 0.9)}
    made = without_decay(torch.optim.AdamW([group], lr=1e-5, weight_decay=0.1))
    options = [(len(of["params"]), of["lr"], of["betas"], of["weight_decay"]) for of in made.param_groups]
    assert options == [(1, 0.01, (0.5, 0.9), 0.1), (1, 0.01, (0.5, 0.9), 0.0)]


def test_gradients_are_clipped_and_biases_do_not_decay(tiny_sources):
    torch.manual_seed(0)
    model: Any = torch.nn.Linear(3, 1)
    model.needs_grad_scaler, model.device = False, torch.device("cpu")
    made = Optimization(model, partial(torch.optim.SGD, lr=1.0, weight_decay=0.5), None, 10, clip_norm=0.1)
    groups = made.optimizer.param_groups
    assert [(group["weight_decay"], len(group["params"])) for group in groups] == [(0.5, 1), (0.0, 1)]
    before = [each.detach().clone() for each in (model.weight, model.bias)]
    made.begin(0)
    made.add(100 * model(torch.ones(1, 3)).sum())
    parameters, loss = list(model.parameters()), torch.tensor(1.0)
    assert float(gradient_norm(parameters)) == pytest.approx(200)
    result, finite = made.finish(loss, torch.tensor([[0.5, 0.25]]), parameters, parameters)
    assert (round(result.gradient_norm), result.loss, result.scores.tolist(), finite) == (200, 1, [[0.5, 0.25]], True)
    # Each of four gradients is cut from 100 to 0.05; the weights also lose half of themselves, the bias does not.
    torch.testing.assert_close(model.weight.detach(), before[0] / 2 - 0.05)
    torch.testing.assert_close(model.bias.detach(), before[1] - 0.05)
    with pytest.raises(BadInput, match="clip_norm is 0"):
        Optimization(model, partial(torch.optim.SGD, lr=1.0), None, 10, clip_norm=0)
    assert len(Optimization(model, partial(torch.optim.Adam, lr=1.0), None, 10).optimizer.param_groups) == 1


def test_the_last_weights_are_kept_on_demand(tiny_sources):
    for keep, expected in (("best", False), ("last", True)):
        trained = training(tiny_sources, validation=Scripted([0.9, 0.1]), max_epochs=2, keep=keep)
        last: dict[str, Tensor] = {}
        trained.fit(RandomNegatives(), on_validation=lambda each, last=last: last.update(weights(each.ranker)))
        assert equal(weights(trained.ranker), last) is expected
    with pytest.raises(BadInput, match="choose best or last"):
        training(tiny_sources, keep="first")


def test_further_relevant_documents_are_shown_and_told_apart(encoded_of):
    """Query 0 judges documents 1 (grade 2), 3 (grade 3) and 4 (grade 1) relevant; query 1 document 2."""
    encoded = encoded_of([[1]] * 6, [[1]] * 2, {0: {1: 2, 3: 3, 4: 1}, 1: {2: 1}})
    more = MorePositives(encoded.judgements, 2)
    batch = Batch(np.array([0, 0, 0, 1]), np.array([1, 3, 4, 2], np.int32))
    assert more.of(batch).tolist() == [[3, 4], [1, 4], [3, 1], [-1, -1]]
    assert MorePositives(encoded.judgements, 1).of(batch).tolist() == [[3], [1], [3], [-1]]


class Listening(Contrastive):
    """Keeps the blocks of which it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []

    def loss(self, scores: Tensor, block: Block) -> Tensor:
        self.blocks.append(block)
        return super().loss(scores, block)


def test_an_example_with_more_positives_reports_the_scores_of_its_own_columns(tiny_sources):
    objective = Listening()
    trained = training(tiny_sources, objective=objective, positives=3)
    batch = trained.next_batch()
    step = trained.update(batch, np.full((2, 2), 9, np.int32))
    assert step.scores.shape == (2, 3)
    (block,), counts = objective.blocks, tiny_sources.encoded.judgements.relevant()
    assert block.labels.shape == (2, 5)
    assert int((block.labels > 0).sum()) >= int(np.minimum(np.diff(counts.offsets)[batch.queries], 3).sum())
    with pytest.raises(BadInput, match="knows one relevant document"):
        training(tiny_sources, positives=2)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": Matryoshka(dimensions=[2, 1])},
        {"objective": Softmax(symmetric=True)},
        {"objective": Contrastive(), "positives": 3},
        {"objective": JointSIR([3, 2], pick="random")},
        {"accumulate": 2},
    ],
)
def test_the_loss_after_a_step_of_size_zero_is_the_steps(tiny_sources, options):
    run = in_small_batches(Bag(len(tiny_sources.encoded.idf)), tiny_sources, lr=0.0, **options)
    for _ in range(2):
        batch, negatives = run.next_batch(), np.array([[1, 2, 3], [-1, 4, 9]], np.int32)
        loss = float(run.loss_of(batch, negatives).detach())
        step = run.update(batch, negatives)
        assert run.loss_now() == step.loss == pytest.approx(loss, rel=1e-6)


class Returns(Softmax):
    """Returns something else than the loss."""

    def __init__(self, change: Callable[[Tensor], Any]) -> None:
        self.change = change

    def loss(self, scores, block):
        return self.change(super().loss(scores, block))


class Pairs(FeedForward):
    """Returns something else than the scores."""

    change: Callable[[Tensor], Any]

    def interact(self, queries, documents):
        return type(self).change(super().interact(queries, documents))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value.detach().numpy(), "returned ndarray, not a tensor"),
        (lambda value: value.detach(), "returned a tensor without a gradient"),
        (lambda value: value[..., None], r"returned a tensor of shape \[.*1\], not \["),
        (lambda value: None, "returned NoneType, not a tensor"),
    ],
)
def test_a_loss_or_scores_that_can_not_be_learned_from_are_refused(tiny_sources, change, message):
    of_objective = training(tiny_sources, objective=Returns(change))
    of_ranker = training(tiny_sources, type("Pairs", (Pairs,), {"change": staticmethod(change)}))
    for run, where in ((of_objective, "Returns.loss: "), (of_ranker, "Pairs.interact: ")):
        batch = run.next_batch()
        with pytest.raises(BadInput, match=where + message):
            run.update(batch, np.zeros((len(batch), 2), np.int32))


def test_steps_is_what_fit_does_and_can_be_left_and_continued(tiny_sources):
    by_fit, by_steps = training(tiny_sources), training(tiny_sources)
    by_fit.fit(RandomNegatives())
    source, validated = RandomNegatives(), list[int]()
    for result in by_steps.steps(source, lambda made: validated.append(made.step)):
        assert result is source.steps[-1]
        if by_steps.step == 3:
            break
    for _ in by_steps.steps(source, lambda made: validated.append(made.step)):
        pass
    assert by_steps.done
    assert validated == [by_steps.steps_per_epoch * epoch for epoch in range(1, by_steps.epoch + 1)]
    by_steps.restore_best()
    assert_same(by_steps, by_fit)


def test_an_objective_sees_the_scores_of_the_source(tiny_sources):
    for given in (None, np.full((2, 2), 7, np.float32)):
        objective, source = Listening(), RandomNegatives()
        source.source_scores = given
        next(training(tiny_sources, objective=objective).steps(source))
        (block,) = objective.blocks
        wanted = np.full((2, 2), np.nan, np.float32) if given is None else given
        np.testing.assert_array_equal(block.source_scores[:, 1:].numpy(), wanted)


def stopped(values: list[tuple[float, float]], patience: int = 2) -> EarlyStopping:
    """Weights that are the number of their validation, from 1, by origins `near` and `far`."""
    model, stopping = torch.nn.Linear(1, 1, bias=False), EarlyStopping(["near", "far"], patience)
    for place, (near, far) in enumerate(values, 1):
        torch.nn.init.constant_(model.weight, place)
        stopping.note({"near": near, "far": far}, place, model)
    return stopping


def test_each_origin_has_best_weights_of_its_own_than_which_equal_ones_and_nan_are_no_better():
    stopping = stopped([(0.5, 0.1), (0.5, 0.3), (0.3, math.nan)])
    assert float(stopping.best_weights("near")["weight"]) == 1
    assert float(stopping.best_weights("far")["weight"]) == 2
    assert stopping.best_weights() is stopping.best_weights("near") is stopping.best_weights("another")
    assert stopping.best_epochs == {"near": 1, "far": 2}


def test_early_stopping_waits_for_every_origin():
    assert not stopped([(0.5, 0.1), (0.4, 0.2), (0.3, 0.2)]).waited  # near has waited for two, far for one
    assert stopped([(0.5, 0.1), (0.4, 0.2), (0.3, 0.2), (0.3, 0.1)]).waited
    assert not stopped([]).waited


def test_weights_that_are_best_by_several_origins_are_kept_once():
    stopping = stopped([(0.5, 0.1), (0.6, 0.2)])
    state = stopping.state_dict()
    assert len(state["weights"]) == 1
    again = EarlyStopping(["near", "far"], 2)
    again.load_state_dict(from_bytes(to_bytes(state)))
    assert float(again.best_weights("far")["weight"]) == 2
    assert (again.values, again.best_epochs, again.waited) == (stopping.values, stopping.best_epochs, False)


EVERY = [each for each in RateSchedule.__subclasses__() if each.__module__.startswith("pyrite.ranking.")]


def test_schedules_by_hand():
    assert [Linear().factor(step, 4) for step in range(5)] == [1, 0.75, 0.5, 0.25, 0]
    assert [Cosine().factor(step, 4) for step in (0, 2, 4)] == pytest.approx([1, 0.5, 0])
    assert Cosine().factor(1, 4) == pytest.approx((1 + 2**-0.5) / 2)
    warmed_up = [Linear(4).factor(step, 8) for step in range(9)]
    assert warmed_up == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 0.75, 0.5, 0.25, 0])
    assert [Constant(0.5).factor(step, 4) for step in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("warmup", [0, 3, 0.25, 100])
def test_every_schedule_rises_and_stays_a_share(kind, warmup):
    shares = [kind(warmup).factor(step, 20) for step in range(25)]
    assert all(0 <= share <= 1 for share in shares)
    rising = min(round(warmup * 20) if warmup < 1 else int(warmup), 24)
    assert shares[: rising + 1] == sorted(shares[: rising + 1])
    assert shares[0] > 0
    if rising < 20:
        assert shares[rising] == 1


READS = {"item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__", "nonzero"}


class OnDevice(torch.Tensor):
    """A tensor as if on another device: what is computed from it is too, and reads of it are counted."""

    reads: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name not in READS:
            return super().__torch_function__(func, types, args, kwargs or {})
        cls.reads.append(name)
        plain = [each.as_subclass(torch.Tensor) if isinstance(each, OnDevice) else each for each in args]
        return func(*plain, **(kwargs or {}))  # on the host from here on


def moved(ranker: Ranker) -> Ranker:
    """The ranker with its weights on the made-up device."""
    for module in ranker.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(weight.detach().as_subclass(OnDevice)))
    return ranker


@pytest.mark.by_day(2)
@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("kind", [BiEncoder, LateInteraction])
def test_a_step_waits_once(kind, chunk, made_up, read_as, tiny_sources):
    texts = read_as(kind.tokenization(checkpoint=made_up(), **SHORT))
    training = in_training(
        moved(kind(made_up(), **SHORT).start(RankerInputs(generator()))), texts, tiny_sources, chunk=chunk
    )
    plain = in_training(kind(made_up(), **SHORT).start(RankerInputs(generator())), texts, tiny_sources, chunk=chunk)
    OnDevice.reads.clear()
    result = training.update(training.next_batch(), NEGATIVES)
    assert OnDevice.reads == ["cpu"]
    wanted = plain.update(plain.next_batch(), NEGATIVES)
    assert result.loss == pytest.approx(wanted.loss)
    assert result.gradient_norm == pytest.approx(wanted.gradient_norm)
    np.testing.assert_allclose(result.scores, wanted.scores, rtol=1e-5)


def test_ranks_come_back_once_whatever_they_are_among(made_up, read_as):
    texts = read_as(BiEncoder.tokenization(checkpoint=made_up(), **SHORT))
    queries, wanted = np.arange(4), np.array([[0, 3], [4, -1], [8, 1], [3, 5]], np.int32)
    counts = []
    for documents in (12, 3):
        ranker = moved(BiEncoder(made_up(), **SHORT).start(RankerInputs(generator())))
        OnDevice.reads.clear()
        ranks = ranks_in(ranker, texts, queries, wanted, np.arange(12), documents=documents)
        counts.append(len(OnDevice.reads))
    assert counts == [2, 2]  # the scores of the documents that are ranked, and the ranks
    again = ranks_in(
        BiEncoder(made_up(), **SHORT).start(RankerInputs(generator())), texts, queries, wanted, np.arange(12)
    )
    np.testing.assert_array_equal(ranks, again)


Made = Callable[[], tuple[Ranker, EncodedCollection]]


@pytest.fixture(params=["dssm", "static", "feed_forward"])
def made(request, tiny_sources, read_as) -> Made:
    def make() -> tuple[Ranker, EncodedCollection]:
        if request.param == "dssm":
            return DSSM(preset="tiny", tied=False).start(RankerInputs(generator())), read_as(DSSM.tokenization())
        vectors = tiny_sources.vectors.filled(np.random.default_rng(0))
        kind: Any = {"static": Static, "feed_forward": FeedForward}[request.param]
        return kind(preset="tiny").start(RankerInputs(generator(), vectors)), tiny_sources.encoded

    return make


def started(made: Made, sources: Sources, factory: Any, **options: Any) -> RankerTraining:
    return in_training(*made(), sources, optimizer=factory, **options)


def updated(training: RankerTraining) -> Any:
    training.position = 0
    return training.update(training.next_batch(), NEGATIVES)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("options", [{}, {"chunk": 2}, {"accumulate": 2}])
def test_the_gradient_by_rows_is_the_gradient(made, tiny_sources, options):
    whole = started(made, tiny_sources, partial(torch.optim.Adam, lr=0.05), **options)
    rows = started(made, tiny_sources, LAZY, **options)
    wanted, found = updated(whole), updated(rows)
    assert found.loss == wanted.loss
    assert found.gradient_norm == pytest.approx(wanted.gradient_norm, rel=1e-5)
    sparse = 0
    for one, other in zip(whole.ranker.parameters(), rows.ranker.parameters(), strict=True):
        sparse += other.grad.is_sparse
        torch.testing.assert_close(other.grad.to_dense(), one.grad, rtol=1e-5, atol=1e-7)
    assert sparse == len(rows.ranker.row_parameters()) > 0


def test_rows_that_are_not_read_stay(made, tiny_sources):
    training = started(made, tiny_sources, LAZY)
    before = [table.detach().clone() for table in training.ranker.row_parameters()]
    losses = [updated(training).loss for _ in range(8)]
    assert losses[-1] < losses[0]
    for old, new in zip(before, training.ranker.row_parameters(), strict=True):
        read = torch.zeros(len(old), dtype=torch.bool)
        read[new.grad.coalesce().indices()[0]] = True
        assert torch.equal(old[~read], new[~read])
        assert not torch.isclose(old[read], new[read]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_those_of_torchs_sparse_adam_and_of_adam(dtype):
    """The compiled loop for float32, torch's operations for others."""
    rng = torch.Generator().manual_seed(0)
    drawn = [torch.randn(size, generator=rng, dtype=dtype) for size in ((7, 3), (4,))]
    tables, others = ([nn.Parameter(each.clone()) for _ in range(2)] for each in drawn)
    lazy = LazyAdam([tables[0], others[0]], lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    sparse = torch.optim.SparseAdam([tables[1]], lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    dense = torch.optim.Adam([others[1]], lr=0.1, betas=(0.8, 0.95), eps=1e-12)
    for rows in ([0, 3, 6], [3, 4], [0, 0, 5], [1]):
        places = torch.tensor([rows])  # 0 twice: its sum counts
        values = torch.randn(len(rows), 3, generator=rng, dtype=dtype)
        gradient = torch.randn(4, generator=rng, dtype=dtype)
        for table, other in zip(tables, others, strict=True):
            table.grad = torch.sparse_coo_tensor(places, values, (7, 3), check_invariants=True)
            other.grad = gradient.clone()
        for optimizer in (lazy, sparse, dense):
            optimizer.step()
    torch.testing.assert_close(tables[0], tables[1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(others[0], others[1], rtol=1e-5, atol=1e-6)
    assert torch.equal(tables[0][2], tables[1][2])
